"""Retired lanes, on a clock that jumps as soon as everybody waits."""

import pytest
import trio

from tests.public.lanes import FORGET_AT_ONCE, LaneMemory, RetiredLanes
from tests.public.lanes import RETIRED_LANES_GRAIN as GRAIN

pytestmark = pytest.mark.usefixtures("autojump_clock")


async def wait_settled() -> None:
    """Have all settlements on disk already."""


async def test_lanes_are_forgotten_when_they_are_due() -> None:
    retired = RetiredLanes()
    for number in range(3):
        retired.put(f"lane {number}", LaneMemory(until=10.0 * (number + 1)))
    for number in range(3):
        assert await retired.wait_due(wait_settled) == [f"lane {number}"]
        assert trio.current_time() == pytest.approx(10.0 * (number + 1))
    assert retired.lanes() == []


async def test_a_lane_may_be_retired_while_a_task_waits() -> None:
    retired = RetiredLanes()
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def retire() -> None:
            await trio.sleep(100)
            retired.put("long", LaneMemory(until=170.0))
            await trio.sleep(1)
            retired.put("short", LaneMemory(until=101.0))

        assert await retired.wait_due(wait_settled) == ["short"]
        assert trio.current_time() == pytest.approx(101)
        assert await retired.wait_due(wait_settled) == ["long"]
        assert trio.current_time() == pytest.approx(170)


async def test_a_lane_that_is_taken_is_not_forgotten() -> None:
    retired = RetiredLanes()
    kept = LaneMemory(until=10.0)
    retired.put("lane", kept)
    retired.put("other", LaneMemory(until=20.0))
    assert retired.find("lane") is kept
    assert retired.take("lane") is kept
    assert retired.take("lane") is None
    assert retired.find("lane") is None
    assert await retired.wait_due(wait_settled) == ["other"]


async def test_a_lane_is_kept_until_what_it_has_settled_is_on_disk() -> None:
    """The next lane of its key would read its last deliveries again, and send them again."""

    async def wait_long() -> None:
        await trio.sleep(5)
        assert retired.find("lane") is not None
        assert retired.take("busy") is not None
        retired.put("busy", LaneMemory(until=30.0))

    retired = RetiredLanes()
    for lane in ("lane", "busy"):
        retired.put(lane, LaneMemory(until=10.0))
    assert await retired.wait_due(wait_long) == ["lane"]
    assert trio.current_time() == pytest.approx(15)
    assert retired.lanes() == ["busy"]


async def test_redirect_resets_the_streak() -> None:
    retired = RetiredLanes()
    redirected = LaneMemory(until=60.0, streak=7)
    retired.put("lane", redirected)
    retired.redirect("lane")
    assert redirected.streak == 0
    assert retired.forget(["lane", "unknown"]) == ["lane", "unknown"]
    assert retired.lanes() == []


async def test_many_lanes_are_forgotten_in_pieces() -> None:
    retired = RetiredLanes()
    names = [f"lane {number}" for number in range(FORGET_AT_ONCE + 1)]
    for name in names:
        retired.put(name, LaneMemory(until=1.0))
    assert await retired.wait_due(wait_settled) == names[:-1]
    assert await retired.wait_due(wait_settled) == names[-1:]
    assert trio.current_time() == pytest.approx(1, abs=GRAIN)
