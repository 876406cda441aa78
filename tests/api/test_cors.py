"""What pages of other origins may do, by the headers that browsers look at."""

import httpx
import pytest

from hookgw import Gateway
from tests.public.config import ServerSettings
from tests.public.web import CrossOrigin

PAGE = "https://crm.example"
OTHER = "https://evil.example"
ALLOWED = "access-control-allow-origin"


def preflight(origin: str = PAGE, **more: str) -> dict[str, str]:
    return {"origin": origin, "access-control-request-method": "POST", **more}


class TestWithoutOrigins:
    async def test_nothing_is_allowed(self, client: httpx.AsyncClient) -> None:
        del client.headers["apikey"]
        response = await client.options("/webhook/find/shop", headers=preflight())
        assert response.status_code == 401
        response = await client.get("/healthz", headers={"origin": PAGE})
        assert response.status_code == 200
        assert not {"vary", ALLOWED} & set(response.headers)


class TestWithOrigins:
    @pytest.fixture
    def server_settings(self) -> ServerSettings:
        return ServerSettings(
            bind=("127.0.0.1:0",),
            base_path="/hooks",
            cors_origins=("HTTPS://CRM.example:443", "http://[::1]:99"),
        )

    @pytest.mark.parametrize(
        "path", ["/event/emit/shop", "/webhook/set/shop/crm", "/nope", "/delivery/list/a%2Fb"]
    )
    async def test_a_preflight_request_needs_no_key(self, path: str, client: httpx.AsyncClient) -> None:
        del client.headers["apikey"]
        client.event_hooks = {}  # preflight requests are not in the contract
        asked = preflight(**{"access-control-request-headers": "apikey,content-type"})
        response = await client.options(f"/hooks{path}", headers=asked)
        assert (response.status_code, response.content) == (204, b"")
        headers = response.headers
        assert (headers[ALLOWED], headers["vary"]) == (PAGE, "origin")
        assert "PATCH" in headers["access-control-allow-methods"].split(", ")
        assert headers["access-control-allow-headers"] == "apikey,content-type"
        assert headers["access-control-max-age"] == "600"
        assert "access-control-allow-credentials" not in headers

    @pytest.mark.parametrize(
        "origin", [OTHER, "null", "http://crm.example", f"{PAGE}:8443", f"{PAGE}.evil", ""]
    )
    async def test_another_origin_is_told_nothing(self, origin: str, client: httpx.AsyncClient) -> None:
        response = await client.get("/hooks/event/kinds", headers={"origin": origin})
        assert (response.status_code, response.headers["vary"]) == (200, "origin")
        assert not [name for name in response.headers if name.startswith("access-control")]
        del client.headers["apikey"]
        response = await client.options("/hooks/event/kinds", headers=preflight(origin))
        assert response.status_code == 401
        assert not [name for name in response.headers if name.startswith("access-control")]

    async def test_every_response_can_be_read(self, client: httpx.AsyncClient, gateway: Gateway) -> None:
        await gateway.instances.create("shop")
        event = {"event": "CALL", "data": {}}
        for method, path, body, status in (
            ("GET", "/event/kinds", None, 200),
            ("POST", "/event/emit/shop", event, 202),
            ("POST", "/event/emit/shop", {}, 400),
            ("POST", "/event/emit/nobody", event, 404),
            ("GET", "/nope", None, 404),
            ("GET", "/event/emit/shop", None, 405),
            ("GET", "/ingest/shop/wrong", None, 404),
            ("GET", "/metrics", None, 200),
        ):
            response = await client.request(method, f"/hooks{path}", json=body, headers={"origin": PAGE})
            assert response.status_code == status, (method, path)
            assert response.headers.get_list(ALLOWED) == [PAGE]
            assert "retry-after" in response.headers["access-control-expose-headers"]
            assert "origin" in response.headers["vary"]
        for key in ("wrong", ""):
            response = await client.get("/hooks/event/kinds", headers={"origin": PAGE, "apikey": key})
            assert (response.status_code, response.headers[ALLOWED]) == (401, PAGE)
        response = await client.get("/hooks/event/kinds", headers={"origin": "http://[::1]:99"})
        assert response.headers[ALLOWED] == "http://[::1]:99"
        assert (await client.get("/hooks/healthz")).headers["vary"] == "origin"

    async def test_pages_may_call_every_route_and_read_every_header_of_its_responses(
        self, client: httpx.AsyncClient
    ) -> None:
        document = (await client.get("/hooks/openapi.json")).json()
        operations = [(method, one) for path in document["paths"].values() for method, one in path.items()]
        answers = [answer for _, one in operations for answer in one["responses"].values()]
        answers += document["components"]["responses"].values()
        cross_origin = CrossOrigin([PAGE])
        headers = [(name.encode(), value.encode()) for name, value in preflight().items()]
        scope = {"method": "OPTIONS", "headers": headers}
        lines = dict(cross_origin.preflight(scope) or ())
        allowed = lines[b"access-control-allow-methods"].decode().split(", ")
        assert {method.upper() for method, _ in operations} | {"HEAD"} == set(allowed)
        exposed = dict(cross_origin.lines(scope))[b"access-control-expose-headers"].decode().split(", ")
        named = {name for answer in answers for name in answer.get("headers", ())}
        assert named - {"www-authenticate"} == set(exposed)  # that of a 401 says only what the docs say

    async def test_options_that_are_no_preflight_need_a_key(self, client: httpx.AsyncClient) -> None:
        del client.headers["apikey"]
        response = await client.options("/hooks/event/kinds", headers={"origin": PAGE})
        assert (response.status_code, response.headers[ALLOWED]) == (401, PAGE)

    @pytest.mark.parametrize("path", ["/event/kinds", "/hooks/dashboard"])
    async def test_what_is_not_the_api_is_not_opened(self, path: str, client: httpx.AsyncClient) -> None:
        client.event_hooks = {}
        for method, headers in (("GET", {"origin": PAGE}), ("OPTIONS", preflight())):
            response = await client.request(method, path, headers=headers)
            assert ALLOWED not in response.headers


def test_an_origin_that_is_there_twice_is_none() -> None:
    cross_origin = CrossOrigin([PAGE])
    twice = [(b"Origin", PAGE.encode())] * 2
    assert cross_origin.lines({"headers": twice}) == ((b"vary", b"origin"),)


def test_odd_names_of_headers_are_not_repeated() -> None:
    headers = [
        (b"origin", PAGE.encode()),
        (b"access-control-request-method", b"POST"),
        (b"access-control-request-headers", b"a: b"),
    ]
    lines = CrossOrigin([PAGE]).preflight({"method": "OPTIONS", "headers": headers})
    assert lines is not None
    assert b"access-control-allow-headers" not in dict(lines)
