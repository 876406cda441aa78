"""What a connector keeps: saved alone or with events, found again, and gone with its instance."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock

from hookgw import Conflict, Invalid, NewEvent, NotFound, Unavailable
from hookgw.testing import FakeConnector, GatewayKit, Receiver, answer, open_kit
from tests.public.concurrency import virtual_clock
from tests.public.core import LONG_WORK, SLICE, LongWork
from tests.public.instances import ConnectorSession
from tests.public.kernel import TooManyRequests
from tests.public.plugins import Boundary, ContainedConnector, check_connector
from tests.public.records import MARK, MAX_STATE, Instance
from tests.public.store import ConnectorState
from tests.support.media import EVENT_RULES, inbound_media

KIND = "CALL"


@pytest.fixture
def hookgw_plugins() -> dict[str, object]:
    return {"fake": FakeConnector()}


def session_of(kit: GatewayKit, instance: Instance | None = None) -> ConnectorSession:
    """Return a session of an instance whose connector is never called."""
    gateway = kit.gateway
    if instance is None:
        instance = gateway.instances.get("shop")
    return ConnectorSession(
        instance,
        CONNECTOR,
        gateway.events.accept,
        gateway.store.load_state,
        gateway.clock,
        UNUSED,
        UNUSED,
        inbound_media(),
        EVENT_RULES,
    )


UNUSED: Any = None
CONNECTOR = ContainedConnector(check_connector(FakeConnector()), "mine", Boundary())


def numbered(*numbers: int) -> list[NewEvent]:
    return [NewEvent(kind=KIND, data={"n": number}, event_id=f"e{number}") for number in numbers]


async def test_a_state_is_found_again(hookgw_gateway: GatewayKit) -> None:
    await hookgw_gateway.gateway.instances.create("shop")
    session = session_of(hookgw_gateway)
    assert await session.load_state() is None
    states: list[Any] = [{"since": "s72594", "sent": [1, 2.5, True, None, "ü"]}, [], "text", 2**70, None]
    for state in states:
        await session.save_state(state)
        assert await session.load_state() == state
        assert await session_of(hookgw_gateway).load_state() == state


async def test_events_and_state_in_one_call(hookgw_gateway: GatewayKit, hookgw_receiver: Receiver) -> None:
    await hookgw_gateway.register(hookgw_receiver.url)
    session = session_of(hookgw_gateway)
    session.sender = "me"
    await session.emit_all([*numbered(1, 2), NewEvent(kind=KIND, data={}, time=5.0)], state={"next": 3})
    assert await session.load_state() == {"next": 3}
    requests = await hookgw_receiver.wait_for(3)
    assert hookgw_receiver.ids[:2] == ["e1", "e2"]
    bodies = [request.json for request in requests]
    assert [body["sender"] for body in bodies] == ["me"] * 3
    assert bodies[2]["date_time"].startswith("1970-01-01T00:00:05")


async def test_without_a_state_it_stays(hookgw_gateway: GatewayKit) -> None:
    await hookgw_gateway.gateway.instances.create("shop")
    session = session_of(hookgw_gateway)
    await session.save_state("kept")
    await session.emit_all(numbered(1))
    await session.emit_all([])
    await session.emit(KIND, {})
    assert await session.load_state() == "kept"


async def test_duplicates_do_not_hold_the_state_back(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    await hookgw_gateway.register(hookgw_receiver.url)
    session = session_of(hookgw_gateway)
    await session.emit_all(numbered(1, 2), state="a")
    await session.emit_all(numbered(1, 2), state="b")
    assert await session.load_state() == "b"
    await session.emit_all(numbered(2, 3), state="c")
    await hookgw_receiver.wait_for(3)
    assert hookgw_receiver.ids == ["e1", "e2", "e3"]


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (float("nan"), "The state is not JSON"),
        ({"when": object()}, "The state is not JSON"),
        (b"bytes", "The state is not JSON"),
        ({1: "a"}, "a key that is not a string"),
        ("\ud800", "half of a surrogate pair"),
        ("x" * (MAX_STATE - 1), "The state has 1,048,577 bytes as JSON; at most 1,048,576 are kept."),
    ],
)
async def test_a_state_that_cannot_be_kept(hookgw_gateway: GatewayKit, state: Any, said: str) -> None:
    await hookgw_gateway.gateway.instances.create("shop")
    session = session_of(hookgw_gateway)
    await session.save_state("x" * (MAX_STATE - 2))
    with pytest.raises(Invalid, match=said):
        await session.save_state(state)
    with pytest.raises(Invalid, match=said):
        await session.emit_all(numbered(1), state=state)
    assert await session.load_state() == "x" * (MAX_STATE - 2)
    assert (await hookgw_gateway.gateway.events.accept([])).fresh == []


async def test_an_event_that_is_refused_leaves_the_state(hookgw_gateway: GatewayKit) -> None:
    await hookgw_gateway.gateway.instances.create("shop")
    session = session_of(hookgw_gateway)
    await session.save_state("before")
    with pytest.raises(Invalid, match="is not an event kind"):
        await session.emit_all([*numbered(1), NewEvent(kind="NO_SUCH_KIND", data={})], state="after")
    assert await session.load_state() == "before"
    await session.emit_all(numbered(1), state="after")  # so it was not stored before
    assert await session.load_state() == "after"


@pytest.mark.parametrize("data", [object(), {"a": "\ud800"}])
async def test_an_event_that_is_not_json_is_refused(hookgw_gateway: GatewayKit, data: Any) -> None:
    await hookgw_gateway.gateway.instances.create("shop")
    session = session_of(hookgw_gateway)
    with pytest.raises(Invalid, match="The data of an event is not JSON"):
        await session.emit_all([*numbered(1), NewEvent(kind=KIND, data=data)], state="after")
    assert await session.load_state() is None
    with pytest.raises(Invalid, match="The data of an event is not JSON"):
        await session.emit(KIND, data)


BYTES = b'{"z": 18446744073709551616123, "a":0.10, "message": {"base64": "aGk="}, "e": 1E2}'


async def test_data_json_stays_byte_for_byte(hookgw_gateway: GatewayKit, hookgw_receiver: Receiver) -> None:
    await hookgw_gateway.register(hookgw_receiver.url)
    await session_of(hookgw_gateway).emit_all([NewEvent(kind=KIND, data_json=BYTES, event_id="e1")])
    # Not the file inside it either, which registrations get only on demand in other events.
    [request] = await hookgw_receiver.wait_for(1)
    assert BYTES in request.body


ANA, BOB = "5516988887777@s.whatsapp.net", "5516988886666@s.whatsapp.net"


@pytest.mark.parametrize("event_id", ["list", None])
async def test_a_list_about_several_chats_becomes_an_event_for_each(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, hookgw_clock: MockClock, event_id: str | None
) -> None:
    """With the bytes of its entries, and ids that follow from the list's."""
    await hookgw_gateway.register(hookgw_receiver.url)
    text = f' [{{"remoteJid": "{ANA}", "n": 1.50}}, {{"remoteJid":"{BOB}"}},{{"id": "5516988887777:3@c.us"}}]'
    whole = f'[{{"remoteJid": "{ANA}"}}, {{"id": "5516988887777:3@c.us"}}]'.encode()
    session = session_of(hookgw_gateway)
    for _ in range(2):
        await session.emit_all(
            [
                NewEvent(kind=KIND, data_json=text.encode(), event_id=event_id),
                NewEvent(kind=KIND, data_json=whole, event_id="one"),
            ]
        )
    await hookgw_gateway.settled()
    bodies = [request.body for request in hookgw_receiver.requests]
    parts = [
        f'[{{"remoteJid": "{ANA}", "n": 1.50}},{{"id": "5516988887777:3@c.us"}}]'.encode(),
        f'[{{"remoteJid":"{BOB}"}}]'.encode(),
        whole,
    ]
    expected = parts if event_id else [*parts, *parts[:2]]
    assert len(bodies) == len(expected)
    assert all(part in body for part, body in zip(expected, bodies, strict=True))
    assert len(set(hookgw_receiver.ids)) == len(bodies)


async def test_few_of_very_many_lists_in_one_call_are_split(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    """A call makes no more events than it may."""
    await hookgw_gateway.register(hookgw_receiver.url)
    people = [f"55169888{number:05d}@c.us" for number in range(100)]
    await session_of(hookgw_gateway).emit_all([NewEvent(kind=KIND, data=people) for _ in range(15)])
    await hookgw_gateway.settled()
    assert len(hookgw_receiver.requests) == 10 * 100 + 5


async def test_data_json_cannot_pass_for_a_payload_with_a_file(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    await hookgw_gateway.register(hookgw_receiver.url)
    data = MARK + rb'message":{"base64" : "a\"b"}}'
    await session_of(hookgw_gateway).emit_all([NewEvent(kind=KIND, data_json=data, event_id="e1")])
    [request] = await hookgw_receiver.wait_for(1)
    assert json.loads(request.body)["data"] == {"message": {"base64": 'a"b'}}


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b'{"a": 1, "a": 2}',
        b'"\\ud800"',
        b'"\xff"',
        b"[" * 300 + b"]" * 300,
        b"[" + b"1," * 100_000 + b"1]",
        b"[" * 2**21,  # too long, which is seen before it is decoded
    ],
)
async def test_data_json_that_readers_would_understand_differently_is_refused(
    hookgw_gateway: GatewayKit, text: bytes
) -> None:
    await hookgw_gateway.gateway.instances.create("shop")
    session = session_of(hookgw_gateway)
    with pytest.raises(Invalid, match="The data of an event"):
        await session.emit_all([NewEvent(kind=KIND, data_json=text)])


async def test_a_session_knows_the_kinds(hookgw_gateway: GatewayKit) -> None:
    await hookgw_gateway.gateway.instances.create("shop")
    assert session_of(hookgw_gateway).catalog.resolve("messages.upsert", "kind").name == "MESSAGES_UPSERT"


async def test_a_later_instance_of_the_same_name_begins_with_nothing(hookgw_gateway: GatewayKit) -> None:
    instances = hookgw_gateway.gateway.instances
    await instances.create("shop")
    former = session_of(hookgw_gateway)
    await former.save_state("secret")
    await instances.delete("shop")
    with pytest.raises(NotFound):
        await former.save_state("late")
    await instances.create("shop")
    assert await session_of(hookgw_gateway).load_state() is None
    with pytest.raises(NotFound, match="was deleted"):
        await former.save_state("late")
    assert await former.load_state() is None


async def test_a_session_that_is_over_stores_nothing(hookgw_gateway: GatewayKit) -> None:
    await hookgw_gateway.gateway.instances.create("shop")
    session = session_of(hookgw_gateway)
    await session.save_state("kept")
    await session.close()
    for store in (session.save_state("late"), session.emit_all(numbered(1)), session.emit(KIND, {})):
        with pytest.raises(Conflict, match="is over"):
            await store
    assert await session.load_state() == "kept"


class Intake:
    """Refuses as often as it is told, then takes events and states."""

    def __init__(self, *refusals: Exception) -> None:
        self.refusals = list(refusals)
        self.calls: list[tuple[list[str], bytes | None]] = []

    async def __call__(self, events: Any, *, instance_id: str, state: ConnectorState | None = None) -> None:
        assert instance_id == "0b0c"
        await trio.lowlevel.checkpoint()
        if self.refusals:
            raise self.refusals.pop(0)
        self.calls.append(([event.id for event in events], None if state is None else state.state_json))


def session_over(intake: Intake) -> ConnectorSession:
    unused: Any = None
    return ConnectorSession(
        Instance(name="shop", id="0b0c"),
        CONNECTOR,
        intake,
        unused,
        virtual_clock(),
        unused,
        unused,
        inbound_media(),
        EVENT_RULES,
    )


async def test_it_waits_while_nothing_can_be_stored(autojump_clock: MockClock) -> None:
    intake = Intake(Unavailable("full", retry_after=5), TooManyRequests("busy", retry_after=7))
    with capture_logs() as logs:
        await session_over(intake).emit_all(numbered(1), state={"token": "planted"})
    assert trio.current_time() == 12
    assert intake.calls == [(["e1"], b'{"token":"planted"}')]
    assert [line.get("reason") for line in logs] == ["full", "busy", None]
    assert "planted" not in repr(logs)


async def test_a_state_that_waits_does_not_overwrite_a_later_one(autojump_clock: MockClock) -> None:
    intake = Intake(Unavailable("full", retry_after=5))
    session = session_over(intake)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: session.emit_all(numbered(1), state=1))
        await trio.sleep(1)
        nursery.start_soon(lambda: session.emit_all(numbered(2), state=2))
        await trio.sleep(1)
        await session.emit_all(numbered(3))  # events alone need not wait for their turn
    assert intake.calls == [(["e3"], None), (["e1"], b"1"), (["e2"], b"2")]


async def test_nor_does_one_with_events_that_take_long_to_encode(autojump_clock: MockClock) -> None:
    LONG_WORK.set(LongWork(itertools.count(0, 0.6 * SLICE).__next__))  # one step a slice
    intake = Intake()
    session = session_over(intake)
    events = [NewEvent(kind=KIND, data={"text": "x" * 5000}, event_id=f"e{number}") for number in range(11)]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: session.emit_all(events, state=1))
        for _ in range(5):  # it has begun, and takes ten of them for each event
            await trio.lowlevel.checkpoint()
        await session.emit_all([], state=2)
    assert [state for _, state in intake.calls] == [b"1", b"2"]


async def test_what_waits_when_the_session_ends_is_not_stored(autojump_clock: MockClock) -> None:
    intake = Intake(Unavailable("full", retry_after=5))
    session = session_over(intake)
    async with trio.open_nursery() as nursery:

        async def save() -> None:
            with pytest.raises(Conflict):
                await session.save_state(1)

        nursery.start_soon(save)
        await trio.sleep(1)
        await session.close()
    assert [call for call in intake.calls if call[1]] == []


async def test_a_state_is_saved_while_the_backlog_is_full(
    tmp_path: Path, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    hookgw_receiver.will(answer(503, headers={"retry-after": "1000"}))
    async with open_kit(tmp_path, settings={"limits": {"deliveries": 1}}) as kit:
        await kit.register(hookgw_receiver.url)
        session = session_of(kit)
        await session.emit_all(numbered(1))
        await session.save_state("kept")
        assert await session.load_state() == "kept"


async def test_no_repr_shows_a_state() -> None:
    state = ConnectorState(instance="shop", instance_id="1", state_json=b'"planted"')
    assert "planted" not in repr(state)
