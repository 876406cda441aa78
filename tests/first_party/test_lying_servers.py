"""A network's server that answers with anything: calls are refused, and runs go on without a busy loop."""

import os
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any

import httpx
import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock

from hookgw import (
    Contact,
    ContactMessage,
    HookgwError,
    InstanceSettings,
    LocationMessage,
    MediaKind,
    MediaMessage,
    MessageKey,
    NetworkRefused,
    ReactionMessage,
    TemplateMessage,
    TextMessage,
)
from hookgw.testing import FakeMediaSink
from tests.first_party.lines import LINES, Line
from tests.public.kernel import PluginFailed
from tests.public.plugins import Boundary, ContainedConnector, check_connector

pytestmark = pytest.mark.usefixtures("autojump_clock")

Answer = Callable[[httpx.Request], httpx.Response]
JSON = (
    *("null", "[]", "5", '"x"', "{}", "true", '{"ok": true}', '{"ok": true, "result": null}'),
    *(
        '{"ok": false}',
        '{"ok": true, "result": [5, null, {}]}',
        '{"ok": true, "result": {"id": [], "url": {}}}',
    ),
    *("[[], 5, null]", '{"error": "x"}', '{"error": {"code": "x", "message": [], "error_data": 5}}'),
    *('{"message": [["x"], 5]}', '{"messages": [5]}', '{"messages": []}', '{"messages": [{"id": 5}]}'),
    *('{"key": {"id": 5}}', '{"webhook": 5}', '{"status": 5, "config": [], "me": 5}', '{"name": {}}'),
    *('{"instance": {"state": 5}}', '{"response": {"message": {"a": [null]}}}', '{"url": 5, "headers": []}'),
    *('{"id": {"_serialized": 5}}', '{"status": "WORKING"}', '{"display_phone_number": "x"}', "1e999"),
    *('"\\ud83d"', "[" * 5000, "{", "<html>"),
)
STATUSES = (200, 201, 204, 301, 400, 401, 403, 404, 409, 410, 418, 422, 429, 500, 502, 503)
BODIES = ("", "null", '{"error": {"message": 5}}', '{"ok": false, "error_code": 5, "description": []}')
WAITS = ("-1", "1e9", "soon", "9" * 5000, "", "0.0001")
ERRORS = (
    httpx.ConnectError,
    httpx.ReadTimeout,
    httpx.ReadError,
    httpx.RemoteProtocolError,
    httpx.PoolTimeout,
)
STEP = int(os.environ.get("HOOKGW_STEP", "5"))
"""All of it would take seconds: each call gets every fifth answer, and the next call the ones after those."""


def respond(status: int, body: str, wait: str | None, _: httpx.Request) -> httpx.Response:
    headers = {} if wait is None else {"retry-after": wait}
    return httpx.Response(status, headers=headers, content=body.encode())


def fail(error: type[httpx.TransportError], request: httpx.Request) -> httpx.Response:
    raise error("gone", request=request)


def answers(start: int) -> Iterator[Answer]:
    """Return some of the answers of a lying server."""
    limited = '{{"ok": false, "error_code": 429, "parameters": {{"retry_after": {}}}}}'
    found: list[Answer] = [partial(respond, 200, body, None) for body in JSON]
    found += [partial(respond, status, body, None) for status in STATUSES for body in BODIES]
    found += [partial(respond, 429, limited.format(wait or "null"), wait) for wait in WAITS]
    found += [partial(fail, error) for error in ERRORS]
    return islice(found, start % STEP, None, STEP)


def calls(line: Line, connector: ContainedConnector) -> Iterator[tuple[str, Callable[[], Any]]]:
    session, number = line.session, line.chat
    key = MessageKey(remote_jid=number, id="70001", from_me=True)
    other = MessageKey(remote_jid=number, id="70002", from_me=False)
    image, sound = MediaKind.IMAGE, "https://x.example/a.ogg"
    for message in (
        TextMessage(number=number, text="hi"),
        TextMessage(number=number, text="hi", reply_to=other),
        MediaMessage(number=number, content=b"abc", file_name="a.png", kind=image, mimetype="image/png"),
        MediaMessage(number=number, url=sound, kind=MediaKind.AUDIO, mimetype="audio/ogg"),
        LocationMessage(number=number, latitude=1, longitude=2, name="n", address="a"),
        ContactMessage(number=number, contacts=(Contact(full_name="Ben", phone_number="5511977776666"),)),
        ReactionMessage(number=number, key=other, reaction="x"),
        TemplateMessage(number=number, name="hello", language="pt_BR", components=()),
    ):
        if type(message) in connector.message_types:
            yield f"send {type(message).__name__}", partial(connector.send, session, message, key="k")
    methods: dict[str, Callable[[], Any]] = {
        "edit": partial(connector.edit, session, key, "new", number=number),
        "delete": partial(connector.delete, session, key),
        "mark_read": partial(connector.mark_read, session, [other]),
        "set_presence": partial(connector.set_presence, session, "composing", number=number, delay=0.0),
        "find_numbers": partial(connector.find_numbers, session, [number]),
        "open_media": lambda: connector.open_media(session, "abc", FakeMediaSink()),
        "settings": partial(connector.settings, session, InstanceSettings(always_online=True)),
        "restart": partial(connector.restart, session),
    }
    yield from ((name, call) for name, call in methods.items() if name in connector.methods)


@pytest.mark.parametrize("name", LINES)
async def test_calls_end_with_a_refusal(name: str) -> None:
    failures: dict[str, str] = {}
    async with LINES[name]() as line:
        connector = ContainedConnector(check_connector(line.connector), name, Boundary())
        for start, (call, make) in enumerate(calls(line, connector)):
            for line.wire.answer in answers(start):
                try:
                    with trio.fail_after(60), capture_logs():
                        await make()
                except PluginFailed as failure:
                    failures[failure.reason[:200]] = call
                except HookgwError as error:
                    assert str(error)  # noqa: PT017 (other calls raise nothing)
        line.wire.answer = None
    assert failures == {}


@pytest.mark.parametrize("name", LINES)
async def test_a_request_that_gets_no_place_is_to_be_repeated(name: str, autojump_clock: MockClock) -> None:
    # Not 502: the network is not at fault, and nothing was sent.
    async with LINES[name]() as line:
        connector = ContainedConnector(check_connector(line.connector), name, Boundary())
        line.wire.answer = partial(fail, httpx.PoolTimeout)
        with pytest.raises(NetworkRefused, match=r"^gone") as refusal:
            await connector.send(line.session, TextMessage(number=line.chat, text="hi"), key="k")
        line.wire.answer = None
    assert (refusal.value.status, refusal.value.retry_after) == (503, 5)


@pytest.mark.parametrize("name", LINES)
async def test_a_run_goes_on_without_a_busy_loop(name: str) -> None:
    async with LINES[name]() as line:
        for line.wire.answer in answers(0):
            before = line.wire.asked
            with capture_logs():
                await trio.sleep(120)
            assert line.wire.asked - before < 400


@pytest.mark.parametrize("name", LINES)
async def test_a_state_of_another_version_is_no_failure(name: str) -> None:
    async with LINES[name]() as line:
        kept = line.session.stored
        fields = list(kept) if isinstance(kept, dict) else []
        lies: list[Any] = [5, [], "x", {}, {"unknown": 1}]
        lies += [{**kept, field: lie} for field in fields for lie in (None, 5, "x", {"a": 1})]
        for lie in lies:
            line.session.stored = lie
            with trio.move_on_after(2), capture_logs():
                await type(line.connector)().run(line.session)
