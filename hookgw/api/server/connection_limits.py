"""How many connections there may be, in all and from one address, and which one goes for another.

Who opens connections and lets them wait must not keep others out. So where there is no room, the connection
that has waited longest for its client makes some, before a new one is refused.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterable, Iterator

import structlog
import trio

from hookgw.api.server.client_timeouts import ClientTimeouts, TimedConnection
from hookgw.auth.client_address import TrustedProxies, rate_limit_key
from hookgw.config.settings import ServerSettings

logger = structlog.get_logger("hookgw.api")

_AT_WORK = 1.0
"""Seconds that a body, or an answer, may stay under way before its connection can go for another."""

_QUIET = 60.0
"""Seconds between two lines of log about it."""


def _most_by_files() -> int:
    """The connections that leave the other half of the files that may be open to lanes and the store."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else max(1, soft // 2)


class ConnectionLimits:
    """The connections of one server.

    Args:
        settings: the limits, and the proxies that the limit for one address is not for.
        waits: what the connections wait for.
    """

    def __init__(self, settings: ServerSettings, waits: ClientTimeouts) -> None:
        self._limit = min(settings.max_connections, _most_by_files())
        self._limit_of_one = settings.max_connections_per_address
        self._proxies = TrustedProxies(settings.trusted_proxies)
        self._waits = waits
        self._taken: dict[TimedConnection, str | None] = {}
        self._of_source: dict[str, set[TimedConnection]] = {}
        self._tell_from = 0.0
        self._crowded_out = 0

    def __iter__(self) -> Iterator[TimedConnection]:
        return iter(tuple(self._taken))

    def __len__(self) -> int:
        return len(self._taken)

    def count(self) -> tuple[int, int]:
        """How many connections there are, and how many were closed so far for want of room."""
        return len(self._taken), self._crowded_out

    def take(self, connection: TimedConnection, peer: str | None) -> bool:
        """Seat a connection, at another's expense where there is no room.

        Args:
            connection: the new one.
            peer: its client's address; ``None`` on a Unix socket, for which the limit of one address is not.

        Returns:
            whether there was a seat.
        """
        source = None if peer is None or self._proxies.trusts(peer) else rate_limit_key(peer)
        if not (self._has_room_for(source) and self._has_room()):
            self._crowded_out += 1
            self._tell(peer)
            return False
        self._taken[connection] = source
        if source is not None:
            self._of_source.setdefault(source, set()).add(connection)
        return True

    def leave(self, connection: TimedConnection) -> None:
        """It ended. It may have been made to leave before."""
        source = self._taken.pop(connection, None)
        if source is not None:
            neighbours = self._of_source[source]
            neighbours.discard(connection)
            if not neighbours:
                del self._of_source[source]

    def _has_room_for(self, source: str | None) -> bool:
        neighbours = self._of_source.get(source, ()) if source is not None else ()
        return len(neighbours) < self._limit_of_one or self._make_room(neighbours)

    def _has_room(self) -> bool:
        if len(self._taken) < self._limit:
            return True
        return self._make_room(first for wait in self._waits.all if (first := wait.first()) is not None)

    def _make_room(self, candidates: Iterable[TimedConnection]) -> bool:
        """Close the one of them that can best be done without, if there is one."""
        now = trio.current_time()
        worst: tuple[int, float] | None = None
        chosen = None
        for connection in candidates:
            lag = connection.lag()
            if lag is None or (lag[0] and lag[1] > now - _AT_WORK):
                continue
            if worst is None or lag < worst:
                worst, chosen = lag, connection
        if chosen is None:
            return False
        self._crowded_out += 1
        self.leave(chosen)
        chosen.abort()
        return True

    def _tell(self, peer: str | None) -> None:
        now = trio.current_time()
        if now >= self._tell_from:
            self._tell_from = now + _QUIET
            logger.warning("no room for a connection", client=peer, connections=len(self._taken))
