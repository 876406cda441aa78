"""Events of a network are stored, with files inside, and without what breaks a rule."""

import base64
import copy
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

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

    refusal: Callable[[str], Exception] = Invalid

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
async def test_an_event_that_breaks_a_rule_keeps_back_nothing(refusal: Callable[[str], Exception]) -> None:
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


async def test_what_a_payload_has_where_it_breaks_its_schema_is_not_in_the_log() -> None:
    session = Strict()
    rule = "/properties/key/type"
    session.refusal = lambda _: Invalid.of(
        "event.schema_violated", "{where}: {reason}", where="data", reason="5511", rule=rule
    )
    with structlog.testing.capture_logs() as logs:
        await emit_valid(session, [event("wrong")], logger=structlog.get_logger())
    assert [log["reason"] for log in logs] == [f"The payload violates {rule} of its schema."]


async def test_events_that_cannot_be_stored_now_are_not_left_out() -> None:
    session = Strict()
    session.refusal = Unavailable
    with pytest.raises(Unavailable):
        await emit_valid(session, [event("wrong")], state={}, logger=structlog.get_logger())
    assert session.stored is None


def message() -> NewEvent:
    return NewEvent(kind="MESSAGES_UPSERT", data={"key": {"remoteJid": "room"}, "message": {}})


async def attach(
    new: NewEvent, read: Callable[[int], Awaitable[bytes]], *, size: int = 0, seconds: float = 5
) -> tuple[int | None, list[Any]]:
    session, logger = FakeSession(), structlog.get_logger()
    session.base64_limit = 1000
    with structlog.testing.capture_logs() as logs:
        found = await attach_file(session, new, read, size=size, seconds=seconds, logger=logger)
    return found, [(log["chat"], log["reason"]) for log in logs]


async def test_a_file_is_put_into_its_event(autojump_clock: MockClock) -> None:
    limits = []

    async def read(limit: int) -> bytes:
        await trio.lowlevel.checkpoint()
        limits.append(limit)
        return b"file"

    new = message()
    assert await attach(new, read, size=1000) == (4, [])
    assert base64.b64decode(new.data["message"]["base64"]) == b"file"
    assert "mediaUnavailable" not in new.data
    assert limits == [1000]


async def test_without_its_file_an_event_is_complete_and_says_why(autojump_clock: MockClock) -> None:
    async def fail(limit: int) -> bytes:
        await trio.lowlevel.checkpoint()
        raise NotFound(f"It is gone, of {limit}.")

    async def grow(limit: int) -> bytes:
        await trio.lowlevel.checkpoint()
        raise TooLarge(f"More than {limit}.")

    async def hang(limit: int) -> bytes:
        await trio.sleep_forever()
        return bytes(limit)

    async def find_nothing(limit: int) -> bytes:
        await trio.lowlevel.checkpoint()
        return bytes(limit)[:0]

    async def never(limit: int) -> bytes:
        raise AssertionError(limit)

    too_late = "The network took too long to hand out the file."
    too_large = "The file has 1,001 bytes, and an event has room for one of 1,000."
    limit = "events.max_data"
    cases: list[tuple[Any, dict[str, float], int | None, str, str | None]] = [
        (fail, {}, 0, "It is gone, of 1000.", None),
        (grow, {}, 0, "More than 1000.", limit),
        (hang, {}, None, too_late, None),
        (find_nothing, {}, 0, "The file is empty.", None),
        (never, {"seconds": 0}, None, too_late, None),
        (never, {"size": 1001}, 0, too_large, limit),
    ]
    for read, more, found, reason, setting in cases:
        new = message()
        assert await attach(new, read, **cast("Any", more)) == (found, [("room", reason)])
        assert new.data == {**message().data, "mediaUnavailable": {"reason": reason, "setting": setting}}
        new = message()
        new.data["message"] = {"imageMessage": {"url": "https://hooks.example/media/shop/token"}}
        linked = copy.deepcopy(new)
        await attach(new, read, **cast("Any", more))
        assert new == linked


def test_what_hookgw_has_no_kind_for_is_passed_on_byte_for_byte() -> None:
    value = b'{"b": 1.0, "a":"\\u00e9", "b":2e1}'
    new = network_event("chat", 'a "word"', value, "id", sender="me")
    assert new.data_json == b'{"network":"chat","name":"a \\"word\\"","value":' + value + b"}"
    assert (new.kind, new.sender) == ("NETWORK_EVENT", "me")
    assert new.event_id == network_event("chat", 'a "word"', b"null", "id").event_id
    assert new.event_id != network_event("chat", "other", value, "id").event_id
