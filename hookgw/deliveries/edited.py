"""Sends a delivery again with other data, or once to another URL."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import msgspec

from hookgw.core.audit import Audit
from hookgw.core.jobs import Jobs
from hookgw.core.registry import Registry
from hookgw.deliveries.history import DeliveryHistory
from hookgw.events.accept import EventIntake
from hookgw.kernel.errors import Conflict
from hookgw.kernel.masking import with_masked_user
from hookgw.records.audit import AuditAction
from hookgw.records.deliveries import Attempt
from hookgw.records.events import Event, edited_id
from hookgw.records.instances import Instance
from hookgw.records.jobs import JobKind
from hookgw.records.registrations import Registration
from hookgw.records.sentences import DELIVERYS_WEBHOOK_DELETED, DELIVERYS_WEBHOOK_DISABLED, ERASURE_UNDER_WAY
from hookgw.store import DeliveryReport, DeliverySummary

SendOnce: TypeAlias = Callable[[Registration, Event], Awaitable[Attempt]]
"""Sends an event outside any lane; see :meth:`hookgw.webhooks.service.RegistrationService.send_once`."""


class EditedDeliveries:
    def __init__(
        self,
        registry: Registry,
        history: DeliveryHistory,
        intake: EventIntake,
        send_once: SendOnce,
        jobs: Jobs,
        audit: Audit,
    ) -> None:
        self._registry = registry
        self._history = history
        self._intake = intake
        self._send_once = send_once
        self._jobs = jobs
        self._audit = audit

    async def resend_edited(
        self, instance: str, name: str, data_json: bytes, *, without_global: bool = False
    ) -> DeliverySummary:
        """Send a new event with other data to the registration of a delivery, at the end of its lane.

        The event has an id made from that of the former event and from the data: to repeat the call sends
        nothing twice.

        Args:
            name: the delivery's id; or its event's, which means the newest delivery of it.
            without_global: leave deliveries to registrations of the configuration alone: they are the
                operator's.

        Raises:
            NotFound: there is no such instance, or it has no such delivery.
            Conflict: its registration is deleted or disabled, or an erasure is under way.
            Invalid, Unavailable, TooLarge: as for any event that is accepted.
        """
        present, report, registration = await self._find(instance, name, without_global=without_global)
        if not registration.enabled:
            raise Conflict(DELIVERYS_WEBHOOK_DISABLED)
        former = report.event
        event = msgspec.structs.replace(former, id=edited_id(former.id, data_json), data_json=data_json)
        await self._intake.accept([event], single=True, only=registration.id)
        details = {"label": registration.label, "event": event.id, "editedFrom": former.id}
        await self._note(present, report, details)
        return (await self._history.find(instance, event.id, without_global=without_global)).summary

    async def send_elsewhere(
        self, instance: str, name: str, url: str, *, without_global: bool = False
    ) -> Attempt:
        """Send the event of a delivery once to another URL, outside any lane.

        The address guard applies. The request has neither headers nor a signature nor plugin options of the
        registration. Return the attempt, which is not recorded; the delivery stays as it is.

        Raises:
            NotFound: there is no such instance, or it has no such delivery.
            Conflict: its registration is deleted, a plugin filters the event out, or an erasure is under way.
        """
        present, report, registration = await self._find(instance, name, without_global=without_global)
        bare = Registration(
            id=registration.id,
            instance=instance,
            label=registration.label,
            url=url,
            base64=registration.base64,
        )
        # Before the attempt: what was sent to a stranger is known even if hookgw is killed then.
        await self._note(present, report, {"label": registration.label, "url": with_masked_user(url)})
        return await self._send_once(bare, report.event)

    async def _find(
        self, instance: str, name: str, *, without_global: bool
    ) -> tuple[Instance, DeliveryReport, Registration]:
        present = self._registry.instance(instance)
        report = await self._history.find(instance, name, without_global=without_global)
        registration = self._registry.registration(report.summary.registration)
        if registration is None:
            raise Conflict(DELIVERYS_WEBHOOK_DELETED)
        erasure = self._jobs.running(JobKind.ERASE, instance)
        if erasure is not None:  # it may concern the event
            raise Conflict(ERASURE_UNDER_WAY(instance=instance, id=erasure.id))
        return present, report, registration

    async def _note(self, instance: Instance, report: DeliveryReport, details: dict[str, str]) -> None:
        entry = self._audit.entry(AuditAction.DELIVERY_RESEND, instance, report.summary.id, details=details)
        await self._audit.record(entry)
