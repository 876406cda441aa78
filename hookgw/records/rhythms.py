"""When an instance's events come: how many in each hour, and since when none has come. No I/O.

An account that is busy on Monday mornings may be silent on Sundays. So its usual gap is that of the same hour
of the week, over four weeks. Hours are those of UTC. Times are in seconds since the epoch.
"""

from __future__ import annotations

import msgspec

HOUR = 3_600
WEEK = 168
"""Hours of a week."""
_WEEKS = 4
ENOUGH = 20
"""Events in an hour of the week, over four weeks, from which on its gap is known."""
GAPS = 10
"""An account is quiet after so many of its usual gaps."""
LEAST_SILENCE = 30.0
"""Seconds of silence that say nothing, however busy an account is."""
_KEPT = _WEEKS * WEEK + 1


class StoredRhythm(msgspec.Struct, frozen=True, kw_only=True):
    """A rhythm as it is stored.

    Attributes:
        heard_at: the time of the last event; until the first one, when the watch began.
        silent_from: when the silence began: ``heard_at``, later by the time without a connection since then.
        quiet_since: since when the account is reported as quiet; ``None`` unless it is.
        is_open: whether the connection was open.
        newest: the hour of the last count. Hours are numbered from the epoch.
        counts: the events of each hour, up to ``newest``.
    """

    heard_at: float
    silent_from: float
    quiet_since: float | None
    is_open: bool = False
    newest: int
    counts: list[int]


class Rhythm:
    """The events of one instance, counted by the hour.

    Attributes:
        heard_at, silent_from, quiet_since, is_open: see :class:`StoredRhythm`.
    """

    def __init__(self, now: float) -> None:
        self.heard_at = self.silent_from = now
        self.quiet_since: float | None = None
        self.is_open = False
        self._newest = int(now // HOUR)
        self._counts = [0] * _KEPT  # a ring: the hours of four weeks, and the present one
        self._gaps = 0.0  # how many usual gaps the silence has lasted, until `_gaps_until`
        self._gaps_until = now

    @classmethod
    def restored(cls, stored: StoredRhythm) -> Rhythm:
        made = cls(stored.silent_from)
        made.heard_at, made.quiet_since = stored.heard_at, stored.quiet_since
        made.is_open = stored.is_open
        made._newest = stored.newest
        for hours_ago, count in enumerate(reversed(stored.counts[-_KEPT:])):
            made._counts[(stored.newest - hours_ago) % _KEPT] = count
        return made

    def stored(self) -> StoredRhythm:
        counts = [self._count(hour) for hour in range(self._newest - _KEPT + 1, self._newest + 1)]
        first = next((index for index, count in enumerate(counts) if count), len(counts))
        return StoredRhythm(
            heard_at=self.heard_at,
            silent_from=self.silent_from,
            quiet_since=self.quiet_since,
            is_open=self.is_open,
            newest=self._newest,
            counts=counts[first:],
        )

    def heard(self, now: float, events: int) -> None:
        hour = int(now // HOUR)
        if hour > self._newest:
            for skipped in range(max(self._newest + 1, hour - _KEPT + 1), hour + 1):
                self._counts[skipped % _KEPT] = 0
            self._newest = hour
        self._counts[self._newest % _KEPT] += events
        self.heard_at = self.silent_from = self._gaps_until = now
        self._gaps = 0.0

    def not_connected(self, seconds: float) -> None:
        """Do not count seconds without a connection as silence."""
        self.silent_from += seconds
        self._gaps_until += seconds

    def silence(self, now: float) -> float:
        return now - self.silent_from

    def is_unusual(self, now: float) -> bool:
        """Return whether the silence has lasted for ten usual gaps, each hour by its own.

        Hours with too few events do not count: the night before a busy morning says nothing.
        """
        while self._gaps_until < now:
            hour = int(self._gaps_until // HOUR)
            end = min(now, float((hour + 1) * HOUR))
            gap = self.usual_gap(hour)
            if gap is not None:
                self._gaps += (end - self._gaps_until) / gap
            self._gaps_until = end
        return self._gaps >= GAPS and self.silence(now) >= LEAST_SILENCE

    def usual_gap(self, hour: int) -> float | None:
        """Return the seconds between two events at this hour of the week; ``None`` if they are too few."""
        # Always of four weeks: the flood of messages after a first connection is no habit of an account.
        events = sum(self._count(hour - week * WEEK) for week in range(1, _WEEKS + 1))
        return _WEEKS * HOUR / events if events >= ENOUGH else None

    def _count(self, hour: int) -> int:
        is_kept = self._newest - _KEPT < hour <= self._newest
        return self._counts[hour % _KEPT] if is_kept else 0
