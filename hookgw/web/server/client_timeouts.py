"""Client timeouts: for a request's head and body, for reading a response, and between two requests.

A cancel scope around each read and write would cost more than the rest of the request. Here each kind of wait
has one table, ordered by start, with one timeout for all entries, and one task that watches its first entry.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import trio

from hookgw.concurrency.clock import let_arrive
from hookgw.config.settings import ServerSettings
from hookgw.kernel.sentences import Sentence
from hookgw.web.server.request_head import Refused


class TimedConnection(Protocol):
    """The part of a connection that timeouts and connection limits use."""

    def abort(self) -> None: ...

    def time_out(self, refusal: Refused) -> None:
        """Respond with an error, then close the connection."""

    def waits_in(self, wait: Wait) -> bool:
        """Return whether its entry in a table still counts: most waits end without a call."""

    def eviction_rank(self) -> tuple[int, float] | None:
        """Return the rank of the current wait and its start; ``None`` while hookgw works on a request."""


class Wait:
    """The connections that wait for the same action of their clients, the longest wait first.

    A wait that ends leaves its entry, which is removed when it is the first one: see
    :meth:`TimedConnection.waits_in`. A connection that ends removes its entries.

    Args:
        rank: the order in which waiting connections are closed to make room; lowest first.
        expire: called with each connection that timed out, after its removal from the table.
    """

    def __init__(self, rank: int, timeout: float, expire: Callable[[TimedConnection], None]) -> None:
        self.rank = rank
        self._timeout = timeout
        self._expire = expire
        self._now = trio.lowlevel.current_clock().current_time  # each request reads it
        self._deadlines: dict[TimedConnection, float] = {}

    def begin(self, connection: TimedConnection) -> None:
        """Start the timeout of a connection, or restart it."""
        # Remove first: an updated key would keep its old place, and the table must stay in order of start.
        self._deadlines.pop(connection, None)
        self._deadlines[connection] = self._now() + self._timeout

    def end(self, connection: TimedConnection) -> None:
        self._deadlines.pop(connection, None)

    def first(self) -> TimedConnection | None:
        while (connection := next(iter(self._deadlines), None)) is not None and not connection.waits_in(self):
            self.end(connection)
        return connection

    def since(self, connection: TimedConnection) -> float | None:
        deadline = self._deadlines.get(connection)
        return None if deadline is None else deadline - self._timeout

    def abort_all(self) -> None:
        for connection in tuple(self._deadlines):
            if connection.waits_in(self):
                connection.abort()

    async def watch(self) -> None:
        while True:
            now = trio.current_time()
            while (connection := self.first()) is not None and self._deadlines[connection] <= now:
                self.end(connection)  # first: _expire may start another wait of the same connection
                self._expire(connection)
            # The next deadline is the first entry's. A table that is empty cannot expire anything sooner than
            # its own timeout from now, so nothing has to wake this task when a wait starts.
            deadline = next(iter(self._deadlines.values()), now + self._timeout)
            await trio.sleep_until(deadline)
            await let_arrive(trio.current_time() - deadline)


class ClientTimeouts:
    """The waits of one server's connections.

    Attributes:
        heads: for a request's head: on a new connection, or once a head has begun.
        idles: for the next request.
        bodies: for the rest of a body.
        writes: for the client to read a response.
    """

    def __init__(self, settings: ServerSettings) -> None:
        no_head = Sentence(
            "http.head_late",
            "The head did not arrive within {seconds} (server.header_timeout).",
            seconds=settings.header_timeout,
        )
        no_body = Sentence(
            "http.body_late",
            "The body did not arrive within {seconds} (server.body_timeout).",
            seconds=settings.body_timeout,
        )
        # The ranks: a connection without a request is the cheapest to lose, then one whose request arrives
        # slowly, then one whose response is read slowly.
        self.heads = Wait(0, settings.header_timeout, lambda one: one.time_out(Refused(408, no_head)))
        self.idles = Wait(0, settings.keep_alive_timeout, lambda one: one.abort())
        self.bodies = Wait(1, settings.body_timeout, lambda one: one.time_out(Refused(408, no_body)))
        self.writes = Wait(2, settings.write_timeout, lambda one: one.abort())
        self.is_closing = False
        """Whether the connections without an active request are closed; see :meth:`close`."""

    @property
    def all(self) -> tuple[Wait, ...]:
        """All tables, in the order in which their connections are closed to make room."""
        return (self.heads, self.idles, self.bodies, self.writes)

    def close(self) -> None:
        """Close the connections without an active request, now and from now on."""
        self.is_closing = True
        # A connection with a response in progress closes itself at the end of the response.
        self.heads.abort_all()
        self.idles.abort_all()

    async def watch(self) -> None:
        async with trio.open_nursery() as nursery:
            for wait in self.all:
                nursery.start_soon(wait.watch)
