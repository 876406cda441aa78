"""How much is pending, for each registration and in all, and the limits on it. No I/O.

The figures are exact: what is to be appended is counted before it is written, and taken back where it
was not; everything else is counted as the commits that changed it are reported. Nothing is ever
counted anew, so the cost of an event does not grow with the backlog.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

from hookgw.config.settings import LimitsSettings
from hookgw.models.errors import TooLarge, Unavailable
from hookgw.store import Append

NORMAL_PART = 0.8
"""A backlog that was high is normal again once it has fallen to this part of the threshold."""

Need = dict[str, tuple[int, int]]
"""How many deliveries, and how many bytes of payload, by the id of the registration they go to."""


class BacklogFull(Unavailable):
    """A limit is reached.

    Attributes:
        limit: the key of the setting, ``limits.deliveries`` and so on.
        registration: whose limit it is; ``None`` for a limit on all.
        over: by how much what was asked for goes over it, in deliveries or bytes.
        largest: what the limit is.
    """

    def __init__(self, limit: str, registration: str | None, over: int, largest: int) -> None:
        whose = f"The backlog of the registration {registration}" if registration else "The whole backlog"
        super().__init__(
            f"{whose} has reached {limit} ({largest:,}), because receivers do not keep up. "
            "Nothing was kept; try again later."
        )
        self.limit = limit
        self.registration = registration
        self.over = over
        self.largest = largest

    @property
    def is_of_bytes(self) -> bool:
        """Whether the limit is one of bytes, not of deliveries."""
        return self.limit.endswith("bytes")


class Tally:
    """What is pending for one registration.

    Attributes:
        count: how many deliveries.
        size: bytes of their payloads.
        is_high: whether it was told of as high, and not as normal since.
    """

    __slots__ = ("count", "is_high", "size")

    def __init__(self) -> None:
        self.count = 0
        self.size = 0
        self.is_high = False


Crossed = Callable[[str, Tally], None]
"""Hears that a registration's backlog has become high, or normal again."""


class Backlog:
    """What is pending now, what is about to be appended included.

    Args:
        limits: what may be pending; a limit of 0 is none.
        threshold: a registration with more pending deliveries than that has a high backlog; 0 for never.
        on_crossed: called when that begins or ends.
    """

    def __init__(self, limits: LimitsSettings, threshold: int, on_crossed: Crossed) -> None:
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
        """How many deliveries are pending for a registration, and their bytes of payload."""
        tally = self._tallies.get(registration)
        return (tally.count, tally.size) if tally else (0, 0)

    def largest(self, *, by_bytes: bool) -> str | None:
        """The registration for which the most is pending; ``None`` where nothing is."""
        weight: Callable[[str], int] = (
            (lambda name: self._tallies[name].size) if by_bytes else (lambda name: self._tallies[name].count)
        )
        return max(self._tallies, key=weight, default=None)

    def check(self, need: Need) -> None:
        """Return if that much more may be pending.

        Raises:
            TooLarge: it is more than a limit by itself, so there will never be room for it.
            BacklogFull: there is no room for it now.
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
        """Count what is pending, or about to be; :meth:`watch` once that is sure."""
        for registration, (count, size) in need.items():
            self._adjust(registration, count, size)

    def take(self, need: Need) -> None:
        """Count what was to be pending and was not kept."""
        for registration, (count, size) in need.items():
            self._adjust(registration, -count, -size)

    def changed(self, change: Mapping[str, tuple[int, int]]) -> None:
        """A commit changed what is pending, otherwise than by appending: by that much, up or down."""
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
        if tally.is_high and tally.count <= self._normal:
            self._cross(registration, tally)
        if not tally.count:
            del self._tallies[registration]

    def watch(self, registrations: Iterable[str]) -> None:
        """Tell of those whose backlog is high now, and was not."""
        for registration in registrations:
            tally = self._tallies.get(registration)
            if tally is not None and tally.count > self._high and not tally.is_high:
                self._cross(registration, tally)

    def _cross(self, registration: str, tally: Tally) -> None:
        tally.is_high = not tally.is_high
        self._on_crossed(registration, tally)


def need_of(appends: Iterable[Append]) -> Need:
    """What appending that takes."""
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
            f"This alone is more than {limit} ({largest:,.0f}) lets wait for receivers: send it in parts."
        )
    raise BacklogFull(limit, registration, int(has + more - largest), int(largest))
