import pytest
import trio

from tests.public.lanes import IDLE_GRAIN as GRAIN
from tests.public.lanes import IdleLanes

pytestmark = pytest.mark.usefixtures("autojump_clock")


class FakeLane:
    """Notes when it is retired."""

    def __init__(self) -> None:
        self.retired_at: list[float] = []

    def retire(self) -> None:
        self.retired_at.append(trio.current_time())


async def test_lanes_are_retired_when_their_time_has_come() -> None:
    idle_lanes = IdleLanes(10)
    first, busy, last = FakeLane(), FakeLane(), FakeLane()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(idle_lanes.run)
        await trio.sleep(5)
        assert idle_lanes.begin(first) == trio.current_time() == 5
        idle_lanes.begin(busy)
        await trio.sleep(4)
        idle_lanes.end(busy)
        idle_lanes.begin(last)
        await trio.sleep(100)
        assert (first.retired_at, busy.retired_at) == ([15], [])
        assert last.retired_at == [pytest.approx(19)]
        nursery.cancel_scope.cancel()


async def test_the_time_of_a_lane_starts_anew_after_work() -> None:
    idle_lanes = IdleLanes(10)
    lane = FakeLane()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(idle_lanes.run)
        idle_lanes.begin(lane)
        await trio.sleep(9)
        idle_lanes.end(lane)
        idle_lanes.begin(lane)
        await trio.sleep(9)
        assert lane.retired_at == []
        await trio.sleep(1 + GRAIN)
        idle_lanes.end(lane)  # its task ended meanwhile
        assert lane.retired_at == [pytest.approx(19, abs=GRAIN)]
        await trio.sleep(100)
        idle_lanes.begin(lane)
        await trio.sleep(11)
        assert lane.retired_at[1:] == [pytest.approx(129.1, abs=GRAIN)]
        nursery.cancel_scope.cancel()


async def test_if_too_many_lanes_are_idle_the_longest_idle_are_retired() -> None:
    idle_lanes = IdleLanes(10, most=2)
    lanes = [FakeLane() for _ in range(4)]
    for lane in lanes[:2]:
        idle_lanes.begin(lane)
    idle_lanes.end(lanes[0])
    idle_lanes.begin(lanes[0])
    assert [lane.retired_at for lane in lanes[:2]] == [[], []]
    await trio.sleep(1)
    for lane in lanes[2:]:
        idle_lanes.begin(lane)
    assert [lane.retired_at for lane in lanes] == [[1], [1], [], []]
    idle_lanes.end(lanes[1])  # its task wakes up, and ends
    idle_lanes.end(lanes[2])
    idle_lanes.begin(lanes[2])
    assert lanes[3].retired_at == []


async def test_lanes_that_are_idle_for_nearly_as_long_are_retired_together() -> None:
    idle_lanes = IdleLanes(1)
    lanes = [FakeLane() for _ in range(100)]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(idle_lanes.run)
        for lane in lanes:
            idle_lanes.begin(lane)
            await trio.sleep(GRAIN / 1000)
        await trio.sleep(2)
        assert len({lane.retired_at[0] for lane in lanes}) == 2  # the first, and all the others
        nursery.cancel_scope.cancel()
