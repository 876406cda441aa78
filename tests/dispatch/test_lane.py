"""A lane on a clock that jumps as soon as everybody waits: no thread and no socket is involved."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from hookgw import Attempt, DeliveryState, Event, LaneState, Outcome
from tests.dispatch.fakes import BEGAN, LANE, NEW_URL, URL, World, registration
from tests.public.concurrency import in_task
from tests.public.delivery import AttemptResult, RequestTemplate
from tests.public.kernel import PluginFailed
from tests.public.lanes import IDLE_GRAIN as GRAIN
from tests.public.lanes import IdleLanes, Lane, LaneMemory
from tests.public.records import KnownDelivery

pytestmark = pytest.mark.usefixtures("autojump_clock")


def make_lane(
    world: World, *, idle_lanes: IdleLanes | None = None, backlog: int = 0, memory: LaneMemory | None = None
) -> Lane:
    """Return a lane. Without ``idle_lanes`` nothing retires it."""
    idle_lanes = idle_lanes or IdleLanes(1)
    return Lane(LANE, world.services, idle_lanes, backlog=backlog, memory=memory)


@asynccontextmanager
async def running(world: World, *, backlog: int = 0) -> AsyncIterator[Lane]:
    lane = make_lane(world, backlog=backlog)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lane.run)
        yield lane
        nursery.cancel_scope.cancel()


async def quiet(seconds: float = 30.0) -> None:
    """Let the clock run: all that can happen in that time has happened."""
    await trio.sleep(seconds)


# Order, and what follows an attempt.


async def test_delivers_in_order_one_at_a_time() -> None:
    world = World()
    world.sender.takes = 0.5
    async with running(world) as lane:
        for delivery in world.outbox.add(20):
            lane.offer(delivery)
        await quiet()
    assert world.sender.order == [f"e{n}" for n in range(1, 21)]
    assert world.sender.most_in_flight == 1
    assert world.settled == [(n, DeliveryState.DELIVERED) for n in range(1, 21)]


# What is prepared while the delivery before is in flight.


async def test_what_comes_next_in_a_page_is_prepared() -> None:
    world = World()
    world.sender.hooks = frozenset()
    world.outbox.add(3)
    async with running(world, backlog=3):
        await quiet()
    bodies = [request.body for request in world.sender.requests]
    prepared = [f"e{number} prepared for {URL}".encode() for number in (2, 3)]
    assert bodies == [f"e1 to {URL}".encode(), *prepared]


@pytest.mark.parametrize("change", ["registration", "plugins"])
async def test_what_was_prepared_before_a_change_is_not_used(change: str) -> None:
    world = World()
    world.sender.hooks = frozenset()
    world.sender.takes = 1.0
    world.outbox.add(2)
    async with running(world, backlog=2):
        await trio.sleep(0.5)
        if change == "plugins":
            world.sender.hooks = frozenset({"hookgw_transform"})
        else:
            world.change(updated_at=1.0)  # the lane does not hear of what is not about its target
        await quiet()
    assert [request.body for request in world.sender.requests] == [f"e{n} to {URL}".encode() for n in (1, 2)]


# The head stays in memory during a short wait.
@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.UNREACHABLE])
async def test_what_was_prepared_is_used_for_one_attempt(outcome: Outcome) -> None:
    world = World()
    world.sender.hooks = frozenset()
    world.sender.script["e2"] = [outcome]
    world.outbox.add(3)
    async with running(world, backlog=3):
        await quiet()
    prepared, is_dropped = f"e2 prepared for {URL}".encode(), outcome is Outcome.FAILED
    third = f"e3 to {URL}" if is_dropped else f"e3 prepared for {URL}"
    assert [(one.event, one.number, one.body, one.is_prepared) for one in world.sender.requests] == [
        ("e1", 1, f"e1 to {URL}".encode(), False),
        ("e2", 1, prepared, True),
        ("e2", 2, prepared, False),
        ("e3", 1, third.encode(), not is_dropped),
    ]


async def test_a_registration_that_changes_while_a_plugin_works_gets_the_attempt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    render = world.sender.render_body

    async def render_slowly(event: Event, template: RequestTemplate) -> bytes | None:
        await in_task()
        await trio.sleep(1)
        return await render(event, template)

    monkeypatch.setattr(world.sender, "render_body", render_slowly)
    async with running(world) as lane:
        lane.offer(world.outbox.add()[0])
        await trio.sleep(0.5)
        world.change(url=NEW_URL)
        await quiet()
    assert [request.registration.url for request in world.sender.requests] == [NEW_URL]


async def test_a_registration_that_changes_while_the_end_of_a_wait_is_reported_gets_the_attempt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    world.sender.hooks = frozenset()
    world.sender.script["e1"] = [Outcome.FAILED]

    async def report_slowly(_: str, __: LaneState) -> None:
        await trio.sleep(1)

    monkeypatch.setattr(world.monitor, "lane_changed", report_slowly)
    async with running(world) as lane:
        lane.offer(world.outbox.add()[0])
        await trio.sleep(5.5)  # the retry is due after five seconds
        world.change(url=NEW_URL)
        await quiet()
    assert [request.registration.url for request in world.sender.requests] == [URL, NEW_URL]


async def test_nothing_is_sent_while_the_head_waits() -> None:
    world = World(script={"e1": [Outcome.FAILED, Outcome.FAILED]})
    async with running(world) as lane:
        for delivery in world.outbox.add(3):
            lane.offer(delivery)
        await quiet(19)
        assert world.sender.order == ["e1", "e1"]
        assert lane.statistics().state is LaneState.WAITING
        await quiet(5)
    assert world.sender.order == ["e1", "e1", "e1", "e2", "e3"]
    assert world.sender.times == [0, 5, 20, 20, 20]
    assert len({request.body for request in world.sender.requests[:3]}) == 1
    assert world.monitor.states == [LaneState.WAITING, LaneState.DELIVERING] * 2


async def test_what_the_first_attempt_delivers_is_settled_with_what_is_known_of_it() -> None:
    world = World(script={"e1": [Outcome.FAILED]})
    async with running(world) as lane:
        first, second = world.outbox.add(2)
        lane.offer(first)
        lane.offer(second)
        await quiet()
    known = KnownDelivery(second.registration, second.event.instance, 2, second.queued_at)
    assert [s.known for s in world.outbox.settlements] == [None, None, known]


async def test_only_the_first_failure_stores_the_body() -> None:
    world = World(script={"e1": [Outcome.FAILED, Outcome.UNREACHABLE]})
    async with running(world) as lane:
        lane.offer(world.outbox.add()[0])
        await quiet()
    assert [s.body for s in world.outbox.settlements] == [f"e1 to {URL}".encode(), None, None]


async def test_the_stored_body_is_sent_after_a_restart() -> None:
    world = World()
    world.outbox.add()
    world.outbox.pending[1].body = b"fixed before"
    async with running(world, backlog=1):
        await quiet()
    assert [request.body for request in world.sender.requests] == [b"fixed before"]


async def test_a_dead_letter_does_not_hold_up_the_next_delivery() -> None:
    world = World(script={"e1": [Outcome.REJECTED]})
    async with running(world) as lane:
        for delivery in world.outbox.add(2):
            lane.offer(delivery)
        await quiet(0.1)
    assert world.settled == [(1, DeliveryState.DEAD), (2, DeliveryState.DELIVERED)]
    assert world.outbox.settlements[0].body == f"e1 to {URL}".encode()  # for a replay


async def test_a_delivery_is_dead_after_the_whole_schedule() -> None:
    world = World(script={"e1": [Outcome.FAILED] * 8})
    async with running(world) as lane:
        for delivery in world.outbox.add(2):
            lane.offer(delivery)
        await quiet(2000)
    assert [r.number for r in world.sender.requests if r.event == "e1"] == list(range(1, 9))
    assert [final[:2] for final in world.monitor.finals] == [
        ("e1", DeliveryState.DEAD),
        ("e2", DeliveryState.DELIVERED),
    ]


async def test_waits_for_an_unreachable_receiver_double_until_it_answers() -> None:
    world = World(
        unreachable_first_wait=1.0, script={"e1": [Outcome.UNREACHABLE] * 4, "e2": [Outcome.UNREACHABLE]}
    )
    async with running(world) as lane:
        for delivery in world.outbox.add(2):
            lane.offer(delivery)
        await quiet(60)
    assert world.sender.times == [0, 1, 3, 7, 15, 15, 16]


async def test_a_single_failure_is_not_an_outage() -> None:
    world = World(script={"e1": [Outcome.UNREACHABLE] * 5})
    async with running(world) as lane:
        for delivery in world.outbox.add(2):
            lane.offer(delivery)
        await quiet(1.6)
        assert lane.statistics().state is LaneState.IDLE
        assert world.sender.times == [0, 0.05, 0.15, 0.35, 0.75, 1.55, 1.55]
        assert world.monitor.states == []  # short waits are not reported,
        assert world.outbox.reads == []  # and what is behind the head stays in memory
        world.sender.script["e3"] = [Outcome.UNREACHABLE] * 6
        lane.offer(world.outbox.add()[0])
        await quiet(10)
    assert world.monitor.states == [LaneState.WAITING, LaneState.DELIVERING]


async def test_deliveries_that_a_dead_receiver_outlasted_expire_together() -> None:
    world = World(max_age=100.0)
    world.sender.refuses[URL] = Outcome.UNREACHABLE
    async with running(world) as lane:
        for delivery in world.outbox.add(3):
            lane.offer(delivery)
        await quiet(400)
    assert [state for _, state, _ in world.monitor.finals] == [DeliveryState.DEAD] * 3
    assert set(world.sender.order) == {"e1"}


async def test_after_a_long_downtime_the_receiver_is_tried_before_anything_expires() -> None:
    world = World(max_age=100.0)
    world.outbox.add(2)
    for delivery in world.outbox.pending.values():
        delivery.attempts, delivery.queued_at = 3, world.clock.steady() - 5000
    async with running(world, backlog=2):
        await quiet()
    assert [state for _, state, _ in world.monitor.finals] == [DeliveryState.DELIVERED] * 2


async def test_after_a_long_downtime_one_unreachable_attempt_lets_all_that_is_too_old_expire() -> None:
    world = World(max_age=100.0)
    world.outbox.add(3)
    for delivery in world.outbox.pending.values():
        delivery.queued_at = world.clock.steady() - 5000
    world.outbox.add()
    world.sender.script["e2"] = [Outcome.UNREACHABLE]
    async with running(world, backlog=4):
        await quiet()
    assert [state for _, state, _ in world.monitor.finals] == [
        DeliveryState.DELIVERED,
        DeliveryState.DEAD,
        DeliveryState.DEAD,
        DeliveryState.DELIVERED,
    ]
    assert world.sender.order == ["e1", "e2", "e4"]


async def test_the_age_of_a_delivery_that_is_sent_again_starts_anew() -> None:
    world = World(max_age=100.0, script={"e1": [Outcome.UNREACHABLE] * 2})
    await trio.sleep(1000)
    async with running(world) as lane:
        delivery = world.outbox.add()[0]
        delivery.queued_at = world.clock.steady()
        lane.offer(delivery)
        await quiet(50)
    assert world.settled == [(1, DeliveryState.DELIVERED)]
    assert len(world.sender.requests) == 3


async def test_retry_after_is_not_undercut() -> None:
    world = World()
    busy = Attempt(number=1, at=0.0, duration=0.0, outcome=Outcome.UNREACHABLE, status=503)
    world.sender.script["e1"] = [AttemptResult(busy, retry_after=90.0)]
    async with running(world) as lane:
        lane.offer(world.outbox.add()[0])
        await quiet(200)
    assert world.sender.times == [0, 90]


async def test_a_plugin_failure_is_a_failed_attempt_without_a_body() -> None:
    world = World(script={"e1": [PluginFailed("upper", "hookgw_transform", "boom")]})
    async with running(world) as lane:
        lane.offer(world.outbox.add()[0])
        await quiet()
    first, second = world.outbox.settlements
    assert (first.state, first.body, first.failures) == (DeliveryState.PENDING, None, 1)
    assert second.state is DeliveryState.DELIVERED
    assert [request.number for request in world.sender.requests] == [2]


async def test_a_filtered_delivery_is_dropped() -> None:
    world = World()
    world.sender.filtered = {"e1"}
    async with running(world) as lane:
        for delivery in world.outbox.add(2):
            lane.offer(delivery)
        await quiet()
    assert world.settled == [(1, DeliveryState.DROPPED), (2, DeliveryState.DELIVERED)]


# The registration.


@pytest.mark.parametrize("exists", [True, False])
async def test_deliveries_of_a_disabled_or_deleted_registration_are_dead(exists: bool) -> None:
    world = World(registration("reg_1", enabled=False) if exists else registration("reg_2"))
    async with running(world) as lane:
        lane.offer(world.outbox.add()[0])
        await quiet()
    assert world.sender.requests == []
    assert world.monitor.finals == [
        ("e1", DeliveryState.DEAD, f"The registration was {'disabled' if exists else 'deleted'}.")
    ]


async def test_gone_disables_the_registration_before_the_next_attempt() -> None:
    world = World(script={"e1": [Outcome.GONE]})
    async with running(world) as lane:
        for delivery in world.outbox.add(2):
            lane.offer(delivery)
        await quiet()
    assert world.monitor.gone_ids == ["reg_1"]
    assert world.sender.order == ["e1"]
    assert world.settled == [(1, DeliveryState.DEAD), (2, DeliveryState.DEAD)]


async def test_a_delivery_that_waits_in_a_lane_of_a_deleted_registration_is_dead_at_once() -> None:
    world = World(registration("reg_2"))
    world.outbox.add()
    world.outbox.pending[1].next_at = world.clock.steady() + 10_000
    async with running(world, backlog=1):
        await quiet(1)
        assert world.settled == [(1, DeliveryState.DEAD)]


async def test_a_delivery_that_waits_is_dead_at_once_if_its_registration_is_disabled_with_no_url() -> None:
    """The URL of a disabled registration may be any string: preparing requests to it ended the process."""
    world = World(registration(url="vazio", enabled=False))
    world.outbox.add()
    world.outbox.pending[1].next_at = world.clock.steady() + 300
    async with running(world, backlog=1) as lane:
        assert lane.statistics().url == "vazio"
        await quiet(1)
    assert world.monitor.finals == [("e1", DeliveryState.DEAD, "The registration was disabled.")]


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.GONE, Outcome.DELIVERED])
async def test_a_registration_may_be_disabled_with_no_url_during_an_attempt(outcome: Outcome) -> None:
    world = World()
    world.sender.takes = 10
    world.sender.script["e1"] = [outcome]
    async with running(world) as lane:
        lane.offer(world.outbox.add()[0])
        await quiet(5)
        world.change(url="vazio", enabled=False)
        lane.refresh()
        await quiet(6)
    expected = DeliveryState.DELIVERED if outcome is Outcome.DELIVERED else DeliveryState.DEAD
    assert world.settled == [(1, expected)]
    assert len(world.sender.requests) == 1


async def test_a_registration_that_is_deleted_while_outcomes_cannot_be_written_gets_no_attempt() -> None:
    world = World()
    world.outbox.may_settle = trio.Event()
    async with running(world) as lane:
        lane.offer(world.outbox.add()[0])
        await quiet()
        del world.registrations["reg_1"]
        world.outbox.may_settle.set()
        await quiet()
    assert world.sender.requests == []
    assert world.settled == [(1, DeliveryState.DEAD)]


async def test_a_changed_timeout_holds_for_the_next_attempt() -> None:
    world = World(timeout=15.0)
    async with running(world) as lane:
        lane.offer(world.outbox.add()[0])
        await quiet(1)
        world.change(timeout=3.0)
        lane.offer(world.outbox.add()[0])
        await quiet(1)
    assert [request.timeout for request in world.sender.requests] == [15.0, 3.0]


# Times on disk.


async def test_a_wait_on_disk_is_kept_after_a_restart() -> None:
    world = World()
    world.outbox.add()
    began = world.clock.steady()
    world.outbox.pending[1].next_at = began + 42
    async with running(world, backlog=1):
        await quiet(100)
    assert world.sender.requests[0].at == pytest.approx(began + 42)


async def test_times_on_disk_that_lie_too_far_ahead_are_brought_back() -> None:
    """They do if the machine's clock was set back while hookgw was down."""
    world = World(
        unreachable_first_wait=1.0,
        retry_after_max=100.0,
        schedule=(),
        unreachable_max_wait=300.0,
        max_age=400.0,
    )
    world.sender.refuses[URL] = Outcome.UNREACHABLE
    world.outbox.add(2)
    now = world.clock.steady()
    head = world.outbox.pending[1]
    head.queued_at = head.next_at = now + 10_000
    async with running(world, backlog=2) as lane:
        await quiet(299)
        assert world.sender.order == []
        assert lane.statistics().waiting_until == pytest.approx(now + 300)
        assert lane.statistics().head_since == now
        await quiet(1.5)
        assert world.sender.order == ["e1"]
        await quiet(500)
    assert world.settled[0] == (1, DeliveryState.DEAD)  # its age was counted from the start, too


# Commands.


async def test_resume_tries_at_once_and_resets_the_streak() -> None:
    world = World(unreachable_first_wait=1.0, script={"e1": [Outcome.UNREACHABLE] * 6})
    async with running(world) as lane:
        lane.offer(world.outbox.add()[0])
        await quiet(20)
        assert world.sender.times == [0, 1, 3, 7, 15]
        lane.resume()
        await quiet(5)
    assert world.sender.times[5:] == [20, 21]


async def test_resume_does_nothing_to_a_lane_that_does_not_wait() -> None:
    world = World()
    async with running(world) as lane:
        lane.resume()
        lane.offer(world.outbox.add()[0])
        await quiet()
        lane.resume()
        await quiet()
    assert world.sender.order == ["e1"]


async def test_refresh_reads_the_outbox_from_the_start() -> None:
    world = World(script={"e2": [Outcome.FAILED]})
    async with running(world) as lane:
        first, second = world.outbox.add(2)
        lane.offer(second)
        await quiet(1)
        assert world.sender.order == ["e2"]
        lane.refresh()  # e1 was moved into this lane
        await quiet(60)
    assert world.sender.order == ["e2", first.event.id, "e2"]


async def test_refresh_lets_the_attempt_in_flight_end() -> None:
    world = World()
    world.sender.takes = 10
    async with running(world) as lane:
        lane.offer(world.outbox.add()[0])
        await quiet(1)
        found = lane.in_flight()
        assert found is not None
        seq, ended = found
        lane.refresh()
        assert seq == 1
        await ended.wait()
        assert world.settled == [(1, DeliveryState.DELIVERED)]
        await quiet()
        assert lane.in_flight() is None
    assert world.sender.order == ["e1"]


async def test_refresh_does_not_read_again_what_was_settled_but_not_written() -> None:
    world = World()
    world.outbox.writes_late = True
    async with running(world) as lane:
        lane.offer(world.outbox.add()[0])
        await quiet()
        assert 1 in world.outbox.pending
        lane.refresh()
        await quiet()
    assert world.sender.order == ["e1"]


async def test_refresh_counts_the_backlog_anew() -> None:
    world = World(script={"e1": [Outcome.FAILED]})
    async with running(world) as lane:
        for delivery in world.outbox.add(5):
            lane.offer(delivery)
        await quiet(1)
        del world.outbox.pending[2], world.outbox.pending[3]
        lane.refresh()
        await quiet(1)
        assert lane.statistics().backlog == 3


async def test_a_count_lacks_nothing_that_is_appended_meanwhile() -> None:
    world = World()
    world.sender.takes = 10.0
    async with running(world) as lane:
        await quiet()
        world.outbox.may_read = trio.Event()
        lane.refresh()
        await quiet(1)
        finished, added = world.outbox.add(2)
        lane.requeued(1)
        lane.offer(added)
        world.outbox.may_read.set()
        await quiet(1)
        assert lane.statistics().backlog == 2
    assert world.sender.order == [finished.event.id]


async def test_a_count_has_what_is_written_before_it_once() -> None:
    world = World()
    async with running(world) as lane:
        lane.pause()
        await quiet()
        world.outbox.may_flush = trio.Event()
        lane.recount()
        await quiet(1)
        lane.offer(*world.outbox.add(1))
        world.outbox.may_flush.set()
        await quiet(1)
        assert lane.statistics().backlog == 1


async def test_stop_ends_a_lane_that_has_not_begun() -> None:
    world = World()
    lane = make_lane(world)
    lane.stop()
    assert await lane.run() is None


async def test_stop_lets_the_attempt_end_and_leaves_the_rest_on_disk() -> None:
    world = World()
    world.sender.takes = 10
    lane = make_lane(world)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lane.run)
        for delivery in world.outbox.add(3):
            lane.offer(delivery)
        await quiet(1)
        lane.stop()
    assert world.settled == [(1, DeliveryState.DELIVERED)]
    assert sorted(world.outbox.pending) == [2, 3]


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.DELIVERED])
async def test_stop_ends_a_waiting_and_an_idle_lane_at_once(outcome: Outcome) -> None:
    world = World(script={"e1": [outcome]})
    lane = make_lane(world)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lane.run)
        lane.offer(world.outbox.add()[0])
        await quiet(1)
        stopped = trio.current_time()
        lane.stop()
    assert trio.current_time() == stopped


# The disk.


async def test_no_attempt_is_made_while_outcomes_cannot_be_written() -> None:
    world = World()
    world.outbox.may_settle = trio.Event()
    async with running(world) as lane:
        lane.offer(world.outbox.add()[0])
        await quiet()
        assert world.sender.requests == []
        world.outbox.may_settle.set()
        await quiet()
    assert world.sender.order == ["e1"]


async def test_a_lane_waits_for_a_disk_that_cannot_be_read() -> None:
    world = World()
    world.outbox.refusals = 4
    world.outbox.add(2)
    async with running(world, backlog=2) as lane:
        await quiet(1)
        assert lane.statistics().state is LaneState.PAUSED
        await quiet()
        assert world.sender.order == ["e1", "e2"]
        world.outbox.refusals = 2
        lane.refresh()
        lane.offer(world.outbox.add()[0])
        await quiet()
    assert world.sender.order == ["e1", "e2", "e3"]


# Being idle.


async def test_a_retired_lane_leaves_its_memory() -> None:
    world = World(lane_idle=60.0, script={"e2": [Outcome.REJECTED]})
    idle_lanes = IdleLanes(5)
    lane = make_lane(world, idle_lanes=idle_lanes)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(idle_lanes.run)
        for delivery in world.outbox.add(2):
            lane.offer(delivery)
        memory = await lane.run()
        nursery.cancel_scope.cancel()
    assert trio.current_time() == pytest.approx(5)
    assert memory == LaneMemory(
        until=60, last=2, hangs=False, outcome=Outcome.REJECTED, error="It was rejected."
    )
    assert world.sender.order == ["e1", "e2"]


async def test_a_lane_that_is_being_retired_delivers_first() -> None:
    world = World()
    idle_lanes = IdleLanes(100)
    lane = make_lane(world, idle_lanes=idle_lanes)
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def run() -> None:
            await lane.run()
            nursery.cancel_scope.cancel()

        nursery.start_soon(idle_lanes.run)
        await quiet(1)
        lane.retire()
        lane.offer(world.outbox.add()[0])
        await quiet(50)
        assert world.sender.order == ["e1"]
        assert lane.statistics().state is LaneState.IDLE
        lane.retire()
        lane.requeued(1)
        world.outbox.add()
        await quiet(50)
        assert world.sender.order == ["e1", "e2"]
        began = trio.current_time()
        await quiet(100)
    assert trio.current_time() - began == pytest.approx(50, abs=GRAIN)


async def test_the_next_lane_continues_with_the_memory() -> None:
    world = World()
    old, new = world.outbox.add(2)
    memory = LaneMemory(last=old.position, streak=3, outcome=Outcome.FAILED, error="It was failed.")
    idle_lanes = IdleLanes(1)
    lane = make_lane(world, idle_lanes=idle_lanes, backlog=1, memory=memory)
    shown = lane.statistics()
    assert (shown.last_outcome, shown.last_error) == (Outcome.FAILED, "It was failed.")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(idle_lanes.run)
        again = await lane.run()
        nursery.cancel_scope.cancel()
    assert world.sender.order == [new.event.id]  # the outcome of the old one may not be on disk yet
    assert again is memory
    assert (memory.last, memory.streak, memory.outcome) == (new.position, 0, Outcome.DELIVERED)


async def test_the_next_lane_continues_the_streak() -> None:
    world = World(unreachable_first_wait=1.0, script={"e1": [Outcome.UNREACHABLE]})
    lane = make_lane(world, memory=LaneMemory(streak=3))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lane.run)
        lane.offer(world.outbox.add()[0])
        await quiet()
        nursery.cancel_scope.cancel()
    assert world.sender.times == [0, 8]


async def test_an_idle_lane_keeps_no_delivery_in_memory() -> None:
    world = World()
    async with running(world) as lane:
        [delivery] = world.outbox.add()
        references = sys.getrefcount(delivery)
        lane.offer(delivery)
        await quiet()
        assert world.settled == [(1, DeliveryState.DELIVERED)]
        assert sys.getrefcount(delivery) == references


async def test_a_waiting_lane_keeps_only_its_head_in_memory() -> None:
    world = World(script={"e1": [Outcome.FAILED]})
    async with running(world) as lane:
        lane.offer(world.outbox.add()[0])
        [second] = world.outbox.add()
        unused = sys.getrefcount(second)
        lane.offer(second)
        offered = sys.getrefcount(second)
        await quiet(1)
        assert (offered, sys.getrefcount(second)) == (unused + 1, unused)
        await quiet(20)
    assert world.sender.order == ["e1", "e1", "e2"]


# What is shown.


async def test_statistics_show_the_head_and_its_wait() -> None:
    world = World(registration(url="http://user:secret@127.0.0.1/hook"), script={"e1": [Outcome.FAILED]})
    async with running(world) as lane:
        for delivery in world.outbox.add(2):
            lane.offer(delivery)
        await quiet(1)
        shown = lane.statistics()
    assert (shown.lane, shown.registration, shown.partition) == (LANE, "reg_1", None)
    assert shown.url == "http://127.0.0.1/hook"
    assert (shown.state, shown.backlog, shown.head) == (LaneState.WAITING, 2, 1)
    assert shown.waiting_until == pytest.approx(world.sender.requests[0].at + 5)
    assert (shown.last_outcome, shown.last_error) == (Outcome.FAILED, "It was failed.")
    assert shown.head_since == BEGAN


async def test_what_happens_while_the_monitor_hears_of_an_attempt_counts() -> None:
    world = World(script={"e1": [Outcome.FAILED]})
    seen: list[tuple[LaneState, bool]] = []
    async with running(world) as lane:

        async def lane_changed(key: str, state: LaneState) -> None:
            seen.append((state, lane.in_flight() is not None))
            if state is LaneState.DELIVERING:
                await trio.sleep(1)
                world.change(enabled=False)

        world.monitor.lane_changed = lane_changed  # type: ignore[method-assign,assignment]
        lane.offer(world.outbox.add()[0])
        await quiet()
    assert seen == [(LaneState.WAITING, False), (LaneState.DELIVERING, False)]
    assert world.sender.order == ["e1"]
    assert world.settled == [(1, DeliveryState.DEAD)]


async def test_the_monitor_hears_of_an_attempt_once_it_is_settled() -> None:
    world = World()
    settled: list[int] = []

    async def attempted(*_: object) -> None:
        settled.append(len(world.outbox.settlements))

    world.monitor.attempted = attempted  # type: ignore[method-assign,assignment]
    async with running(world) as lane:
        for delivery in world.outbox.add(2):
            lane.offer(delivery)
        await quiet()
    assert settled == [1, 2]


async def test_a_paused_lane_counts_again_when_told() -> None:
    world = World()
    async with running(world) as lane:
        lane.pause()
        for delivery in world.outbox.add(5):
            lane.offer(delivery)
        await quiet()
        del world.outbox.pending[1]
        lane.recount()
        await quiet()
        assert (lane.statistics().state, lane.statistics().backlog) == (LaneState.PAUSED, 4)
        del world.outbox.pending[2], world.outbox.pending[3]
        for _ in range(5):  # also while it counts
            lane.recount()
            await trio.lowlevel.checkpoint()
        await quiet()
        assert lane.statistics().backlog == 2
        assert world.sender.order == []
        lane.unpause()
        lane.unpause()
        await quiet()
    assert world.sender.order == ["e4", "e5"]


# What another process knew of the head.


async def test_a_lane_shows_the_last_attempt_of_its_head_from_before_the_restart() -> None:
    world = World()
    [delivery] = world.outbox.add()
    left = world.outbox.pending[delivery.seq]
    left.attempts, left.failures, left.next_at = 3, 3, world.services.clock.steady() + 600.0
    world.outbox.last_attempts[delivery.seq] = Attempt(
        number=3,
        at=BEGAN,
        duration=0.1,
        outcome=Outcome.FAILED,
        status=500,
        error="The receiver answered 500.",
    )
    async with running(world, backlog=1) as lane:
        await quiet()
        shown = lane.statistics()
        assert (shown.state, shown.last_outcome) == (LaneState.WAITING, Outcome.FAILED)
        assert shown.last_error == "The receiver answered 500."
        assert world.sender.order == []


async def test_a_disk_that_does_not_say_it_holds_nothing_up() -> None:
    world = World()
    [delivery] = world.outbox.add()
    world.outbox.pending[delivery.seq].attempts = 3
    world.outbox.refuses_last_attempts = True
    async with running(world, backlog=1) as lane:
        await quiet()
        assert world.settled == [(1, DeliveryState.DELIVERED)]
        assert lane.statistics().last_error is None
