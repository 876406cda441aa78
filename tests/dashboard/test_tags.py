"""Tags of an instance in the dashboard."""

import pytest

from hookgw import Gateway
from tests.dashboard.conftest import Browser


async def test_the_page_of_an_instance_shows_its_tags(browser: Browser, gateway: Gateway) -> None:
    await gateway.instances.create("loja1", tags={"tenant": "acme", "plan": "gold"})
    await gateway.instances.create("loja2")
    assert "tenant=acme plan=gold" in (await browser.get("/instances/loja1")).text
    assert "<dt>Tags</dt>" not in (await browser.get("/instances/loja2")).text


@pytest.mark.parametrize(
    ("page", "path", "more"),
    [
        ("/instances/loja1/settings", "/instances/loja1/tags", {}),
        ("/keys", "/keys/create", {"key_name": "acme", "can": ["read"]}),
        ("/portal-link", "/portal-link", {"right": ["read"]}),
    ],
)
async def test_a_tag_has_one_value(
    browser: Browser, gateway: Gateway, page: str, path: str, more: dict[str, object]
) -> None:
    """The last one of two would decide what a key or a link reaches."""
    await gateway.instances.create("loja1")
    refused = await browser.submit(page, path, {"tags": "tenant=a tenant=b", **more})
    assert refused.status_code == 400
    assert "tenant is given twice: an instance has one value of each tag." in refused.text
