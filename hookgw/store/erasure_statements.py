"""What an engine brings so that a person is erased; see :class:`hookgw.store.steps.SteppedChanges`."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple, Protocol, TypeVar

from hookgw.store.persons import Person
from hookgw.store.reader import C_contra
from hookgw.store.records import Concerned

# A step looks at this many deliveries at most, and bytes of payloads, or at one payload.
ROWS = 500
SEARCH_BYTES = 8 * 2**20
# Or at so many times as many events without deliveries, of all instances.
UNWANTED_ROWS = 10

Now_contra = TypeVar("Now_contra", contravariant=True)
"""What an engine calls a moment."""


class ErasedDelivery(NamedTuple):
    event: int
    seq: int
    state: str
    registration: str
    instance: str
    size: int


class ErasureStatements(Protocol[C_contra, Now_contra]):
    """As :class:`~hookgw.store.steps.PendingStatements`."""

    def find_concerned(
        self, connection: C_contra, instance: str, value: str, *, after: int, now: Now_contra, pending: bool
    ) -> Concerned:
        """Find the next events as :meth:`hookgw.store.PendingChanges.find_concerned` says."""

    def find_unwanted(
        self, connection: C_contra, instance: str, value: str, *, after: tuple[int, int], newest: int
    ) -> tuple[list[int], tuple[int, int] | None]:
        """Find the next events without deliveries, as :meth:`find_concerned` does.

        Args:
            after: the time of acceptance and the number of the last event of the former step.
            newest: no event with a higher number.

        Returns:
            The numbers of the events, and where the next step begins.
        """

    def find_events(self, connection: C_contra, events: Collection[int]) -> list[int]:
        """Return which of some events are there, with more than their ids."""

    def find_deliveries(self, connection: C_contra, events: Collection[int]) -> list[ErasedDelivery]:
        """Return all deliveries of events, and lock them where others may write."""

    def remove_events(
        self, connection: C_contra, seqs: Collection[int], events: Collection[int], named: Person
    ) -> None:
        """Remove deliveries with all that belongs to them, and their events but ids without the person."""
