"""Every field of what networks post, replaced by everything else: it is no failure, and stops nothing.

The senders are proved. What they pass on was written by people, and other versions have other fields.
"""

import copy
import json
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import cycle, islice
from typing import Any

import msgspec
import pytest
import trio

from hookgw import (
    Event,
    HookgwError,
    Invalid,
    NewEvent,
    Unavailable,
)
from hookgw.testing import FakeSession
from tests.first_party.lines import CATALOG, LINES, Line
from tests.public.records import BUILT_IN_KINDS, Catalog, SchemaBook

pytestmark = pytest.mark.usefixtures("autojump_clock")

SCHEMAS = SchemaBook(CATALOG)
# As JSON: some of it no JSON library writes.
LIES = (
    *("null", '""', '"x"', '"\\ud83d"', '"\\u0000"', '"https://x.example/a"', '"1e999"', '"1749416383"'),
    *("0", "-1", "1.5", "1e300", "-1e999", "18446744073709551616", "1" + "0" * 5000, "true", "NaN"),
    *("[]", "{}", "[[]]", '[null, {"a": 1}]', '{"a": {"b": "c"}}', '{"": null}', '{"id": [1], "type": {}}'),
    *("[" * 300 + "]" * 300, '"' + "x" * 70_000 + '"'),
)
MISSING = ""
LIES_AT_A_PLACE = int(os.environ.get("HOOKGW_LIES", "3"))


def places(body: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    children: Any = (
        body.items() if isinstance(body, dict) else enumerate(body) if isinstance(body, list) else ()
    )
    for name, child in children:
        yield from places(child, (*path, name))


def lied(body: Any, path: tuple[Any, ...], lie: str) -> bytes:
    """Return a body with a lie at a place, or without what is there."""
    changed = copy.deepcopy(body)
    inner = changed
    for name in path[:-1]:
        inner = inner[name]
    if lie == MISSING:
        del inner[path[-1]]
        return json.dumps(changed).encode()
    inner[path[-1]] = "<the lie>"
    return json.dumps(changed).replace('"<the lie>"', lie).encode()


def count_of(line: Line) -> int:
    """Return the number of events that the network has reported."""
    return sum(event.kind != "CONNECTION_UPDATE" for event in line.session.events)


@pytest.mark.parametrize("name", LINES)
async def test_no_lie_is_a_failure(name: str) -> None:
    async with LINES[name]() as line:
        refused: dict[int, bytes] = {}
        # Each place gets some lies, and the next place the next ones: all of them would take 10 s.
        lies = cycle((MISSING, *LIES))
        for body in line.bodies:
            for path in places(body):
                for lie in islice(lies, LIES_AT_A_PLACE):
                    raw = lied(body, path, lie)
                    answer = await line.post(raw)
                    if answer != 200:
                        refused[answer] = raw[:300]
        assert refused == {}
        # Evolution's data is passed on as it is; the gateway holds it to the schema, if it shall.
        for event in line.session.events if name != "evolution" else ():
            encoded = msgspec.json.encode(event.data)
            stored = Event(id="e", kind=event.kind, instance="shop", data_json=encoded, time=0.0)
            assert SCHEMAS.problem(stored) is None, event
        before = count_of(line)
        for number in range(3):
            assert await line.post(json.dumps(line.news(number)).encode()) == 200
        assert count_of(line) == before + 3


@pytest.mark.parametrize("name", LINES)
async def test_a_kind_that_is_switched_off_is_passed_on_as_it_came(name: str) -> None:
    """Without the plugin that adds it, hookgw has no kind: NETWORK_EVENT, and not a line in the log."""
    counts = []
    for catalog in (CATALOG, Catalog(BUILT_IN_KINDS)):
        async with LINES[name]() as line:
            line.session.catalog = catalog
            count = []
            for body in line.bodies:
                before = count_of(line)
                assert await line.post(json.dumps(body).encode()) == 200
                count.append(count_of(line) > before)
            counts.append(count)
            assert all(catalog.get(event.kind) is not None for event in line.session.events)
    assert counts[0] == counts[1]


@pytest.mark.parametrize("name", LINES)
async def test_odd_bytes_in_a_report_keep_nothing_back(name: str) -> None:
    async with LINES[name]() as line:
        before = count_of(line)
        for number, odd in enumerate((b'"\xff"', rb'"\ud83d"', b"1e999", b"NaN", b"1" + b"0" * 5000)):
            raw = json.dumps(line.news(number)).encode()
            assert await line.post(b'{"odd": ' + odd + b", " + raw[1:]) == 200
            assert count_of(line) == before + 1 + number


@pytest.mark.parametrize("name", LINES)
async def test_too_many_values_are_acknowledged_and_keep_nothing_back(name: str) -> None:
    async with LINES[name]() as line:
        raw = json.dumps(line.news(0)).encode()
        large = b"[" + b"[]," * 20_000 + b"1]"
        # In the report, and in the first object inside of it.
        inside = raw.index(b"{", 1)
        for body in (
            b'{"odd": %b, %b' % (large, raw[1:]),
            raw[: inside + 1] + b'"odd": %b,' % large + raw[inside + 1 :],
        ):
            assert await line.post(body) == 200
        before = count_of(line)
        assert await line.post(json.dumps(line.news(1)).encode()) == 200
        assert count_of(line) == before + 1


@pytest.mark.parametrize("name", LINES)
async def test_what_is_no_report_at_all_gets_an_answer(name: str) -> None:
    async with LINES[name]() as line:
        before = count_of(line)
        for raw in (
            b"",
            b"null",
            b"[]",
            b"5",
            b'"x"',
            b"{}",
            b"{",
            b"[" * 100_000,
            b"\xff\xfe{\x00}\x00",
            b"a=b",
        ):
            assert await line.post(raw) in (200, 400, 408), raw[:20]
        assert count_of(line) == before


def refusing(session: FakeSession, error: HookgwError, marks: tuple[str, ...]) -> Callable[[], None]:
    """Let a session refuse events whose data has one of these texts; return a function that ends it."""
    emit_all = session.emit_all

    async def refuse(events: Sequence[NewEvent], **more: Any) -> None:
        for event in events:
            encoded = event.data_json or msgspec.json.encode(event.data)
            if any(mark.encode() in encoded for mark in marks):
                await trio.lowlevel.checkpoint()
                raise error
        await emit_all(events, **more)

    session.emit_all = refuse  # type: ignore[method-assign]
    return partial(setattr, session, "emit_all", emit_all)


@pytest.mark.parametrize("name", LINES)
async def test_what_hookgw_refuses_for_good_is_acknowledged(name: str) -> None:
    """It is too large, or violates the schema of its kind: a network that repeats it would do so in vain."""
    async with LINES[name]() as line:
        before = count_of(line)
        refusing(line.session, Invalid("data has 2,000,000 bytes."), ("NEWS1", '"901"'))
        for number in range(3):
            assert await line.post(json.dumps(line.news(number)).encode()) == 200
        assert count_of(line) == before + 2


@pytest.mark.parametrize("name", LINES)
async def test_what_cannot_be_stored_now_is_repeated(name: str) -> None:
    async with LINES[name]() as line:
        before = count_of(line)
        end = refusing(line.session, Unavailable("The disk is full."), ("NEWS", '"90'))
        raw = json.dumps(line.news(1)).encode()
        for _ in range(2):
            assert await line.post(raw) == 503
        end()
        for _ in range(2):
            assert await line.post(raw) == 200
        assert count_of(line) == before + 1


@pytest.mark.parametrize("is_stored", [False, True])
@pytest.mark.parametrize("name", LINES)
async def test_a_request_that_is_broken_off_holds_nothing_up(name: str, is_stored: bool) -> None:
    """The time for a request is over, or the process stops. The network repeats it."""
    async with LINES[name]() as line:
        before, emit_all, scope = count_of(line), line.session.emit_all, trio.CancelScope()

        async def break_off(events: Sequence[NewEvent], **more: Any) -> None:
            if is_stored:
                await emit_all(events, **more)
            scope.cancel()
            await trio.sleep_forever()

        line.session.emit_all = break_off  # type: ignore[method-assign]
        raw = json.dumps(line.news(0)).encode()
        with scope:
            await line.post(raw)
        assert scope.cancelled_caught
        line.session.emit_all = emit_all  # type: ignore[method-assign]
        for again in (raw, json.dumps(line.news(1)).encode(), raw):
            with trio.fail_after(5):
                assert await line.post(again) == 200
        assert count_of(line) == before + 2
