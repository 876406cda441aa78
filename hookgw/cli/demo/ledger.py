"""What one receiver was promised and what it got. No I/O.

The promise is kept by whoever observes the gateway (accepted, settled), what came is told by the
receiver; neither side sees the other's.
"""

from __future__ import annotations

from collections import deque

REMEMBERED = 10_000
"""How many ids of arrived events are kept to notice a repeat, so that a demo can run for days."""


class Ledger:
    """The account of one receiver.

    Attributes:
        accepted: how many events it was promised.
        arrived: how many different ones it took.
        repeated: how many it took a second time.
        out_of_order: how many came in another order than they were accepted in.
        unverified: how many requests had no good signature.
        in_vain: how many attempts met a receiver that was down or failing.
    """

    def __init__(self) -> None:
        self.accepted = 0
        self.arrived = 0
        self.repeated = 0
        self.out_of_order = 0
        self.unverified = 0
        self.in_vain = 0
        self._owed: set[str] = set()
        self._early: set[str] = set()
        self._seen: dict[str, None] = {}
        self._unsettled: deque[str] = deque()
        self._last_seq = 0

    @property
    def missing(self) -> int:
        """How many promised events have not come."""
        return len(self._owed)

    @property
    def unsettled(self) -> int:
        """How many came that the gateway has not counted as delivered yet."""
        return len(self._unsettled)

    @property
    def complete(self) -> bool:
        """Whether everything promised has come, and the gateway knows it."""
        return not (self._owed or self._early or self._unsettled)

    @property
    def faults(self) -> dict[str, int]:
        """What must never happen, by name, as far as it did."""
        counts = {
            "repeated": self.repeated,
            "out of order": self.out_of_order,
            "not verified": self.unverified,
        }
        return {fault: count for fault, count in counts.items() if count}

    @property
    def flawless(self) -> bool:
        """Whether every event came once, in order, and was verified."""
        return self.complete and not self.faults

    def accept(self, event_id: str) -> None:
        """The gateway accepted an event for this receiver. An event can arrive before this is told."""
        self.accepted += 1
        if event_id in self._early:
            self._early.remove(event_id)
        else:
            self._owed.add(event_id)

    def arrive(self, event_id: str) -> None:
        """The receiver took an event whose signature is good."""
        if event_id in self._seen:
            self.repeated += 1
            return
        self._remember(event_id)
        self.arrived += 1
        self._unsettled.append(event_id)
        if event_id in self._owed:
            self._owed.remove(event_id)
        else:
            self._early.add(event_id)

    def settle(self, seq: int, event_id: str) -> None:
        """The gateway counts an event as delivered; its ``seq`` is its place in the accepted order."""
        is_next = bool(self._unsettled) and self._unsettled[0] == event_id
        if is_next:
            self._unsettled.popleft()
        elif event_id in self._unsettled:
            self._unsettled.remove(event_id)
        if not is_next or seq <= self._last_seq:
            self.out_of_order += 1
        self._last_seq = max(self._last_seq, seq)

    def _remember(self, event_id: str) -> None:
        self._seen[event_id] = None
        if len(self._seen) > REMEMBERED:
            del self._seen[next(iter(self._seen))]
