"""Cancelling pending deliveries."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.lowlevel
import trio.testing
from trio.testing import MockClock

from hookgw import Conflict, DeliveryState, LaneState, NotFound
from hookgw.core import jobs
from hookgw.deliveries import dry_run
from hookgw.store import steps
from hookgw.store.sqlite import audit, shelves
from hookgw.testing import GatewayKit, Receiver, answer, open_kit
from tests.gateway.test_pending import KIND, emit
from tests.public.core import PendingDeliveries
from tests.public.kernel import StorageUnavailable, TooManyRequests
from tests.public.records import AuditEntry, DeliverySelection, Ordering
from tests.public.store import AuditQuery, DeliveryQuery
from tests.support.disks import refuse
from tests.support.kit import states
from tests.support.waits import FIRST_WAIT

pytestmark = pytest.mark.usefixtures("hookgw_clock")

ALL = DeliverySelection()


async def wait_for_count(kit: GatewayKit, count: int) -> None:
    """Wait until so many deliveries are pending."""
    while kit.gateway.backlog.count != count:
        await trio.testing.wait_all_tasks_blocked(0.001)


def hang_after(kit: GatewayKit, monkeypatch: pytest.MonkeyPatch, step: str, count: int) -> None:
    """Let the store take so many steps of a kind, and hang in the next."""
    take_step, steps = getattr(kit.gateway.store, step), 0

    async def take_some(*args: Any, **kwargs: Any) -> Any:
        nonlocal steps
        steps += 1
        if steps > count:
            await trio.sleep_forever()
        return await take_step(*args, **kwargs)

    monkeypatch.setattr(kit.gateway.store, step, take_some)


def start_lanes_late(monkeypatch: pytest.MonkeyPatch) -> trio.Event:
    """Let a gateway that starts wait before its lanes do; return the event that ends the wait."""
    may_start, start_lanes = trio.Event(), PendingDeliveries.start_lanes

    async def start_late(self: PendingDeliveries, registration_id: str) -> None:
        await may_start.wait()
        await start_lanes(self, registration_id)

    monkeypatch.setattr(PendingDeliveries, "start_lanes", start_late)
    return may_start


def refuse_audit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the disk refuse entries of the audit, and whatever is in their commits."""

    def refuse(_: Any, entries: Sequence[AuditEntry]) -> None:
        if entries:
            raise StorageUnavailable("The disk is full.")

    for module in (audit, shelves):
        monkeypatch.setattr(module, "write_audit", refuse)


async def test_what_is_cancelled_is_not_sent_and_can_be_replayed(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    gateway = hookgw_gateway.gateway
    hookgw_receiver.will(answer(503, headers={"retry-after": "100"}))
    await hookgw_gateway.register(hookgw_receiver.url)
    ids = await emit(hookgw_gateway, 4)
    await hookgw_gateway.emit("SEND_MESSAGE", {}, event_id="other")
    await hookgw_gateway.settled()
    asked = DeliverySelection(kinds=(KIND,))
    assert (await gateway.deliveries.count_cancellable(["shop"], asked)).matching == 4
    job = await gateway.deliveries.cancel("shop", asked)
    assert (job.is_running, job.done) == (False, 4)
    await hookgw_gateway.settled()
    assert hookgw_receiver.ids == [ids[0], "other"]
    assert gateway.backlog.count == 0
    assert [lane.backlog for lane in gateway.lanes()] == [0]
    page = await gateway.store.list_deliveries(DeliveryQuery(instance="shop", state=DeliveryState.DEAD))
    assert {one.reason for one in page.deliveries} == {"Cancelled by hookgw."}
    await gateway.deliveries.replay("shop", DeliverySelection(since=0.0))
    await hookgw_gateway.settled()
    assert hookgw_receiver.ids == [ids[0], "other", *ids]


@pytest.mark.parametrize("status", [200, 500])
async def test_an_attempt_in_flight_is_waited_for(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, hookgw_clock: MockClock, status: int
) -> None:
    gateway = hookgw_gateway.gateway
    hookgw_receiver.will(answer(status, wait=5))
    await hookgw_gateway.register(hookgw_receiver.url)
    ids = await emit(hookgw_gateway, 3)
    await hookgw_receiver.wait_for(1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(gateway.deliveries.cancel, "shop", ALL)
        await wait_for_count(hookgw_gateway, 1)
        hookgw_clock.jump(FIRST_WAIT)
    await wait_for_count(hookgw_gateway, 0)
    await hookgw_gateway.advance(1000)
    first = DeliveryState.DELIVERED if status == 200 else DeliveryState.DEAD
    assert await states(hookgw_gateway) == dict.fromkeys(ids, DeliveryState.DEAD) | {ids[0]: first}
    assert hookgw_receiver.ids == ids[:1]
    assert len((await gateway.audit.list(AuditQuery(action="delivery.cancel"))).entries) == 1
    await emit(hookgw_gateway, 1, first=3)
    await hookgw_gateway.settled()
    assert hookgw_receiver.ids == [ids[0], "shop-3"]


async def test_only_the_own_events_of_a_global_webhook_and_only_for_its_operator(
    tmp_path: Path, hookgw_receiver: Receiver
) -> None:
    settings = {"global_webhooks": [{"url": f"{hookgw_receiver.url}?global"}]}
    hookgw_receiver.default = answer(503, headers={"retry-after": "1000"})
    async with open_kit(tmp_path, settings=settings) as kit:
        await kit.register(hookgw_receiver.url)
        await kit.register(hookgw_receiver.url, instance="bar")
        await emit(kit, 2)
        await emit(kit, 2, instance="bar")
        await kit.settled()
        deliveries = kit.gateway.deliveries
        assert (await deliveries.count_cancellable(["shop"], ALL, without_global=True)).matching == 2
        assert (await deliveries.cancel("shop", ALL, without_global=True)).done == 2
        assert (await deliveries.cancel("shop", ALL)).done == 2
        assert {instance for _, instance in await kit.gateway.store.pending_counts()} == {"bar"}


async def test_a_paused_lane_counts_what_is_left(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    gateway = hookgw_gateway.gateway
    await hookgw_gateway.register(hookgw_receiver.url)
    await gateway.registrations.pause("shop")
    await emit(hookgw_gateway, 3)
    await hookgw_gateway.emit("SEND_MESSAGE", {}, event_id="other")
    await gateway.deliveries.cancel("shop", DeliverySelection(kinds=(KIND,)))
    with trio.fail_after(20):
        while [(lane.state, lane.backlog) for lane in gateway.lanes()] != [(LaneState.PAUSED, 1)]:
            await trio.testing.wait_all_tasks_blocked(0.001)
    await gateway.registrations.resume("shop")
    await hookgw_gateway.settled()
    assert hookgw_receiver.ids == ["other"]


async def test_unknown_names(hookgw_gateway: GatewayKit, hookgw_receiver: Receiver) -> None:
    await hookgw_gateway.register(hookgw_receiver.url)
    deliveries = hookgw_gateway.gateway.deliveries
    for instance, label in (("bar", None), ("shop", "none")):
        asked = DeliverySelection(label=label)
        with pytest.raises(NotFound):
            await deliveries.cancel(instance, asked)
        with pytest.raises(NotFound):
            await deliveries.count_cancellable([instance], asked)
        with pytest.raises(NotFound):
            await deliveries.count_replayable([instance], asked)


async def test_a_long_one_becomes_a_job_that_goes_on_after_a_restart(
    tmp_path: Path, hookgw_receiver: Receiver, hookgw_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "STEP", 2)
    monkeypatch.setattr(jobs, "ANSWER_WITHIN", 0.0)
    hookgw_receiver.default = answer(503, headers={"retry-after": "1000"})
    async with open_kit(tmp_path) as kit:
        await kit.register(hookgw_receiver.url, ordering=Ordering.CHAT, concurrency=3)
        await emit(kit, 11)
        await kit.emit("SEND_MESSAGE", {}, event_id="other")
        await kit.settled()
        hang_after(kit, monkeypatch, "cancel_step", 1)
        job = await kit.gateway.deliveries.cancel("shop", DeliverySelection(kinds=(KIND,)))
        assert job.is_running
        await wait_for_count(kit, 10)
    requests = len(hookgw_receiver.requests)
    hookgw_receiver.default = answer()
    async with open_kit(tmp_path) as kit:
        while (found := kit.gateway.jobs.find(job.id)) is None or found.is_running:
            await trio.testing.wait_all_tasks_blocked(0.001)
        assert found.done == 11
        hookgw_clock.jump(2000)
        await kit.settled()
        after = [request.event_id for request in hookgw_receiver.requests[requests:]]
        assert set(after) == {"other"}
        assert kit.gateway.backlog.count == 0


async def test_after_a_restart_it_holds_the_lanes_of_its_instance_alone(
    tmp_path: Path, hookgw_receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seed 5741 of the simulator: what waited for another instance was overtaken, and then stayed."""
    monkeypatch.setattr(steps, "STEP", 2)
    monkeypatch.setattr(jobs, "ANSWER_WITHIN", 0.0)
    hookgw_receiver.default = answer(503, headers={"retry-after": "1000"})
    settings = {"global_webhooks": [{"url": hookgw_receiver.url}]}
    async with open_kit(tmp_path, settings=settings) as kit:
        for instance in ("shop", "bar"):
            await kit.gateway.instances.create(instance)
            for number in range(3):
                await kit.emit(KIND, {}, instance=instance, event_id=f"{instance}-{number}")
        await kit.settled()
        hang_after(kit, monkeypatch, "cancel_step", 1)
        assert (await kit.gateway.deliveries.cancel("shop", DeliverySelection())).is_running
        await wait_for_count(kit, 4)
    may_start = start_lanes_late(monkeypatch)
    hookgw_receiver.default = answer()
    before = len(hookgw_receiver.requests)
    async with open_kit(tmp_path, settings=settings) as kit:
        await kit.emit(KIND, {}, instance="bar", event_id="newest")
        await trio.testing.wait_all_tasks_blocked(0.01)
        may_start.set()
        await kit.advance(2000)
        assert kit.gateway.backlog.count == 0
    assert hookgw_receiver.ids[before:] == ["bar-0", "bar-1", "bar-2", "newest"]


async def test_a_disk_that_refuses_at_first_cancels_nothing(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway = hookgw_gateway.gateway
    hookgw_receiver.default = answer(503, headers={"retry-after": "1000"})
    await hookgw_gateway.register(hookgw_receiver.url)
    await emit(hookgw_gateway, 2)
    await hookgw_gateway.settled()
    step = gateway.store.cancel_step

    monkeypatch.setattr(gateway.store, "cancel_step", refuse)
    with pytest.raises(StorageUnavailable, match="full"):
        await gateway.deliveries.cancel("shop", ALL)
    assert gateway.backlog.count == 2
    monkeypatch.setattr(gateway.store, "cancel_step", step)
    assert (await gateway.deliveries.cancel("shop", ALL)).done == 2


async def test_a_disk_that_refuses_the_audit_leaves_no_job_to_the_next_start(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway = hookgw_gateway.gateway
    hookgw_receiver.will(answer(wait=5))
    await hookgw_gateway.register(hookgw_receiver.url)
    await emit(hookgw_gateway, 2)
    await hookgw_receiver.wait_for(1)  # it is in flight: the job is stored before it is waited for
    refuse_audit(monkeypatch)
    with pytest.raises(StorageUnavailable, match="full"):
        await gateway.deliveries.cancel("shop", ALL)
    assert await gateway.store.load_jobs() == {}
    assert gateway.backlog.count == 2


async def test_a_count_ends(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dry_run, "MOST_COUNTED", 2)
    await hookgw_gateway.register(hookgw_receiver.url)
    await hookgw_gateway.gateway.registrations.pause("shop")
    await emit(hookgw_gateway, 3)
    assert (await hookgw_gateway.gateway.deliveries.count_cancellable(["shop"], ALL)).matching == 2


async def test_one_at_a_time(
    hookgw_gateway: GatewayKit,
    hookgw_receiver: Receiver,
    hookgw_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gateway = hookgw_gateway.gateway
    hookgw_receiver.will(answer(wait=5))
    await hookgw_gateway.register(hookgw_receiver.url)
    await emit(hookgw_gateway, 2)
    await hookgw_receiver.wait_for(1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(gateway.deliveries.cancel, "shop", ALL)
        await wait_for_count(hookgw_gateway, 1)
        with pytest.raises(Conflict, match=r"under way \(job_\w+\); try again"):
            await gateway.deliveries.cancel("shop", ALL)
        hookgw_clock.jump(FIRST_WAIT)
    await wait_for_count(hookgw_gateway, 0)

    begun, may_end = trio.Event(), trio.Event()

    async def count(*_: Any) -> dict[str, int]:
        begun.set()
        await may_end.wait()
        return {"reg_1": 7}

    monkeypatch.setattr(gateway.store, "count_cancellable", count)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(gateway.deliveries.count_cancellable, ["shop"], ALL)
        await begun.wait()
        with pytest.raises(TooManyRequests):
            await gateway.deliveries.count_cancellable(["shop"], ALL)
        may_end.set()
    assert (await gateway.deliveries.count_cancellable(["shop"], ALL)).matching == 7


async def test_another_ordering_meanwhile_sends_nothing(
    hookgw_gateway: GatewayKit,
    hookgw_receiver: Receiver,
    hookgw_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It gives what is pending to other lanes."""
    hookgw_receiver.will(answer(503))
    await hookgw_gateway.register(hookgw_receiver.url, ordering=Ordering.INSTANCE)
    await emit(hookgw_gateway, 3)
    await hookgw_gateway.settled()
    hang_after(hookgw_gateway, monkeypatch, "cancel_step", 0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(hookgw_gateway.gateway.deliveries.cancel, "shop", ALL)
        await trio.testing.wait_all_tasks_blocked(0.001)
        await hookgw_gateway.register(hookgw_receiver.url, ordering=Ordering.URL)
        for _ in range(5):
            hookgw_clock.jump(100)
            await trio.testing.wait_all_tasks_blocked(0.01)
        assert len(hookgw_receiver.requests) == 1
        nursery.cancel_scope.cancel()
