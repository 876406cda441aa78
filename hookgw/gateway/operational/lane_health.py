"""Which lanes fail, and which have recovered. No I/O."""

from __future__ import annotations

import msgspec

from hookgw.models.deliveries import Attempt, Outcome

_FAILURES = (Outcome.FAILED, Outcome.UNREACHABLE)


class Failing(msgspec.Struct):
    """A lane that fails.

    Attributes:
        since: when the first attempt that failed began, in seconds since the epoch.
        registration: the id of the registration at its head.
        last: the newest of its failed attempts.
        is_told: whether it was told of.
    """

    since: float
    registration: str
    last: Attempt
    is_told: bool = False


class LaneHealth:
    """Knows the lanes that fail, from their first failed attempt until they deliver again or end."""

    def __init__(self) -> None:
        self._failing: dict[str, Failing] = {}

    def attempted(self, lane: str, registration: str, attempt: Attempt) -> Failing | None:
        """Note an attempt.

        Returns:
            The lane's row of failures, if this ends one that was told of.
        """
        if attempt.outcome is Outcome.DELIVERED:
            ended = self._failing.pop(lane, None) if self._failing else None
            return ended if ended is not None and ended.is_told else None
        if attempt.outcome in _FAILURES:
            failing = self._failing.setdefault(lane, Failing(attempt.at, registration, attempt))
            failing.registration, failing.last = registration, attempt
        return None

    def waits(self, lane: str) -> Failing | None:
        """Note that a lane began to wait.

        Returns:
            Its row of failures, if that is to be told of.
        """
        failing = self._failing.get(lane)
        if failing is None or failing.is_told:
            return None
        failing.is_told = True
        return failing

    def ended(self, lane: str) -> None:
        """Forget a lane that ended, since nothing is pending in it."""
        self._failing.pop(lane, None)
