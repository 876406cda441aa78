"""Operational events: raised when they should be, told in order, and never through what they are about."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import jsonschema_rs
import pytest
import trio
import trio.testing
from structlog.testing import capture_logs
from trio.testing import MockClock

import hookgw
from hookgw import Delivery, Event, Invalid, Registration
from hookgw.testing import GatewayKit, Received, Receiver, answer, hang, open_kit, open_receiver
from tests.public.core import SHARE
from tests.public.kernel import StorageUnavailable
from tests.public.records import OPERATIONAL_KINDS, Catalog
from tests.public.webhooks import parse_registration
from tests.support.waits import FIRST_WAIT

pytestmark = pytest.mark.usefixtures("hookgw_clock")

KIND = "CALL"
SCHEMAS = {kind.name: jsonschema_rs.validator_for(kind.schema) for kind in OPERATIONAL_KINDS}


def registration_of(kit: GatewayKit) -> Registration:
    """The registration for operational events."""
    registration = kit.gateway.operational.registration
    assert registration is not None
    return registration


class Observer:
    """A plugin that writes down operational events and dead letters, and does something for each event."""

    def __init__(self) -> None:
        self.heard: list[Event] = []
        self.dead_letters: list[Delivery] = []
        self.does: Callable[[], Any] = trio.lowlevel.checkpoint

    @hookgw.hookimpl
    async def hookgw_operational_event(self, event: Event) -> None:
        self.heard.append(event)
        await self.does()

    @hookgw.hookimpl
    def hookgw_dead_letter(self, delivery: Delivery) -> None:
        self.dead_letters.append(delivery)

    @property
    def kinds(self) -> list[str]:
        return [event.kind for event in self.heard]


@pytest.fixture
def observer() -> Observer:
    return Observer()


@pytest.fixture
async def ops() -> AsyncIterator[Receiver]:
    """The receiver of operational events."""
    async with open_receiver() as receiver:
        yield receiver


@pytest.fixture
async def kit(
    tmp_path: Path, ops: Receiver, observer: Observer, hookgw_clock: MockClock
) -> AsyncIterator[GatewayKit]:
    settings = {"operations": {"url": ops.url, "backlog_threshold": 5}}
    async with open_kit(tmp_path, plugins={"observer": observer}, settings=settings) as kit:
        yield kit


def told(request: Received) -> tuple[str, dict[str, Any]]:
    """An operational event as it arrived; its data fits its schema."""
    kind, data = request.json["event"], request.json["data"]
    SCHEMAS[kind].validate(data)
    return kind, data


async def test_a_receiver_that_is_gone_is_told_of(
    kit: GatewayKit, ops: Receiver, observer: Observer, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.default = answer(410)
    registration = await kit.register(hookgw_receiver.url)
    event = await kit.emit(KIND, {})
    requests = await ops.wait_for(2)
    dead, disabled = sorted((told(request) for request in requests), key=lambda found: found[0])
    about = {
        "registration": registration.id,
        "instance": "shop",
        "label": "default",
        "url": hookgw_receiver.url,
    }
    reason = "The receiver answered 410 Gone"
    assert disabled == ("REGISTRATION_DISABLED", {**about, "reason": f"{reason}."})
    assert dead[0] == "DELIVERY_DEAD"
    assert dead[1] == {
        **about,
        "count": 1,
        "reason": f"{reason}: the registration is disabled.",
        "delivery": "dlv_1",
        "eventId": event.id,
        "kind": KIND,
    }
    assert [request.json["instance"] for request in requests] == ["*", "*"]
    await kit.settled()
    assert observer.kinds == [request.json["event"] for request in requests]


async def test_they_are_signed(kit: GatewayKit, ops: Receiver, hookgw_receiver: Receiver) -> None:
    hookgw_receiver.default = answer(400)
    await kit.register(hookgw_receiver.url)
    await kit.emit(KIND, {})
    [request] = await ops.wait_for(1)
    ops.verify(request, registration_of(kit).secrets[0].value)


async def test_a_lane_that_fails_and_recovers_is_told_of_once_each(
    kit: GatewayKit, ops: Receiver, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.will(answer(500), answer(503), answer(500))
    registration = await kit.register(hookgw_receiver.url)
    await kit.emit(KIND, {})
    [request] = await ops.wait_for(1)
    kind, data = told(request)
    assert (kind, data["lane"], data["registration"]) == (
        "LANE_FAILING",
        f"{registration.id}:0",
        registration.id,
    )
    assert (data["partition"], data["url"]) == (None, hookgw_receiver.url)
    assert (data["outcome"], data["status"]) == ("failed", 500)
    for _ in range(3):
        await kit.advance(20)
    _, request = await ops.wait_for(2)
    kind, recovered = told(request)
    assert (kind, recovered["lane"], recovered["since"]) == ("LANE_RECOVERED", data["lane"], data["since"])
    assert recovered["seconds"] == pytest.approx(60, abs=5)
    await kit.emit(KIND, {})
    await kit.settled()
    assert len(ops.requests) == 2


async def test_how_long_a_lane_failed_is_right_although_the_clock_was_set_back(
    kit: GatewayKit, ops: Receiver, hookgw_receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    hookgw_receiver.will(answer(500))
    await kit.register(hookgw_receiver.url)
    await kit.emit(KIND, {})
    await ops.wait_for(1)
    wall = kit.gateway.clock.wall
    monkeypatch.setattr(kit.gateway.clock, "wall", lambda: wall() - 7200)
    await kit.advance(20)
    _, request = await ops.wait_for(2)
    kind, recovered = told(request)
    assert kind == "LANE_RECOVERED"
    assert recovered["seconds"] == pytest.approx(20, abs=1)


async def test_a_registration_that_fails_for_too_long_is_told_of(
    tmp_path: Path, ops: Receiver, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.default = answer(500)
    settings = {
        "operations": {"url": ops.url, "events": ["registration.disabled"]},
        "delivery": {"disable_after": "30s", "schedule": ["10s"] * 20},
    }
    async with open_kit(tmp_path, settings=settings) as kit:
        await kit.register(hookgw_receiver.url)
        await kit.emit(KIND, {})
        for _ in range(4):
            await kit.advance(11)
        [request] = await ops.wait_for(1)
        assert told(request)[1]["reason"] == "It failed for 30 s without one success."


async def test_somebody_who_disables_is_told_nothing_but_of_dead_letters_in_one_go(
    kit: GatewayKit, ops: Receiver, observer: Observer, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.default = answer(500)
    await kit.register(hookgw_receiver.url)
    for _ in range(4):
        await kit.emit(KIND, {})
    await ops.wait_for(1)
    await kit.register(hookgw_receiver.url, enabled=False)
    _, request = await ops.wait_for(2)
    kind, data = told(request)
    assert (kind, data["count"], data["delivery"]) == ("DELIVERY_DEAD", 4, None)
    assert data["reason"] == "The registration was disabled: by its owner."
    assert observer.dead_letters == []
    assert observer.kinds == ["LANE_FAILING", "DELIVERY_DEAD"]


async def test_what_a_deleted_registration_leaves_is_told_of(
    kit: GatewayKit, ops: Receiver, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    hookgw_receiver.default = hang()
    await kit.register(hookgw_receiver.url)
    for _ in range(3):
        await kit.emit(KIND, {})
    await hookgw_receiver.wait_for(1)
    await kit.gateway.registrations.delete("shop")
    [request] = await ops.wait_for(1)
    assert (told(request)[1]["count"], told(request)[1]["instance"]) == (2, "shop")
    hookgw_clock.jump(30)


async def test_nothing_is_told_where_nothing_was_pending(
    kit: GatewayKit, observer: Observer, hookgw_receiver: Receiver
) -> None:
    await kit.register(hookgw_receiver.url)
    await kit.gateway.registrations.delete("shop")
    await kit.settled()
    assert observer.heard == []


async def test_many_dead_letters_are_summed_up(
    kit: GatewayKit, ops: Receiver, observer: Observer, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.default = answer(422)
    await kit.register(hookgw_receiver.url)
    events = [await kit.emit(KIND, {"n": n}) for n in range(20)]
    await hookgw_receiver.wait_for(20)
    await kit.advance(1)
    first, rest = [told(request)[1] for request in await ops.wait_for(2)]
    assert (first["count"], first["eventId"]) == (1, events[0].id)
    assert (rest["count"], rest["eventId"]) == (19, events[-1].id)
    await kit.advance(10)
    assert len(ops.requests) == 2
    assert [delivery.event.id for delivery in observer.dead_letters] == [event.id for event in events]


async def test_a_high_backlog_is_told_of_and_its_end(
    kit: GatewayKit, ops: Receiver, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.will(answer(503, headers={"retry-after": "1"}))
    registration = await kit.register(hookgw_receiver.url)
    for _ in range(7):
        await kit.emit(KIND, {})
    requests = await ops.wait_for(2)
    found = dict(told(request) for request in requests)
    assert found["BACKLOG_HIGH"]["registration"] == registration.id
    assert (found["BACKLOG_HIGH"]["deliveries"], found["BACKLOG_HIGH"]["threshold"]) == (6, 5)
    assert found["BACKLOG_HIGH"]["bytes"] == 6 * len(b"{}")
    await kit.advance(2)
    requests = await ops.wait_for(4)
    found = dict(told(request) for request in requests[2:])
    assert found.keys() == {"LANE_RECOVERED", "BACKLOG_NORMAL"}
    assert found["BACKLOG_NORMAL"]["deliveries"] <= 4


async def test_an_instance_that_holds_more_than_half_of_its_share_is_told_of(
    tmp_path: Path, ops: Receiver, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.will(answer(503, headers={"retry-after": "1"}))
    kinds = ["INSTANCE_BACKLOG_HIGH", "INSTANCE_BACKLOG_NORMAL"]
    settings = {
        "operations": {"url": ops.url, "events": kinds},
        "limits": {"deliveries": 20, "bytes": 0, "instance_reserved_deliveries": 0},
    }
    async with open_kit(tmp_path, settings=settings) as kit:
        await kit.register(hookgw_receiver.url)
        for _ in range(10):
            await kit.emit(KIND, {})
        [request] = await ops.wait_for(1)
        kind, data = told(request)
        assert kind == "INSTANCE_BACKLOG_HIGH"
        nobody = {"registration": None, "label": None, "url": None}
        allowed = 20 * SHARE // (SHARE + 1)
        high = allowed // 2 + 1
        about = {"instance": "shop", "deliveries": high, "bytes": 2 * high}
        assert data == {**nobody, **about, "allowedDeliveries": allowed, "allowedBytes": None}
        await kit.advance(2)
        requests = await ops.wait_for(2)
        kind, data = told(requests[1])
        assert kind == "INSTANCE_BACKLOG_NORMAL"
        assert data["deliveries"] <= allowed * 2 // 5


async def test_a_backlog_that_is_high_at_the_start_is_told_of(
    tmp_path: Path, ops: Receiver, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.default = answer(503)
    async with open_kit(tmp_path) as kit:
        await kit.register(hookgw_receiver.url)
        for _ in range(4):
            await kit.emit(KIND, {})
        await kit.settled()
    operations = {"url": ops.url, "backlog_threshold": 3, "events": ["BACKLOG_HIGH"]}
    async with open_kit(tmp_path, settings={"operations": operations}):
        [request] = await ops.wait_for(1)
        assert told(request)[1]["deliveries"] == 4


async def test_they_have_a_lane_of_their_own_also_where_the_url_is_the_same(
    tmp_path: Path, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.will(answer(500))
    async with open_kit(tmp_path, settings={"operations": {"url": hookgw_receiver.url}}) as kit:
        registration = await kit.register(hookgw_receiver.url)
        event = await kit.emit(KIND, {})
        failed, about = await hookgw_receiver.wait_for(2)
        assert failed.event_id == event.id
        assert told(about)[0] == "LANE_FAILING"
        lanes = {lane.lane for lane in kit.gateway.lanes()}
        assert lanes == {f"{registration.id}:0", "operations:0"}


@pytest.mark.parametrize("status", [410, 422, 503])
async def test_nothing_is_raised_about_them(
    kit: GatewayKit, ops: Receiver, observer: Observer, hookgw_receiver: Receiver, status: int
) -> None:
    ops.will(*[answer(status)] * 8)
    hookgw_receiver.default = answer(422)
    await kit.register(hookgw_receiver.url)
    for number in range(8):
        await kit.emit(KIND, {})
        await kit.advance(2)
        await hookgw_receiver.wait_for(number + 1)
    await ops.wait_for(1)
    for _ in range(8):
        await kit.advance(300)
    assert set(observer.kinds) == {"DELIVERY_DEAD"}
    assert {data["registration"] for data in (event.data for event in observer.heard)} != {"operations"}
    assert registration_of(kit).enabled
    before = len(ops.requests)
    await kit.emit(KIND, {})
    await ops.wait_for(before + 1)


async def test_they_are_retried_in_order_and_outlive_a_restart(
    tmp_path: Path, ops: Receiver, hookgw_receiver: Receiver
) -> None:
    settings = {"operations": {"url": ops.url}}
    ops.default = answer(503)
    hookgw_receiver.default = answer(422)
    async with open_kit(tmp_path, settings=settings) as kit:
        await kit.register(hookgw_receiver.url)
        ids = []
        for _ in range(3):
            ids.append((await kit.emit(KIND, {})).id)
            await kit.advance(1.5)
        secret = registration_of(kit).secrets
    ops.default = answer()
    before = len(ops.requests)
    async with open_kit(tmp_path, settings=settings) as kit:
        await kit.advance(300)
        found = (await ops.wait_for(before + 3))[before:]
        assert [told(request)[1]["eventId"] for request in found] == ids
        assert registration_of(kit).secrets == secret


async def test_what_is_held_back_is_told_of_at_the_end(
    tmp_path: Path, ops: Receiver, hookgw_receiver: Receiver
) -> None:
    settings = {"operations": {"url": ops.url}}
    hookgw_receiver.default = answer(422)
    async with open_kit(tmp_path, settings=settings) as kit:
        await kit.register(hookgw_receiver.url)
        for _ in range(3):
            await kit.emit(KIND, {})
        await kit.settled()
    async with open_kit(tmp_path, settings=settings):
        requests = await ops.wait_for(2)
        assert [told(request)[1]["count"] for request in requests] == [1, 2]


async def test_what_is_pending_moves_to_another_url(
    tmp_path: Path, ops: Receiver, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.default = answer(422)
    async with open_receiver() as old:
        old.default = answer(503)
        async with open_kit(tmp_path, settings={"operations": {"url": old.url}}) as kit:
            await kit.register(hookgw_receiver.url)
            await kit.emit(KIND, {})
            await old.wait_for(1)
        async with open_kit(tmp_path, settings={"operations": {"url": ops.url}}) as kit:
            await kit.advance(2)
            [request] = await ops.wait_for(1)
            assert request.body == old.requests[0].body
            assert {lane.lane for lane in kit.gateway.lanes()} == {"operations:0"}


async def test_without_the_url_what_is_pending_is_given_up(
    tmp_path: Path, ops: Receiver, observer: Observer, hookgw_receiver: Receiver
) -> None:
    ops.default = answer(503)
    hookgw_receiver.default = answer(422)
    async with open_kit(tmp_path, settings={"operations": {"url": ops.url}}) as kit:
        await kit.register(hookgw_receiver.url)
        await kit.emit(KIND, {})
        await ops.wait_for(1)
    async with open_kit(tmp_path, plugins={"observer": observer}) as kit:
        await kit.advance(2)
        assert len(ops.requests) == 1
        assert await kit.gateway.store.pending_counts() == {}
        assert observer.heard == []


async def test_no_other_registration_hears_them(
    tmp_path: Path, ops: Receiver, hookgw_receiver: Receiver
) -> None:
    async with open_receiver() as everywhere, open_receiver() as dead:
        dead.default = answer(422)
        settings = {"operations": {"url": ops.url}, "global_webhooks": [{"url": everywhere.url}]}
        async with open_kit(tmp_path, settings=settings) as kit:
            await kit.register(hookgw_receiver.url)
            await kit.register(dead.url, label="dead")
            event = await kit.emit(KIND, {})
            await ops.wait_for(1)
            await kit.settled()
        assert hookgw_receiver.ids == everywhere.ids == [event.id]


async def test_nobody_can_emit_them(kit: GatewayKit) -> None:
    await kit.gateway.instances.create("shop")
    with pytest.raises(Invalid, match=r"LANE_FAILING is an operational event, which only"):
        await kit.emit("LANE_FAILING", {})


async def test_headers_and_the_secret_are_those_of_the_settings(
    tmp_path: Path, ops: Receiver, hookgw_receiver: Receiver
) -> None:
    secret = "whsec_" + "QUJD" * 8
    operations = {"url": ops.url, "headers": {"X-Token": "abc"}, "secret": secret}
    hookgw_receiver.default = answer(422)
    async with open_kit(tmp_path, settings={"operations": operations}) as kit:
        await kit.register(hookgw_receiver.url)
        await kit.emit(KIND, {})
        [request] = await ops.wait_for(1)
        assert request.header("x-token") == "abc"
        ops.verify(request, secret)


async def test_plugins_hear_of_them_without_a_url_and_without_a_choice(
    tmp_path: Path, observer: Observer, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.default = answer(422)
    async with open_kit(tmp_path, plugins={"observer": observer}) as kit:
        await kit.register(hookgw_receiver.url)
        event = await kit.emit(KIND, {})
        await kit.settled()
    [heard] = observer.heard
    assert (heard.kind, heard.instance, heard.data["eventId"]) == ("DELIVERY_DEAD", "*", event.id)


async def test_a_plugin_that_takes_its_time_holds_up_neither_lanes_nor_the_url(
    kit: GatewayKit, ops: Receiver, observer: Observer, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    may_go_on = trio.Event()
    observer.does = may_go_on.wait
    hookgw_receiver.default = answer(422)
    await kit.register(hookgw_receiver.url)
    for number in range(3):
        await kit.emit(KIND, {})
        await ops.wait_for(number + 1)
        hookgw_clock.jump(1.1)
        await trio.testing.wait_all_tasks_blocked(0.02)
    assert len(observer.heard) == 1
    may_go_on.set()


def refusing_operations(kit: GatewayKit, monkeypatch: pytest.MonkeyPatch) -> trio.Event:
    """Let the store refuse operational events; return the event of the first refusal."""
    append, refused = kit.gateway.store.append, trio.Event()

    async def refuse_operations(appends: Any, *, state: Any, epoch: Any) -> list[bool]:
        if appends[0].event.instance == "*":
            refused.set()
            raise StorageUnavailable("The disk is full.")
        return await append(appends)

    monkeypatch.setattr(kit.gateway.store, "append", refuse_operations)
    return refused


async def test_they_wait_while_the_disk_refuses(
    kit: GatewayKit,
    ops: Receiver,
    hookgw_receiver: Receiver,
    hookgw_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hookgw_receiver.default = answer(422)
    await kit.register(hookgw_receiver.url)
    refused = refusing_operations(kit, monkeypatch)
    await kit.emit(KIND, {})
    await refused.wait()
    assert (await kit.gateway.store.pending_counts()).get(("operations", "*")) is None
    monkeypatch.undo()
    hookgw_clock.jump(FIRST_WAIT)
    await ops.wait_for(1)


async def test_the_end_does_not_wait_for_a_disk_that_refuses(
    tmp_path: Path, ops: Receiver, hookgw_receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    hookgw_receiver.default = answer(422)
    async with open_kit(tmp_path, settings={"operations": {"url": ops.url}}) as kit:
        await kit.register(hookgw_receiver.url)
        refused = refusing_operations(kit, monkeypatch)
        await kit.emit(KIND, {})
        await refused.wait()
    assert ops.requests == []


async def test_what_is_too_much_for_the_url_is_lost_and_logged(
    kit: GatewayKit,
    ops: Receiver,
    observer: Observer,
    hookgw_receiver: Receiver,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hookgw.core.operational.events.MOST_PENDING", 1)
    ops.default = answer(503)
    hookgw_receiver.default = answer(422)
    await kit.register(hookgw_receiver.url)
    await kit.emit(KIND, {})
    await ops.wait_for(1)
    await kit.advance(1)
    with capture_logs() as logs:
        await kit.emit(KIND, {})
        await hookgw_receiver.wait_for(2)
        await kit.settled()
    assert "operational events lost: too many are pending" in [entry["event"] for entry in logs]
    assert await kit.gateway.store.pending_counts() == {("operations", "*"): (1, ANY)}
    assert observer.kinds == ["DELIVERY_DEAD"] * 2


async def test_they_are_counted(kit: GatewayKit, ops: Receiver, hookgw_receiver: Receiver) -> None:
    hookgw_receiver.default = answer(422)
    await kit.register(hookgw_receiver.url)
    await kit.emit(KIND, {})
    await ops.wait_for(1)
    metrics = kit.gateway.metrics.render()[0]
    assert b'hookgw_operational_events_total{kind="DELIVERY_DEAD"} 1.0' in metrics


def test_naming_one_for_an_instance_is_refused() -> None:
    body = {"url": "https://a.example/", "events": ["lane.failing"]}
    with pytest.raises(
        Invalid, match=r"events\[0\]: LANE_FAILING is an operational event; only operations\.url"
    ):
        parse_registration(body, Catalog(OPERATIONAL_KINDS))
