"""Remembers which lanes fail and which have recovered. No I/O."""

from __future__ import annotations

import msgspec

from hookgw.records.deliveries import FAILURES, Attempt, Outcome


class Failing(msgspec.Struct):
    """A failing lane.

    Attributes:
        since: when the first failed attempt began, in seconds since the epoch.
        began: the same by the steady clock: the other one may be corrected meanwhile.
        is_reported: LANE_FAILING was raised.
    """

    since: float
    began: float
    registration: str
    last: Attempt
    is_reported: bool = False


class LaneHealth:
    """The failing lanes, from their first failed attempt until they deliver again or end."""

    def __init__(self) -> None:
        self.failing: dict[str, Failing] = {}

    def attempted(self, lane: str, registration: str, attempt: Attempt, now: float) -> Failing | None:
        """Note an attempt that ended ``now``, by the steady clock. Return the failures that it ended, if they
        had been reported.
        """
        if attempt.outcome is Outcome.DELIVERED:
            ended = self.failing.pop(lane, None)
            return ended if ended is not None and ended.is_reported else None
        if attempt.outcome in FAILURES:
            first = Failing(attempt.at, now - attempt.duration, registration, attempt)
            failing = self.failing.setdefault(lane, first)
            failing.registration, failing.last = registration, attempt
        return None

    def waits(self, lane: str) -> Failing | None:
        """Note that a lane began to wait. Return its failures, if they are to be reported now."""
        failing = self.failing.get(lane)
        if failing is None or failing.is_reported:
            return None
        failing.is_reported = True
        return failing

    def ended(self, lane: str) -> None:
        self.failing.pop(lane, None)
