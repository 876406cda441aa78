"""Counts what a replay or a cancellation would select, by instance and label."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import trio

from hookgw.core.registry import Registry
from hookgw.deliveries.selection import check_label, limited
from hookgw.kernel.errors import TooManyRequests
from hookgw.records.registrations import GLOBAL_INSTANCE
from hookgw.records.selection import DeliverySelection

MOST_COUNTED = 100_000
"""The highest number that a count returns."""
COUNT_SECONDS = 10.0
"""Seconds after which a count over several instances ends, and says so."""

Count: TypeAlias = Callable[[str, DeliverySelection, int], Awaitable[Mapping[str, int]]]


class Counted(NamedTuple):
    """What a call would select.

    Attributes:
        instances: for each instance with any, how many there are for each label.
        is_complete: whether all that was selected has been counted.
    """

    matching: int
    instances: dict[str, dict[str, int]]
    is_complete: bool


class DryRuns:
    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._counting: set[str] = set()

    async def count(
        self,
        instances: Sequence[str],
        selection: DeliverySelection,
        count: Count,
        *,
        without_global: bool = False,
    ) -> Counted:
        """Count in each instance, with ``count`` of a replay or a cancellation; at most :data:`MOST_COUNTED`.

        Raises:
            NotFound: there is no such instance; or, of one instance, it has no registration of the label.
            TooManyRequests: another count of the instance, or over several, is in progress.
            StorageUnavailable: the disk refuses.
        """
        for name in instances:
            self._registry.instance(name)
        if len(instances) == 1:
            check_label(self._registry, instances[0], selection)
        selection = limited(selection, without_global=without_global)
        # One at a time: it may walk through the whole history, with a connection that all instances share.
        place = instances[0] if len(instances) == 1 else GLOBAL_INSTANCE
        if place in self._counting:
            raise TooManyRequests.of(
                "deliveries.being_counted", "Deliveries are being counted. Retry later.", retry_after=1.0
            )
        self._counting.add(place)
        matching, found, is_complete = 0, dict[str, dict[str, int]](), False
        try:
            with trio.move_on_after(COUNT_SECONDS):
                for name in instances:
                    if matching >= MOST_COUNTED:
                        break
                    counts = await count(name, selection, MOST_COUNTED - matching)
                    if counts:
                        matching += sum(counts.values())
                        labels = found[name] = dict[str, int]()
                        for registration_id, number in counts.items():
                            registration = self._registry.registration(registration_id)
                            label = registration_id if registration is None else registration.label
                            labels[label] = labels.get(label, 0) + number
                else:
                    is_complete = matching < MOST_COUNTED
        finally:
            self._counting.discard(place)
        return Counted(matching, found, is_complete)
