"""The rules of every route: keys, the order of checks, one shape of errors, the version."""

from typing import Any

import httpx
import pytest
import structlog
from quart import Response, abort, request

from hookgw import Gateway, HookgwError, NetworkRefused, NotSupported, Unavailable, __version__
from tests.api.conftest import KEY
from tests.public.config import ServerSettings
from tests.public.kernel import StorageUnavailable
from tests.public.web import AppApplication as Application
from tests.public.web import RequestResponse


def shape_of(response: httpx.Response) -> list[str]:
    """Return the sentences of an error; check its shape."""
    body = response.json()
    assert response.headers["content-type"] == "application/json"
    assert body.keys() == {"status", "error", "response"}
    assert body["status"] == response.status_code
    assert body["error"]
    assert body["response"].keys() == {"message", "errors"}
    messages: list[str] = body["response"]["message"]
    assert messages
    assert all(isinstance(message, str) and message for message in messages)
    assert len(body["response"]["errors"]) == len(messages)
    assert all(one.keys() == {"id", "values"} for one in body["response"]["errors"])
    return messages


async def test_an_instance_key_finds_its_own_webhook(client: httpx.AsyncClient, gateway: Gateway) -> None:
    _, key, _ = await gateway.instances.create("loja1")
    response = await client.get("/webhook/find/loja1", headers={"apikey": key})
    assert (response.status_code, response.json()) == (200, None)


@pytest.mark.parametrize("path", ["/node/list", "/metrics"])
async def test_some_routes_need_the_global_key(
    path: str, client: httpx.AsyncClient, gateway: Gateway
) -> None:
    _, key, _ = await gateway.instances.create("loja1")
    response = await client.get(path, headers={"apikey": key})
    assert response.status_code == 403
    assert shape_of(response) == ["This call requires a global key."]
    assert (await client.get(path)).status_code == 200


async def test_a_bearer_token_is_a_key(client: httpx.AsyncClient) -> None:
    del client.headers["apikey"]
    assert (await client.get("/event/kinds", headers={"authorization": f"Bearer {KEY}"})).status_code == 200
    assert (await client.get("/event/kinds", headers={"authorization": f"Basic {KEY}"})).status_code == 401
    assert (await client.get("/event/kinds")).status_code == 401


async def test_the_order_of_checks(client: httpx.AsyncClient, gateway: Gateway) -> None:
    _, key, _ = await gateway.instances.create("loja1")
    path, bad = "/message/sendText/{}", {"content": b"no json", "headers": {"content-type": "text/plain"}}

    async def status(instance: str, given: str) -> int:
        headers = {**bad["headers"], "apikey": given}  # type: ignore[dict-item]
        return (await client.post(path.format(instance), content=b"no json", headers=headers)).status_code

    assert await status("nobody", "wrong") == 401
    assert await status("nobody", key) == 403
    assert await status("nobody", KEY) == 404
    assert await status("loja1", key) == 415


@pytest.mark.parametrize("name", ["a b", "é", "x" * 129, "a:b", "%0A", "*"])
async def test_invalid_names_of_instances(name: str, client: httpx.AsyncClient) -> None:
    response = await client.get(f"/webhook/find/{name}")
    assert response.status_code == 400
    assert "1 to 128" in shape_of(response)[0]


async def test_a_name_may_have_128_characters(client: httpx.AsyncClient, gateway: Gateway) -> None:
    await gateway.instances.create("x" * 128)
    assert (await client.get(f"/webhook/find/{'x' * 128}")).status_code == 200
    assert (await client.get(f"/webhook/find/{'x' * 128}/{'y' * 128}")).status_code == 200
    assert (await client.get(f"/webhook/find/{'x' * 128}/{'y' * 129}")).status_code == 400


@pytest.mark.parametrize(
    "path",
    ["/nope", "/webhook", "/static/x", "/message/sendNothing/shop", "/api/v1/nope", "/" + "x/" * 5_000],
)
async def test_unknown_paths(path: str, client: httpx.AsyncClient) -> None:
    response = await client.get(path)
    assert response.status_code == 404
    assert shape_of(response) == [f"No such route: {path}."]


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("/webhook/set", "/webhook/set/<instance>"),
        ("/webhook/set/a/b/c", "/webhook/set/<instance>/<label>"),
        ("/webhooks/set/shop", "/webhook/set/<instance>"),
        ("/webhook/Set/shop/crm", "/webhook/set/<instance>/<label>"),
        ("/api/webhook/find/shop", "/webhook/find/<instance>"),
        ("/api/v1/event/emit/shop", "/event/emit/<instance>"),
        ("/shop/instance/connect", "/instance/connect/<instance>"),
        ("/instance/fetch-instances", "/instance/fetchInstances"),
        ("/health", "/healthz"),
    ],
)
async def test_paths_that_are_nearly_right(path: str, meant: str, client: httpx.AsyncClient) -> None:
    response = await client.get(path)
    assert response.status_code == 404
    assert shape_of(response) == [f"No such route: {path}. Did you mean {meant}?"]


@pytest.mark.parametrize("path", ["//webhook/set/shop", "///webhook/set/shop/"])
async def test_slashes_at_the_beginning_are_one(
    path: str, client: httpx.AsyncClient, gateway: Gateway
) -> None:
    client.event_hooks = {}  # by its spelling it is not in the contract
    url = f"{str(client.base_url).rstrip('/')}{path}"
    response = await client.post(url, json={"url": "https://x.example"}, headers={"host": "evil.example"})
    assert (response.status_code, response.headers.get("location")) == (201, None)
    assert gateway.registrations.get("shop").url == "https://x.example"


@pytest.mark.parametrize(
    "path", ["/webhook//set/shop", "/webhook/set//shop", "/webhook/set//a/shop", "/webhook/set/shop//crm"]
)
async def test_slashes_in_a_row_are_no_route(path: str, client: httpx.AsyncClient, gateway: Gateway) -> None:
    """A redirect would lead where the client's Host header says, and the next name would be an instance's."""
    client.event_hooks = {}  # by its spelling it is not in the contract
    response = await client.post(path, json={"url": "https://x.example"}, headers={"host": "evil.example"})
    assert (response.status_code, response.headers.get("location")) == (404, None)
    assert response.json()["response"]["message"][0].startswith(
        f"No such route: {path}. Did you mean /webhook/set/"
    )
    assert (await client.get("/instance/fetchInstances")).json() == []


@pytest.mark.parametrize("path", ["webhook/find/a%2Fb", "webhook/find/a%2fb/crm", "webhook/find/a/b%2Fc"])
async def test_a_slash_in_a_name_is_not_the_end_of_it(
    path: str, client: httpx.AsyncClient, gateway: Gateway
) -> None:
    await gateway.instances.create("a")
    response = await client.get(f"/{path}")
    assert response.status_code == 400
    assert "1 to 128" in shape_of(response)[0]
    assert (await client.get(f"/{path}", headers={"apikey": "wrong"})).status_code == 401


async def test_a_key_does_not_reach_another_name_through_a_slash(
    client: httpx.AsyncClient, gateway: Gateway
) -> None:
    _, key, _ = await gateway.instances.create("a")
    for path in ("/webhook/find/a%2Fb", "/event/emit/a%2Fb", "/webhook/find/b%2F..%2Fa"):
        response = await client.request("POST" if "emit" in path else "GET", path, headers={"apikey": key})
        assert response.status_code == 403


async def test_other_methods(client: httpx.AsyncClient) -> None:
    response = await client.get("/webhook/set/loja1")
    assert response.status_code == 405
    assert response.headers["allow"] == "OPTIONS, PATCH, POST"
    assert shape_of(response) == ["/webhook/set/loja1 accepts OPTIONS, PATCH, POST, not GET."]


async def test_a_trailing_slash_is_ignored(client: httpx.AsyncClient) -> None:
    assert (await client.get("/event/kinds/")).status_code == 200


async def test_every_response_carries_the_version(client: httpx.AsyncClient) -> None:
    for path in ("/healthz", "/nope", "/webhook/set/x"):
        assert (await client.get(path)).headers["x-hookgw-version"] == __version__


async def test_a_bug_is_logged_and_gets_the_one_shape_of_errors(
    app: Application, client: httpx.AsyncClient
) -> None:
    @app.routing.get("/bug")
    async def bug() -> str:
        raise RuntimeError("secret detail")

    with structlog.testing.capture_logs() as logs:
        response = await client.get("/bug")
    assert response.status_code == 500
    assert "secret detail" not in response.text
    assert shape_of(response)
    assert [(log["event"], log["path"]) for log in logs] == [("request failed", "/bug")]


@pytest.mark.parametrize(
    ("error", "status", "retry_after"),
    [
        (Unavailable("Later.", retry_after=2.2), 503, "3"),
        (StorageUnavailable("The disk is full."), 503, "5"),
        (Unavailable("Later.", retry_after=0), 503, "1"),
        (HookgwError("Ours."), 500, None),
        (NotSupported("No such call."), 501, None),
        (NetworkRefused("No."), 502, None),
        (NetworkRefused("Too fast.", status=429, retry_after=61.5), 429, "62"),
        (NetworkRefused("Not in the room.", status=403), 403, None),
    ],
)
async def test_errors_of_the_gateway(
    app: Application, client: httpx.AsyncClient, error: HookgwError, status: int, retry_after: str | None
) -> None:
    @app.routing.get("/fails")
    async def fails() -> str:
        raise error

    response = await client.get("/fails")
    assert response.status_code == status
    assert shape_of(response) == list(error.messages)
    assert response.headers.get("retry-after") == retry_after


async def test_a_networks_code_reaches_the_caller(app: Application, client: httpx.AsyncClient) -> None:
    @app.routing.get("/fails")
    async def fails() -> str:
        raise NetworkRefused("Too fast.", code="M_LIMIT_EXCEEDED", status=429)

    refused = (await client.get("/fails")).json()
    assert refused["response"] == {
        "message": ["Too fast."],
        "errors": [{"id": "text", "values": {"text": "Too fast."}}],
        "code": "M_LIMIT_EXCEEDED",
    }


@pytest.mark.parametrize("status", [400, 404, 409, 418, 429, 503])
async def test_errors_of_plugins_routes(app: Application, client: httpx.AsyncClient, status: int) -> None:
    @app.routing.get("/fails")
    async def fails() -> str:
        abort(status, "The note is old.")

    response = await client.get("/fails")
    assert (response.status_code, shape_of(response)) == (status, ["The note is old."])


async def test_an_error_in_a_group_keeps_its_status(app: Application, client: httpx.AsyncClient) -> None:
    @app.routing.get("/fails")
    async def fails() -> str:
        raise ExceptionGroup("two", [Unavailable("Later.")])

    assert (await client.get("/fails")).status_code == 503


class TestBasePath:
    @pytest.fixture
    def server_settings(self) -> ServerSettings:
        return ServerSettings(base_path="/hooks")

    @pytest.mark.parametrize(
        ("path", "status"),
        [
            ("/hooks/healthz", 200),
            ("/healthz", 404),
            ("/hooks", 404),
            ("/x/hooks/healthz", 404),
            ("/hookshealthz", 404),
        ],
    )
    async def test_every_path_is_below_it(self, path: str, status: int, client: httpx.AsyncClient) -> None:
        del client.headers["apikey"]
        assert (await client.get(path)).status_code == status

    async def test_an_error_names_the_path_that_was_asked_for(self, client: httpx.AsyncClient) -> None:
        for path in ("/hooks/nope", "/hooks/event/nope"):
            response = await client.get(path)
            assert (response.status_code, shape_of(response)) == (404, [f"No such route: {path}."])
        response = await client.get("/hooks/api/webhook/find/shop")
        [message] = shape_of(response)
        assert message.endswith("/api/webhook/find/shop. Did you mean /hooks/webhook/find/<instance>?")
        for path in ("/ingest/shop/t0ken", "/hooks/ingest/shop/t0ken/a/b?c=t0ken"):
            response = await client.put(path)
            assert response.status_code in (404, 405)
            assert "t0ken" not in response.text
            assert path.partition("shop")[0] in response.text
        response = await client.get("/hooks/webhook/set/shop")
        assert shape_of(response) == ["/hooks/webhook/set/shop accepts OPTIONS, PATCH, POST, not GET."]

    @pytest.mark.parametrize("key", [None, "wrong", KEY])
    async def test_a_path_outside_it_says_where_the_routes_are(
        self, key: str | None, client: httpx.AsyncClient
    ) -> None:
        del client.headers["apikey"]
        outside = await client.get("/event/kinds", headers={} if key is None else {"apikey": key})
        assert outside.status_code == 404
        assert outside.json()["response"]["message"] == [
            "No such route: /event/kinds. All paths begin with /hooks/ (server.base_path)."
        ]

    @pytest.mark.parametrize("path", ["/hooks//healthz", "//hooks/healthz", "//hooks//healthz"])
    async def test_slashes_before_and_behind_it_are_one(self, path: str, client: httpx.AsyncClient) -> None:
        client.event_hooks = {}  # by its spelling it is not in the contract
        assert (
            await client.send(client.build_request("GET", str(client.base_url) + path))
        ).status_code == 200


@pytest.mark.parametrize("path", ["/webhook/find/loja1", "/healthz", "/nope"])
async def test_a_request_has_one_key_of_hookgws_in_its_scope(
    path: str, app: Application, client: httpx.AsyncClient
) -> None:
    seen: list[object] = []

    @app.routing.after_request
    async def look(response: Response) -> Response:
        scope: Any = request.scope
        seen.append([type(scope[key]) for key in scope if key.startswith("hookgw")])
        return response

    await client.get(path)
    assert seen == [[RequestResponse]]


async def test_requests_are_counted_by_route(client: httpx.AsyncClient) -> None:
    await client.get("/webhook/find/nobody")
    await client.get("/nope")
    metrics = (await client.get("/metrics")).text
    assert 'route="/webhook/find/<instance>"' in metrics
    assert 'route="none"' in metrics
    assert "nobody" not in metrics
