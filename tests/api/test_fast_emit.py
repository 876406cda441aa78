"""The fast path of emits and the ordinary route respond alike, byte for byte."""

import gc
import itertools
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
import structlog
import trio
import trio.testing

from hookgw import Gateway
from hookgw.app import create_app, open_gateway
from hookgw.config import EventsSettings, ServerSettings, Settings, StorageSettings
from hookgw.kernel import Size, StorageUnavailable
from hookgw.web import AppApplication as Application
from hookgw.web import FirstHeaders, RequestResponse, Routing, serve
from tests.api.conftest import KEY, open_client
from tests.api.routes.test_events import PAYLOADS, one

OWN_KEY = "the-key-of-loja1"
EMIT = "/event/emit/loja1"
LIMIT = 4096
BATCH_LIMIT = 65_536
TYPE = "content-type: application/json"
MESSAGE = {"key": {"id": "3EB0C0BD05DCA97A7C09CB", "remoteJid": "5511988887777@s.whatsapp.net"}}
PLAIN = json.dumps(one(id="plain")).encode()


def head(*lines: str, path: str = EMIT, key: str | None = KEY, method: str = "POST") -> bytes:
    given = ["host: x", *([f"apikey: {key}"] if key is not None else []), *lines]
    return "\r\n".join([f"{method} {path} HTTP/1.1", *given, "", ""]).encode("latin-1")


def request(body: bytes, *lines: str, **more: Any) -> bytes:
    """Return a request with a content length, and with a content type unless it is given."""
    types = [] if any(line.lower().startswith("content-type") for line in lines) else [TYPE]
    return head(*types, *lines, f"content-length: {len(body)}", **more) + body


def chunked(*chunks: bytes, **more: Any) -> bytes:
    framed = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)
    return head(TYPE, "transfer-encoding: chunked", **more) + framed + b"0\r\n\r\n"


def emit(event: Any, *lines: str, **more: Any) -> bytes:
    return request(json.dumps(event).encode(), *lines, **more)


TABLE: dict[str, bytes] = {
    # What is taken
    "one": request(PLAIN),
    "a duplicate": request(PLAIN),
    "a batch": emit([one(id="b-1"), one(id="b-1"), one(id="b-2")]),
    "an empty batch": emit([]),
    "lines": request(PLAIN + b"\n\n" + PLAIN, "Content-Type: application/x-ndjson; charset=utf-8"),
    "an idempotency key": emit(one(), 'Idempotency-Key: "k-1"'),
    "an idempotency key with other data": emit(one(data={"other": 1}), "idempotency-key: k-1"),
    "two idempotency keys": emit(one(), "idempotency-key: k-2", "idempotency-key: k-3"),
    "warnings": emit(one(id="w", data={"key": 5}, instance="other", nonsense=1)),
    "an instance key": request(PLAIN, key=OWN_KEY),
    "an X-Api-Key": request(PLAIN, f"X-Api-Key: {KEY}", key=None),
    "a key and the same as X-Api-Key": request(PLAIN, f"x-api-key: {KEY}"),
    "a key and another X-Api-Key": request(PLAIN, f"x-api-key: {OWN_KEY}"),
    "a bearer token": request(PLAIN, f"Authorization: bearer  {KEY} ", key=None),
    "chunks": chunked(PLAIN[:10], PLAIN[10:], b" "),
    "one chunk": chunked(PLAIN),
    "a query": request(PLAIN, path=f"{EMIT}?instance=other&x=/y"),
    "an escaped name": request(PLAIN, path="/event/emit/%6Coja1"),
    "names of other letters": request(PLAIN, "CONTENT-TYPE: application/JSON", path=EMIT),
    "continue": head(TYPE, "expect: 100-continue", f"content-length: {len(PLAIN)}") + PLAIN,
    "HTTP/1.0": request(PLAIN, "connection: keep-alive").replace(b"HTTP/1.1", b"HTTP/1.0"),
    "the last one": request(PLAIN, "connection: close"),
    "a slash at the end": request(PLAIN, path=f"{EMIT}/"),
    **{path.stem: emit({**json.loads(path.read_bytes()), "id": "p"}) for path in PAYLOADS},
    # Who may
    "no key": request(PLAIN, key=None),
    "an empty key": request(PLAIN, key=""),
    "a wrong key": request(PLAIN, key="wrong"),
    "a wrong key for nobody": request(PLAIN, key="wrong", path="/event/emit/nobody"),
    "two keys": request(PLAIN, "apikey: wrong"),
    "two keys, the wrong one first": request(PLAIN, f"ApiKey: {KEY}", key="wrong"),
    "one key twice": request(PLAIN, f"apikey: {KEY}"),
    "an empty key before a key": request(PLAIN, f"apikey: {KEY}", key=""),
    "two tokens": request(PLAIN, f"authorization: bearer {KEY}", "authorization: bearer wrong", key=None),
    "one token twice": request(PLAIN, *[f"Authorization: bearer {KEY}"] * 2, key=None),
    "a token and a basic authorization": request(
        PLAIN, f"authorization: bearer {KEY}", "authorization: basic eDp5", key=None
    ),
    "a key and two basic authorizations": request(PLAIN, *["authorization: basic eDp5"] * 2),
    "a key and another as a token": request(PLAIN, f"authorization: bearer {OWN_KEY}"),
    "a key and an empty token": request(PLAIN, "authorization: bearer "),
    "an empty key and a token": request(PLAIN, f"authorization: bearer {KEY}", key=""),
    "a key and the same as a token": request(PLAIN, f"authorization: bearer {KEY}"),
    "a key and a basic authorization": request(PLAIN, "authorization: basic eDp5"),
    "a key that is no ASCII": request(PLAIN, key="\xe9"),
    "a basic authorization": request(PLAIN, f"authorization: basic {KEY}", key=None),
    "a key and a token": request(PLAIN, f"authorization: bearer {KEY}", key="wrong"),
    "another's key": request(PLAIN, path="/event/emit/loja2", key=OWN_KEY),
    "another's key for a bad name": request(PLAIN, path="/event/emit/a%20b", key=OWN_KEY),
    "another's key and a bad body": request(b"{", path="/event/emit/loja2", key=OWN_KEY),
    "no key and a body to come": head(TYPE, f"content-length: {len(PLAIN)}", key=None) + PLAIN,
    # Where
    "nobody": request(PLAIN, path="/event/emit/nobody"),
    "nobody and a bad body": request(b"{", "content-type: text/plain", path="/event/emit/nobody"),
    "a bad name": request(PLAIN, path="/event/emit/a%20b"),
    "a line break": request(PLAIN, path="/event/emit/a%0Ab"),
    "no UTF-8": request(PLAIN, path="/event/emit/%ff"),
    "an escaped slash": request(PLAIN, path="/event/emit/a%2Fb"),
    "no name": request(PLAIN, path="/event/emit/"),
    "no name, no slash": request(PLAIN, path="/event/emit"),
    "two slashes": request(PLAIN, path="/event/emit//loja1"),
    "slashes before": request(PLAIN, path="//event/emit/loja1"),
    "a label": request(PLAIN, path=f"{EMIT}/crm"),
    "a kind": request(PLAIN, path=f"{EMIT}/messages-upsert"),
    "dedupe": emit(one(id=None, data=MESSAGE), path=f"{EMIT}?dedupe=message"),
    "dedupe, a duplicate": emit(one(id=None, data=MESSAGE), path=f"{EMIT}?x=&dedupe=message"),
    "dedupe, and what byEvents appends": emit(
        one(id=None, data=MESSAGE), path=f"{EMIT}?dedupe=message/messages-upsert"
    ),
    "dedupe of something else": request(PLAIN, path=f"{EMIT}?dedupe=content"),
    "dedupe of nothing": request(PLAIN, path=f"{EMIT}?dedupe="),
    "dedupe of something else, nobody": request(PLAIN, path="/event/emit/nobody?dedupe=content"),
    "dots": request(PLAIN, path="/event/emit/../emit/loja1"),
    "a whole URL": request(PLAIN, path=f"http://x{EMIT}"),
    "the longest name": request(PLAIN, path="/event/emit/" + "x" * 128),
    "a longer name": request(PLAIN, path="/event/emit/" + "x" * 129),
    # How
    "GET": head(method="GET"),
    "HEAD": head(method="HEAD"),
    "OPTIONS": head(method="OPTIONS"),
    "PUT": request(PLAIN, method="PUT"),
    "DELETE without a key": head(method="DELETE", key=None),
    # Bodies
    "no body": head(TYPE),
    "no body, no type": head(),
    "a body of nothing": request(b""),
    "chunks of nothing": chunked(),
    "no type": head(f"content-length: {len(PLAIN)}") + PLAIN,
    "an empty type": request(PLAIN, "content-type: "),
    "another type": request(PLAIN, "content-type: text/plain"),
    "another charset": request(PLAIN, "content-type: application/json; charset=latin-1"),
    "two types": request(PLAIN, "content-type: application/json", "content-type: text/plain"),
    "no JSON": request(b"{"),
    "no UTF-8 inside": request(b'{"event": "\xff"}'),
    "nested too deeply": request(b"[" * 3000),
    "a name twice": request(b'{"event": 1, "event": 2}'),
    "no event": emit({"data": 1}),
    "an unknown kind": emit(one(event="MESAGES_UPSERT")),
    "bad events of a batch": emit([one(id="x"), one(id="a.b"), 5, one(event=None)]),
    "a key for a batch": emit([one(), one()], "idempotency-key: k"),
    "a bad key": emit(one(), "idempotency-key: a.b"),
    "the largest event": request(b'{"event":"CALL","data":"%s","id":"large"}' % (b"x" * (LIMIT - 39))),
    "a larger event": request(b'{"event":"CALL","data":"%s","id":"large"}' % (b"x" * (LIMIT - 38))),
    "the largest body": request(b"[%s]" % (b" " * (BATCH_LIMIT - 2))),
    "a larger body": request(b"[%s]" % (b" " * (BATCH_LIMIT - 1))),
    "the most chunks": chunked(b"[" + b" " * (BATCH_LIMIT - 2), b"]"),
    "more chunks": chunked(b"[" + b" " * (BATCH_LIMIT - 1), b"]"),
    "many more chunks": chunked(*[b" " * 32_768] * 40),
    "too many events": emit([one()] * 21),
    "a wrong key and a large body": request(b" " * (BATCH_LIMIT + 1), key="wrong"),
    "a wrong key and large chunks": chunked(*[b" " * 32_768] * 3, key="wrong"),
    "a wrong key and chunks": chunked(b" ", b"  ", key="wrong"),
    "a wrong key and no body": head(TYPE, "content-length: 0", key="wrong"),
}  # fmt: skip


AMBIGUOUS = {
    "two keys",
    "two keys, the wrong one first",
    "one key twice",
    "an empty key before a key",
    "two tokens",
    "one token twice",
    "a token and a basic authorization",
    "a key and two basic authorizations",
    "a key and another as a token",
    "a key and an empty token",
    "an empty key and a token",
    "a key and another X-Api-Key",
}
"""Requests with more than one key: two readers could take them for two callers."""


def settings_of(folder: Path, settings: Settings, **changes: Any) -> Settings:
    return msgspec.structs.replace(
        settings,
        server=ServerSettings(
            bind=("127.0.0.1:0",),
            max_body=Size(LIMIT),
            max_batch_body=Size(BATCH_LIMIT),
            max_upload=Size(BATCH_LIMIT),
            max_batch_events=20,
            **changes,
        ),
        storage=StorageSettings(path=str(folder / "hookgw.db"), min_free=Size(0)),
    )


@asynccontextmanager
async def serving(settings: Settings, *, short: bool) -> AsyncIterator[tuple[Gateway, Application, int]]:
    """Run a gateway with the fast path or without; yield it with its port."""
    Path(settings.storage.path).parent.mkdir(exist_ok=True)
    async with open_gateway(settings) as gateway, trio.open_nursery() as nursery:
        await gateway.instances.create("loja1", token=OWN_KEY)
        await gateway.instances.create("loja2")
        app = create_app(gateway)
        assert app.uses_fast_paths
        if not short:
            app.use_fast_paths()
        (url,) = await nursery.start(serve, app, settings.server)
        yield gateway, app, int(url.split(":")[2].partition("/")[0])
        nursery.cancel_scope.cancel()


async def exchange(port: int, sent: bytes, prefix: str) -> tuple[bytes, bool]:
    """Return the response without ids and dates, and whether the connection stays open."""
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        try:
            await stream.send_all(sent)
            await stream.send_all(f"GET {prefix}/healthz HTTP/1.1\r\nhost: x\r\n\r\n".encode())
        except trio.BrokenResourceError:
            pass
        received = b""
        while b'{"status":"ok"}' not in received:
            more = await stream.receive_some()
            if not more:
                break
            received += more
    answer, lives_on, _ = received.partition(
        b"HTTP/1.1 200 \r\ncontent-type: application/json\r\ncontent-length: 15\r\n"
    )
    assert answer.startswith(b"HTTP/1.")
    answer = re.sub(rb"\r\ndate: [^\r]+", b"", answer)
    return re.sub(rb"msg_[0-9a-f]+", b"msg_", answer), bool(lives_on)


async def answers(settings: Settings, *, short: bool, prefix: str) -> dict[str, tuple[bytes, bool]]:
    async with serving(settings, short=short) as (_, _, port):
        found = {}
        for name, sent in TABLE.items():
            found[name] = await exchange(port, sent.replace(b" /", f" {prefix}/".encode(), 1), prefix)
        metrics = await exchange(port, head(path=f"{prefix}/metrics", method="GET"), prefix)
        found["metrics"] = (
            b"\n".join(re.findall(rb"^hookgw_\w*requests_total.*", metrics[0], re.MULTILINE)),
            True,
        )
    return found


@pytest.mark.parametrize("prefix", ["", "/hooks"])
async def test_both_paths_respond_alike(prefix: str, tmp_path: Path, settings: Settings) -> None:
    short, long = [
        await answers(
            settings_of(tmp_path / name, settings, base_path=prefix), short=name == "short", prefix=prefix
        )
        for name in ("short", "long")
    ]
    differing = {name: (short[name], long[name]) for name in short if short[name] != long[name]}
    assert differing == {}
    assert b'route="/event/emit/<instance>",status="2xx"' in short["metrics"][0]
    statuses = {name: answer[9:12].decode() for name, (answer, _) in short.items() if name != "metrics"}
    assert set(statuses.values()) >= {"202", "400", "401", "403", "404", "405", "413", "415"}
    assert statuses["the largest event"] == "202"
    assert statuses["a larger event"] == "413"
    ambiguous = {name: status for name, status in statuses.items() if name in AMBIGUOUS}
    assert ambiguous == dict.fromkeys(AMBIGUOUS, "401")
    assert statuses["a key and the same as a token"] == "202"
    assert statuses["a key and a basic authorization"] == "202"
    assert statuses["an X-Api-Key"] == statuses["a key and the same as X-Api-Key"] == "202"
    for name in ("dedupe, a duplicate", "dedupe, and what byEvents appends"):
        assert b'"accepted":0,"duplicates":1' in short[name][0]


async def post(app: Application, nursery: trio.Nursery) -> httpx.Response:
    async with open_client(app, nursery, apikey=KEY) as client:
        return await client.post(EMIT, json=one())


@pytest.mark.parametrize("short", [True, False])
async def test_a_head_that_comes_again_opens_nothing_that_was_closed(
    short: bool, tmp_path: Path, settings: Settings
) -> None:
    async with (
        serving(settings_of(tmp_path / "a", settings), short=short) as (gateway, _, port),
        await trio.open_tcp_stream("127.0.0.1", port) as one_stream,
        await trio.open_tcp_stream("127.0.0.1", port) as other_stream,
    ):
        in_turn = itertools.cycle([one_stream, other_stream])  # all connections share what is known of a head

        async def status() -> bytes:
            stream = next(in_turn)
            await stream.send_all(request(PLAIN, key=OWN_KEY))
            received = bytes(await stream.receive_some())
            assert received.endswith(b"}")
            return received[9:12]

        assert [await status(), await status()] == [b"202", b"202"]
        await gateway.instances.delete("loja1")
        assert [await status(), await status()] == [b"401", b"401"]
        await gateway.instances.create("loja3", token=OWN_KEY)
        assert [await status(), await status()] == [b"403", b"403"]
        await gateway.instances.create("loja1")
        assert [await status(), await status()] == [b"403", b"403"]
        await gateway.instances.delete("loja3")
        await gateway.instances.delete("loja1")
        await gateway.instances.create("loja1", token=OWN_KEY)
        assert [await status(), await status()] == [b"202", b"202"]


@pytest.mark.parametrize("short", [True, False])
async def test_a_request_that_was_answered_leaves_no_garbage(
    short: bool, tmp_path: Path, settings: Settings
) -> None:
    """Thousands of emits must not keep their heads and bodies until the garbage collector runs."""
    async with serving(settings_of(tmp_path / "a", settings), short=short) as (_, _, port):
        await exchange(port, request(PLAIN, key=OWN_KEY), "")
        gc.collect()
        gc.disable()
        try:
            for _ in range(3):
                await exchange(port, request(PLAIN, key=OWN_KEY), "")
            await trio.testing.wait_all_tasks_blocked()
            kept = [found for found in gc.get_objects() if isinstance(found, RequestResponse)]
        finally:
            gc.enable()
        assert kept == []


async def test_what_is_known_of_a_head_is_not_known_of_the_next_client_that_sends_it(
    tmp_path: Path, settings: Settings
) -> None:
    settings = msgspec.structs.replace(
        settings_of(tmp_path / "a", settings), auth=msgspec.structs.replace(settings.auth, failed_attempts=2)
    )
    async with (
        serving(settings, short=True) as (_, _, port),
        await trio.open_tcp_stream("127.0.0.1", port) as trusted,
        await trio.open_tcp_stream("127.0.0.1", port, local_address="127.0.0.9") as guesser,
    ):

        async def status(stream: trio.SocketStream, key: str) -> bytes:
            await stream.send_all(request(PLAIN, key=key))
            return bytes(await stream.receive_some())[9:12]

        assert [await status(trusted, OWN_KEY) for _ in range(3)] == [b"202"] * 3
        assert [await status(guesser, "wrong") for _ in range(3)] == [b"401", b"401", b"429"]
        assert [await status(guesser, OWN_KEY) for _ in range(2)] == [b"429"] * 2
        assert await status(trusted, OWN_KEY) == b"202"


@pytest.mark.parametrize(
    "error",
    [StorageUnavailable("The disk is full.", retry_after=2.5), RuntimeError("secret detail")],
    ids=["disk", "bug"],
)
async def test_failures_get_the_same_response(
    error: Exception, gateway: Gateway, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(batch: object, **_: object) -> None:
        raise error

    await gateway.instances.create("loja1")
    monkeypatch.setattr(gateway.events, "accept_checked", fail)
    seen = []
    for shortened in (True, False):
        app = create_app(gateway)
        if not shortened:
            app.use_fast_paths()
        with structlog.testing.capture_logs() as logs:
            response = await post(app, nursery)
        del response.headers["date"]
        told = [(log["event"], log["method"], log["path"], log["exc_info"]) for log in logs]
        seen.append((response.status_code, response.headers.raw, response.content, told))
    assert seen[0] == seen[1]
    assert seen[0][0] == (503 if isinstance(error, StorageUnavailable) else 500)


@pytest.mark.parametrize("settings_", ["off", "warn", "strict"])
async def test_schema_violations_are_reported_alike(
    settings_: Any, tmp_path: Path, settings: Settings
) -> None:
    events = EventsSettings(validate=settings_)
    bad = emit(one(id="bad", data={"key": 5}))
    seen = []
    for short in (True, False):
        of_this = settings_of(tmp_path / str(short), settings)
        async with serving(msgspec.structs.replace(of_this, events=events), short=short) as (_, _, port):
            seen.append(await exchange(port, bad, ""))
    assert seen[0] == seen[1]
    # Which of the two violations is the first one depends on the version of the validator.
    is_named = any(text in seen[0][0] for text in (b"required property", b"is not of type"))
    assert is_named is (settings_ != "off")


class RoutesOfAPlugin:
    """A request hook of a plugin."""

    def __init__(self, where: str) -> None:
        self._where = where
        self.heard: list[str] = []

    def routes(self, app: Routing, gateway: Gateway) -> None:
        getattr(app, self._where)(self.hear)

    async def hear(self, *given: Any) -> Any:
        self.heard.append(self._where)
        return given[0] if self._where == "after_request" else None


@pytest.mark.parametrize("where", ["before_request", "after_request", "teardown_request"])
async def test_plugins_with_request_hooks_see_emits(
    where: str, gateway: Gateway, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    await gateway.instances.create("loja1")
    plugin = RoutesOfAPlugin(where)
    monkeypatch.setattr(gateway.hooks, "routes", plugin.routes)
    app = create_app(gateway)
    assert not app.uses_fast_paths
    assert (await post(app, nursery)).status_code == 202
    assert plugin.heard == [where]


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
    assert app.uses_fast_paths
    response = await post(app, nursery)
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


async def test_a_client_that_disconnects_within_the_body(tmp_path: Path, settings: Settings) -> None:
    async with serving(settings_of(tmp_path / "a", settings), short=True) as (_, _, port):
        with structlog.testing.capture_logs() as logs:
            async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
                await stream.send_all(head(TYPE, "content-length: 50") + b"{")
            assert (await exchange(port, request(PLAIN), ""))[0].startswith(b"HTTP/1.1 202")
    assert [log for log in logs if log["log_level"] in ("warning", "error")] == []


def test_the_first_of_several_headers_counts() -> None:
    headers = FirstHeaders([(b"A", b"1"), (b"a", b"2"), (b"b", b"\xe9")])
    assert (headers.get("a"), headers.get("A"), headers.get("B"), headers.get("c")) == ("1", "1", "é", None)
