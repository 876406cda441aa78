"""Closing connections on which nothing has been asked for a while.

hypercorn starts a task for each pause between two requests. Here a pause is an entry in a table in the
order of beginning, and one task for all connections closes those at its front.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

from hookgw.api.connection import Connection


class IdleConnections:
    """The connections that wait for a request, the one that has waited longest first.

    Args:
        timeout: how long one may wait, in seconds.
    """

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._deadlines: dict[Connection, float] = {}
        self._is_closing = False

    def add(self, connection: Connection) -> None:
        """Begin to count."""
        if self._is_closing:
            connection.abort()
            return
        self._deadlines.pop(connection, None)
        self._deadlines[connection] = trio.current_time() + self._timeout

    def discard(self, connection: Connection) -> None:
        """A request came, or the connection ended."""
        self._deadlines.pop(connection, None)

    def close_all(self) -> None:
        """Close them all, and from now on each one as it becomes idle."""
        self._is_closing = True
        for connection in self._deadlines:
            connection.abort()

    async def reap(self) -> None:
        """Close each one when its time is up, until cancelled."""
        while True:
            now = trio.current_time()
            while self._deadlines:
                connection, deadline = next(iter(self._deadlines.items()))
                if deadline > now:
                    break
                self.discard(connection)
                connection.abort()
            await trio.sleep_until(next(iter(self._deadlines.values()), now + self._timeout))


class IdleMark:
    """Tells the table about one connection; in the place of hypercorn's task for each pause."""

    def __init__(self, table: IdleConnections, connection: Connection) -> None:
        self._table = table
        self._connection = connection

    async def restart(self, task_group: object, action: Callable[[], Awaitable[None]]) -> None:  # noqa: ARG002
        """The connection is idle."""
        self._table.add(self._connection)

    async def stop(self) -> None:
        """It is not."""
        self._table.discard(self._connection)
