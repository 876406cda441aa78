"""The memory that lanes hold: counted, limited, and shared fairly among instances."""

import pytest
import trio

from hookgw import DeliveryState, Event, LaneState, Outcome
from tests.dispatch.fakes import LANE, OTHER_LANE, URL, World, registration
from tests.public.delivery import RequestTemplate
from tests.public.lanes import DELIVERY_OVERHEAD as OVERHEAD
from tests.public.lanes import LANE_PAGE as PAGE
from tests.public.lanes import LEAST_LANE_MEMORY as LEAST_MEMORY
from tests.public.lanes import Dispatcher, charge_of
from tests.public.records import Ordering

pytestmark = pytest.mark.usefixtures("autojump_clock")

MIB = 2**20


def assert_all_delivered(world: World, count: int) -> None:
    assert len(world.settled) == count
    assert {state for _, state in world.settled} == {DeliveryState.DELIVERED}
    assert (world.memory.used, world.memory.waiting) == (0, 0)


async def test_a_delivery_is_charged_until_it_is_settled() -> None:
    world = World()
    world.sender.takes = 1.0
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch(world.outbox.add(3, size=1000))
        for left in (3, 2, 1, 0):
            await trio.sleep(0.5)
            assert world.memory.used == left * charge_of(1000)
            await trio.sleep(0.5)
    assert_all_delivered(world, 3)


async def test_what_does_not_fit_stays_on_disk_and_comes_later_in_order() -> None:
    world = World(memory=MIB)
    world.sender.takes = 1.0
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch(world.outbox.add(10, size=50_000))
        await trio.sleep(0.5)
        assert world.memory.used == 5 * charge_of(50_000)  # the sixth would take of the last quarter
        await trio.sleep(20)
    assert world.sender.order == [f"e{number}" for number in range(1, 11)]
    assert_all_delivered(world, 10)


@pytest.mark.parametrize("count", [1, 5])
async def test_one_delivery_always_fits(count: int) -> None:
    world = World(memory=MIB)
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch(world.outbox.add(count, size=3 * MIB))
        dispatcher.dispatch(world.outbox.add(count, lane=OTHER_LANE, instance="bank", size=3 * MIB))
        await trio.sleep(20)
    assert_all_delivered(world, 2 * count)


async def test_large_deliveries_are_read_one_by_one_and_small_ones_by_the_page() -> None:
    world = World()
    for size in (100, MIB, MIB, MIB, 100, 100):
        world.outbox.add(1, size=size)
    async with world.dispatcher([(LANE, 6)]):
        await trio.sleep(20)
    # The first page ends before the first large one; the second is empty, and says how large it is. The last
    # large one leaves a page of one.
    assert world.outbox.reads == [(LANE, position) for position in (0, 1, 1, 2, 3, 4, 5)]
    assert_all_delivered(world, 6)


async def test_many_lanes_of_large_events_stay_within_the_limit_and_others_beside_them() -> None:
    """Ordering none, concurrency 64, 1 MiB events, and a receiver that hangs."""
    world = World(
        registration(ordering=Ordering.NONE, concurrency=64),
        registration("reg_2", "http://127.0.0.3/"),
        memory=16 * MIB,
    )
    most, send = 0, world.sender.send

    async def hang(*arguments: object, **options: object) -> object:
        nonlocal most
        if arguments[2].registration.id == "reg_1":  # type: ignore[attr-defined]
            most = max(most, world.memory.used)
            await trio.sleep(15)
        return await send(*arguments, **options)  # type: ignore[arg-type]

    world.sender.send = hang  # type: ignore[method-assign,assignment]
    lanes = [f"reg_1:0:{number}" for number in range(64)]
    for lane in lanes:
        world.outbox.add(4, lane=lane, size=MIB)
    async with world.dispatcher([(lane, 4) for lane in lanes]) as dispatcher:
        await trio.sleep(1)
        waiting = [lane.waits_for for lane in dispatcher.lanes("reg_1")]
        assert waiting.count("memory") == 64 - 3  # a megabyte takes three: payload, body and request
        began = trio.current_time()
        for _ in range(50):
            [delivery] = world.outbox.add(1, lane=OTHER_LANE, instance="quiet", size=10_000)
            dispatcher.dispatch([delivery])
            await trio.sleep(0.1)
            assert delivery.seq not in world.outbox.pending
        assert trio.current_time() - began == pytest.approx(5)
        await trio.sleep(5000)
    assert 3 * 3 * MIB < most <= 12 * MIB  # the last quarter is for others
    assert_all_delivered(world, 64 * 4 + 50)


# Waiting for memory.


async def take_all(world: World, dispatcher: Dispatcher) -> int:
    """Take all memory, and make a lane wait for some; return how much was taken."""
    taken = world.memory.total
    world.memory.take("greedy", taken)
    dispatcher.dispatch(world.outbox.add(2))
    await trio.sleep(1)
    [shown] = dispatcher.lanes()
    assert (shown.waits_for, shown.backlog) == ("memory", 2)
    assert world.memory.waiting == 1
    return taken


async def test_a_lane_waits_for_memory() -> None:
    world = World(memory=MIB)
    async with world.dispatcher() as dispatcher:
        world.memory.give("greedy", await take_all(world, dispatcher))
        await trio.sleep(1)
        assert [lane.waits_for for lane in dispatcher.lanes()] == [None]
    assert_all_delivered(world, 2)


async def test_a_pause_ends_the_wait_for_memory() -> None:
    world = World(memory=MIB)
    async with world.dispatcher() as dispatcher:
        taken = await take_all(world, dispatcher)
        with dispatcher.paused("reg_1"):
            await trio.sleep(1)
            assert world.memory.waiting == 0
            assert [lane.state for lane in dispatcher.lanes()] == [LaneState.PAUSED]
        await trio.sleep(1)
        assert world.memory.waiting == 1
        world.memory.give("greedy", taken)
        await trio.sleep(1)
    assert_all_delivered(world, 2)


@pytest.mark.parametrize("end", ["stop", "cancel", "cancel with memory"])
async def test_the_end_of_a_lane_that_waits_leaks_no_memory(end: str) -> None:
    world = World(memory=MIB)
    async with world.dispatcher() as dispatcher:
        taken = await take_all(world, dispatcher)
        if end == "stop":
            dispatcher.stop()
            await dispatcher.wait_stopped()
        elif end == "cancel with memory":
            world.memory.give("greedy", taken)  # the lane has not run since
            assert world.memory.used == LEAST_MEMORY
            taken = 0
    if taken:
        world.memory.give("greedy", taken)
    assert (world.memory.used, world.memory.waiting) == (0, 0)


async def test_the_end_of_a_lane_gives_back_what_it_held() -> None:
    world = World()
    world.sender.takes = 10.0
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch(world.outbox.add(10))
        await trio.sleep(1)
        assert world.memory.used == 10 * charge_of(2)
    assert world.memory.used == 0


async def test_a_refused_read_keeps_its_memory_until_it_is_done() -> None:
    world = World(memory=MIB)
    world.outbox.add(2)
    world.outbox.refusals = 3
    async with world.dispatcher([(LANE, 2)]):
        await trio.sleep(20)
    assert_all_delivered(world, 2)


# Waiting for the next attempt.


async def test_a_lane_that_waits_for_long_holds_nothing_and_shows_its_head() -> None:
    world = World(script={"e1": [Outcome.FAILED] * 2})
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch(world.outbox.add(3, size=MIB))
        await trio.sleep(1)
        assert world.memory.used == 0
        [shown] = dispatcher.lanes()
        assert (shown.state, shown.head, shown.backlog) == (LaneState.WAITING, 1, 3)
        assert shown.waiting_until is not None
        assert shown.head_since is not None
        await trio.sleep(60)
    assert world.sender.times == [0, 5, 20, 20, 20]
    assert [request.number for request in world.sender.requests] == [1, 2, 3, 1, 1]
    assert {request.body for request in world.sender.requests[:3]} == {f"e1 to {URL}".encode()}
    assert_all_delivered(world, 3)


async def test_a_resume_tries_a_head_that_is_only_on_disk() -> None:
    world = World(script={"e1": [Outcome.FAILED] * 2})
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch(world.outbox.add(2))
        await trio.sleep(1)
        dispatcher.resume("reg_1")
        await trio.sleep(1)
        assert world.sender.times == [0, 1]
        dispatcher.resume("reg_1")
        await trio.sleep(1)
        assert world.sender.times == [0, 1, 2, 2]
    assert_all_delivered(world, 2)


async def test_while_the_disk_refuses_the_head_stays_in_memory_and_is_tried() -> None:
    world = World(script={"e1": [Outcome.FAILED]})
    world.outbox.writes_late = True
    flush, may_flush = world.outbox.flush, trio.Event()

    async def slow_flush() -> None:
        await may_flush.wait()
        await flush()

    world.outbox.flush = slow_flush  # type: ignore[method-assign]
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch(world.outbox.add(1))
        await trio.sleep(1)
        assert world.memory.used
        await trio.sleep(5)
        assert world.sender.times == [0, 5]
        assert {request.body for request in world.sender.requests} == {f"e1 to {URL}".encode()}
        may_flush.set()
    assert world.memory.used == 0


async def test_a_lane_that_is_dead_reads_its_head_alone() -> None:
    world = World(unreachable_first_wait=10.0, script={"e1": [Outcome.UNREACHABLE] * 2})
    world.outbox.add(PAGE)
    limits: list[int] = []
    read_lane = world.outbox.read_lane

    async def note(
        lane: str, after: int, limit: int, size: int | None = None, before: int | None = None
    ) -> object:
        limits.append(limit)
        return await read_lane(lane, after, limit, size, before)

    world.outbox.read_lane = note  # type: ignore[method-assign,assignment]
    async with world.dispatcher([(LANE, PAGE)]):
        await trio.sleep(100)
    assert limits == [PAGE, 1, 1, PAGE]
    assert_all_delivered(world, PAGE)


async def test_a_body_that_plugins_made_large_is_charged() -> None:
    world = World()
    world.sender.takes = 1.0

    async def render_large(event: Event, template: RequestTemplate) -> bytes:
        await trio.lowlevel.checkpoint()
        return b"x" * MIB

    world.sender.render_body = render_large  # type: ignore[method-assign]
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch(world.outbox.add(1))
        await trio.sleep(0.5)
        assert world.memory.used == OVERHEAD + 2 + 2 * MIB
        await trio.sleep(1)
    assert_all_delivered(world, 1)
