"""The conditions of searches for deliveries, with what differs in the SQL of engines as values."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, NamedTuple

from hookgw.records.selection import DeliverySelection
from hookgw.store.records import EventQuery, micros
from hookgw.store.searches import in_time


class Dialect(NamedTuple):
    """How an engine writes conditions. ``{}`` stands for the name of a parameter, or for a column and it.

    Attributes:
        mark: a parameter.
        among: that a column has one of several texts; ``array`` makes one value of these.
        contains: that the payload of an event has some bytes.
        text: returns a text as stored texts have it.
        is_listed: that a delivery goes to no registration of the configuration, present or past.
        has_status, has_error: that the last attempt of a delivery had a status, or an error.
        deliveries: the deliveries of an event, to which further conditions are added.
    """

    mark: str
    among: str
    contains: str
    array: Callable[[Collection[str]], Any]
    text: Callable[[str], str]
    is_listed: str
    has_status: str
    has_error: str
    deliveries: str

    def conditions_of(
        self, query: DeliverySelection, registrations: Collection[str] | None
    ) -> tuple[list[str], dict[str, Any]]:
        """Return the conditions on ``deliveries`` but for the state, the dearest last, and their values."""
        # What the indexes have comes first: the row itself is read only if that matches.
        conditions, given = in_time(query, self.mark)
        if query.failed_since is not None:
            conditions.append(f"seq >= {self.mark.format('failed_since')}")
            given["failed_since"] = query.failed_since
        if query.kinds:
            conditions.append(self.among.format("kind", "kinds"))
            given["kinds"] = self.array(query.kinds)
        if query.finished_since is not None:
            conditions.append(f"finished_at >= {self.mark.format('finished')}")
            given["finished"] = micros(query.finished_since)
        if registrations is not None:
            conditions.append(self.among.format("registration", "registrations"))
            given["registrations"] = self.array(registrations)
        if query.without_global:
            conditions.append(self.is_listed)
            given["without_global"] = True
        if query.status is not None:
            conditions.append(self.has_status)
            given["least_status"], given["most_status"] = query.status
        if query.error is not None:
            conditions.append(self.has_error)
            given["error"] = self.text(query.error)
        return conditions or ["true"], given

    def has_delivery(self, query: EventQuery) -> tuple[str, dict[str, Any]]:
        """Return the condition that an event has a delivery that is sought, and its values."""
        selection = query.delivery or DeliverySelection()
        conditions, given = self.conditions_of(selection, query.registrations)
        if selection.state is not None:
            conditions.insert(0, f"state = {self.mark.format('state')}")
            given["state"] = selection.state
        # A subquery has names of its own: those of deliveries hide the event's.
        return f"EXISTS (SELECT 1 FROM {self.deliveries} AND {' AND '.join(conditions)})", given  # noqa: S608 - only the texts above are in it
