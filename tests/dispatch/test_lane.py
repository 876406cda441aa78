"""A lane on a clock that jumps as soon as everybody waits: no thread and no socket is involved."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import pytest
import trio
from trio.testing import MockClock

from hookgw.delivery.http.connection import IdleConnection
from hookgw.delivery.http.transport import LaneTransport
from hookgw.delivery.sender import AttemptResult
from hookgw.dispatch.idle_lanes import GRAIN, IdleLanes
from hookgw.dispatch.lane import Lane
from hookgw.dispatch.lane_queue import PAGE
from hookgw.dispatch.parked_lanes import LaneMemory
from hookgw.models.deliveries import Attempt, DeliveryState, LaneState, Outcome
from hookgw.models.errors import PluginFailed
from tests.dispatch.fakes import URL, FakeTransport, World, registration


def make_lane(
    world: World,
    *,
    transport: FakeTransport | None = None,
    patience: IdleLanes | None = None,
    backlog: int = 0,
    past: LaneMemory | None = None,
) -> Lane:
    """A lane; without ``patience`` nobody sends it to rest."""
    at = cast("LaneTransport", transport or FakeTransport())
    return Lane(URL, world.services, at, patience or IdleLanes(1), backlog=backlog, past=past)


@asynccontextmanager
async def running(world: World, *, backlog: int = 0) -> AsyncIterator[Lane]:
    lane = make_lane(world, backlog=backlog)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lane.run)
        yield lane
        nursery.cancel_scope.cancel()


async def quiet(seconds: float = 30.0) -> None:
    """Let the clock run; all that can happen in that time has happened."""
    await trio.sleep(seconds)


async def test_delivers_in_order_one_at_a_time(autojump_clock: MockClock) -> None:
    world = World()
    world.courier.takes = 0.5
    async with running(world) as lane:
        for delivery in world.store.append(20):
            lane.offer(delivery)
        await quiet()
    assert world.courier.order == [f"e{n}" for n in range(1, 21)]
    assert world.courier.most_on_the_wire == 1
    assert world.settled == [(n, DeliveryState.DELIVERED) for n in range(1, 21)]


async def test_starts_from_the_outbox(autojump_clock: MockClock) -> None:
    world = World()
    world.store.append(3)
    async with running(world, backlog=3):
        await quiet()
    assert world.courier.order == ["e1", "e2", "e3"]


async def test_falls_behind_and_catches_up_without_losing_or_repeating(autojump_clock: MockClock) -> None:
    world = World(lane_buffer=4)
    count = 3 * PAGE + 7
    async with running(world) as lane:
        for delivery in world.store.append(count):
            lane.offer(delivery)
        assert lane.statistics().backlog == count
        await quiet()
        assert lane.statistics().backlog == 0
    assert world.courier.order == [f"e{n}" for n in range(1, count + 1)]


@pytest.mark.parametrize("late", [1, 5, 2 * PAGE])
async def test_what_is_appended_while_a_page_is_read_comes_once_and_last(
    autojump_clock: MockClock, late: int
) -> None:
    world = World(lane_buffer=4)
    world.courier.takes = 0.001
    async with running(world) as lane:
        for delivery in world.store.append(PAGE):
            lane.offer(delivery)
        for _ in range(late):
            lane.offer(world.store.append()[0])
            await trio.sleep(0.002)
        await quiet()
    assert world.courier.order == [f"e{n}" for n in range(1, PAGE + late + 1)]


async def test_while_the_head_waits_nothing_later_is_sent(autojump_clock: MockClock) -> None:
    world = World()
    world.courier.script["e1"] = [Outcome.FAILED, Outcome.FAILED]
    async with running(world) as lane:
        for delivery in world.store.append(3):
            lane.offer(delivery)
        await quiet(19)
        assert world.courier.order == ["e1", "e1"]
        assert lane.statistics().state is LaneState.WAITING
        await quiet(5)
    began = world.courier.sent[0][2]
    assert [(event, round(at - began, 3)) for event, _, at in world.courier.sent] == [
        ("e1", 0),
        ("e1", 5),
        ("e1", 20),
        ("e2", 20),
        ("e3", 20),
    ]
    assert world.courier.bodies[:3] == [b"body of e1"] * 3
    assert world.keeper.states[:2] == [LaneState.WAITING, LaneState.DELIVERING]


async def test_a_body_is_stored_by_the_first_failure_alone(autojump_clock: MockClock) -> None:
    world = World()
    world.courier.script["e1"] = [Outcome.FAILED, Outcome.UNREACHABLE]
    async with running(world) as lane:
        lane.offer(world.store.append()[0])
        await quiet()
    assert [s.body for s in world.store.settlements] == [b"body of e1", None, None]


async def test_a_dead_letter_lets_the_next_go_at_once(autojump_clock: MockClock) -> None:
    world = World()
    world.courier.script["e1"] = [Outcome.REJECTED]
    async with running(world) as lane:
        for delivery in world.store.append(2):
            lane.offer(delivery)
        await quiet(0.1)
    assert world.settled == [(1, DeliveryState.DEAD), (2, DeliveryState.DELIVERED)]
    assert world.store.settlements[0].body == b"body of e1"


async def test_gives_up_after_the_schedule(autojump_clock: MockClock) -> None:
    world = World()
    world.courier.script["e1"] = [Outcome.FAILED] * 8
    async with running(world) as lane:
        for delivery in world.store.append(2):
            lane.offer(delivery)
        await quiet(2000)
    assert [number for event, number, _ in world.courier.sent if event == "e1"] == list(range(1, 9))
    assert world.keeper.finals[0][:2] == ("e1", DeliveryState.DEAD)
    assert world.keeper.finals[1][:2] == ("e2", DeliveryState.DELIVERED)


async def test_unreachable_waits_double_and_success_starts_them_anew(autojump_clock: MockClock) -> None:
    world = World()
    world.courier.script["e1"] = [Outcome.UNREACHABLE] * 4
    world.courier.script["e2"] = [Outcome.UNREACHABLE]
    async with running(world) as lane:
        for delivery in world.store.append(2):
            lane.offer(delivery)
        await quiet(60)
    began = world.courier.sent[0][2]
    assert [round(at - began) for _, _, at in world.courier.sent] == [0, 1, 3, 7, 15, 15, 16]


async def test_what_a_dead_receiver_outlasted_expires_in_a_row(autojump_clock: MockClock) -> None:
    world = World(max_age=100.0)
    for name in ("e1", "e2", "e3"):
        world.courier.script[name] = [Outcome.UNREACHABLE] * 100
    async with running(world) as lane:
        for delivery in world.store.append(3):
            lane.offer(delivery)
        await quiet(400)
    assert [state for _, state, _ in world.keeper.finals] == [DeliveryState.DEAD] * 3
    assert set(world.courier.order) == {"e1"}


async def test_after_a_long_downtime_the_receiver_is_tried_before_anything_is_given_up(
    autojump_clock: MockClock,
) -> None:
    world = World(max_age=100.0)
    for delivery in world.store.append(2):
        delivery.attempts, delivery.queued_at = 3, world.clock.steady() - 5000
    async with running(world, backlog=2):
        await quiet()
    assert [state for _, state, _ in world.keeper.finals] == [DeliveryState.DELIVERED] * 2


async def test_retry_after_is_not_undercut(autojump_clock: MockClock) -> None:
    world = World()
    busy = Attempt(number=1, at=0.0, duration=0.0, outcome=Outcome.UNREACHABLE, status=503)
    world.courier.script["e1"] = [AttemptResult(busy, retry_after=90.0)]
    async with running(world) as lane:
        lane.offer(world.store.append()[0])
        await quiet(200)
    assert round(world.courier.sent[1][2] - world.courier.sent[0][2]) == 90


async def test_a_failing_plugin_is_a_failed_attempt_without_a_body(autojump_clock: MockClock) -> None:
    world = World()
    world.courier.script["e1"] = [PluginFailed("upper", "hookgw_transform", "boom")]
    async with running(world) as lane:
        lane.offer(world.store.append()[0])
        await quiet()
    first, second = world.store.settlements
    assert (first.state, first.body, first.failures) == (DeliveryState.PENDING, None, 1)
    assert second.state is DeliveryState.DELIVERED
    assert [number for _, number, _ in world.courier.sent] == [2]


async def test_a_filtered_delivery_is_dropped(autojump_clock: MockClock) -> None:
    world = World()
    world.courier.drops = {"e1"}
    async with running(world) as lane:
        for delivery in world.store.append(2):
            lane.offer(delivery)
        await quiet()
    assert world.settled == [(1, DeliveryState.DROPPED), (2, DeliveryState.DELIVERED)]


@pytest.mark.parametrize("exists", [True, False])
async def test_deliveries_of_a_disabled_or_deleted_registration_are_dead(
    autojump_clock: MockClock, exists: bool
) -> None:
    world = World(registrations=[registration("reg_1", enabled=False)] if exists else [registration("other")])
    async with running(world) as lane:
        lane.offer(world.store.append()[0])
        await quiet()
    assert world.courier.sent == []
    assert world.keeper.finals == [
        ("e1", DeliveryState.DEAD, f"The registration was {'disabled' if exists else 'deleted'}.")
    ]


async def test_gone_disables_the_registration_before_the_next_is_sent(autojump_clock: MockClock) -> None:
    world = World()
    world.courier.script["e1"] = [Outcome.GONE]
    async with running(world) as lane:
        for delivery in world.store.append(2):
            lane.offer(delivery)
        await quiet()
    assert world.keeper.disabled == ["reg_1"]
    assert world.courier.order == ["e1"]
    assert world.settled == [(1, DeliveryState.DEAD), (2, DeliveryState.DEAD)]


async def test_resume_tries_again_now_and_forgets_how_long_it_waited(autojump_clock: MockClock) -> None:
    world = World()
    world.courier.script["e1"] = [Outcome.UNREACHABLE] * 6
    async with running(world) as lane:
        lane.offer(world.store.append()[0])
        await quiet(20)
        lane.resume()
        await quiet(0)
        resumed = world.courier.sent[-1][2]
        await quiet(5)
    assert resumed == pytest.approx(world.courier.sent[0][2] + 20)
    assert world.courier.sent[-1][2] == pytest.approx(resumed + 1)


async def test_the_next_time_on_disk_is_kept_after_a_restart(autojump_clock: MockClock) -> None:
    world = World()
    world.store.append()[0].next_at = world.clock.steady() + 42
    began = world.clock.steady()
    async with running(world, backlog=1):
        await quiet(100)
    assert world.courier.sent[0][2] == pytest.approx(began + 42)


async def test_refresh_gives_the_head_back_and_reads_from_the_start(autojump_clock: MockClock) -> None:
    world = World()
    world.courier.script["e2"] = [Outcome.FAILED]
    moved = trio.Event()
    async with running(world) as lane:
        first, second = world.store.append(2)
        first.lane = "elsewhere"
        lane.offer(second)
        await quiet(1)
        first.lane = URL
        lane.refresh([moved])
        await quiet(60)
        assert world.courier.order == ["e2"]
        assert lane.statistics().state is LaneState.PAUSED
        moved.set()
        await quiet(60)
    assert world.courier.order == ["e2", "e1", "e2"]


async def test_refresh_lets_the_attempt_on_the_wire_end(autojump_clock: MockClock) -> None:
    world = World()
    world.courier.takes = 10
    async with running(world) as lane:
        lane.offer(world.store.append()[0])
        await quiet(1)
        assert lane.under_way("other") is None
        found = lane.under_way("reg_1")
        assert found is not None
        seq, done = found
        lane.refresh()
        assert seq == 1
        await done.wait()
        assert world.settled == [(1, DeliveryState.DELIVERED)]
        await quiet()
        assert lane.under_way("reg_1") is None
    assert world.courier.order == ["e1"]


async def test_no_attempt_is_made_while_outcomes_cannot_be_written(autojump_clock: MockClock) -> None:
    world = World()
    world.store.room = trio.Event()
    async with running(world) as lane:
        lane.offer(world.store.append()[0])
        await quiet()
        assert world.courier.sent == []
        world.store.room.set()
        await quiet()
    assert world.courier.order == ["e1"]


async def test_a_disk_that_cannot_be_read_holds_the_lane_up_and_ends_nothing(
    autojump_clock: MockClock,
) -> None:
    world = World()
    world.store.unreadable = 4
    world.store.append(2)
    async with running(world, backlog=2) as lane:
        await quiet(1)
        assert lane.statistics().state is LaneState.PAUSED
        await quiet()
        assert world.courier.order == ["e1", "e2"]
        world.store.unreadable = 2
        lane.refresh()
        lane.offer(world.store.append()[0])
        await quiet()
    assert world.courier.order == ["e1", "e2", "e3"]


async def test_a_registration_that_goes_while_outcomes_cannot_be_written_is_not_sent_to(
    autojump_clock: MockClock,
) -> None:
    world = World()
    world.store.room = trio.Event()
    async with running(world) as lane:
        lane.offer(world.store.append()[0])
        await quiet()
        del world.keeper.registrations["reg_1"]
        world.store.room.set()
        await quiet()
    assert world.courier.sent == []
    assert world.settled == [(1, DeliveryState.DEAD)]


async def test_what_is_about_to_be_sent_is_under_way_while_others_are_told(autojump_clock: MockClock) -> None:
    world = World()
    world.courier.script["e1"] = [Outcome.FAILED]
    seen: list[bool] = []
    async with running(world) as lane:

        async def lane_changed(key: str, state: LaneState) -> None:
            seen.append(lane.under_way("reg_1") is not None)

        world.keeper.lane_changed = lane_changed  # type: ignore[method-assign,assignment]
        lane.offer(world.store.append()[0])
        await quiet()
    assert seen == [False, True]  # it begins to wait, and delivers again


async def test_ends_when_it_is_sent_to_rest_and_leaves_its_connection_and_what_it_remembers(
    autojump_clock: MockClock, connection: IdleConnection
) -> None:
    world = World(lane_idle=60.0)
    world.courier.script["e2"] = [Outcome.REJECTED]
    transport, patience = FakeTransport(), IdleLanes(5)
    transport.idle = connection
    lane = make_lane(world, transport=transport, patience=patience)
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(patience.run)
        for delivery in world.store.append(2):
            lane.offer(delivery)
        past = await lane.run()
        nursery.cancel_scope.cancel()
    assert trio.current_time() - began == pytest.approx(5)
    assert past == LaneMemory(until=began + 60, last=2, outcome=Outcome.REJECTED, connection=connection)
    assert world.courier.order == ["e1", "e2"]


async def test_what_comes_while_it_is_sent_to_rest_is_delivered_first(autojump_clock: MockClock) -> None:
    world = World()
    patience = IdleLanes(100)
    lane = make_lane(world, patience=patience)
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def run() -> None:
            await lane.run()
            nursery.cancel_scope.cancel()

        nursery.start_soon(patience.run)
        await quiet(1)
        lane.park()
        lane.offer(world.store.append()[0])
        await quiet(50)
        assert world.courier.order == ["e1"]
        assert lane.statistics().state is LaneState.IDLE
        lane.park()
        lane.requeued(1)
        world.store.append()
        await quiet(50)
        assert world.courier.order == ["e1", "e2"]
        began = trio.current_time()
        await quiet(100)
    assert trio.current_time() - began == pytest.approx(50, abs=GRAIN)


async def test_goes_on_with_the_connection_and_the_memory_of_the_one_before(
    autojump_clock: MockClock, connection: IdleConnection
) -> None:
    world = World()
    old, new = world.store.append(2)
    transport = FakeTransport()
    past = LaneMemory(
        last=old.position, streak=3, outcome=Outcome.FAILED, error="It said no.", connection=connection
    )
    patience = IdleLanes(1)
    lane = make_lane(world, transport=transport, patience=patience, backlog=1, past=past)
    assert transport.idle is connection
    assert past.connection is None
    shown = lane.statistics()
    assert (shown.last_outcome, shown.last_error) == (Outcome.FAILED, "It said no.")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(patience.run)
        again = await lane.run()
        nursery.cancel_scope.cancel()
    assert world.courier.order == [new.event.id]  # the other one's outcome may not be on disk yet
    assert again is past
    assert (past.last, past.streak, past.outcome) == (new.position, 0, Outcome.DELIVERED)


async def test_keeps_no_delivery_while_it_is_idle(autojump_clock: MockClock) -> None:
    world = World()
    async with running(world) as lane:
        [delivery] = world.store.append()
        held = sys.getrefcount(delivery)
        lane.offer(delivery)
        await quiet()
        assert world.settled == [(1, DeliveryState.DELIVERED)]
        assert sys.getrefcount(delivery) == held - 1  # the store's is gone, and the lane has none


async def test_told_to_stop_it_leaves_nothing(autojump_clock: MockClock) -> None:
    world = World()
    transport = FakeTransport()
    lane = make_lane(world, transport=transport)
    lane.stop()
    assert await lane.run() is None
    assert transport.closed


async def test_stop_lets_the_attempt_end_and_leaves_the_rest(autojump_clock: MockClock) -> None:
    world = World()
    world.courier.takes = 10
    lane = make_lane(world)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lane.run)
        for delivery in world.store.append(3):
            lane.offer(delivery)
        await quiet(1)
        lane.stop()
    assert world.settled == [(1, DeliveryState.DELIVERED)]
    assert sorted(world.store.pending) == [2, 3]


@pytest.mark.parametrize("outcome", [Outcome.FAILED, None])
async def test_stop_ends_a_waiting_and_an_idle_lane_at_once(
    autojump_clock: MockClock, outcome: Outcome | None
) -> None:
    world = World()
    if outcome:
        world.courier.script["e1"] = [outcome]
    lane = make_lane(world)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lane.run)
        lane.offer(world.store.append()[0])
        await quiet(1)
        stopped = trio.current_time()
        lane.stop()
    assert trio.current_time() == stopped


async def test_statistics_show_head_and_wait(autojump_clock: MockClock) -> None:
    world = World()
    world.courier.script["e1"] = [Outcome.FAILED]
    async with running(world) as lane:
        for delivery in world.store.append(2):
            lane.offer(delivery)
        await quiet(1)
        shown = lane.statistics()
    assert (shown.state, shown.backlog, shown.head) == (LaneState.WAITING, 2, 1)
    assert shown.waiting_until == pytest.approx(world.courier.sent[0][2] + 5)
    assert shown.last_outcome is Outcome.FAILED
    assert shown.head_since == 1_700_000_000.0


async def test_a_waiting_lane_holds_nothing_but_its_head(autojump_clock: MockClock) -> None:
    world = World()
    world.courier.script["e1"] = [Outcome.FAILED]
    async with running(world) as lane:
        for delivery in world.store.append(50):
            lane.offer(delivery)
        await quiet(1)
        assert lane._source.is_empty
        await quiet(20)
    assert world.courier.order == ["e1", *(f"e{n}" for n in range(1, 51))]


async def test_what_comes_back_wakes_an_idle_lane(autojump_clock: MockClock) -> None:
    world = World()
    async with running(world) as lane:
        first, second = world.store.append(2)
        lane.offer(first)
        lane.offer(second)
        await quiet()
        world.store.requeue(first)
        lane.requeued(1)
        assert lane.statistics().backlog == 1
        await quiet()
        assert lane.statistics().backlog == 0
    assert world.courier.order == ["e1", "e2", "e1"]


@pytest.mark.parametrize("buffered", [1, 4, 300])
@pytest.mark.parametrize("count", [1, PAGE, 2 * PAGE + 1])
async def test_what_comes_back_is_sent_once_between_what_was_and_what_will_be_appended(
    autojump_clock: MockClock, buffered: int, count: int
) -> None:
    world = World(lane_buffer=buffered)
    world.courier.takes = 0.001
    async with running(world) as lane:
        old = world.store.append(count)
        for delivery in old:
            lane.offer(delivery)
        await quiet()
        for delivery in world.store.append(3):  # on their way through the channel
            lane.offer(delivery)
        for delivery in old:
            world.store.requeue(delivery)
        late = world.store.append(3)  # of the same commit: the requeued comes first
        lane.requeued(len(old))
        for delivery in late:
            lane.offer(delivery)
        await quiet()
    names = [f"e{number}" for number in range(1, count + 1)]
    between = [f"e{count + number}" for number in (1, 2, 3)]
    assert world.courier.order[count:] == [*between, *names, *(d.event.id for d in late)]


async def test_what_comes_back_while_a_page_is_read_is_in_the_next(autojump_clock: MockClock) -> None:
    world = World()
    async with running(world, backlog=1) as lane:
        world.store.reads = trio.Event()
        [first, second] = world.store.append(2)
        del world.store.pending[first.seq]
        await quiet()  # the page is read without what comes back now
        assert world.store.pages == [(URL, 0)]
        world.store.requeue(first)
        lane.requeued(1)
        world.store.reads.set()
        await quiet()
    assert world.courier.order == ["e2", "e1"]
    assert second.position < first.position


async def test_a_nudge_does_not_cut_the_wait_for_the_head_short(autojump_clock: MockClock) -> None:
    world = World()
    world.courier.script["e2"] = [Outcome.FAILED]
    async with running(world) as lane:
        for delivery in (deliveries := world.store.append(2)):
            lane.offer(delivery)
        await quiet(1)
        world.store.requeue(deliveries[0])
        lane.requeued(1)
        await quiet(1)
        assert world.courier.order == ["e1", "e2"]
        assert lane.statistics().backlog == 2
        await quiet(5)
    assert world.courier.order == ["e1", "e2", "e2", "e1"]


async def test_the_age_of_what_is_sent_again_begins_anew(autojump_clock: MockClock) -> None:
    world = World(max_age=100.0)
    world.courier.script["e1"] = [Outcome.UNREACHABLE] * 2
    await trio.sleep(1000)
    async with running(world) as lane:
        delivery = world.store.append()[0]
        delivery.queued_at = world.clock.steady()
        lane.offer(delivery)
        await quiet(50)
    assert world.settled == [(1, DeliveryState.DELIVERED)]
    assert len(world.courier.sent) == 3


async def test_a_page_that_is_cut_short_is_not_the_last(autojump_clock: MockClock) -> None:
    world = World()
    world.store.page_limit = 2
    world.courier.takes = 0.001
    world.store.append(5)
    async with running(world, backlog=5) as lane:
        await trio.sleep(0.0005)
        lane.offer(world.store.append()[0])
        await quiet()
    assert world.courier.order == [f"e{number}" for number in range(1, 7)]


async def test_times_on_disk_that_lie_too_far_ahead_are_brought_back(autojump_clock: MockClock) -> None:
    """As they are where the machine's clock was set back while hookgw was down."""
    world = World(retry_after_max=100.0, schedule=())
    head, _ = world.store.append(2)
    now = world.clock.steady()
    head.queued_at = head.next_at = now + 10_000
    world.courier.script["e1"] = [Outcome.UNREACHABLE] * 99
    async with running(world, backlog=2) as lane:
        await quiet(299)
        assert world.courier.order == []
        assert lane.statistics().waiting_until == pytest.approx(now + 300)
        await quiet(2)
        assert world.courier.order == ["e1"]
        assert head.queued_at == now


async def test_a_time_too_far_ahead_holds_up_nothing_whose_registration_is_gone(
    autojump_clock: MockClock,
) -> None:
    world = World()
    world.store.append()[0].next_at = world.clock.steady() + 10_000
    del world.keeper.registrations["reg_1"]
    async with running(world, backlog=1):
        await quiet(1)
        assert world.settled == [(1, DeliveryState.DEAD)]
