"""Sends a delivery again with other data, an event again to one webhook, or either once to another URL."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeAlias

import msgspec

from hookgw.core.audit import Audit
from hookgw.core.registry import Registry
from hookgw.deliveries.history import DeliveryHistory
from hookgw.deliveries.replay import Replays
from hookgw.events.accept import EventIntake
from hookgw.kernel.collaborator import Collaborator
from hookgw.kernel.errors import Conflict
from hookgw.kernel.masking import with_masked_user
from hookgw.records.audit import Actor, AuditAction
from hookgw.records.deliveries import Attempt
from hookgw.records.events import Event, edited_from, edited_id
from hookgw.records.instances import Instance
from hookgw.records.registrations import Registration
from hookgw.records.sentences import DELIVERYS_WEBHOOK_DISABLED
from hookgw.store import AuditQuery, DeliverySummary

SendOnce: TypeAlias = Callable[[Registration, Event], Awaitable[Attempt]]
"""Sends an event outside any lane; see :meth:`hookgw.webhooks.service.RegistrationService.send_once`."""


NOTED_WITHIN = 60.0
"""Seconds between the acceptance of an edited copy, and the entry of the audit that says who made it."""


class Origin(NamedTuple):
    """What an edited copy was made of.

    Attributes:
        event: the id of the original event.
        delivery: the id of its delivery; ``None`` if it had none, or the audit no longer has it.
        actor: who made the copy; ``None`` if the audit no longer has it.
    """

    event: str
    delivery: str | None = None
    actor: Actor | None = None


class EditedDeliveries(Collaborator):
    _registry: Registry
    _history: DeliveryHistory
    _intake: EventIntake
    _send_once: SendOnce
    _audit: Audit
    _replays: Replays

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
        present, report, registration = await self._replays.find(
            instance, name, without_global=without_global
        )
        if not registration.enabled:
            raise Conflict(DELIVERYS_WEBHOOK_DISABLED)
        former = report.event
        event = msgspec.structs.replace(former, id=edited_id(former.id, data_json), data_json=data_json)
        await self._intake.accept([event], single=True, only=registration.id)
        details = {"label": registration.label, "event": event.id, "editedFrom": former.id}
        await self._note(present, report.summary.id, details)
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
        present, report, registration = await self._replays.find(
            instance, name, without_global=without_global
        )
        bare = Registration(
            id=registration.id,
            instance=instance,
            label=registration.label,
            url=url,
            base64=registration.base64,
        )
        details = {"label": registration.label, "url": with_masked_user(url)}
        # Before the attempt: what was sent to a stranger is known even if hookgw is killed then.
        await self._note(present, report.summary.id, details)
        return await self._send_once(bare, report.event)

    async def send_event(
        self, instance: str, event_id: str, label: str, *, without_global: bool = False
    ) -> DeliverySummary:
        """Send an event of the log again, to one webhook of its instance.

        If the webhook had it, its newest delivery is sent again. Otherwise the webhook gets a copy, as
        :meth:`resend_edited` makes one: to repeat the call sends nothing twice.

        Raises:
            NotFound: there is no such instance, event or webhook.
            Conflict, Invalid, Unavailable, TooLarge: as :meth:`resend_edited` and :meth:`Replays.resend` do.
        """
        present = self._registry.instance(instance)
        report = await self._history.find_event(instance, event_id, without_global=without_global)
        registration = self._registry.get(instance, label)
        for former in report.deliveries:
            if former.registration == registration.id:
                return await self._replays.resend(instance, former.id, without_global=without_global)
        self._replays.check_no_erasure(instance)
        event = report.event
        copy = msgspec.structs.replace(event, id=edited_id(event.id, event.data_json))
        await self._intake.accept([copy], single=True, only=registration.id)
        sent = (await self._history.find(instance, copy.id, without_global=without_global)).summary
        details = {"label": registration.label, "event": copy.id, "editedFrom": event.id}
        await self._note(present, sent.id, details)
        return sent

    async def send_event_elsewhere(
        self, instance: str, event_id: str, url: str, *, without_global: bool = False
    ) -> Attempt:
        """Send an event of the log once to a URL, as :meth:`send_elsewhere` sends that of a delivery."""
        present = self._registry.instance(instance)
        report = await self._history.find_event(instance, event_id, without_global=without_global)
        self._replays.check_no_erasure(instance)
        await self._note(present, event_id, {"url": with_masked_user(url)})
        return await self._send_once(Registration(id="", instance=instance, url=url), report.event)

    async def origin_of(self, delivery: DeliverySummary) -> Origin | None:
        """Return what a delivery's event is an edited copy of, and who made it; ``None`` if it is none."""
        original = edited_from(delivery.event_id)
        if original is None:
            return None
        instance = self._registry.instance(delivery.instance)
        page = await self._audit.list(
            AuditQuery(
                instance=instance.name,
                instance_id=instance.id,
                action=AuditAction.DELIVERY_RESEND,
                since=delivery.accepted_at - NOTED_WITHIN,
                until=delivery.accepted_at + NOTED_WITHIN,
            )
        )
        for entry in page.entries:
            if entry.details.get("event") == delivery.event_id:
                former = None if entry.subject == delivery.id else entry.subject
                return Origin(original, former, entry.actor)
        return Origin(original)

    async def _note(self, instance: Instance, subject: str, details: dict[str, str]) -> None:
        entry = self._audit.entry(AuditAction.DELIVERY_RESEND, instance, subject, details=details)
        await self._audit.record(entry)
