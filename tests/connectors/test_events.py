"""Events of a network are stored, with files inside, and without what breaks a rule."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Sequence
from typing import Any

import msgspec
import pytest
import structlog
import trio
from trio.testing import MockClock

from hookgw import Invalid, NewEvent, NotFound, TooLarge, Unavailable
from hookgw.connectors import attach_file, emit_valid, network_event
from hookgw.testing import FakeSession


class Strict(FakeSession):
    """Refuses what the gateway refuses: a commit with an event that breaks a rule."""

    refusal: type[Exception] = Invalid

    async def emit_all(self, events: Sequence[NewEvent], *, state: Any = msgspec.UNSET) -> None:
        if any(event.data == "wrong" for event in events):
            raise self.refusal("It breaks a rule.")
        await super().emit_all(events, state=state)


def event(data: Any) -> NewEvent:
    return NewEvent(kind="CALL", data=data)


async def test_all_events_are_stored_in_one_commit_with_the_state() -> None:
    session = Strict()
    await emit_valid(session, [event("a"), event("b")], state={"next": 1}, logger=structlog.get_logger())
    assert [one.data for one in session.events] == ["a", "b"]
    assert session.stored == {"next": 1}


@pytest.mark.parametrize("refusal", [Invalid, TooLarge])
async def test_an_event_that_breaks_a_rule_keeps_back_nothing(refusal: type[Exception]) -> None:
    session = Strict()
    session.refusal = refusal
    with structlog.testing.capture_logs() as logs:
        batch = [event("a"), event("wrong"), event("b")]
        await emit_valid(session, batch, state={"next": 1}, logger=structlog.get_logger())
    assert [one.data for one in session.events] == ["a", "b"]
    assert session.stored == {"next": 1}
    assert [(log["event"], log["kind"], log["reason"]) for log in logs] == [
        ("event refused", "CALL", "It breaks a rule.")
    ]


async def test_events_that_cannot_be_stored_now_are_not_left_out() -> None:
    session = Strict()
    session.refusal = Unavailable
    with pytest.raises(Unavailable):
        await emit_valid(session, [event("wrong")], state={}, logger=structlog.get_logger())
    assert session.stored is None


def message() -> NewEvent:
    return NewEvent(kind="MESSAGES_UPSERT", data={"key": {"remoteJid": "room"}, "message": {}})


async def attach(new: NewEvent, reading: Awaitable[bytes]) -> tuple[int | None, list[Any]]:
    with structlog.testing.capture_logs() as logs:
        found = await attach_file(FakeSession(), new, reading, seconds=5, logger=structlog.get_logger())
    return found, [(log["chat"], log["reason"]) for log in logs]


async def test_a_file_is_put_into_its_event(autojump_clock: MockClock) -> None:
    async def read() -> bytes:
        await trio.lowlevel.checkpoint()
        return b"file"

    new = message()
    assert await attach(new, read()) == (4, [])
    assert base64.b64decode(new.data["message"]["base64"]) == b"file"


async def test_without_its_file_an_event_is_complete(autojump_clock: MockClock) -> None:
    async def fail() -> bytes:
        await trio.lowlevel.checkpoint()
        raise NotFound("It is gone.")

    async def hang() -> bytes:
        await trio.sleep_forever()
        return b""

    new = message()
    assert await attach(new, fail()) == (0, [("room", "It is gone.")])
    assert await attach(new, hang()) == (None, [("room", "it took too long")])
    assert new == message()


def test_what_hookgw_has_no_kind_for_is_passed_on_byte_for_byte() -> None:
    value = b'{"b": 1.0, "a":"\\u00e9", "b":2e1}'
    new = network_event("chat", 'a "word"', value, "id", sender="me")
    assert new.data_json == b'{"network":"chat","name":"a \\"word\\"","value":' + value + b"}"
    assert (new.kind, new.sender) == ("NETWORK_EVENT", "me")
    assert new.event_id == network_event("chat", 'a "word"', b"null", "id").event_id
    assert new.event_id != network_event("chat", "other", value, "id").event_id
