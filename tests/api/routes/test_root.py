"""``GET /``."""

import httpx
import msgspec
import pytest

from hookgw import Gateway, __version__
from tests.public.config import ServerSettings, Settings

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"


@pytest.mark.parametrize("accept", ["*/*", "application/json", "application/json, text/html;q=0.5", ""])
async def test_a_program_learns_what_this_is(stranger: httpx.AsyncClient, accept: str) -> None:
    response = await stranger.get("/", headers={"accept": accept})
    assert response.status_code == 200
    assert response.headers["vary"] == "accept"
    body = response.json()
    assert (body["name"], body["version"], body["status"]) == ("hookgw", __version__, 200)
    assert (await stranger.get(body["documentation"])).status_code == 200
    assert (await stranger.get(body["openapi"])).status_code == 200
    assert (await stranger.get(body["health"])).status_code == 200


async def test_a_browser_is_sent_to_a_page(stranger: httpx.AsyncClient) -> None:
    response = await stranger.get("/", headers={"accept": BROWSER}, follow_redirects=False)
    assert response.status_code == 302
    page = await stranger.get(str(response.url.join(response.headers["location"])))
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")


class TestBelowABasePath:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        server = ServerSettings(base_path="/hooks", public_url="https://gw.example/hooks")
        return msgspec.structs.replace(settings, server=server)

    async def test_the_addresses_are_those_from_outside(self, stranger: httpx.AsyncClient) -> None:
        assert (await stranger.get("/")).status_code == 404  # it names the base path
        body = (await stranger.get("/hooks/")).json()
        assert body["documentation"] == "https://gw.example/hooks/docs"
        response = await stranger.get("/hooks/", headers={"accept": BROWSER}, follow_redirects=False)
        # Relative: whatever prefix a proxy adds stays.
        assert httpx.URL("https://gw.example/x/hooks/").join(response.headers["location"]) == (
            "https://gw.example/x/hooks/docs"
        )


async def test_a_global_key_is_valid_and_others_are_not(client: httpx.AsyncClient, gateway: Gateway) -> None:
    _, key, _ = await gateway.instances.create("loja1")
    answer = await client.post("/verify-creds")
    assert (answer.status_code, answer.json()["status"]) == (200, 200)
    for other in (key, "wrong", ""):
        assert (await client.post("/verify-creds", headers={"apikey": other})).status_code == 401
