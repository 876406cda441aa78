from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from hookgw.dispatch.idle_lanes import GRAIN, IdleLanes


class FakeLane:
    """Notes when it is sent to rest."""

    def __init__(self) -> None:
        self.at: list[float] = []

    def park(self) -> None:
        self.at.append(trio.current_time())


async def test_lanes_are_sent_to_rest_when_their_time_has_come(autojump_clock: MockClock) -> None:
    patience = IdleLanes(10)
    first, busy, last = FakeLane(), FakeLane(), FakeLane()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(patience.run)
        await trio.sleep(5)
        assert patience.begin(first) == trio.current_time() == 5
        patience.begin(busy)
        await trio.sleep(4)
        patience.end(busy)
        patience.begin(last)
        await trio.sleep(100)
        assert (first.at, busy.at) == ([15], [])
        assert last.at == [pytest.approx(19)]
        nursery.cancel_scope.cancel()


async def test_who_has_something_to_do_begins_anew(autojump_clock: MockClock) -> None:
    patience = IdleLanes(10)
    lane = FakeLane()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(patience.run)
        patience.begin(lane)
        await trio.sleep(9)
        patience.end(lane)
        patience.begin(lane)
        await trio.sleep(9)
        assert lane.at == []
        await trio.sleep(1 + GRAIN)
        patience.end(lane)  # it ended meanwhile
        assert lane.at == [pytest.approx(19, abs=GRAIN)]
        await trio.sleep(100)
        patience.begin(lane)
        await trio.sleep(11)
        assert lane.at[1:] == [pytest.approx(129.1, abs=GRAIN)]
        nursery.cancel_scope.cancel()


async def test_where_too_many_are_idle_those_go_that_are_so_for_longest(autojump_clock: MockClock) -> None:
    patience = IdleLanes(10, most=2)
    lanes = [FakeLane() for _ in range(4)]
    for lane in lanes[:2]:
        patience.begin(lane)
    patience.end(lanes[0])
    patience.begin(lanes[0])
    assert [lane.at for lane in lanes[:2]] == [[], []]
    await trio.sleep(1)
    for lane in lanes[2:]:
        patience.begin(lane)
    assert [lane.at for lane in lanes] == [[1], [1], [], []]
    patience.end(lanes[1])  # it is awake now, and ends
    patience.end(lanes[2])
    patience.begin(lanes[2])
    assert lanes[3].at == []


async def test_many_at_once_are_one_piece_of_work(autojump_clock: MockClock) -> None:
    patience = IdleLanes(1)
    lanes = [FakeLane() for _ in range(100)]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(patience.run)
        for lane in lanes:
            patience.begin(lane)
            await trio.sleep(GRAIN / 1000)
        await trio.sleep(2)
        assert len({lane.at[0] for lane in lanes}) == 2  # the first, and all the others
        nursery.cancel_scope.cancel()
