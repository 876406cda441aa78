"""A model of the gateway as callers see it: instances, registrations, deliveries. No I/O.

It has no time, so it is small: a failing receiver's final effect on a delivery comes at once, and deliveries
to a receiver that is down wait until it is up.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum


class Mode(StrEnum):
    """How a receiver responds: 200, 503, 500, 400 or 410."""

    UP = "up"
    DOWN = "down"
    FAILING = "failing"
    REJECTING = "rejecting"
    GONE = "gone"


@dataclass
class Registration:
    id: str
    instance: str
    label: str
    url: str
    enabled: bool = True
    kinds: tuple[str, ...] = ()
    secret: str = ""

    @property
    def tag(self) -> str:
        """The header that its deliveries carry."""
        return f"{self.instance}/{self.label}"

    def wants(self, kind: str) -> bool:
        return self.enabled and (not self.kinds or kind in self.kinds)


@dataclass
class Delivery:
    """One event on its way to one registration; its ``ticket`` grows each time it gets into a lane."""

    event: str
    registration: Registration
    state: str = "pending"
    ticket: int = 0
    id: str = ""

    @property
    def number(self) -> int:
        """Its position in the order of acceptance."""
        return int(self.id.removeprefix("dlv_"))


@dataclass
class Instance:
    name: str
    key: str
    registrations: dict[str, Registration] = field(default_factory=dict)
    events: set[str] = field(default_factory=set)
    deliveries: list[Delivery] = field(default_factory=list)


class Model:
    """The whole model.

    Attributes:
        instances: by name.
        modes: of the receivers, by URL.
        delivered: for each URL the events that it answered with 200, in order, by tag of the registration.
    """

    def __init__(self, urls: Iterable[str]) -> None:
        self.instances: dict[str, Instance] = {}
        self.modes = dict.fromkeys(urls, Mode.UP)
        self.delivered: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
        self._tickets = 0

    def emit(self, instance: Instance, events: Sequence[tuple[str, str]]) -> list[Delivery]:
        """Accept events, each an id and a kind; return their deliveries."""
        made = []
        for event, kind in events:
            if event not in instance.events:
                instance.events.add(event)
                made += [Delivery(event, r) for r in instance.registrations.values() if r.wants(kind)]
        instance.deliveries += made
        return made

    def queue(self, deliveries: Iterable[Delivery]) -> None:
        """Put deliveries at the end of their lanes, in this order."""
        for delivery in deliveries:
            self._tickets += 1
            delivery.state, delivery.ticket = "pending", self._tickets

    def park(self, registration: Registration) -> None:
        """Turn the pending deliveries of a registration into dead letters."""
        for delivery in self._pending():
            if delivery.registration is registration:
                delivery.state = "dead"

    def again(self, instance: Instance, *, dead_only: bool) -> list[Delivery]:
        """Return the deliveries of a replay, in the original order."""
        return sorted(
            (d for d in instance.deliveries if self.can_resend(d) and (d.state == "dead" or not dead_only)),
            key=lambda delivery: delivery.number,
        )

    def can_resend(self, delivery: Delivery) -> bool:
        """Return whether a delivery is finished and its registration exists and is enabled."""
        registration = delivery.registration
        instance = self.instances.get(registration.instance)
        is_stored = instance is not None and registration in instance.registrations.values()
        return delivery.state != "pending" and is_stored and registration.enabled

    def settle(self) -> None:
        """Attempt everything that can be attempted."""
        for url, mode in self.modes.items():
            if mode is not Mode.DOWN:
                for delivery in sorted(self._pending(url), key=lambda delivery: delivery.ticket):
                    self._attempt(delivery, mode)

    def _attempt(self, delivery: Delivery, mode: Mode) -> None:
        registration = delivery.registration
        if delivery.state != "pending":
            return
        if mode is Mode.UP:
            delivery.state = "delivered"
            self.delivered[registration.url][registration.tag].append(delivery.event)
        else:
            delivery.state = "dead"
        if mode is Mode.GONE:
            registration.enabled = False
            self.park(registration)

    def _pending(self, url: str | None = None) -> list[Delivery]:
        return [
            delivery
            for instance in self.instances.values()
            for delivery in instance.deliveries
            if delivery.state == "pending" and url in (None, delivery.registration.url)
        ]
