"""Emits as requests: their paths, bodies and failures, and what plugins see of them.

Quart answers them only if a plugin has request hooks.
"""

import json
from typing import Any

import httpx
import pytest
import structlog
import trio

from hookgw import Gateway
from tests.api.conftest import KEY, open_client
from tests.api.routes.test_events import one
from tests.api.server.wire import Running, assert_answers, read_answer
from tests.api.test_app import shape_of
from tests.public.config import ServerSettings
from tests.public.kernel import Size, StorageUnavailable
from tests.public.web import AppApplication as Application
from tests.public.web import Routing
from tests.support.application import create_app

OWN_KEY = "the-key-of-loja1"
EMIT = "/event/emit/loja1"
RULE = "/event/emit/<instance>"
KIND_RULE = "/event/emit/<instance>/<kind>"
TYPE = "content-type: application/json"
BODY = json.dumps(one(id="plain")).encode()
LIMIT = 4096


@pytest.fixture
def server_settings() -> ServerSettings:
    size = Size(LIMIT)
    return ServerSettings(bind=("127.0.0.1:0",), max_body=size, max_batch_body=size, max_upload=size)


@pytest.fixture
async def app(either_app: Application, gateway: Gateway) -> Application:
    await gateway.instances.create("loja1", token=OWN_KEY)
    return either_app


def head(*lines: str, path: str = EMIT, key: str | None = KEY, method: str = "POST") -> bytes:
    given = ["host: x", *([f"apikey: {key}"] if key is not None else []), *lines]
    return "\r\n".join([f"{method} {path} HTTP/1.1", *given, "", ""]).encode()


def request(body: bytes, *lines: str, **more: Any) -> bytes:
    return head(TYPE, *lines, f"content-length: {len(body)}", **more) + body


def chunked(*chunks: bytes, **more: Any) -> bytes:
    framed = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)
    return head(TYPE, "transfer-encoding: chunked", **more) + framed + b"0\r\n\r\n"


async def status_of(server: Running, sent: bytes) -> int:
    async with await server.connect() as stream:
        await stream.send_all(sent)
        return (await read_answer(stream))[0]


PATHS = {
    EMIT: (202, RULE),
    f"{EMIT}?instance=other&x=/y": (202, RULE),
    f"{EMIT}/": (202, RULE),
    "/event/emit/%6Coja1": (202, RULE),
    f"/{EMIT}": (202, RULE),
    f"{EMIT}/messages-upsert": (202, KIND_RULE),
    f"{EMIT}/messages-upsert/": (202, KIND_RULE),
    f"{EMIT}/messages%2Dupsert?x=/y": (202, KIND_RULE),
    "/event/emit/nobody": (404, RULE),
    "/event/emit/nobody/mesages-upsert": (404, KIND_RULE),
    "/event/emit/a%20b": (400, RULE),
    "/event/emit/a%0Ab": (400, RULE),
    "/event/emit/%ff": (400, RULE),
    "/event/emit/loja1%2Fcall": (400, RULE),
    "/event/emit/loja1%2f/call": (400, KIND_RULE),
    f"{EMIT}/mesages-upsert": (400, KIND_RULE),
    f"{EMIT}/call%2f": (400, KIND_RULE),
    f"{EMIT}/%20": (400, KIND_RULE),
    f"{EMIT}/..": (400, KIND_RULE),
    "/event/emit": (404, "none"),
    "/event/emit/": (404, "none"),
    "/event/emit//loja1": (404, "none"),
    f"{EMIT}//": (404, "none"),
    f"{EMIT}//messages-upsert": (404, "none"),
    f"{EMIT}/messages-upsert/x": (404, "none"),
    f"/event/emit/..{EMIT}": (404, "none"),
}
"""The status of a request with a global key to each path, and its route in metrics."""


class TestPaths:
    @pytest.fixture(params=["", "/hooks"])
    def server_settings(self, request: pytest.FixtureRequest) -> ServerSettings:
        return ServerSettings(bind=("127.0.0.1:0",), base_path=request.param)

    async def test_which_paths_are_emits(
        self,
        server: Running,
        server_settings: ServerSettings,
        gateway: Gateway,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        counted: list[tuple[str, int]] = []
        monkeypatch.setattr(gateway.metrics, "requested", lambda *given: counted.append(given))
        for path, (status, route) in PATHS.items():
            there = server_settings.base_path + path
            found = await status_of(server, request(BODY, path=there))
            assert (path, found, counted.pop()) == (path, status, (route, status))
            refused = await status_of(server, request(BODY, path=there, key="wrong"))
            assert (path, refused, counted.pop()) == (path, 401, (route, 401))
        for method in ("GET", "PUT", "DELETE"):
            for path in (EMIT, f"{EMIT}/messages-upsert"):
                there = server_settings.base_path + path
                assert await status_of(server, head(path=there, method=method)) == 405


@pytest.mark.parametrize("path", [EMIT, f"{EMIT}/messages-upsert"])
async def test_bodies_and_their_framing(path: str, server: Running) -> None:
    large = b" " * (LIMIT + 1)
    for sent, status in (
        (request(BODY), 202),
        (request(BODY, "connection: close"), 202),
        (request(BODY, "connection: keep-alive").replace(b"HTTP/1.1", b"HTTP/1.0"), 202),
        (head(TYPE, "expect: 100-continue", f"content-length: {len(BODY)}") + BODY, 202),
        (chunked(BODY), 202),
        (chunked(BODY[:10], BODY[10:], b" "), 202),
        (chunked(), 400),
        (head(), 400),
        (request(b"{"), 400),
        (request(BODY, "idempotency-key: a.b"), 400),
        (request(large), 413),
        (chunked(*[large[:-1]] * 3), 413),
        (request(large, key="wrong"), 401),
        (chunked(large, key="wrong"), 401),
        (head(TYPE, f"content-length: {len(BODY)}", key=None), 401),  # the body need not come
        (head("content-length: 2") + b"{}", 415),
    ):
        assert (sent, await status_of(server, sent.replace(EMIT.encode(), path.encode(), 1))) == (
            sent,
            status,
        )


async def test_a_head_that_comes_again_opens_nothing_that_was_closed(
    server: Running, gateway: Gateway
) -> None:
    async with await server.connect() as stream:

        async def status() -> int:
            await stream.send_all(request(BODY, key=OWN_KEY))
            return (await read_answer(stream))[0]

        assert [await status(), await status()] == [202, 202]
        await gateway.instances.delete("loja1")
        assert [await status(), await status()] == [401, 401]
        await gateway.instances.create("loja3", token=OWN_KEY)
        assert [await status(), await status()] == [403, 403]
        await gateway.instances.create("loja1")
        assert [await status(), await status()] == [403, 403]
        await gateway.instances.delete("loja3")
        await gateway.instances.delete("loja1")
        await gateway.instances.create("loja1", token=OWN_KEY)
        assert [await status(), await status()] == [202, 202]


@pytest.mark.parametrize(
    ("error", "status", "message", "logged"),
    [
        (StorageUnavailable("The disk is full.", retry_after=2.5), 503, "The disk is full.", []),
        (
            RuntimeError("secret detail"),
            500,
            "An internal error occurred; see hookgw's log.",
            [("request failed", "POST", EMIT)],
        ),
    ],
    ids=["disk", "bug"],
)
async def test_failures_get_a_response(
    error: Exception,
    status: int,
    message: str,
    logged: list[object],
    client: httpx.AsyncClient,
    gateway: Gateway,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def fail(batch: object, **_: object) -> None:
        raise error

    monkeypatch.setattr(gateway.events, "accept_checked", fail)
    with structlog.testing.capture_logs() as logs:
        response = await client.post(EMIT, json=one())
    assert (response.status_code, shape_of(response)) == (status, [message])
    assert response.headers.get("retry-after") == ("3" if status == 503 else None)
    assert [(log["event"], log["method"], log["path"]) for log in logs] == logged


async def test_a_client_that_disconnects_within_the_body(server: Running) -> None:
    with structlog.testing.capture_logs() as logs:
        async with await server.connect() as stream:
            await stream.send_all(head(TYPE, "content-length: 50") + b"{")
            await stream.send_eof()
            assert (await read_answer(stream))[0] == 400
        await assert_answers(server)
    assert [log for log in logs if log["log_level"] in ("warning", "error")] == []


class Hook:
    """A request hook of a plugin."""

    def __init__(self, where: str) -> None:
        self._where = where
        self.heard = 0

    def routes(self, app: Routing, gateway: Gateway, _contains: object) -> None:
        getattr(app, self._where)(self.hear)

    async def hear(self, *given: Any) -> Any:
        self.heard += 1
        return given[0] if self._where == "after_request" else None


@pytest.mark.parametrize("path", [EMIT, f"{EMIT}/messages-upsert"])
@pytest.mark.parametrize(
    ("where", "refused"), [("before_request", 0), ("after_request", 1), ("teardown_request", 1)]
)
async def test_request_hooks_of_plugins_see_emits(
    where: str,
    refused: int,
    path: str,
    gateway: Gateway,
    nursery: trio.Nursery,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before the route, only those of callers who may emit."""
    await gateway.instances.create("loja1")
    plugin = Hook(where)
    monkeypatch.setattr(gateway.hooks, "routes", plugin.routes)
    app = create_app(gateway)
    assert not app.fast_paths
    async with open_client(app, nursery) as client:
        assert (await client.post(path, json=one(), headers={"apikey": "wrong"})).status_code == 401
        assert plugin.heard == refused
        assert (await client.post(path, json=one(), headers={"apikey": KEY})).status_code == 202
    assert plugin.heard == refused + 1


async def test_a_plugins_route_may_be_more_exact_than_a_kind(
    gateway: Gateway, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    def routes(app: Routing, gateway: Gateway, _contains: object) -> None:
        app.add_url_rule("/event/emit/<instance>/crm", "crm", lambda instance: "taken", methods=["POST"])

    await gateway.instances.create("loja1")
    monkeypatch.setattr(gateway.hooks, "routes", routes)
    async with open_client(create_app(gateway), nursery, apikey=KEY) as client:
        client.event_hooks = {}  # the contract takes the path for a kind's
        assert (await client.post(f"{EMIT}/crm")).text == "taken"
        assert (await client.post(f"{EMIT}/messages-upsert", json=one())).status_code == 202


async def test_a_plugins_middleware_sees_all_messages(gateway: Gateway, nursery: trio.Nursery) -> None:
    await gateway.instances.create("loja1")
    app = create_app(gateway)
    inner: Any = app.routing.asgi_app
    messages: list[str] = []

    async def middleware(scope: Any, receive: Any, send: Any) -> None:
        async def hear() -> Any:
            message = await receive()
            messages.append(message["type"])
            return message

        async def tell(message: Any) -> None:
            messages.append(message["type"])
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], (b"x-added", b"1")]}
            await send(message)

        await inner(scope, hear, tell)

    app.routing.asgi_app = middleware  # type: ignore[method-assign]  # as Quart's documentation has it
    async with open_client(app, nursery, apikey=KEY) as client:
        response = await client.post(EMIT, json=one())
    assert (response.status_code, response.headers["x-added"]) == (202, "1")
    assert messages == ["http.request", "http.response.start", "http.response.body"]


async def test_a_plugins_middleware_may_change_the_headers_of_each_request(
    gateway: Gateway, nursery: trio.Nursery
) -> None:
    await gateway.instances.create("loja1")
    app = create_app(gateway)
    inner: Any = app.routing.asgi_app
    keys = [KEY, "wrong", KEY]

    async def middleware(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            scope["headers"] = [*scope["headers"], (b"apikey", keys.pop(0).encode())]
        await inner(scope, receive, send)

    app.routing.asgi_app = middleware  # type: ignore[method-assign]  # as Quart's documentation has it
    async with open_client(app, nursery) as client:
        # The same head on the same connection each time.
        statuses = [(await client.post(EMIT, json=one(id="same"))).status_code for _ in range(3)]
    assert statuses == [202, 401, 202]
