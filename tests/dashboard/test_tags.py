"""Tags of an instance in the dashboard."""

from hookgw import Gateway
from tests.dashboard.conftest import Browser


async def test_the_page_of_an_instance_shows_its_tags(browser: Browser, gateway: Gateway) -> None:
    await gateway.instances.create("loja1", tags={"tenant": "acme", "plan": "gold"})
    await gateway.instances.create("loja2")
    assert "tenant=acme plan=gold" in (await browser.get("/instances/loja1")).text
    assert "<dt>Tags</dt>" not in (await browser.get("/instances/loja2")).text
