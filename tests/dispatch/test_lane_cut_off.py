"""A delivery that is being cancelled: its attempt is cut off, and the lane goes on."""

from typing import Any

import pytest
import trio

from hookgw import DeliveryState, LaneState, Outcome
from tests.dispatch.fakes import LANE, FakeSender, World, registration
from tests.public.delivery import AttemptResult
from tests.public.lanes import Dispatcher
from tests.public.records import Ordering

pytestmark = pytest.mark.usefixtures("autojump_clock")


class HeldSender(FakeSender):
    """Answers each attempt when it is released."""

    def __init__(self, world: World) -> None:
        super().__init__(world.clock)
        self.response = trio.Event()

    async def send(self, *args: Any, **kwargs: Any) -> AttemptResult:
        result = await super().send(*args, **kwargs)
        await self.response.wait()
        return result


async def cancel(world: World, dispatcher: Dispatcher, seq: int) -> bool:
    """Do what the gateway does; return whether the delivery was pending until the end."""
    with dispatcher.paused("reg_1", LANE):
        dispatcher.cut_off("reg_1", seq, LANE)
        for number, ended in dispatcher.in_flight("reg_1", LANE):
            if number == seq:
                await ended.wait()
        found = world.outbox.pending.pop(seq, None)
    return found is not None


@pytest.mark.parametrize("ordering", [Ordering.URL, Ordering.INSTANCE])
async def test_the_attempt_ends_at_once_and_the_next_delivery_begins(ordering: Ordering) -> None:
    world = World(registration(ordering=ordering))
    world.sender.takes = 20.0
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch(world.outbox.add(3))
        await trio.sleep(5)
        assert await cancel(world, dispatcher, 1)
        await trio.sleep(60)
    assert world.sender.order == ["e1", "e2", "e3"]
    assert world.sender.times == [0, 5, 25]
    # Recorded with its body, so that a resend sends the same bytes; it counts for nothing else.
    (first,) = [one for one in world.outbox.settlements if one.seq == 1]
    assert (first.state, first.body) == (DeliveryState.PENDING, world.sender.requests[0].body)
    assert first.attempt is not None
    assert [attempt.number for attempt, _ in world.monitor.attempts] == [1, 1]
    assert world.settled == [(2, DeliveryState.DELIVERED), (3, DeliveryState.DELIVERED)]
    assert world.monitor.failures == []


async def test_a_response_that_is_there_in_the_moment_of_the_call_decides() -> None:
    world = World()
    sender = world.sender = HeldSender(world)
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch(world.outbox.add(2))
        await trio.sleep(1)
        sender.response.set()
        assert not await cancel(world, dispatcher, 1)
        await trio.sleep(1)
    assert sender.order == ["e1", "e2"]
    assert world.settled == [(1, DeliveryState.DELIVERED), (2, DeliveryState.DELIVERED)]
    assert [final[:2] for final in world.monitor.finals] == [
        ("e1", DeliveryState.DELIVERED),
        ("e2", DeliveryState.DELIVERED),
    ]


async def test_an_attempt_of_another_delivery_is_not_cut_off() -> None:
    world = World()
    world.sender.takes = 10.0
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch(world.outbox.add(3))
        await trio.sleep(1)
        assert await cancel(world, dispatcher, 2)
        await trio.sleep(60)
    assert world.sender.order == ["e1", "e3"]
    assert world.sender.times == [0, 10]


@pytest.mark.parametrize("failures", [1, 12])
async def test_the_next_one_has_its_attempts_though_the_former_was_tried_for_long(failures: int) -> None:
    world = World(max_age=3600.0, script={"e1": [Outcome.UNREACHABLE] * 100, "e2": [Outcome.UNREACHABLE]})
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch(world.outbox.add(2))
        await trio.sleep({1: 0.01, 12: 110}[failures])
        assert await cancel(world, dispatcher, 1)
        before = world.clock.steady()
        await trio.sleep(1)
    assert world.sender.order == ["e1"] * failures + ["e2", "e2"]
    assert world.sender.requests[-1].at - before < 1


async def test_one_that_waits_on_disk() -> None:
    world = World(script={"e1": [Outcome.FAILED]})
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch(world.outbox.add(300))
        await trio.sleep(1)
        assert dispatcher.lanes()[0].state is LaneState.WAITING
        assert await cancel(world, dispatcher, 1)
        assert await cancel(world, dispatcher, 250)
        await trio.sleep(1)
    assert world.sender.order == [f"e{n}" for n in range(1, 301) if n != 250]


async def test_the_lane_is_cut_off_again_and_again() -> None:
    world = World()
    world.sender.takes = 20.0
    async with world.dispatcher() as dispatcher:
        dispatcher.dispatch(world.outbox.add(5))
        for seq in range(1, 6):
            await trio.sleep(1)
            assert await cancel(world, dispatcher, seq)
        dispatcher.dispatch(world.outbox.add(1))
        await trio.sleep(30)
        assert [lane.state for lane in dispatcher.lanes()] == [LaneState.IDLE]
    assert world.sender.order == [f"e{n}" for n in range(1, 7)]
    assert world.settled == [(6, DeliveryState.DELIVERED)]
