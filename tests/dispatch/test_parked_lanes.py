"""Parked lanes, on a clock that jumps as soon as everybody waits."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from hookgw.lanes import FORGET_AT_ONCE, LaneMemory, ParkedLanes
from hookgw.lanes import PARKED_GRAIN as GRAIN


async def test_lanes_are_forgotten_when_they_are_due(autojump_clock: MockClock) -> None:
    parked = ParkedLanes()
    for number in range(3):
        parked.put(f"lane {number}", LaneMemory(until=10.0 * (number + 1)))
    for number in range(3):
        assert await parked.wait_due() == [f"lane {number}"]
        assert trio.current_time() == pytest.approx(10.0 * (number + 1))
    assert parked.lanes() == []


async def test_a_lane_may_be_parked_while_a_task_waits(autojump_clock: MockClock) -> None:
    parked = ParkedLanes()
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def park() -> None:
            await trio.sleep(100)
            parked.put("long", LaneMemory(until=170.0))
            await trio.sleep(1)
            parked.put("short", LaneMemory(until=101.0))

        assert await parked.wait_due() == ["short"]
        assert trio.current_time() == pytest.approx(101)
        assert await parked.wait_due() == ["long"]
        assert trio.current_time() == pytest.approx(170)


async def test_a_lane_that_is_taken_is_not_forgotten(autojump_clock: MockClock) -> None:
    parked = ParkedLanes()
    kept = LaneMemory(until=10.0)
    parked.put("lane", kept)
    parked.put("other", LaneMemory(until=20.0))
    assert parked.find("lane") is kept
    assert parked.take("lane") is kept
    assert parked.take("lane") is None
    assert parked.find("lane") is None
    assert await parked.wait_due() == ["other"]


async def test_redirect_resets_the_streak(autojump_clock: MockClock) -> None:
    parked = ParkedLanes()
    redirected = LaneMemory(until=60.0, streak=7)
    parked.put("lane", redirected)
    parked.redirect("lane")
    assert redirected.streak == 0
    assert parked.forget(["lane", "unknown"]) == ["lane", "unknown"]
    assert parked.lanes() == []


async def test_many_lanes_are_forgotten_in_pieces(autojump_clock: MockClock) -> None:
    parked = ParkedLanes()
    names = [f"lane {number}" for number in range(FORGET_AT_ONCE + 1)]
    for name in names:
        parked.put(name, LaneMemory(until=1.0))
    assert await parked.wait_due() == names[:-1]
    assert await parked.wait_due() == names[-1:]
    assert trio.current_time() == pytest.approx(1, abs=GRAIN)
