"""Checks that each accepted event arrives at a receiver once and in order. No I/O.

Two independent sources fill a ledger: an observer of the gateway reports accepted and settled events, the
receiver reports arrived ones. So a mistake of the gateway cannot hide itself.
"""

from __future__ import annotations

from collections import deque

from hookgw.kernel.recent import Recent

MAX_REMEMBERED = 10_000
"""How many ids of arrived events are kept to detect a repeated one: the demo may run for days."""


class Ledger:
    """The account of one receiver. Its numbers count events, except the last two.

    Attributes:
        arrived: different events.
        unverified: requests without a valid signature.
        failed_attempts: attempts that failed because the receiver was down or answered 500.
    """

    def __init__(self) -> None:
        self.accepted = 0
        self.arrived = 0
        self.repeated = 0
        self.out_of_order = 0
        self.unverified = 0
        self.failed_attempts = 0
        self._missing: set[str] = set()
        self._early: set[str] = set()  # arrived before the gateway reported their acceptance
        self._seen: Recent[str, bool] = Recent(MAX_REMEMBERED)
        self._unsettled: deque[str] = deque()
        self._last_seq = 0

    @property
    def missing(self) -> int:
        return len(self._missing)

    @property
    def unsettled(self) -> int:
        """How many events arrived that the gateway has not settled as delivered yet."""
        return len(self._unsettled)

    @property
    def complete(self) -> bool:
        return not (self._missing or self._early or self._unsettled)

    @property
    def faults(self) -> dict[str, int]:
        """The number of each fault, by name. Empty if all is well."""
        counts = {
            "repeated": self.repeated,
            "out of order": self.out_of_order,
            "not verified": self.unverified,
        }
        return {fault: count for fault, count in counts.items() if count}

    @property
    def flawless(self) -> bool:
        """Whether every event arrived once, in order, with a valid signature."""
        return self.complete and not self.faults

    def accept(self, event_id: str) -> None:
        self.accepted += 1
        # The hook that reports the acceptance may run after the first attempt: the event is here already.
        if event_id in self._early:
            self._early.remove(event_id)
        else:
            self._missing.add(event_id)

    def arrive(self, event_id: str) -> None:
        """Record that an event with a valid signature arrived."""
        if self._seen.get(event_id):
            self.repeated += 1
            return
        self._seen.put(event_id, True)
        self.arrived += 1
        self._unsettled.append(event_id)
        if event_id in self._missing:
            self._missing.remove(event_id)
        else:
            self._early.add(event_id)

    def settle(self, seq: int, event_id: str) -> None:
        """Record that an event was settled as delivered. ``seq`` is its place in the accepted order."""
        is_next = bool(self._unsettled) and self._unsettled[0] == event_id
        if is_next:
            self._unsettled.popleft()
        elif event_id in self._unsettled:
            self._unsettled.remove(event_id)
        # Compare both the order of arrival and the accepted order with the order of settling.
        if not is_next or seq <= self._last_seq:
            self.out_of_order += 1
        self._last_seq = max(self._last_seq, seq)
