"""A barrier: the lanes of a registration take nothing behind a position, until it is lifted."""

import trio
from trio.testing import MockClock

from hookgw import LaneState, Outcome
from tests.dispatch.fakes import LANE, OTHER_LANE, World
from tests.public.lanes import RETIRE_AFTER

HIGH = 1000


def raise_positions(world: World) -> None:
    """Let all that is appended from now on lie behind the barrier."""
    world.outbox._positions = HIGH


async def test_what_lies_before_it_is_sent_and_the_rest_when_it_is_lifted(autojump_clock: MockClock) -> None:
    world = World()
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch(world.outbox.add(2))
        with dispatcher.paused("reg_1"):
            dispatcher.set_barrier("reg_1", HIGH)
        await trio.sleep(1)
        before = world.outbox._positions
        raise_positions(world)
        dispatcher.dispatch(world.outbox.add(2))
        await trio.sleep(1)
        assert world.sender.order == ["e1", "e2"]
        [lane] = dispatcher.lanes()
        assert (lane.state, lane.waits_for, lane.backlog) == (LaneState.IDLE, "backfill", 2)
        assert dispatcher.is_drained("reg_1")
        # The backfill makes some before it, step by step.
        for _ in range(2):
            world.outbox._positions, before = before, before + 1
            world.outbox.add(1)
            dispatcher.requeued({LANE: 1})
            assert not dispatcher.is_drained("reg_1")
            await trio.sleep(1)
        assert world.sender.order == ["e1", "e2", "e5", "e6"]
        dispatcher.lift_barrier("reg_1")
        await trio.sleep(1)
        assert world.sender.order == ["e1", "e2", "e5", "e6", "e3", "e4"]
        [lane] = dispatcher.lanes()
        assert (lane.waits_for, lane.backlog) == (None, 0)


async def test_a_lane_that_starts_from_disk_has_it_too(autojump_clock: MockClock) -> None:
    world = World()
    world.outbox.add(1)
    raise_positions(world)
    world.outbox.add(1)
    world.outbox.add(1, lane=OTHER_LANE)
    async with world.dispatcher() as dispatcher:
        dispatcher.set_barrier("reg_1", HIGH)
        dispatcher.start([(LANE, 2), (OTHER_LANE, 1)])
        await trio.sleep(1)
        assert sorted(world.sender.order) == ["e1", "e3"]  # other registrations have none
        dispatcher.lift_barrier("reg_1")
        await trio.sleep(1)
    assert sorted(world.sender.order) == ["e1", "e2", "e3"]


async def test_a_lane_that_was_retired_at_the_barrier_starts_again(autojump_clock: MockClock) -> None:
    world = World()
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch(world.outbox.add(1))
        await trio.sleep(1)
        dispatcher.set_barrier("reg_1", HIGH)
        raise_positions(world)
        dispatcher.dispatch(world.outbox.add(1))
        await trio.sleep(3 * RETIRE_AFTER)
        dispatcher.lift_barrier("reg_1")
        dispatcher.start([(LANE, 1)])
        await trio.sleep(1)
    assert world.sender.order == ["e1", "e2"]


async def test_a_failing_head_before_it_is_no_drained_lane(autojump_clock: MockClock) -> None:
    world = World(unreachable_first_wait=10.0, script={"e1": [Outcome.UNREACHABLE] * 2})
    async with world.dispatcher() as dispatcher:
        dispatcher.set_barrier("reg_1", HIGH)
        dispatcher.dispatch(world.outbox.add(1))
        await trio.sleep(1)
        assert not dispatcher.is_drained("reg_1")
        await trio.sleep(100)
        assert dispatcher.is_drained("reg_1")
    assert world.sender.order == ["e1", "e1", "e1"]


async def test_it_goes_with_its_shard(autojump_clock: MockClock) -> None:
    """Another node goes on with the job, and sets it there; this one may get the shard back."""
    world = World()
    async with world.dispatcher() as dispatcher:
        dispatcher.set_barrier("reg_1", HIGH)
        raise_positions(world)
        dispatcher.dispatch(world.outbox.add(1))
        await trio.sleep(1)
        await dispatcher.release({0})
        assert world.sender.order == []
        dispatcher.set_barrier("reg_1", 2 * HIGH)
        dispatcher.lift_barrier("reg_1")
        assert not dispatcher._barriers
