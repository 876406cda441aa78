"""How much is pending, per registration and in total, and the limits on it. No I/O.

The counts are exact. Appended deliveries are counted before they are written, so that callers at once cannot
exceed a limit together, and the count is corrected if the write fails. Every other change is counted when its
commit is reported. Nothing is ever counted again, so that the cost of an event does not grow with the
backlog.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

from hookgw.config.settings import LimitsSettings
from hookgw.models.errors import TooLarge, Unavailable
from hookgw.store import Append

NORMAL_PART = 0.8
"""A high backlog is normal again once it has fallen to this part of the threshold."""

Need = dict[str, tuple[int, int]]
"""How many deliveries and bytes of payload are to be appended, by registration id."""


class BacklogFull(Unavailable):
    """A limit is reached.

    Attributes:
        limit: the key of the setting, such as ``limits.deliveries``.
        registration: the id of the registration at its limit; ``None`` for a total limit.
        over: by how much the request exceeds the limit, in deliveries or bytes.
        largest: the limit's value.
    """

    def __init__(self, limit: str, registration: str | None, over: int, largest: int) -> None:
        subject = f"The backlog of registration {registration}" if registration else "The backlog"
        super().__init__(
            f"{subject} is full ({limit}: {largest:,}): receivers are not keeping up. "
            "Nothing was stored; retry later."
        )
        self.limit = limit
        self.registration = registration
        self.over = over
        self.largest = largest

    @property
    def is_of_bytes(self) -> bool:
        """Whether the limit counts bytes, not deliveries."""
        return self.limit.endswith("bytes")


class Tally:
    """What is pending for one registration.

    Attributes:
        count: the number of deliveries.
        size: bytes of their payloads.
        is_high: BACKLOG_HIGH was raised, and BACKLOG_NORMAL not since.
    """

    __slots__ = ("count", "is_high", "size")

    def __init__(self) -> None:
        self.count = 0
        self.size = 0
        self.is_high = False


Crossed = Callable[[str, Tally], None]
"""Called when a registration's backlog becomes high, or normal again."""


class Backlog:
    """What is pending, including what is about to be appended.

    Args:
        limits: the limits; 0 means no limit.
        threshold: a registration with more pending deliveries has a high backlog; 0 disables this.
        on_crossed: called when a high backlog begins or ends.
    """

    def __init__(self, limits: LimitsSettings, threshold: int, on_crossed: Crossed) -> None:
        # Infinity for "no limit", so that the checks for every event need no special case.
        self._most = limits.deliveries or math.inf
        self._most_bytes = limits.bytes or math.inf
        self._most_of_one = limits.registration_deliveries or math.inf
        self._most_bytes_of_one = limits.registration_bytes or math.inf
        self._high = threshold or math.inf
        self._normal = threshold * NORMAL_PART
        self._on_crossed = on_crossed
        self._tallies: dict[str, Tally] = {}
        self.count = 0
        self.size = 0

    def of(self, registration: str) -> tuple[int, int]:
        """Return the number and the payload bytes of a registration's pending deliveries."""
        tally = self._tallies.get(registration)
        return (tally.count, tally.size) if tally else (0, 0)

    def largest(self, *, by_bytes: bool) -> str | None:
        """Return the id of the registration with the largest backlog; ``None`` if nothing is pending."""
        weight: Callable[[str], int] = (
            (lambda name: self._tallies[name].size) if by_bytes else (lambda name: self._tallies[name].count)
        )
        return max(self._tallies, key=weight, default=None)

    def check(self, need: Need) -> None:
        """Return if there is room for so much more.

        Raises:
            TooLarge: the need exceeds a limit on its own, so that there will never be room.
            BacklogFull: there is no room now.
        """
        count = size = 0
        for registration, (more, bytes_more) in need.items():
            count += more
            size += bytes_more
            tally = self._tallies.get(registration)
            has, has_bytes = (tally.count, tally.size) if tally else (0, 0)
            if has + more > self._most_of_one:
                _refuse("limits.registration_deliveries", registration, has, more, self._most_of_one)
            if has_bytes + bytes_more > self._most_bytes_of_one:
                _refuse(
                    "limits.registration_bytes", registration, has_bytes, bytes_more, self._most_bytes_of_one
                )
        if self.count + count > self._most:
            _refuse("limits.deliveries", None, self.count, count, self._most)
        if self.size + size > self._most_bytes:
            _refuse("limits.bytes", None, self.size, size, self._most_bytes)

    def add(self, need: Need) -> None:
        """Count deliveries that are about to be appended; call :meth:`watch` once they are."""
        for registration, (count, size) in need.items():
            self._adjust(registration, count, size)

    def take(self, need: Need) -> None:
        """Take back the count of deliveries that were not appended."""
        for registration, (count, size) in need.items():
            self._adjust(registration, -count, -size)

    def changed(self, change: Mapping[str, tuple[int, int]]) -> None:
        """Count a commit that changed what is pending by other means than appending."""
        for registration, (count, size) in change.items():
            self._adjust(registration, count, size)
        self.watch(change)

    def _adjust(self, registration: str, count: int, size: int) -> None:
        tally = self._tallies.get(registration)
        if tally is None:
            tally = self._tallies[registration] = Tally()
        tally.count += count
        tally.size += size
        self.count += count
        self.size += size
        # Down here, up in `watch`: an append that fails must not report a backlog that never was.
        if tally.is_high and tally.count <= self._normal:
            self._cross(registration, tally)
        if not tally.count:  # or registrations that come and go would add up
            del self._tallies[registration]

    def watch(self, registrations: Iterable[str]) -> None:
        """Report registrations whose backlog has become high."""
        for registration in registrations:
            tally = self._tallies.get(registration)
            if tally is not None and tally.count > self._high and not tally.is_high:
                self._cross(registration, tally)

    def _cross(self, registration: str, tally: Tally) -> None:
        tally.is_high = not tally.is_high
        self._on_crossed(registration, tally)


def need_of(appends: Iterable[Append]) -> Need:
    """Return the room that appending needs."""
    need: Need = {}
    for append in appends:
        size = len(append.event.data_json)
        for registration, _ in append.targets:
            has = need.get(registration)
            need[registration] = (1, size) if has is None else (has[0] + 1, has[1] + size)
    return need


def _refuse(limit: str, registration: str | None, has: int, more: int, largest: float) -> None:
    if more > largest:
        raise TooLarge(
            f"This request exceeds {limit} ({largest:,.0f}) on its own. Split it into smaller batches."
        )
    raise BacklogFull(limit, registration, int(has + more - largest), int(largest))
