"""Limits on connections, in total and per client address.

Idle clients must not lock others out: at a limit, hookgw closes the connection that has waited longest for
its client before it refuses a new one. At the limit of one address, only the oldest connections are compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

import structlog
import trio

from hookgw.auth.client_address import NAME_THE_PROXY, TrustedProxies, rate_limit_key
from hookgw.config.open_files import divide_open_files
from hookgw.config.settings import ServerSettings
from hookgw.web.server.client_timeouts import ClientTimeouts, TimedConnection

logger = structlog.get_logger("hookgw.api")

_OLDEST = 16
"""Connections of one address that are looked at first."""
_TRANSFER_GRACE = 1.0
"""Seconds that a body or a response may take before its connection can be closed to make room."""

_LOG_INTERVAL = 60.0
"""Seconds between two log lines about refused connections."""


class ConnectionLimits:
    """The connections of one server. The limit per address does not apply to trusted proxies."""

    def __init__(self, settings: ServerSettings, timeouts: ClientTimeouts) -> None:
        self._limit = divide_open_files(settings.max_connections).clients
        self._limit_of_one = settings.max_connections_per_address
        self._proxies = TrustedProxies(settings.trusted_proxies)
        self._timeouts = timeouts
        self._taken: dict[TimedConnection, str | None] = {}
        self.by_source: dict[str, dict[TimedConnection, None]] = {}
        self._warn_from = 0.0
        self._crowded_out = 0

    def __iter__(self) -> Iterator[TimedConnection]:
        return iter(tuple(self._taken))

    def __len__(self) -> int:
        return len(self._taken)

    def count(self) -> tuple[int, int]:
        """Return how many connections there are, and how many a limit has closed or refused so far."""
        return len(self._taken), self._crowded_out

    def admit(self, connection: TimedConnection, peer: str | None) -> bool:
        """Register a connection, and close another one if that is needed to make room.

        The peer is ``None`` on a Unix socket, which has no limit per address. Return whether the connection
        was registered. If not, the caller closes it.
        """
        # Behind a proxy all clients have the proxy's address. An IPv6 client owns a whole /64.
        source = None if peer is None or self._proxies.trusts(peer) else rate_limit_key(peer)
        is_own_limit = not self._has_room_for(source)
        if is_own_limit or not self._has_room():
            self._crowded_out += 1
            now = trio.current_time()
            if now >= self._warn_from:  # a flood of connections must not become a flood of log lines
                self._warn_from = now + _LOG_INTERVAL
                logger.warning(
                    "connection refused, limit reached",
                    client=peer,
                    connections=len(self._taken),
                    **({"fix": NAME_THE_PROXY} if is_own_limit else {}),
                )
            return False
        self._taken[connection] = source
        if source is not None:
            self.by_source.setdefault(source, {})[connection] = None
        return True

    def remove(self, connection: TimedConnection) -> None:
        """Unregister a connection that ended, or was closed to make room. A second call has no effect."""
        source = self._taken.pop(connection, None)
        if source is not None:
            neighbours = self.by_source[source]
            neighbours.pop(connection, None)
            if not neighbours:
                del self.by_source[source]

    def _has_room_for(self, source: str | None) -> bool:
        neighbours = self.by_source.get(source, {}) if source is not None else {}
        if len(neighbours) < self._limit_of_one:
            return True
        # Nearly always, one of the oldest few waits. A look at hundreds would make a flood expensive.
        return self._make_room(islice(neighbours, _OLDEST)) or self._make_room(neighbours)

    def _has_room(self) -> bool:
        if len(self._taken) < self._limit:
            return True
        # Only the longest wait of each table: a look at every connection would make a flood expensive.
        return self._make_room(first for wait in self._timeouts.all if (first := wait.first()) is not None)

    def _make_room(self, candidates: Iterable[TimedConnection]) -> bool:
        now = trio.current_time()
        worst: tuple[int, float] | None = None
        chosen = None
        for connection in candidates:
            eviction_rank = connection.eviction_rank()
            if eviction_rank is None or (eviction_rank[0] and eviction_rank[1] > now - _TRANSFER_GRACE):
                continue
            if worst is None or eviction_rank < worst:
                worst, chosen = eviction_rank, connection
        if chosen is None:
            return False
        self._crowded_out += 1
        self.remove(chosen)  # now, not when its task ends: the new connection needs the room at once
        chosen.abort()
        return True
