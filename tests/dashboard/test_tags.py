"""Tags of an instance in the dashboard."""

import html

import msgspec
import pytest

from hookgw import Gateway
from tests.dashboard.conftest import Browser
from tests.public.config import LimitsSettings, Settings, TagLimits
from tests.public.kernel import Size


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


class TestLimits:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        limits = LimitsSettings(tags={"tenant": TagLimits(deliveries=1000, bytes=Size(2**20), rate="20/s")})
        return msgspec.structs.replace(settings, limits=limits)

    async def test_the_system_page_shows_the_limits_of_tags(self, browser: Browser) -> None:
        page = html.unescape((await browser.get("/system")).text)
        assert '{"tenant":{"deliveries":1000,"bytes":"1MiB","rate":"20/s"}}' in page
