"""What a commit changes, counted while its jobs run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from hookgw.records.deliveries import Delivery
from hookgw.store.figure_news import BURIED, Entry, encode_news
from hookgw.store.records import PendingChange

replace = msgspec.structs.replace


class Changes(msgspec.Struct, frozen=True):
    """What a commit has changed so far. It is immutable, so that a failed job is undone by its old value.

    Attributes:
        events, unwanted: how many were appended, and the bytes of those without deliveries.
        requeued: how many finished deliveries are pending again, by lane key.
        change: of what is pending, without appended deliveries.
    """

    rows: int = 0
    events: int = 0
    unwanted: int = 0
    requeued: Mapping[str, int] = {}
    change: PendingChange = {}


class Committed(NamedTuple):
    """A commit that is on disk.

    Attributes:
        appended: what the listener is to hear of now, of this commit, earlier ones, and those of other
            processes; ``None`` for what the jobs of this commit appended.
        is_empty: whether the commit only read what others had appended.
    """

    seconds: float
    changes: Changes
    appended: Sequence[Delivery] | None = None
    is_empty: bool = False


class CountedTransaction:
    """An open transaction that counts what its jobs change. A job must not keep it.

    Attributes:
        entries: what the figures over time get of it; a failed job takes its own back.
    """

    connection: Any

    def __init__(self) -> None:
        self.changes = Changes()
        self.entries: list[Entry] = []
        self._at = 0.0

    def count_entries(self, at: float, entries: Iterable[Entry]) -> None:
        """Count for the figures over time what happened at a time."""
        self.entries += entries
        self._at = max(self._at, at)

    def count_buried(self, at: float, gone: PendingChange) -> None:
        """Count dead letters without an attempt for the figures over time."""
        numbers = self.instance_numbers({instance for _, instance in gone})
        self.count_entries(
            at,
            (
                (BURIED, registration, numbers[instance], number, -1, -1)
                for (registration, instance), (number, _) in gone.items()
                if number
            ),
        )

    def instance_numbers(self, names: Collection[str]) -> Mapping[str, int]:
        """Return the numbers of instances that have events."""
        raise NotImplementedError

    def news(self) -> str | None:
        """Return the row for the figures over time; ``None`` if there is nothing to count."""
        return encode_news((int(self._at), self.entries)).decode() if self.entries else None

    def count_appended(self, events: int, deliveries: int, unwanted: int) -> None:
        """Count what was appended. The listener gets these deliveries themselves, not their number.

        ``unwanted`` are the bytes of payloads of events without deliveries.
        """
        # Not per registration: dispatch counts the deliveries themselves.
        self.changes = replace(
            self.changes,
            rows=self.changes.rows + events + deliveries,
            events=self.changes.events + events,
            unwanted=self.changes.unwanted + unwanted,
        )

    def count_rows(self, count: int) -> None:
        self.changes = replace(self.changes, rows=self.changes.rows + count)

    def count_finished(self, gone: PendingChange) -> None:
        self._count(gone, -1)

    def count_requeued(self, lanes: Collection[str], added: PendingChange) -> None:
        """Count deliveries that are pending again, by their lanes."""
        requeued = Counter(self.changes.requeued)
        requeued.update(lanes)
        self.changes = replace(self.changes, rows=self.changes.rows + len(lanes), requeued=requeued)
        self._count(added, 1)

    def _count(self, change: PendingChange, sign: int) -> None:
        # A new dictionary each time: the old one belongs to the value that a failed job returns to.
        total = dict(self.changes.change)
        for holder, (count, size) in change.items():
            if not count:
                continue
            has, has_bytes = total.get(holder, (0, 0))
            total[holder] = (has + sign * count, has_bytes + sign * size)
        self.changes = replace(self.changes, change=total)


def pending_change(rows: Iterable[tuple[str, str, int, int]]) -> PendingChange:
    """Return what rows say: the registration, the instance, how many deliveries, and their bytes."""
    return {(registration, instance): (count, size) for registration, instance, count, size in rows}


def weigh(deliveries: Iterable[tuple[str, str, int]]) -> PendingChange:
    """Sum up deliveries: the registration, the instance, and the bytes of each."""
    total: dict[tuple[str, str], tuple[int, int]] = {}
    for registration, instance, size in deliveries:
        count, bytes_of = total.get((registration, instance), (0, 0))
        total[registration, instance] = (count + 1, bytes_of + size)
    return total
