"""The way in: checked, addressed, on disk, told."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock

import hookgw
from hookgw import ConnectionState, Event, Invalid, NotFound, TooLarge
from hookgw.events import accept
from hookgw.testing import GatewayKit, Receiver, open_kit
from tests.public.config import EventsSettings
from tests.public.core import run_in_slices
from tests.public.kernel import Size
from tests.public.records import new_event_id

pytestmark = pytest.mark.usefixtures("hookgw_clock")

DATA: dict[str, Any] = {
    "key": {"remoteJid": "55@s", "fromMe": False, "id": "A"},
    "message": {},
    "messageType": "x",
}
DATA |= {"messageTimestamp": 1}


def event(data: Any = DATA, **more: Any) -> Event:
    fields = {"id": new_event_id(1.0), "kind": "MESSAGES_UPSERT", "instance": "shop", "time": 1.0}
    return Event(**{"data_json": Event.encode(data), **fields, **more})


class Observer:
    """A plugin that writes down which events it heard of, and does something for each."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.does: Callable[[], Any] = trio.lowlevel.checkpoint

    @hookgw.hookimpl
    async def hookgw_event_accepted(self, event: Event) -> None:
        self.heard.append(event.id)
        await self.does()


@pytest.fixture
def observer() -> Observer:
    return Observer()


@pytest.fixture
def hookgw_plugins(observer: Observer) -> dict[str, object]:
    return {"observer": observer}


def counted(kit: GatewayKit, start: str) -> list[str]:
    text = kit.gateway.metrics.render()[0].decode()
    return [line.split()[-1] for line in text.splitlines() if line.startswith(start)]


async def test_an_accepted_event_goes_to_everybody_who_wants_it(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, observer: Observer
) -> None:
    url = hookgw_receiver.url
    await hookgw_gateway.register(url + "all")
    await hookgw_gateway.register(url + "calls", label="calls", events=("CALL",))
    await hookgw_gateway.register(url + "off", label="off", enabled=False)
    await hookgw_gateway.register(url + "other", instance="other")
    receipt = await hookgw_gateway.gateway.events.accept([event(id="e1"), event({}, id="e2", kind="CALL")])
    assert (receipt.fresh, receipt.warnings) == ([True, True], [])
    await hookgw_gateway.settled()
    arrived = sorted((r.path, r.event_id) for r in hookgw_receiver.requests)
    assert arrived == [("/all", "e1"), ("/all", "e2"), ("/calls", "e2")]
    assert observer.heard == ["e1", "e2"]


async def test_an_event_is_accepted_once(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, observer: Observer
) -> None:
    for name in ("shop", "other"):
        await hookgw_gateway.register(hookgw_receiver.url, instance=name)
    accept = hookgw_gateway.gateway.events.accept
    assert (await accept([event(id="e1"), event(id="e2"), event(id="e1")])).fresh == [True, True, False]
    assert (await accept([event(id="e2"), event(id="e3")])).fresh == [False, True]
    assert (await accept([event(id="e1", instance="other")])).fresh == [True]
    await hookgw_gateway.settled()
    assert sorted(hookgw_receiver.ids, key=str) == ["e1", "e1", "e2", "e3"]
    assert observer.heard == ["e1", "e2", "e3", "e1"]
    assert counted(hookgw_gateway, "hookgw_events_accepted_total") == ["4.0"]
    assert counted(hookgw_gateway, "hookgw_events_duplicate_total") == ["2.0"]


async def test_a_stop_waits_for_no_observer(
    tmp_path: Path, hookgw_receiver: Receiver, hookgw_clock: MockClock, observer: Observer
) -> None:
    """Each call of a plugin may take ``plugins.hook_timeout``, which is longer than the grace of a stop."""
    observer.does = trio.sleep_forever
    ended: list[float] = []

    async def accept(kit: GatewayKit) -> None:
        await kit.gateway.events.accept([event(id="e1"), event(id="e2")])
        ended.append(trio.current_time())

    async with trio.open_nursery() as nursery:
        settings = {"server": {"shutdown_grace": "2s"}, "plugins": {"hook_timeout": "10s"}}
        async with open_kit(tmp_path, settings=settings, plugins={"observer": observer}) as kit:
            await kit.register(hookgw_receiver.url)
            nursery.start_soon(accept, kit)
            await kit.settled()
            stopped_at = trio.current_time()
            hookgw_clock.autojump_threshold = 0
    assert observer.heard == ["e1"]
    assert ended == [pytest.approx(stopped_at + 2)]


async def test_the_same_event_twice_at_once_is_accepted_once(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    await hookgw_gateway.register(hookgw_receiver.url)
    fresh: list[bool] = []

    async def accept() -> None:
        fresh.extend((await hookgw_gateway.gateway.events.accept([event(id="e1")])).fresh)

    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(accept)
    await hookgw_gateway.settled()
    assert sorted(fresh) == [False] * 9 + [True]
    assert hookgw_receiver.ids == ["e1"]


async def test_what_a_gateway_knows_is_added(tmp_path: Path, hookgw_receiver: Receiver) -> None:
    async with open_kit(tmp_path, settings={"server": {"public_url": "https://hooks.example"}}) as kit:
        await kit.register(hookgw_receiver.url)
        await kit.gateway.events.accept([event(), event(server_url="https://first.example", sender="a@b")])
        await kit.settled()
    first, second = hookgw_receiver.events()
    assert first["server_url"] == "https://hooks.example"
    assert "sender" not in first
    assert (second["server_url"], second["sender"]) == ("https://first.example", "a@b")


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"kind": "MESSAGES_UPSETT"}, "events[1]: 'MESSAGES_UPSETT' is not an event kind of the catalog."),
        ({"kind": "messages.upsert"}, "events[1]: 'messages.upsert' is not an event kind of the catalog."),
        ({"id": "a.b"}, "events[1]: id must be 1 to 255 characters of A-Z a-z 0-9 _ -."),
        ({"id": ""}, "events[1]: id must be"),
        ({"id": "x" * 256}, "events[1]: id must be"),
        ({"id": "e1\n"}, "events[1]: id must be"),
        ({"data_json": b'"' + b"x" * 2**20 + b'"'}, "events[1]: data has 1,048,578 bytes; at most 1"),
        ({"time": -1.0}, "events[1]: time must be"),
        ({"time": 253402300800.0}, "events[1]: time must be"),
        ({"time": float("nan")}, "events[1]: time must be"),
        ({"time": float("inf")}, "events[1]: time must be"),
    ],
)
async def test_one_bad_event_and_none_is_taken(
    hookgw_gateway: GatewayKit,
    hookgw_receiver: Receiver,
    observer: Observer,
    wrong: dict[str, Any],
    sentence: str,
) -> None:
    await hookgw_gateway.register(hookgw_receiver.url)
    with pytest.raises(Invalid) as caught:
        await hookgw_gateway.gateway.events.accept([event(), event(**wrong), event()])
    [message] = caught.value.messages
    assert message.startswith(sentence)
    await hookgw_gateway.settled()
    assert (hookgw_receiver.requests, observer.heard) == ([], [])


async def test_what_is_just_inside_the_limits(tmp_path: Path, hookgw_receiver: Receiver) -> None:
    async with open_kit(tmp_path, settings={"events": {"max_data": "1KiB", "validate": "off"}}) as kit:
        await kit.register(hookgw_receiver.url)
        latest = event("x" * 1022, id="A-z_9" * 51, time=253402300799.0)
        await kit.gateway.events.accept([latest, event(17, time=0.0), event({"n": 2**70})])
        await kit.settled()
    one, two, three = hookgw_receiver.events()
    assert (len(one["data"]), one["date_time"]) == (1022, "9999-12-31T23:59:59.000Z")
    assert (two["data"], two["date_time"]) == (17, "1970-01-01T00:00:00.000Z")
    assert three["data"] == {"n": 2**70}


async def test_an_event_that_waited_does_not_reach_a_later_instance_of_the_name(
    tmp_path: Path, hookgw_receiver: Receiver
) -> None:
    class Waits:
        @hookgw.hookimpl
        async def hookgw_accept(self, events: list[Event]) -> None:
            await kit.gateway.instances.delete("shop")
            await kit.register(hookgw_receiver.url)

    async with open_kit(tmp_path, plugins={"waits": Waits()}) as kit:
        await kit.register(hookgw_receiver.url)
        with pytest.raises(NotFound, match="The instance 'shop' was deleted"):
            await kit.gateway.events.accept([event(), event(id="e2")])
        await kit.settled()
    assert hookgw_receiver.events() == []


async def test_every_bad_event_is_named_up_to_a_hundred(hookgw_gateway: GatewayKit) -> None:
    await hookgw_gateway.gateway.instances.create("shop")
    batch = [event(id="bad.id") if n % 2 else event() for n in range(200)]
    with pytest.raises(Invalid) as caught:
        await hookgw_gateway.gateway.events.accept(batch)
    indexes = [message.partition(":")[0] for message in caught.value.messages]
    assert indexes == [f"events[{n}]" for n in range(1, 200, 2)]
    with pytest.raises(Invalid) as caught:
        await hookgw_gateway.gateway.events.accept([event(id="bad.id")] * 1101)
    assert len(caught.value.messages) == 101
    assert caught.value.messages[-1] == "And 1,001 more."


async def test_an_unknown_instance_is_not_found(hookgw_gateway: GatewayKit) -> None:
    with pytest.raises(NotFound, match="'nowhere'"):
        await hookgw_gateway.gateway.events.accept([event(instance="nowhere")])


async def test_nothing_is_accepted_of_nothing(hookgw_gateway: GatewayKit) -> None:
    receipt = await hookgw_gateway.gateway.events.accept([])
    assert (receipt.fresh, receipt.warnings) == ([], [])


# Payloads and schemas

BAD = [event({"key": 1}, id="w1"), event([1], id="w2"), event({"data": None}, kind="CALL", id="ok")]


async def test_warn_takes_them_and_says_so(hookgw_gateway: GatewayKit, hookgw_receiver: Receiver) -> None:
    await hookgw_gateway.register(hookgw_receiver.url)
    with capture_logs() as logs:
        receipt = await hookgw_gateway.gateway.events.accept(BAD)
    assert receipt.fresh == [True, True, True]
    assert receipt.warnings[-1].startswith('events[1].data: [1] is not of type "object"')
    assert {warning.partition(".")[0] for warning in receipt.warnings} == {"events[0]", "events[1]"}
    [logged] = [line for line in logs if line["event"] == "payloads violate their schema"]
    # With 2,000 accounts, the line has to say whose they are; payloads do not belong into logs.
    assert (logged["instance"], logged["kind"], logged["event_id"]) == ("shop", "MESSAGES_UPSERT", "w1")
    assert (logged["rule"], logged["count"]) == ("/required", len(receipt.warnings))
    assert "is not of type" not in str(logged)
    await hookgw_gateway.settled()
    assert hookgw_receiver.ids == ["w1", "w2", "ok"]


async def test_the_log_names_a_violated_rule_once_a_minute(
    hookgw_gateway: GatewayKit, hookgw_clock: MockClock
) -> None:
    """A producer whose payloads all violate one made a hundred lines a second."""
    await hookgw_gateway.gateway.instances.create("shop")
    await hookgw_gateway.gateway.instances.create("other")

    async def accept(count: int, **more: Any) -> None:
        for _ in range(count):
            await hookgw_gateway.gateway.events.accept([event({"key": 1}, **more)])

    with capture_logs() as logs:
        await accept(3)
        await accept(1, instance="other")
        hookgw_clock.jump(60)
        await accept(2)
    lines = [line for line in logs if line["event"] == "payloads violate their schema"]
    assert [(line["instance"], line["count"]) for line in lines] == [("shop", 1), ("other", 1), ("shop", 3)]


async def test_strict_refuses_them_all(tmp_path: Path, hookgw_receiver: Receiver) -> None:
    async with open_kit(tmp_path, settings={"events": {"validate": "strict"}}) as kit:
        await kit.register(hookgw_receiver.url)
        with pytest.raises(Invalid) as caught:
            await kit.gateway.events.accept([*BAD, event(id="no.id")])
        messages = caught.value.messages
        assert {message[:9] for message in messages} == {"events[0]", "events[1]", "events[3]"}
        with pytest.raises(Invalid) as caught:
            await kit.gateway.events.accept(BAD[1:2], single=True)
        assert caught.value.messages == ('data: [1] is not of type "object"',)
        big = {**DATA, "messageTimestamp": 123456789012345678901234567890}
        assert (await kit.gateway.events.accept([event(big)])).fresh == [True]
        await kit.settled()
    assert [e["data"] for e in hookgw_receiver.events()] == [big]


async def test_off_looks_at_nothing(tmp_path: Path, hookgw_receiver: Receiver) -> None:
    async with open_kit(tmp_path, settings={"events": {"validate": "off"}}) as kit:
        await kit.register(hookgw_receiver.url)
        receipt = await kit.gateway.events.accept(BAD)
        assert (receipt.fresh, receipt.warnings) == ([True] * 3, [])


async def test_many_warnings_are_cut(hookgw_gateway: GatewayKit) -> None:
    await hookgw_gateway.gateway.instances.create("shop")
    receipt = await hookgw_gateway.gateway.events.accept([event([1]) for _ in range(150)])
    assert receipt.fresh == [True] * 150
    assert (len(receipt.warnings), receipt.warnings[-1]) == (101, "And 50 more.")


def test_the_default_is_to_warn() -> None:
    assert EventsSettings() == EventsSettings(validate="warn", max_data=Size(2**20))


# Observers, and callers that go away


async def test_a_failing_observer_changes_nothing(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, observer: Observer
) -> None:
    def fail() -> Any:
        raise ValueError("mine")

    observer.does = fail
    await hookgw_gateway.register(hookgw_receiver.url)
    assert (await hookgw_gateway.gateway.events.accept([event(), event()])).fresh == [True, True]
    await hookgw_gateway.settled()
    assert len(hookgw_receiver.requests) == 2
    assert [failure.plugin for failure in hookgw_gateway.plugin_failures] == ["observer"] * 2


async def test_an_observer_that_hangs_holds_nobody_up_for_ever(
    tmp_path: Path, hookgw_receiver: Receiver, hookgw_clock: MockClock, observer: Observer
) -> None:
    observer.does = trio.sleep_forever
    settings = {"plugins": {"hook_timeout": "40s"}}
    async with open_kit(tmp_path, plugins={"observer": observer}, settings=settings) as kit:
        await kit.register(hookgw_receiver.url)
        with capture_logs() as logs:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(
                    kit.gateway.events.accept, [event({"state": "open"}, id="e0", kind="CONNECTION_UPDATE")]
                )
                nursery.start_soon(kit.gateway.events.accept, [event(id=f"e{n}") for n in range(1, 6)])
                await hookgw_receiver.wait_for(6)
                while len(observer.heard) < 2:
                    await trio.lowlevel.checkpoint()
                hookgw_clock.jump(40)
                while len(observer.heard) < 3:
                    await trio.lowlevel.checkpoint()
                hookgw_clock.jump(20)
    assert [line["events"] for line in logs if line["event"].startswith("observers took too long")] == [5]
    assert len(observer.heard) == 3


async def test_what_is_on_disk_is_told_and_counted_though_the_caller_has_gone(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, observer: Observer
) -> None:
    """A client that disconnects cancels whoever accepts for it."""
    await hookgw_gateway.register(hookgw_receiver.url)
    update = event({"instance": "shop", "state": "open"}, id="e2", kind="CONNECTION_UPDATE")
    with trio.CancelScope() as scope:
        scope.cancel()
        await hookgw_gateway.gateway.events.accept([event(id="e1"), update])
    await hookgw_gateway.settled()
    assert hookgw_receiver.ids == observer.heard == ["e1", "e2"]
    assert hookgw_gateway.gateway.instances.connection_state("shop") is ConnectionState.OPEN
    accepted = counted(hookgw_gateway, "hookgw_events_accepted_total")
    assert accepted == ["1.0", "1.0"]


async def test_the_connection_of_a_duplicate_is_not_told_again(hookgw_gateway: GatewayKit) -> None:
    await hookgw_gateway.gateway.instances.create("shop")
    told = [("e1", "open"), ("e2", "close"), ("e1", "open")]
    for event_id, state in told:
        data = {"instance": "shop", "state": state}
        await hookgw_gateway.emit("CONNECTION_UPDATE", data, event_id=event_id)
    assert hookgw_gateway.gateway.instances.connection_state("shop") is ConnectionState.CLOSE


async def test_a_batch_has_a_limit_of_deliveries(
    hookgw_gateway: GatewayKit,
    hookgw_receiver: Receiver,
    hookgw_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # They are numbered without a pause, so their number limits how long everything else waits.
    monkeypatch.setattr(accept, "MOST_DELIVERIES", 3)
    for label in ("one", "two"):
        await hookgw_gateway.register(hookgw_receiver.url, label=label)
    with pytest.raises(TooLarge) as caught:
        await hookgw_gateway.gateway.events.accept([event(), event()])
    (message,) = caught.value.messages
    assert message.startswith(
        "The batch makes more than 3 deliveries: 2 events to up to 2 registrations. Split"
    )
    await hookgw_gateway.settled()
    assert hookgw_receiver.events() == []
    # A single event cannot be split.
    monkeypatch.setattr(accept, "MOST_DELIVERIES", 1)
    await hookgw_gateway.gateway.events.accept([event()])
    await hookgw_gateway.settled()
    assert len(hookgw_receiver.events()) == 2


async def test_a_payload_has_a_limit_of_values(tmp_path: Path, hookgw_clock: MockClock) -> None:
    # The events of connectors do not pass the parser.
    async with open_kit(tmp_path, settings={"events": {"max_values": 1000}}) as kit:
        await kit.gateway.instances.create("shop")
        await kit.gateway.events.accept([event([0] * 900, kind="QRCODE_UPDATED")])
        with pytest.raises(Invalid) as caught:
            await kit.gateway.events.accept([event([0] * 1000)], single=True)
    assert caught.value.messages == ("data has too many JSON values: at most 1,000 are allowed.",)


class OwnText(str):
    def __str__(self) -> str:
        return "another"


@pytest.mark.parametrize(
    "change",
    [
        {"data_json": "{}"},
        {"data_json": None},
        {"data_json": b'{"a":'},
        {"data_json": b'"\xff"'},
        {"time": None},
        {"sender": 5},
        {"sender": "\ud800"},
        {"server_url": b"x"},
        {"kind": None},
        {"id": 7},
    ],
    ids=str,
)
async def test_an_event_of_a_plugin_that_cannot_be_sent_is_refused(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, change: dict[str, Any]
) -> None:
    await hookgw_gateway.register(hookgw_receiver.url)
    take = hookgw_gateway.gateway.events.accept
    with pytest.raises(Invalid, match=r"^events\[1\] has "):
        await take([event(), msgspec.structs.replace(event(), **change)])
    with pytest.raises(Invalid, match="not a hookgw"):
        await take([{"id": "a dict"}])  # type: ignore[list-item]
    await take([msgspec.structs.replace(event(), sender=OwnText("me"))])
    await hookgw_gateway.settled()
    (request,) = hookgw_receiver.requests
    assert b'"sender":"me"' in request.body


async def test_all_long_work_of_an_instance_counts_for_its_name(
    hookgw_gateway: GatewayKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    await hookgw_gateway.gateway.instances.create("shop")
    shop = hookgw_gateway.gateway.instances.get("shop")
    holders: list[str] = []

    async def noted(holder: str, steps: Any) -> Any:
        holders.append(holder)
        return await run_in_slices(holder, steps)

    monkeypatch.setattr("hookgw.events.accept.run_in_slices", noted)
    await hookgw_gateway.gateway.events.accept([event() for _ in range(11)], instance_id=shop.id)
    assert holders == ["shop"]
    with pytest.raises(Invalid):
        await hookgw_gateway.gateway.events.accept([{"id": "a dict"}] * 11)  # type: ignore[list-item]
