"""Lanes at rest, with real sockets, on a clock that jumps as soon as everybody waits."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
import trio
from trio.testing import MockClock

from hookgw.delivery.http.connection import IdleConnection
from hookgw.dispatch import parked_lanes as resting
from hookgw.dispatch.parked_lanes import ENDED_AT_ONCE, LOOK_EVERY, LaneMemory, ParkedLanes
from hookgw.models.deliveries import LaneState, LaneStatistics, Outcome
from tests.dispatch.sockets import idle_connection, is_closed

Pair = tuple[IdleConnection, socket.socket]


@pytest.fixture
def pairs() -> Iterator[list[Pair]]:
    """Three connections, each with the receiver's end of it."""
    with idle_connection() as first, idle_connection() as second, idle_connection() as third:
        yield [first, second, third]


def at_rest(until: float, connection: IdleConnection | None = None) -> LaneMemory:
    return LaneMemory(until=until, connection=connection)


async def test_rests_end_in_their_time_and_close_their_connections(
    autojump_clock: MockClock, pairs: list[Pair]
) -> None:
    rests = ParkedLanes()
    for number, (connection, _) in enumerate(pairs):
        rests.put(f"lane {number}", at_rest(10.0 * (number + 1), connection))
    for number, (connection, _) in enumerate(pairs):
        assert await rests.wait_over() == [f"lane {number}"]
        assert trio.current_time() == pytest.approx(10.0 * (number + 1))
        assert is_closed(connection)
        assert [is_closed(later) for later, _ in pairs[number + 1 :]] == [False] * (2 - number)
    assert rests.lanes() == []


async def test_who_waits_hears_of_a_lane_that_is_laid_down_meanwhile(autojump_clock: MockClock) -> None:
    rests = ParkedLanes()
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def lay_down() -> None:
            await trio.sleep(100)
            rests.put("long", at_rest(170.0))
            await trio.sleep(1)
            rests.put("short", at_rest(101.0))

        assert await rests.wait_over() == ["short"]
        assert trio.current_time() == pytest.approx(101)
        assert await rests.wait_over() == ["long"]
        assert trio.current_time() == pytest.approx(170)


async def test_a_lane_that_is_taken_keeps_its_connection(
    autojump_clock: MockClock, pairs: list[Pair]
) -> None:
    rests = ParkedLanes()
    (connection, theirs), (other, _), _ = pairs
    past = at_rest(10.0, connection)
    rests.put("lane", past)
    rests.put("other", at_rest(20.0, other))
    assert rests.take("lane") is past
    assert rests.take("lane") is None
    theirs.close()  # of no concern any more
    assert await rests.wait_over() == ["other"]
    assert past.connection is connection
    assert not is_closed(connection)


async def test_a_connection_that_the_receiver_closed_is_closed_long_before_the_end(
    autojump_clock: MockClock, pairs: list[Pair]
) -> None:
    rests = ParkedLanes()
    pasts = [at_rest(60.0 + number, connection) for number, (connection, _) in enumerate(pairs)]
    for number, past in enumerate(pasts):
        rests.put(f"lane {number}", past)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(rests.wait_over)
        await trio.sleep(1)
        pairs[0][1].close()
        pairs[1][1].shutdown(socket.SHUT_WR)
        await trio.sleep(LOOK_EVERY)
        assert [is_closed(connection) for connection, _ in pairs] == [True, True, False]
        assert [past.connection is None for past in pasts] == [True, True, False]
        nursery.cancel_scope.cancel()
    assert rests.take("lane 0") is pasts[0]
    assert rests.end(["lane 1", "lane 2", "unknown"]) == ["lane 1", "lane 2", "unknown"]
    assert is_closed(pairs[2][0])


async def test_many_rests_end_in_pieces(autojump_clock: MockClock) -> None:
    rests = ParkedLanes()
    names = [f"lane {number}" for number in range(ENDED_AT_ONCE + 1)]
    for name in names:
        rests.put(name, at_rest(1.0))
    assert await rests.wait_over() == names[:-1]
    assert await rests.wait_over() == names[-1:]
    assert trio.current_time() == pytest.approx(1, abs=resting.GRAIN)


def test_a_lane_at_rest_is_idle_and_tells_of_its_last_attempt() -> None:
    rests = ParkedLanes()
    rests.put("lane", LaneMemory(until=1.0, last=7, outcome=Outcome.FAILED, error="It said no."))
    assert rests.statistics("other") is None
    assert rests.statistics("lane") == LaneStatistics(
        lane="lane",
        state=LaneState.IDLE,
        backlog=0,
        last_outcome=Outcome.FAILED,
        last_error="It said no.",
    )
