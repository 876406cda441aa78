"""How long clients may take: for a head, a body, the reading of an answer, and between two requests.

A scope with a deadline around each read and write would cost more than all the rest. Here a wait is an
entry in a table in the order of beginning, with one patience for all of a table, and one task for each
table looks at its front.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import trio

from hookgw.api.server.request_head import Refused
from hookgw.config.settings import ServerSettings


class TimedConnection(Protocol):
    """A connection as its timeouts see it."""

    def abort(self) -> None:
        """Close it at once."""

    def give_up(self, refusal: Refused) -> None:
        """Answer with an error, then close it."""

    def lag(self) -> tuple[int, float] | None:
        """The rank of what it waits for, and since when; ``None`` while it works."""


class Wait:
    """The connections that wait for one thing from their clients, the one that has waited longest first.

    Args:
        rank: how readily such a connection is given up for another; the lowest first.
        timeout: how long one may wait, in seconds.
        expire: called with each one whose time is up; it waits no more then.
    """

    def __init__(self, rank: int, timeout: float, expire: Callable[[TimedConnection], None]) -> None:
        self.rank = rank
        self._timeout = timeout
        self._expire = expire
        self._deadlines: dict[TimedConnection, float] = {}

    def begin(self, connection: TimedConnection) -> None:
        """Begin to count, anew where it is counted already."""
        self._deadlines.pop(connection, None)
        self._deadlines[connection] = trio.current_time() + self._timeout

    def end(self, connection: TimedConnection) -> None:
        """What was waited for has come, or the connection ended."""
        self._deadlines.pop(connection, None)

    def first(self) -> TimedConnection | None:
        """The one that has waited longest."""
        return next(iter(self._deadlines), None)

    def since(self, connection: TimedConnection) -> float | None:
        """Since when it waits, on Trio's clock; ``None`` where it does not."""
        deadline = self._deadlines.get(connection)
        return None if deadline is None else deadline - self._timeout

    def abort_all(self) -> None:
        """Close them all at once."""
        for connection in tuple(self._deadlines):
            connection.abort()

    async def watch(self) -> None:
        """Look at the front, until cancelled."""
        while True:
            now = trio.current_time()
            while self._deadlines:
                connection, deadline = next(iter(self._deadlines.items()))
                if deadline > now:
                    break
                self.end(connection)
                self._expire(connection)
            await trio.sleep_until(next(iter(self._deadlines.values()), now + self._timeout))


class ClientTimeouts:
    """What the connections of one server wait for.

    Attributes:
        heads: a request, on a new connection or one where it has begun.
        idles: the next request.
        bodies: the rest of a body.
        writes: that the client reads its answer.
    """

    def __init__(self, settings: ServerSettings) -> None:
        no_head = f"The head did not arrive within {settings.header_timeout} (server.header_timeout)."
        no_body = f"The body did not arrive within {settings.body_timeout} (server.body_timeout)."
        self.heads = Wait(0, settings.header_timeout, lambda one: one.give_up(Refused(408, no_head)))
        self.idles = Wait(0, settings.keep_alive_timeout, lambda one: one.abort())
        self.bodies = Wait(1, settings.body_timeout, lambda one: one.give_up(Refused(408, no_body)))
        self.writes = Wait(2, settings.write_timeout, lambda one: one.abort())
        self._is_closing = False

    @property
    def all(self) -> tuple[Wait, ...]:
        """The tables."""
        return (self.heads, self.idles, self.bodies, self.writes)

    @property
    def is_closing(self) -> bool:
        """Whether nobody is waited for any more who has no request under way."""
        return self._is_closing

    def close(self) -> None:
        """Close the connections without a request, and from now on each one as it becomes so."""
        self._is_closing = True
        self.heads.abort_all()
        self.idles.abort_all()

    async def watch(self) -> None:
        """Give up whose time is up, until cancelled."""
        async with trio.open_nursery() as nursery:
            for wait in self.all:
                nursery.start_soon(wait.watch)
