"""Parked lanes, with real sockets, on a clock that jumps as soon as everybody waits."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
import trio
from trio.testing import MockClock

from hookgw.delivery.http.connection import IdleConnection
from hookgw.dispatch.parked_lanes import FORGET_AT_ONCE, GRAIN, LOOK_EVERY, LaneMemory, ParkedLanes
from tests.dispatch.sockets import idle_connection, is_closed

Pair = tuple[IdleConnection, socket.socket]


@pytest.fixture
def pairs() -> Iterator[list[Pair]]:
    """Three connections, each with the receiver's end of it."""
    with idle_connection() as first, idle_connection() as second, idle_connection() as third:
        yield [first, second, third]


def memory(until: float, connection: IdleConnection | None = None, streak: int = 0) -> LaneMemory:
    return LaneMemory(until=until, connection=connection, streak=streak)


async def test_lanes_are_forgotten_when_they_are_due_and_their_connections_closed(
    autojump_clock: MockClock, pairs: list[Pair]
) -> None:
    parked = ParkedLanes()
    for number, (connection, _) in enumerate(pairs):
        parked.put(f"lane {number}", memory(10.0 * (number + 1), connection))
    for number, (connection, _) in enumerate(pairs):
        assert await parked.wait_due() == [f"lane {number}"]
        assert trio.current_time() == pytest.approx(10.0 * (number + 1))
        assert is_closed(connection)
        assert [is_closed(later) for later, _ in pairs[number + 1 :]] == [False] * (2 - number)
    assert parked.lanes() == []


async def test_a_lane_may_be_parked_while_a_task_waits(autojump_clock: MockClock) -> None:
    parked = ParkedLanes()
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def park() -> None:
            await trio.sleep(100)
            parked.put("long", memory(170.0))
            await trio.sleep(1)
            parked.put("short", memory(101.0))

        assert await parked.wait_due() == ["short"]
        assert trio.current_time() == pytest.approx(101)
        assert await parked.wait_due() == ["long"]
        assert trio.current_time() == pytest.approx(170)


async def test_a_lane_that_is_taken_keeps_its_connection(
    autojump_clock: MockClock, pairs: list[Pair]
) -> None:
    parked = ParkedLanes()
    (connection, theirs), (other, _), _ = pairs
    kept = memory(10.0, connection)
    parked.put("lane", kept)
    parked.put("other", memory(20.0, other))
    assert parked.find("lane") is kept
    assert parked.take("lane") is kept
    assert parked.take("lane") is None
    assert parked.find("lane") is None
    theirs.close()  # nobody watches it now
    assert await parked.wait_due() == ["other"]
    assert kept.connection is connection
    assert not is_closed(connection)


async def test_a_connection_that_the_receiver_closed_is_closed_long_before_its_lane_is_due(
    autojump_clock: MockClock, pairs: list[Pair]
) -> None:
    parked = ParkedLanes()
    memories = [memory(60.0 + number, connection) for number, (connection, _) in enumerate(pairs)]
    for number, kept in enumerate(memories):
        parked.put(f"lane {number}", kept)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(parked.wait_due)
        await trio.sleep(1)
        pairs[0][1].close()
        pairs[1][1].shutdown(socket.SHUT_WR)
        await trio.sleep(LOOK_EVERY)
        assert [is_closed(connection) for connection, _ in pairs] == [True, True, False]
        assert [kept.connection is None for kept in memories] == [True, True, False]
        nursery.cancel_scope.cancel()
    assert parked.take("lane 0") is memories[0]
    assert parked.forget(["lane 1", "lane 2", "unknown"]) == ["lane 1", "lane 2", "unknown"]
    assert is_closed(pairs[2][0])


async def test_redirect_closes_the_connection_and_resets_the_streak(
    autojump_clock: MockClock, pairs: list[Pair]
) -> None:
    parked = ParkedLanes()
    (connection, theirs), (other, _), _ = pairs
    redirected = memory(60.0, connection, streak=7)
    parked.put("lane", redirected)
    parked.put("other", memory(60.0, other, streak=7))
    parked.put("without a connection", memory(60.0, streak=7))
    parked.redirect("lane")
    parked.redirect("lane")
    parked.redirect("without a connection")
    assert (redirected.streak, redirected.connection) == (0, None)
    assert [is_closed(connection), is_closed(other)] == [True, False]
    theirs.close()  # nobody watches it now
    assert await parked.wait_due() == ["lane", "other", "without a connection"]


async def test_many_lanes_are_forgotten_in_pieces(autojump_clock: MockClock) -> None:
    parked = ParkedLanes()
    names = [f"lane {number}" for number in range(FORGET_AT_ONCE + 1)]
    for name in names:
        parked.put(name, memory(1.0))
    assert await parked.wait_due() == names[:-1]
    assert await parked.wait_due() == names[-1:]
    assert trio.current_time() == pytest.approx(1, abs=GRAIN)
