"""``/ingest/<instance>/<token>``: requests of networks, on the fast path and on the ordinary one."""

import hashlib
import hmac
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import httpx
import msgspec
import pytest
import structlog
import trio
from trio.testing import wait_all_tasks_blocked

from hookgw import (
    ConnectionState,
    Gateway,
    IngestRequest,
    IngestResponse,
    Invalid,
    NetworkRefused,
    NewEvent,
    NotSupported,
    ProofRefused,
    Session,
    Unavailable,
)
from hookgw.instances.connectors import ingest
from hookgw.testing import FakeConnector
from tests.api.conftest import KEY, open_client, open_whole_gateway
from tests.api.server.wire import Running, read_answer
from tests.api.test_app import shape_of
from tests.public.config import ServerSettings, Settings
from tests.public.kernel import Size, StorageUnavailable, TooManyRequests
from tests.public.web import AppApplication as Application
from tests.public.webhooks import RegistrationChange
from tests.support.application import create_app

Answering = Callable[[Session, IngestRequest], Awaitable[IngestResponse]]

SECRET = b"the-secret-of-the-network"
MESSAGE = {
    "key": {"remoteJid": "5511988887777@s.whatsapp.net", "fromMe": False, "id": "A1"},
    "message": {"conversation": "hello"},
    "messageTimestamp": 1763899200,
}


async def accept(session: Session, request: IngestRequest) -> IngestResponse:
    """Check an HMAC, answer the check of a new URL, and raise an event, as a real connector does."""
    if request.method == "GET":
        return IngestResponse(body=request.query.get("challenge", "").encode())
    proof = hmac.new(SECRET, request.body, hashlib.sha256).hexdigest()
    if not hmac.compare_digest(proof, request.headers.get("x-signature", "")):
        raise ProofRefused("The signature is missing or wrong.")
    try:
        happened = msgspec.json.decode(request.body, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise Invalid("The body is not JSON.") from error
    await session.emit("MESSAGES_UPSERT", MESSAGE, event_id=happened["id"])
    return IngestResponse()


def signed(body: bytes) -> dict[str, str]:
    return {"x-signature": hmac.new(SECRET, body, hashlib.sha256).hexdigest()}


async def sleep_forever(session: Session, request: IngestRequest) -> IngestResponse:
    await trio.sleep_forever()
    raise AssertionError


def raises(error: BaseException) -> Answering:
    async def fail(session: Session, request: IngestRequest) -> IngestResponse:
        raise error

    return fail


def answers(*args: Any, **fields: Any) -> Answering:
    async def respond(session: Session, request: IngestRequest) -> IngestResponse:
        return IngestResponse(*args, **fields)

    return respond


class World:
    """A served gateway with an instance whose connector takes requests, and one whose does not."""

    def __init__(self, gateway: Gateway, connector: FakeConnector, http: httpx.AsyncClient) -> None:
        self.gateway = gateway
        self.connector = connector
        self.http = http

    @property
    def url(self) -> str:
        url = self.gateway.instances.ingest_url(self.gateway.instances.get("shop"))
        assert url is not None
        return url

    def answers_with(self, answering: Answering) -> None:
        self.connector.answer_ingest = answering

    async def post(self, content: bytes | str = b"{}", **options: Any) -> httpx.Response:
        return await self.http.post(self.url, content=content, **options)

    async def emits(self, event_id: str = "e1") -> httpx.Response:
        body = msgspec.json.encode({"id": event_id})
        return await self.post(body, headers=signed(body))


def accepting(patch: pytest.MonkeyPatch, session: Any, accept: Any) -> Any:
    """Have another function accept a session's events, and return the usual one."""
    usual = session._accept
    patch.setattr(session, "_accept", accept)
    return usual


@pytest.fixture
def connector() -> FakeConnector:
    return FakeConnector(ingest=accept)


@pytest.fixture
def plugins(connector: FakeConnector) -> dict[str, object]:
    return {"fake": connector, "deaf": FakeConnector("deaf", without=("ingest",))}


@pytest.fixture
async def gateway(gateway: Gateway) -> Gateway:
    await gateway.instances.create("shop", integration="fake")
    await gateway.instances.create("deaf", integration="deaf")
    await gateway.instances.create("http")
    await gateway.instances.connect("shop")
    await gateway.instances.connect("deaf")
    return gateway


@pytest.fixture
def app(either_app: Application) -> Application:
    return either_app


@pytest.fixture
async def world(
    app: Application, gateway: Gateway, connector: FakeConnector, nursery: trio.Nursery
) -> AsyncIterator[World]:
    """Its client has no key."""
    async with open_client(app, nursery) as client:
        client.event_hooks = {}  # connectors may answer with any type and status
        yield World(gateway, connector, client)


def repeatable(response: httpx.Response) -> list[str]:
    """Check that a response is a 503 that says when to repeat the request; return its messages."""
    assert response.status_code == 503
    assert int(response.headers["retry-after"]) >= 1
    return shape_of(response)


async def until(is_so: Callable[[], bool]) -> None:
    with trio.fail_after(45):
        while not is_so():
            await wait_all_tasks_blocked(0.001)


async def stored(world: World) -> list[str]:
    """Return the ids of the messages on disk that wait for a receiver."""
    path = "/delivery/list/shop?kind=MESSAGES_UPSERT"
    listed = (await world.http.get(path, headers={"apikey": KEY})).json()
    return [delivery["eventId"] for delivery in listed["deliveries"]]


async def test_the_answer_comes_once_the_event_is_on_disk(world: World) -> None:
    await world.gateway.registrations.set("shop", "default", RegistrationChange(url="http://127.0.0.1:9/"))
    response = await world.emits("a1")
    assert (response.status_code, response.content) == (200, b"")
    assert response.headers["content-type"] == "text/plain; charset=utf-8"
    assert "x-hookgw-version" in response.headers
    assert await stored(world) == ["a1"]
    # The network repeats what it did not hear the answer to.
    assert (await world.emits("a1")).status_code == 200
    assert await stored(world) == ["a1"]


async def test_the_connector_gets_the_request_as_it_arrived(world: World) -> None:
    world.answers_with(answers())
    body = b"\xff\x00 {not json}"
    headers = [("X-Sign", "a"), ("x-sign", "b"), ("content-type", "application/x-odd; a=b")]
    await world.post(body, params=[("a", "1"), ("a", "2"), ("b", "x y"), ("c", "")], headers=headers)
    (call,) = world.connector.calls_of("ingest")
    request = call["request"]
    assert (request.method, request.body) == ("POST", body)
    assert request.query == {"a": "1", "b": "x y", "c": ""}
    assert request.headers["content-type"] == "application/x-odd; a=b"
    assert request.headers["x-sign"].startswith("a")  # httpx joins the two
    assert "xff" not in repr(request)


async def test_the_check_of_a_new_url(world: World) -> None:
    response = await world.http.get(world.url, params={"challenge": "42"})
    assert (response.status_code, response.text) == (200, "42")
    assert world.connector.calls_of("ingest")[0]["request"].body == b""
    response = await world.http.head(world.url, params={"challenge": "42"})
    assert (response.status_code, response.content) == (200, b"")
    assert world.connector.calls_of("ingest")[1]["request"].method == "GET"


@pytest.mark.parametrize(
    ("given", "seen"),
    [
        ({"status": 202, "body": b'{"a":1}', "content_type": "application/json"}, (202, b'{"a":1}')),
        ({"status": 204}, (204, b"")),
        ({"status": 418, "body": b"tea"}, (418, b"tea")),
    ],
)
async def test_the_answer_is_the_connector_s(
    given: dict[str, Any], seen: tuple[int, bytes], world: World
) -> None:
    world.answers_with(answers(**given))
    response = await world.post()
    assert (response.status_code, response.content) == seen
    if response.status_code == 204:
        assert "content-length" not in response.headers
        assert "content-type" not in response.headers
    assert (await world.post()).status_code == seen[0]  # on the same connection


async def test_a_page_of_a_connector_runs_nothing(world: World) -> None:
    world.answers_with(answers(body=b"<script>", content_type="text/html"))
    assert (await world.post()).headers["content-security-policy"] == "sandbox; default-src 'none'"
    world.answers_with(answers(body=b"ok"))
    assert "content-security-policy" not in (await world.post()).headers


@pytest.mark.parametrize(
    "response",
    [
        {"status": 199},
        {"status": 600},
        {"status": "200"},
        {"status": 204, "body": b"x"},
        {"body": "text"},
        {"content_type": "text/plain\r\nset-cookie: a=b"},
        {"content_type": "é"},
    ],
)
async def test_an_impossible_answer_is_a_failure_of_the_connector(
    response: dict[str, Any], world: World
) -> None:
    world.answers_with(answers(**response))
    assert repeatable(await world.post()) == ["The connector failed. Retry later."]


async def nobody(world: World) -> list[httpx.Response]:
    """Return the responses to requests that must not reach a connector."""
    token = world.url.rpartition("/")[2]
    other = token[:-1] + ("A" if token[-1] != "A" else "B")
    paths = [
        f"/ingest/shop/{other}",
        f"/ingest/shop/{token[:-1]}",
        f"/ingest/shop/{token}x",
        f"/ingest/shop/{token.swapcase()}",
        "/ingest/shop/%E2%82%AC",
        "/ingest/shop/%ff",
        f"/ingest/nobody/{token}",
        f"/ingest/http/{token}",
        f"/ingest/deaf/{token}",
        f"/ingest/SHOP/{token}",
        f"/ingest/a%20b/{token}",
        "/ingest/nobody/x",
        "/ingest/http/" + "x" * 22,  # what is compared if there is no token
        "/ingest/deaf/" + "x" * 22,
    ]
    return [await world.http.post(path, content=b"{}") for path in paths]


async def test_a_wrong_token_and_an_unknown_instance_get_the_same_response(world: World) -> None:
    responses = await nobody(world)
    seen = set()
    for response in responses:
        del response.headers["date"]
        seen.add((response.status_code, response.content, tuple(response.headers.multi_items())))
    assert len(seen) == 1
    assert responses[0].status_code == 404
    assert shape_of(responses[0]) == ["There is no such instance, or the token is wrong."]
    assert world.connector.calls_of("ingest") == []


async def test_a_wrong_token_learns_nothing_of_the_state_either(world: World) -> None:
    first = [(one.status_code, one.content) for one in await nobody(world)]
    await world.gateway.instances.logout("shop")
    assert [(one.status_code, one.content) for one in await nobody(world)] == first


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (ProofRefused("The signature is wrong."), 401, "The signature is wrong."),
        (Invalid("The body is not JSON."), 400, "The body is not JSON."),
        (NotSupported("No pictures."), 501, "No pictures."),
    ],
)
async def test_what_is_wrong_for_good(error: Exception, status: int, message: str, world: World) -> None:
    world.answers_with(raises(error))
    response = await world.post()
    assert response.status_code == status
    assert shape_of(response) == [message]
    assert "retry-after" not in response.headers
    assert ("www-authenticate" in response.headers) is (status == 401)


@pytest.mark.parametrize(
    ("error", "wait"),
    [
        (Unavailable("Not now.", retry_after=7), "7"),
        (NetworkRefused("secret detail", code="X", status=404), "5"),
        (NetworkRefused("secret detail", status=429, retry_after=33.5), "34"),
        (RuntimeError("secret detail"), "5"),
        (ExceptionGroup("", [ValueError("secret detail")]), "5"),
    ],
)
async def test_failures_that_may_pass(error: Exception, wait: str, world: World) -> None:
    world.answers_with(raises(error))
    response = await world.post()
    assert "secret detail" not in " ".join(repeatable(response))
    assert response.headers["retry-after"] == wait


@pytest.mark.parametrize(
    "error",
    [
        StorageUnavailable("The disk refused /var/lib/hookgw.db."),
        Unavailable("The backlog is full.", retry_after=2),
        TooManyRequests("The instance is at its limit.", retry_after=2),
    ],
)
async def test_an_event_that_cannot_be_stored_is_for_the_network_to_repeat(
    error: Exception, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not wait, as events of the connector's own task do: the network waits for the answer."""

    async def refuse(*_: object, **__: object) -> None:
        raise error

    session = world.connector.session("shop")
    with monkeypatch.context() as patched:
        accepting(patched, session, refuse)
        assert repeatable(await world.emits()) == ["hookgw cannot store events at the moment. Retry later."]
    assert (await world.emits()).status_code == 200


@pytest.mark.parametrize("is_refused", [True, False])
async def test_a_state_that_cannot_be_stored_is_reported_when_the_network_repeats_its_request(
    world: World, monkeypatch: pytest.MonkeyPatch, is_refused: bool
) -> None:
    async def close(session: Session, request: IngestRequest) -> IngestResponse:
        await session.set_state(ConnectionState.CLOSE, 401)
        return IngestResponse()

    raised: list[tuple[str, str]] = []
    refusals = [Unavailable("Not now.")]

    async def accept_later(events: Any, **_: object) -> None:
        if refusals:
            error = refusals.pop()
            if is_refused:
                raise error
            await trio.sleep_forever()
        raised.extend((event.kind, event.data["state"]) for event in events)

    accepting(monkeypatch, world.connector.session("shop"), accept_later)
    world.answers_with(close)
    with monkeypatch.context() as patched:
        patched.setattr(ingest, "INGEST_TIMEOUT", 60 if is_refused else 0.01)
        repeatable(await world.post())
    assert world.gateway.instances.connection_state("shop") is ConnectionState.OPEN
    assert (await world.post()).status_code == 200
    assert raised == [("CONNECTION_UPDATE", "close")]
    assert world.gateway.instances.connection_state("shop") is ConnectionState.CLOSE


async def test_a_task_that_outlives_the_request_waits_again(
    world: World, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored, begin = trio.Event(), trio.Event()
    refusals = [Unavailable("Not now.", retry_after=0)]
    session = world.connector.session("shop")

    async def refuse_once(*args: Any, **named: Any) -> None:
        if refusals:
            raise refusals.pop()
        await really_accept(*args, **named)

    async def later() -> None:
        await begin.wait()
        await session.emit("CALL", {})
        stored.set()

    async def hand_over(session: Session, request: IngestRequest) -> IngestResponse:
        nursery.start_soon(later)
        return IngestResponse()

    really_accept = accepting(monkeypatch, session, refuse_once)
    world.answers_with(hand_over)
    assert (await world.post()).status_code == 200
    begin.set()
    with trio.fail_after(5):
        await stored.wait()
    assert refusals == []


async def test_a_connector_that_takes_too_long(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest, "INGEST_TIMEOUT", 0.01)
    world.answers_with(sleep_forever)
    with structlog.testing.capture_logs() as logs:
        assert repeatable(await world.post()) == ["The connector took longer than 0.01 s. Retry later."]
    (log,) = [log for log in logs if log["event"] == "inbound request took too long"]
    assert (log["instance"], log["connector"]) == ("shop", "fake")
    world.answers_with(accept)
    assert (await world.emits()).status_code == 200


NOT_READY = ["The instance's connector is not ready. Retry later."]


async def test_a_connector_that_does_not_run(world: World) -> None:
    await world.gateway.instances.logout("shop")
    assert repeatable(await world.emits()) == NOT_READY
    await world.gateway.instances.connect("shop")
    assert (await world.emits()).status_code == 200


async def test_a_connector_whose_plugin_is_gone(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    url = world.url
    await world.gateway.instances.logout("shop")
    monkeypatch.setattr(world.gateway.connectors, "find", lambda _: None)
    assert repeatable(await world.http.post(url)) == NOT_READY
    assert (await world.http.post(f"{url}x")).status_code == 404


async def test_a_connector_that_has_not_begun(world: World, connector: FakeConnector) -> None:
    """Its first report says that it can be called; the connection may still need the network's check."""
    await world.gateway.instances.logout("shop")
    reports, reported = trio.Event(), trio.Event()

    async def slow_start(session: Session) -> None:
        await reports.wait()
        await session.set_state(ConnectionState.CONNECTING)
        reported.set()
        await trio.sleep_forever()

    connector.script = slow_start
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.gateway.instances.connect, "shop")
        await wait_all_tasks_blocked(0.01)
        assert repeatable(await world.emits()) == NOT_READY
        reports.set()
        await reported.wait()
        assert (await world.emits()).status_code == 200
        nursery.cancel_scope.cancel()


async def test_a_connector_that_failed_and_waits_for_its_restart(
    world: World, connector: FakeConnector
) -> None:
    await world.gateway.instances.logout("shop")

    async def fail(session: Session) -> None:
        await session.set_state(ConnectionState.OPEN)
        raise RuntimeError("a bug")

    connector.script = fail
    await world.gateway.instances.connect("shop")
    await until(lambda: world.gateway.instances.connection_state("shop") is ConnectionState.CLOSE)
    assert repeatable(await world.emits()) == NOT_READY


async def test_shutdown(world: World) -> None:
    world.gateway.connectors.stop_all()
    assert repeatable(await world.emits()) == NOT_READY


async def test_an_instance_that_is_logged_out_during_a_request(world: World) -> None:
    goes_on, begun = trio.Event(), trio.Event()

    async def wait(session: Session, request: IngestRequest) -> IngestResponse:
        begun.set()
        await goes_on.wait()
        return await accept(session, request)

    world.answers_with(wait)
    results: list[httpx.Response] = []

    async def emit() -> None:
        results.append(await world.emits())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(emit)
        await begun.wait()
        await world.gateway.instances.logout("shop")
        goes_on.set()
    assert repeatable(results[0]) == ["The instance's connection has ended. Retry later."]


# httpx's stream stays open if the connection is closed before all of it was sent.
@pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")
@pytest.mark.filterwarnings("ignore:Exception ignored:pytest.PytestUnraisableExceptionWarning")
async def test_a_body_over_the_limit(world: World) -> None:
    # A network's request is a batch: Meta's have up to 3 MB, and others have files inside.
    limit = world.gateway.settings.server.max_batch_body
    world.answers_with(answers())
    assert (await world.post(b"x" * limit)).status_code == 200
    response = await world.post(b"x" * (limit + 1))
    assert response.status_code == 413

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(17):
            yield b"x" * (limit // 16)

    assert (await world.http.post(world.url, content=chunks())).status_code == 413


async def test_a_content_encoding_is_refused(world: World) -> None:
    """The proof is over the bytes as the network sent them."""
    paths = (await world.http.get("/openapi.json")).json()["paths"]
    for method in ("POST", "GET"):
        response = await world.http.request(
            method, world.url, headers={"content-encoding": "gzip"}, content=b"x"
        )
        assert response.status_code == 415
        assert response.headers["accept-encoding"] == "identity"
        assert "415" in paths["/ingest/{instance}/{token}"][method.lower()]["responses"]
    world.answers_with(answers())
    assert (await world.post(headers={"content-encoding": "identity"})).status_code == 200


async def test_only_get_and_post(world: World) -> None:
    for method in ("PUT", "PATCH", "DELETE"):
        response = await world.http.request(method, world.url, headers={"apikey": KEY})
        assert response.status_code == 405
        assert world.url.rpartition("/")[2] not in response.text
    assert (await world.http.post(world.url + "/", content=b"{")).status_code == 401


async def test_the_connector_gets_the_path_below_its_url(world: World) -> None:
    async def echo(_session: Session, request: IngestRequest) -> IngestResponse:
        return IngestResponse(body=request.path.encode())

    world.answers_with(echo)
    for below in ("", "messages-upsert", "a/b", "ol%C3%A1"):
        response = await world.http.post(f"{world.url}/{below}" if below else world.url)
        assert (response.status_code, response.text) == (200, unquote(below))
    wrong = await world.http.post(f"{world.url[:-1]}/messages-upsert", headers={"apikey": KEY})
    assert (wrong.status_code, shape_of(wrong)) == (
        404,
        ["There is no such instance, or the token is wrong."],
    )


async def test_a_refused_request_is_in_the_log_once_in_a_while(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    with structlog.testing.capture_logs() as logs:
        for _ in range(3):
            assert (await world.post(b"{}")).status_code == 401
        monkeypatch.setattr(ingest, "LOGGED_EVERY", 0.0)
        world.answers_with(raises(Invalid("The body is no message.")))
        await world.post(b"{}")
    found = [(log["status"], log["reason"]) for log in logs if "refused" in log["event"]]
    assert found == [(401, "The signature is missing or wrong."), (400, "The body is no message.")]


async def emit_parts(session: Session, request: IngestRequest) -> IngestResponse:
    """Raise an event for each item of ``items``, or one for the whole body, if it is an event itself."""
    places = ("/items/#",) if request.query else ("",)
    body = await session.decode_json(request.body, events=places)
    ids = [str(item["id"]) for item in (body["items"] if request.query else [body])]
    await session.emit_all([NewEvent(kind="MESSAGES_UPSERT", data=MESSAGE, event_id=id_) for id_ in ids])
    return IngestResponse(status=202)


async def test_an_event_with_too_many_values_is_answered_with_200_and_reported(world: World) -> None:
    """After any other status, the network would repeat it for ever."""
    world.answers_with(emit_parts)
    body = b'{"id": "e1", "x": [%b1]}' % (b"[]," * 20_000)
    with structlog.testing.capture_logs() as logs:
        assert (await world.post(body)).status_code == 200
        # What is beside it is not lost.
        items = b'{"items": [{"id": 1}, %b, {"id": 2}]}' % body
        assert (await world.http.post(f"{world.url}?items=1", content=items)).status_code == 202
        await world.gateway.operational.drain()
    reported = [log for log in logs if log["event"] == "operational event"]
    assert [(log["event_kind"], log["instance"], log["connector"]) for log in reported] == [
        ("EVENT_LEFT_OUT", "shop", "fake")
    ] * len(reported)
    assert sum(log["count"] for log in reported) == 2
    assert [log["reason"] for log in logs if log["event"] == "events left out"] == [
        "The event has too many JSON values: at most 20,000 are allowed."
    ] * len(reported)
    assert (await world.emits("1")).status_code == 202


async def test_many_requests_at_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow connector holds a part of the instance's requests; the network repeats the others."""
    monkeypatch.setattr(ingest, "MOST_AT_ONCE", 2)
    goes_on = trio.Event()

    async def wait(session: Session, request: IngestRequest) -> IngestResponse:
        await goes_on.wait()
        return await accept(session, request)

    world.answers_with(wait)
    statuses = []

    async def emit(event_id: str) -> None:
        statuses.append((await world.emits(event_id)).status_code)

    async with trio.open_nursery() as nursery:
        for index in range(2):
            nursery.start_soon(emit, f"e{index}")
        await until(lambda: len(world.connector.calls_of("ingest")) == 2)
        assert repeatable(await world.emits("e2"))[0].startswith("The connector works on 2 requests")
        goes_on.set()
    assert statuses == [200, 200]
    assert (await world.emits("e2")).status_code == 200
    assert (
        b'hookgw_http_requests_limited_total{limit="instance_share"} 1.0'
        in (world.gateway.metrics.render()[0])
    )


class TestRates:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        auth = msgspec.structs.replace(settings.auth, instance_key_rate=1)
        return msgspec.structs.replace(settings, auth=auth)

    async def test_too_many_requests_are_for_the_network_to_repeat(self, world: World) -> None:
        """With 503: it does not repeat them after a 429."""
        world.answers_with(answers())
        found = [await world.post() for _ in range(4)]
        assert [one.status_code for one in found][:2] == [200, 200]
        refused = [one for one in found if one.status_code != 200]
        assert refused
        assert repeatable(refused[0]) == ["The network sends too many requests. Retry later."]
        assert b'limit="key_rate"' in world.gateway.metrics.render()[0]


class TestShares:
    @pytest.fixture
    def server_settings(self) -> ServerSettings:
        size = Size(1000)
        return ServerSettings(bind=("127.0.0.1:0",), max_requests=8, max_body=size, max_batch_body=size)

    async def test_bodies_and_requests_that_do_not_end(self, world: World, server: Running) -> None:
        """They take the instance's share of the server; further requests get 503, not 429."""
        world.answers_with(answers())
        begun = f"POST {world.url} HTTP/1.1\r\nhost: x\r\ncontent-length: 900\r\n\r\nxx".encode()
        streams = [await server.connect() for _ in range(2)]
        for stream in streams:
            await stream.send_all(begun)
        await wait_all_tasks_blocked(0.02)
        async with await server.connect() as stream:
            await stream.send_all(begun + b"x" * 898)
            status, headers, _ = await read_answer(stream)
            assert (status, headers["retry-after"]) == (503, "1")
        for stream in streams:
            await stream.send_all(b"x" * 898)
            assert (await read_answer(stream))[0] == 200
            await stream.aclose()


class TestBodies:
    @pytest.fixture
    def server_settings(self) -> ServerSettings:
        size = Size(10_000)
        return ServerSettings(
            bind=("127.0.0.1:0",), max_requests=24, max_body=size, max_batch_body=size, max_upload=size
        )

    async def test_too_many_bodies_at_once(self, world: World, server: Running) -> None:
        world.answers_with(answers())
        head = f"POST {world.url} HTTP/1.1\r\nhost: x\r\ncontent-length: 10000\r\n\r\n".encode()
        async with AsyncExitStack() as stack:
            streams = [await stack.enter_async_context(await server.connect()) for _ in range(5)]
            for stream in streams:
                await stream.send_all(head + b"x" * 9000)
                await wait_all_tasks_blocked(0.02)
            await streams[-1].send_all(b"x" * 1000)
            status, headers, _ = await read_answer(streams[-1])
            assert (status, headers["retry-after"]) == (503, "1")
            await wait_all_tasks_blocked(0.02)  # its bytes count until it has ended
            for stream in streams[:-1]:
                await stream.send_all(b"x" * 1000)
                assert (await read_answer(stream))[0] == 200

    async def test_a_logout_while_the_body_arrives(self, world: World, server: Running) -> None:
        head = f"POST {world.url} HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n".encode()
        async with await server.connect() as stream:
            await stream.send_all(head + b"{")
            await wait_all_tasks_blocked(0.02)
            await world.gateway.instances.logout("shop")
            await stream.send_all(b"}")
            assert (await read_answer(stream))[0] == 503
        assert world.connector.calls_of("ingest") == []


async def test_the_url_ends_when_it_is_rotated(world: World) -> None:
    old = world.url
    assert (await world.emits()).status_code == 200
    response = await world.http.post("/instance/rotateIngest/shop", headers={"apikey": KEY})
    assert response.json() == {"ingestUrl": world.url}
    assert world.url != old
    assert world.connector.session("shop").ingest_url == world.url
    assert (await world.http.post(old)).status_code == 404
    assert (await world.emits()).status_code == 200


@pytest.mark.parametrize(("name", "status"), [("deaf", 501), ("http", 409), ("nobody", 404)])
async def test_an_instance_without_a_url_has_none_to_rotate(name: str, status: int, world: World) -> None:
    response = await world.http.post(f"/instance/rotateIngest/{name}", headers={"apikey": KEY})
    assert response.status_code == status


async def test_who_sees_the_url(world: World) -> None:
    own = {"apikey": KEY}
    body = {"instanceName": "new", "integration": "fake"}
    created = (await world.http.post("/instance/create", json=body, headers=own)).json()
    assert re.fullmatch(r"/ingest/new/[A-Za-z0-9_-]{22}", created["ingestUrl"])
    connected = (await world.http.get("/instance/connect/new", headers=own)).json()
    assert connected["ingestUrl"] == created["ingestUrl"]
    path = "/instance/fetchInstances?instanceName="
    (found,) = (await world.http.get(f"{path}new", headers=own)).json()
    assert found["ingestUrl"] == created["ingestUrl"]
    for name in ("deaf", "http"):
        (found,) = (await world.http.get(path + name, headers=own)).json()
        assert "ingestUrl" not in found
    assert world.connector.session("new").ingest_url == created["ingestUrl"]
    mine = (await world.http.get("/instance/fetchInstances", headers={"apikey": created["hash"]})).json()
    assert [one["ingestUrl"] for one in mine] == [created["ingestUrl"]]


@pytest.mark.parametrize(
    ("changes", "begin"),
    [
        ({"base_path": "/hooks"}, "/hooks/ingest/shop/"),
        ({"public_url": "https://gw.example/"}, "https://gw.example/ingest/shop/"),
        ({"public_url": "https://gw.example/h", "base_path": "/h"}, "https://gw.example/h/ingest/shop/"),
    ],
)
async def test_the_url_is_below_the_public_one(
    changes: dict[str, str], begin: str, settings: Settings, tmp_path: Path, connector: FakeConnector
) -> None:
    server = msgspec.structs.replace(settings.server, **changes)
    settings = msgspec.structs.replace(settings, server=server)
    plugins = {"fake": connector}
    async with open_whole_gateway(settings, tmp_path, plugins) as gateway, trio.open_nursery() as nursery:
        instance = (await gateway.instances.create("shop", integration="fake")).instance
        await gateway.instances.connect("shop")
        url = gateway.instances.ingest_url(instance)
        assert url is not None
        assert url.startswith(begin)
        connector.answer_ingest = answers()
        async with open_client(create_app(gateway), nursery) as client:
            client.event_hooks = {}
            path = url.removeprefix("https://gw.example")
            if changes.get("base_path"):
                assert (await client.post(path)).status_code == 200
                assert instance.ingest_token not in (await client.post("/x" + path)).text
        nursery.cancel_scope.cancel()


async def test_an_instance_from_before_gets_a_url_when_it_is_connected(
    settings: Settings, tmp_path: Path, connector: FakeConnector
) -> None:
    """Also at the next start, if it was connected: an update may bring a connector the method."""

    async def open_with(plugin: FakeConnector) -> list[str | None]:
        async with open_whole_gateway(settings, tmp_path, {"fake": plugin}) as gateway:
            if gateway.instances.find("shop") is None:
                for name in ("shop", "rest"):
                    await gateway.instances.create(name, integration="fake")
                await gateway.instances.connect("shop")
            urls = [gateway.instances.ingest_url(one) for one in gateway.instances.all()]
            if urls[1] is not None:
                await wait_all_tasks_blocked(0.01)
                assert plugin.session("shop").ingest_url == urls[1]
                await gateway.instances.connect("rest")
                assert gateway.instances.ingest_url(gateway.instances.get("rest")) is not None
            return urls

    assert await open_with(FakeConnector(without=("ingest",))) == [None, None]
    rest, shop = await open_with(connector)
    assert (rest, shop is None) == (None, False)
    # And a connector that takes no requests any more has no URL.
    assert await open_with(FakeConnector(without=("ingest",))) == [None, None]


async def test_no_log_shows_the_token(world: World) -> None:
    async def careless(session: Session, request: IngestRequest) -> IngestResponse:
        raise RuntimeError(f"cannot handle {session.ingest_url} {request!r}")

    world.answers_with(careless)
    token = world.url.rpartition("/")[2]
    with structlog.testing.capture_logs() as logs:
        answer = await world.post()
    assert [log["event"] for log in logs] == ["plugin failed"]
    assert token not in repr(logs) + answer.text
    assert "RuntimeError: cannot handle /ingest/shop/********" in logs[0]["reason"]
    assert token not in repr(world.gateway.instances.get("shop"))
    assert token.encode() not in world.gateway.metrics.render()[0]


async def test_a_bug_of_hookgw_s_own(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object) -> None:
        raise LookupError("a bug")

    monkeypatch.setattr(world.gateway.ingest, "answer", fail)
    with structlog.testing.capture_logs() as logs:
        assert (await world.post()).status_code == 500
    (log,) = [log for log in logs if log["event"] == "request failed"]
    assert world.url.rpartition("/")[2] not in repr({**log, "exc_info": None})


async def test_a_client_that_leaves_within_the_body(world: World, server: Running) -> None:
    head = f"POST {world.url} HTTP/1.1\r\nhost: x\r\ncontent-length: 50\r\n\r\nxx".encode()
    with structlog.testing.capture_logs() as logs:
        async with await server.connect() as stream:
            await stream.send_all(head)
        assert (await world.emits()).status_code == 200
    assert [log for log in logs if log["log_level"] in ("warning", "error")] == []
