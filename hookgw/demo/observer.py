"""The plugin that observes the demo's gateway."""

from __future__ import annotations

from collections.abc import Mapping

import trio

from hookgw.demo.ledger import Ledger
from hookgw.plugins.hookspecs import hookimpl
from hookgw.records.deliveries import Attempt, Delivery, Outcome
from hookgw.records.events import Event
from hookgw.records.registrations import Registration


class Observer:
    """Records accepted and settled events of the demo's instance, in the ledgers by label.

    Attributes:
        accepted: the number of accepted events.
        sent: the number of these that a message of the user raised.
    """

    def __init__(self, instance: str, ledgers: Mapping[str, Ledger]) -> None:
        self.accepted = 0
        self.sent = 0
        self._instance = instance
        self._ledgers = ledgers
        self._changed = trio.Event()

    async def wait_accepted(self, count: int) -> None:
        while self.accepted < count:
            await self._changed.wait()

    async def wait_sent(self, count: int) -> None:
        while self.sent < count:
            await self._changed.wait()

    async def wait_complete(self) -> None:
        """Wait until every accepted event has arrived at every receiver and is settled."""
        while not all(ledger.complete for ledger in self._ledgers.values()):
            await self._changed.wait()

    @hookimpl
    def hookgw_event_accepted(self, event: Event) -> None:
        if event.instance == self._instance:
            self.accepted += 1
            self.sent += event.kind == "SEND_MESSAGE"
            for ledger in self._ledgers.values():
                ledger.accept(event.id)
        self._notify()

    @hookimpl
    def hookgw_attempt(self, attempt: Attempt, registration: Registration) -> None:
        ledger = self._ledger(registration)
        if ledger is not None and attempt.outcome is not Outcome.DELIVERED:
            ledger.failed_attempts += 1

    @hookimpl
    def hookgw_delivered(self, delivery: Delivery, registration: Registration) -> None:
        ledger = self._ledger(registration)
        if ledger is not None:
            ledger.settle(delivery.seq, delivery.event.id)
        self._notify()

    def _ledger(self, registration: Registration) -> Ledger | None:
        # The user may register other URLs, and create other instances.
        return self._ledgers.get(registration.label) if registration.instance == self._instance else None

    def _notify(self) -> None:
        # An event of Trio cannot be cleared: wake those who wait for this one, and replace it.
        self._changed.set()
        self._changed = trio.Event()
