"""Rates of registrations decide when their lanes may make an attempt. No I/O.

A limit is a token bucket, kept as one number (the generic cell rate algorithm): the time at which an attempt
would come if all came at a steady pace. All lanes of a registration share it. A token is taken at the moment
of an attempt, with the connection in hand, so that a lane that stops waiting loses none.

Lanes that wait are spread over the tokens to come, in the order in which they began to wait: they do not wake
up for the same token. Lanes that wait again, because something else held them up when their token came, are
the front of the line. If a lane leaves the line before its time (its registration is paused, say), those
behind it move up.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Protocol
from weakref import WeakValueDictionary

from hookgw.kernel.rates import Rate
from hookgw.records.registrations import Registration

_FEW = 100
"""Up to this many limits, none is cleaned up."""


class Waiting(Protocol):
    """A lane in line."""

    @property
    def is_leaving(self) -> bool:
        """Whether it is about to leave the line before its time."""

    def move_up(self, opens_at: float) -> None:
        """Wait until a time on the steady clock, unless that is later than the present one."""


class RateLimit:
    """The limit of one registration, or of one value of a tag."""

    __slots__ = ("__weakref__", "_again", "_interval", "_line", "_pace", "_tolerance", "rate")

    def __init__(self, rate: Rate) -> None:
        self.rate = rate
        self._again: dict[Waiting, None] = {}  # the front of the line
        self._line: dict[Waiting, None] = {}  # the rest of it
        self._interval = rate.interval
        self._tolerance = (rate.burst - 1) * self._interval
        self._pace = 0.0

    def divide(self, nodes: int) -> None:
        """Let this be one of so many parts of the limit."""
        self._interval = self.rate.interval * nodes
        self._tolerance = (max(1, self.rate.burst // nodes) - 1) * self._interval
        self._move_up(self.opens_at)

    @property
    def opens_at(self) -> float:
        """The time of the next token, which may be past."""
        return self._pace - self._tolerance

    def turn(self, now: float, *, has_waited: bool) -> float:
        """Return when a lane that is not in line may make an attempt; that time may be past.

        Args:
            has_waited: whether it has waited since its last attempt.
        """
        before = len(self._again)
        if not has_waited:
            before += len(self._line)
        elif self.is_open(now):
            before = 0
        return self.opens_at + before * self._interval

    def line_up(self, lane: Waiting, *, has_waited: bool) -> None:
        (self._again if has_waited else self._line)[lane] = None

    def leave(self, lane: Waiting, now: float, *, is_early: bool) -> None:
        """Leave the line. If this is before the lane's time, those behind it move up."""
        line = self._again if lane in self._again else self._line
        if lane not in line:
            return
        del line[lane]
        if is_early:
            # All that leave at this moment: a pass for each of thousands would take seconds.
            self._again = {one: None for one in self._again if not one.is_leaving}
            self._line = {one: None for one in self._line if not one.is_leaving}
            self._move_up(max(self._pace, now) - self._tolerance)

    def _move_up(self, opens_at: float) -> None:
        for before, one in enumerate(chain(self._again, self._line)):
            one.move_up(opens_at + before * self._interval)

    def take(self, now: float) -> bool:
        if not self.is_open(now):
            return False
        self._pace = max(self._pace, now) + self._interval
        return True

    def end_burst(self, now: float) -> None:
        """Let the attempts that follow one made now come at a steady pace."""
        self._pace = max(self._pace, now + self._interval + self._tolerance)

    def is_open(self, now: float) -> bool:
        return self.opens_at <= now

    def is_idle(self, now: float) -> bool:
        """Return whether a new limit would be the same."""
        return not (self._again or self._line) and self._pace <= now


def take_all(limits: Sequence[RateLimit], now: float) -> bool:
    """Take a token of each limit, or of none; return whether they were taken."""
    if not all(limit.is_open(now) for limit in limits):
        return False
    for limit in limits:
        limit.take(now)
    return True


class RateLimits:
    """The limits of all registrations with a rate. They begin anew with the process."""

    def __init__(self) -> None:
        self._limits: dict[str, RateLimit] = {}
        self._most = _FEW

    def of(self, registration: Registration, now: float) -> RateLimit | None:
        """Return the limit of a registration as it is now; ``None`` if it has no rate.

        A limit begins anew when the rate changes. ``now`` is the time of the steady clock.
        """
        if registration.rate is None:
            return None
        limit = self._limits.get(registration.id)
        if limit is None or limit.rate != registration.rate:
            if len(self._limits) >= self._most:
                # Deletions are not reported here, so idle limits go when there are twice as many as the last
                # cleanup left. A lane holds its limit while it runs. Such a limit stays: the next lane of the
                # registration would get another one.
                idle = WeakValueDictionary(
                    {name: one for name, one in self._limits.items() if one.is_idle(now)}
                )
                self._limits = {name: one for name, one in self._limits.items() if name not in idle}
                self._limits.update(idle)
                self._most = max(_FEW, 2 * len(self._limits))
            limit = self._limits[registration.id] = RateLimit(registration.rate)
        return limit
