from __future__ import annotations

from typing import cast

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from hookgw.api.connection import Connection
from hookgw.api.idle import IdleConnections, IdleMark


class Aborted:
    """Stands for a connection; knows whether it was closed."""

    def __init__(self) -> None:
        self.closed = False

    def abort(self) -> None:
        self.closed = True


def three() -> tuple[Connection, Connection, Connection]:
    return cast("tuple[Connection, Connection, Connection]", (Aborted(), Aborted(), Aborted()))


def closed(*connections: Connection) -> list[bool]:
    return [cast("Aborted", connection).closed for connection in connections]


async def test_each_is_closed_when_its_own_time_is_up(mock_clock: MockClock, nursery: trio.Nursery) -> None:
    first, second, busy = three()
    table = IdleConnections(10)
    nursery.start_soon(table.reap)
    await wait_all_tasks_blocked()
    for connection in (first, busy):
        table.add(connection)
    mock_clock.jump(6)
    await IdleMark(table, second).restart(None, wait_all_tasks_blocked)
    await IdleMark(table, busy).stop()
    seen = []
    for seconds in (3.5, 2, 3, 2):
        mock_clock.jump(seconds)
        await wait_all_tasks_blocked()
        seen.append(closed(first, second, busy))
    assert seen == [[False] * 3, [True, False, False], [True, False, False], [True, True, False]]
    nursery.cancel_scope.cancel()


async def test_a_connection_that_is_idle_again_starts_anew(
    mock_clock: MockClock, nursery: trio.Nursery
) -> None:
    first, second, _ = three()
    table = IdleConnections(10)
    table.add(first)
    mock_clock.jump(6)
    table.add(second)
    table.add(first)
    nursery.start_soon(table.reap)
    mock_clock.jump(9)
    await wait_all_tasks_blocked()
    assert closed(first, second) == [False, False]
    mock_clock.jump(2)
    await wait_all_tasks_blocked()
    assert closed(first, second) == [True, True]
    nursery.cancel_scope.cancel()


async def test_at_the_end_all_are_closed_and_those_that_follow() -> None:
    idle, later, never = three()
    table = IdleConnections(10)
    table.add(idle)
    table.add(never)
    table.discard(never)
    table.close_all()
    table.add(later)
    assert closed(idle, later, never) == [True, True, False]
