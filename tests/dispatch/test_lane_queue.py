"""Where a lane's deliveries come from: the memory channel, pages from disk, and the channel again."""

import pytest
import trio

from hookgw import Outcome
from tests.dispatch.fakes import LANE, World
from tests.dispatch.test_lane import quiet, running
from tests.public.lanes import LANE_PAGE as PAGE
from tests.public.lanes import LaneMemory, LaneQueue

pytestmark = pytest.mark.usefixtures("autojump_clock")


async def test_a_lane_with_a_backlog_reads_it_from_disk() -> None:
    world = World()
    world.outbox.add(3)
    async with running(world, backlog=3):
        await quiet()
    assert world.sender.order == ["e1", "e2", "e3"]


async def test_a_lane_that_keeps_up_reads_nothing_from_disk() -> None:
    world = World()
    async with running(world) as lane:
        for delivery in world.outbox.add(3):
            lane.offer(delivery)
        await quiet()
    assert world.sender.order == ["e1", "e2", "e3"]
    assert world.outbox.reads == []


async def test_lanes_of_many_instances_that_read_leave_memory_for_a_quiet_one() -> None:
    """They come back at once when their host does; a quiet instance's lane must not fall behind for that."""
    world = World()
    queue = LaneQueue(LANE, world.outbox, world.memory, LaneMemory(), world.clock.steady, buffer=8, backlog=1)
    while sum(queue.reserve_nowait(f"i{number}") for number in range(60)):
        pass
    async with running(world) as lane:
        for delivery in world.outbox.add(3):
            lane.offer(delivery)
        await quiet()
    assert world.sender.order == ["e1", "e2", "e3"]
    assert world.outbox.reads == []


async def test_a_lane_falls_behind_and_catches_up_without_losing_or_repeating() -> None:
    world = World(lane_buffer=4)
    count = 3 * PAGE + 7
    async with running(world) as lane:
        for delivery in world.outbox.add(count):
            lane.offer(delivery)
        assert lane.statistics().backlog == count
        await quiet()
        assert lane.statistics().backlog == 0
    assert world.sender.order == [f"e{n}" for n in range(1, count + 1)]


@pytest.mark.parametrize("late", [1, 5, 2 * PAGE])
async def test_deliveries_that_are_appended_during_a_read_come_once_and_last(late: int) -> None:
    world = World(lane_buffer=4)
    world.sender.takes = 0.001
    async with running(world) as lane:
        for delivery in world.outbox.add(PAGE):
            lane.offer(delivery)
        for _ in range(late):
            lane.offer(world.outbox.add()[0])
            await trio.sleep(0.002)
        await quiet()
    assert world.sender.order == [f"e{n}" for n in range(1, PAGE + late + 1)]


async def test_a_delivery_that_comes_in_a_page_and_through_the_channel_is_sent_once() -> None:
    """A read may see a commit before the dispatcher hears of it."""
    world = World()
    world.outbox.may_read = trio.Event()
    async with running(world, backlog=1) as lane:
        deliveries = world.outbox.add(3)
        await quiet()
        assert world.outbox.reads == [(LANE, 0)]
        for delivery in deliveries[1:]:
            lane.offer(delivery)
        world.outbox.may_read.set()
        await quiet()
    assert world.sender.order == ["e1", "e2", "e3"]


async def test_a_page_that_was_cut_short_is_not_the_last() -> None:
    world = World()
    world.outbox.page_limit = 2
    world.sender.takes = 0.001
    world.outbox.add(5)
    async with running(world, backlog=5) as lane:
        await trio.sleep(0.0005)
        lane.offer(world.outbox.add()[0])
        await quiet()
    assert world.sender.order == [f"e{number}" for number in range(1, 7)]


async def test_requeued_deliveries_wake_an_idle_lane() -> None:
    world = World()
    async with running(world) as lane:
        first, second = world.outbox.add(2)
        lane.offer(first)
        lane.offer(second)
        await quiet()
        world.outbox.requeue(first)
        lane.requeued(1)
        assert lane.statistics().backlog == 1
        await quiet()
        assert lane.statistics().backlog == 0
    assert world.sender.order == ["e1", "e2", "e1"]


@pytest.mark.parametrize("buffered", [1, 4, 300])
@pytest.mark.parametrize("count", [1, PAGE, 2 * PAGE + 1])
async def test_requeued_deliveries_come_once_between_those_appended_before_and_after(
    buffered: int, count: int
) -> None:
    world = World(lane_buffer=buffered)
    world.sender.takes = 0.001
    async with running(world) as lane:
        old = world.outbox.add(count)
        for delivery in old:
            lane.offer(delivery)
        await quiet()
        for delivery in world.outbox.add(3):  # on their way through the channel
            lane.offer(delivery)
        for delivery in old:
            world.outbox.requeue(delivery)
        late = world.outbox.add(3)  # of the same commit, whose requeued deliveries come first
        lane.requeued(len(old))
        for delivery in late:
            lane.offer(delivery)
        await quiet()
    names = [f"e{number}" for number in range(1, count + 1)]
    between = [f"e{count + number}" for number in (1, 2, 3)]
    assert world.sender.order[count:] == [*between, *names, *(d.event.id for d in late)]


async def test_deliveries_that_are_requeued_during_a_read_are_in_the_next_page() -> None:
    world = World()
    async with running(world, backlog=1) as lane:
        world.outbox.may_read = trio.Event()
        first, second = world.outbox.add(2)
        del world.outbox.pending[first.seq]
        await quiet()  # the page is read without what is requeued now
        assert world.outbox.reads == [(LANE, 0)]
        again = world.outbox.requeue(first)
        lane.requeued(1)
        world.outbox.may_read.set()
        await quiet()
    assert world.sender.order == ["e2", "e1"]
    assert second.position < again.position


async def test_requeued_deliveries_do_not_cut_the_wait_of_the_head_short() -> None:
    world = World(script={"e2": [Outcome.FAILED]})
    async with running(world) as lane:
        deliveries = world.outbox.add(2)
        for delivery in deliveries:
            lane.offer(delivery)
        await quiet(1)
        world.outbox.requeue(deliveries[0])
        lane.requeued(1)
        await quiet(1)
        assert world.sender.order == ["e1", "e2"]
        assert lane.statistics().backlog == 2
        await quiet(5)
    assert world.sender.order == ["e1", "e2", "e2", "e1"]
