"""Cancels pending deliveries: they become dead letters, which can be replayed.

A cancellation of many is a job (see :mod:`hookgw.core.jobs`). From the call until its end, the lanes of the
registrations start no attempt. So no selected delivery is sent after the call, except by an attempt in
flight. The job waits for these attempts, and cancels the deliveries that they did not settle.

A cancellation of one delivery is no job: it stops one lane, cuts an attempt in flight off, and is one commit.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TypeVar

import msgspec
import trio

from hookgw.core.audit import Audit, current_actor
from hookgw.core.jobs import Jobs, RunningJob
from hookgw.core.pending import PendingDeliveries
from hookgw.core.registry import Registry
from hookgw.core.shielded import completes
from hookgw.deliveries.history import DeliveryHistory
from hookgw.deliveries.selection import check_label, details_of, limited, receivers
from hookgw.fleet.lane_pauses import LanePauses
from hookgw.kernel.collaborator import Collaborator
from hookgw.kernel.errors import (
    Conflict,
    Forbidden,
    LaneElsewhere,
    NotFound,
)
from hookgw.lanes.dispatcher import Dispatcher
from hookgw.lanes.store_retry import log_refusal, retry_until_readable
from hookgw.records.audit import ActorKind, AuditAction, AuditEntry
from hookgw.records.deliveries import DeliveryState, parse_delivery_id
from hookgw.records.events import Event
from hookgw.records.instances import Instance
from hookgw.records.jobs import Job, JobKind
from hookgw.records.lanes import lane_rule
from hookgw.records.registrations import is_global
from hookgw.records.selection import DeliverySelection
from hookgw.store import CancelQuery, DeliverySummary, Store

T = TypeVar("T")


class Cancellations(Collaborator):
    _registry: Registry
    _store: Store
    _dispatcher: Dispatcher
    _pending: PendingDeliveries
    _lane_pauses: LanePauses
    _history: DeliveryHistory
    _jobs: Jobs
    _audit: Audit

    async def count(self, instance: str, selection: DeliverySelection, most: int) -> Mapping[str, int]:
        """Count what :meth:`cancel` would select now, by registration; it ends at about ``most``."""
        found = tuple(one.id for one in receivers(self._registry, instance, selection))
        return await self._store.count_cancellable(_query(instance, found, selection), most)

    async def cancel(
        self,
        instance: str,
        selection: DeliverySelection,
        *,
        without_global: bool = False,
        waits: bool = False,
        caller: str | None = None,
    ) -> Job:
        """Turn pending deliveries of an instance's events into dead letters.

        Neither a cancelled caller nor a restart stops it.

        Args:
            without_global: leave deliveries to registrations of the configuration alone: they are the
                operator's.
            waits: allow it while another cancellation of the instance is under way.
            caller: see :meth:`Jobs.of_caller`.

        Returns:
            The job, which may still run; see :meth:`Jobs.wait`.

        Raises:
            NotFound: there is no such instance, or it has no registration of the label.
            Conflict: a cancellation of the instance is under way.
            Unavailable: the disk refused, and nothing is cancelled; or the gateway is closing.
        """
        present = self._registry.instance(instance)
        check_label(self._registry, instance, selection)
        self._store.check_open()
        # Jobs take turns: one instance must not have a thousand in the line.
        former = self._jobs.running(JobKind.CANCEL, instance)
        if former is not None and not waits:
            raise Conflict.of(
                "cancellation.under_way",
                "A cancellation of {instance!r} is under way ({id}); try again when it has ended.",
                instance=instance,
                id=former.id,
            )
        job = self.job(present, limited(selection, without_global=without_global), caller)
        # Stored with its first step, unless that is the last.
        return await self._jobs.wait(self._jobs.start(job, self.cancelling, is_stored=False))

    def job(self, instance: Instance, selection: DeliverySelection, caller: str | None = None) -> Job:
        return self._jobs.new(
            JobKind.CANCEL,
            instance.name,
            instance_id=instance.id,
            registrations=tuple(one.id for one in receivers(self._registry, instance.name, selection)),
            reason=_reason(),
            cancel=selection,
            caller=caller,
        )

    async def cancel_one(self, instance: str, name: str, *, without_global: bool = False) -> DeliverySummary:
        """Turn one pending delivery into a dead letter, so that its lane continues with the next at once.

        Other lanes do not stop for it. If it is in flight, the attempt is cut off. A response that comes
        before that counts.

        Args:
            name: the delivery's id; or its event's, which means the newest delivery of it.
            without_global: refuse deliveries to registrations of the configuration: they are the operator's.

        Raises:
            NotFound: there is no such instance, or it has no such delivery.
            Forbidden: the caller may not cancel this delivery.
            Conflict: it is settled, perhaps by a response that came at the same time.
            LaneElsewhere: another node has its lane; see :meth:`hookgw.operations.views.Views.cancel_one`.
            Unavailable: the disk refused, or the change took too long. The delivery is still pending.
        """
        self._registry.instance(instance)
        is_event = parse_delivery_id(name) is None
        found = await self._history.find(instance, name, without_global=without_global and is_event)
        summary = found.summary
        if without_global and is_global(summary.registration):
            raise Forbidden.of(
                "delivery.configured_webhook",
                "The webhook of this delivery is of the configuration: it needs a global key.",
            )
        if summary.state is not DeliveryState.PENDING:
            raise Conflict.of(
                "delivery.cannot_cancel",
                "The delivery cannot be cancelled: it is {state}.",
                state=_described(summary.state),
            )
        # Lanes of the configuration's webhooks are on the nodes of these, and not on those of the instances.
        registration = self._registry.registration(summary.registration)
        if registration is not None and not self._dispatcher.holds(summary.lane):
            raise LaneElsewhere(registration.id)
        self._store.check_open()  # before an attempt is cut off
        is_cancelled = await self._cancel_one(summary, found.event)
        # Not through the history, which refuses while others read: a completed cancellation must be answered.
        report = await self._store.find_delivery(instance, summary.id)
        if report is None:
            raise NotFound.of(
                "delivery.erased", "The delivery {id} was erased in the meantime.", id=summary.id
            )
        summary = report.summary
        if not is_cancelled:
            raise Conflict.of(
                "delivery.settled_meanwhile",
                "The delivery was not cancelled: it was settled in the meantime, and is {state}.",
                state=_described(summary.state),
            )
        return summary

    @completes
    async def _cancel_one(self, found: DeliverySummary, event: Event) -> bool:
        instance = self._registry.instance(found.instance)
        registration_id, reason = found.registration, _reason()
        while True:
            registration = self._registry.registration(registration_id)
            label = None if registration is None else registration.label
            # All lanes of the registration, if deliveries move among them, or are parked.
            lane = None
            if registration is not None and not self._pending.is_moving(registration):
                lane = lane_rule(registration).lane(event)
            with self._dispatcher.paused(registration_id, lane):
                self._dispatcher.cut_off(registration_id, found.seq, lane)
                for seq, ended in self._dispatcher.in_flight(registration_id, lane):
                    if seq == found.seq:
                        await ended.wait()
                current = self._registry.registration(registration_id)
                if lane is not None and (
                    current is None
                    or self._pending.is_moving(current)
                    or lane_rule(current).lane(event) != lane
                ):
                    continue  # it may be in another lane by now, which is not paused
                details = {"label": label}
                entry = self._audit.entry(AuditAction.DELIVERY_CANCEL, instance, found.id, details=details)
                # No checkpoint since the look at the registration: a step that moves the delivery, or an
                # attempt, comes after this.
                if not await self._store.cancel_one(found.seq, reason, audit=[entry]):
                    return False
            self._pending.report_dead(registration_id, current, reason, 1)
            return True

    def cancelling(self, running: RunningJob) -> Callable[[], Awaitable[None]]:
        """Pause the lanes of a job's registrations, and return the work that cancels; see :class:`Jobs`."""
        job = running.job
        flights: list[tuple[int, trio.Event]] = []
        for registration_id in job.registrations:
            registration = self._registry.registration(registration_id)
            lane = None
            # Others have no other instance's events, and all lanes that a re-partition gives them are paused.
            if registration is not None and is_global(registration_id):
                lane = self._pending.lane_of_instance(registration, job.instance)
            running.pauses.enter_context(self._dispatcher.paused(registration_id, lane))
            flights += self._dispatcher.in_flight(registration_id, lane)
        return partial(self._carry_out, running, flights)

    async def _carry_out(self, running: RunningJob, flights: Sequence[tuple[int, trio.Event]]) -> None:
        if running.job.cursor is None:
            # Before any wait: deliveries accepted up to this moment are cancelled, too.
            cursor = await self._retried(running, self._store.cancel_cursor)
            running.job = msgspec.structs.replace(running.job, cursor=cursor)
        async with self._lane_pauses.paused(running.job.instance, running.job.registrations) as others:
            await self._cancel(running, [*flights, *others])

    async def _cancel(self, running: RunningJob, flights: Sequence[tuple[int, trio.Event]]) -> None:
        if flights:
            if not running.is_stored:  # to wait for them may take as long as their timeout
                # In one commit: the next start would carry out a job whose caller was refused.
                await self._store.put_job(running.job, audit=[self._entry(running.job)])
                running.stored.set()
            await self._walk(running, [seq for seq, _ in flights])
            for _, ended in flights:
                await ended.wait()
            await self._store.flush()
        await self._walk(running, ())
        if running.is_resumed:
            # The start left their lanes to this job.
            for registration_id in running.job.registrations:
                await self._pending.start_lanes(registration_id)

    async def _walk(self, running: RunningJob, spared: Collection[int]) -> None:
        job = running.job
        cursor = job.cursor
        query = _query(job.instance, job.registrations, job.selection)
        while cursor is not None and await self._jobs.obey(running, self._entry(job)):
            step = partial(
                self._store.cancel_step,
                query,
                job.reason,
                cursor,
                spared=spared,
                job=running.job,
                is_stored=running.is_stored,
                audit=[] if running.is_stored else [self._entry(job)],
            )
            async with self._jobs.turn(job.instance):
                done = await self._retried(running, step)
            running.job = running.job.advanced(sum(done.counts.values()), running.job.cursor)
            for registration_id, count in done.counts.items():
                registration = self._registry.registration(registration_id)
                self._pending.report_dead(registration_id, registration, job.reason, count)
            cursor = done.cursor
            if cursor is not None:
                running.stored.set()

    async def _retried(self, running: RunningJob, call: Callable[[], Awaitable[T]]) -> T:
        if running.is_stored:
            return await retry_until_readable(call, log_refusal("a cancellation"))
        return await call()  # nothing is cancelled: the caller may ask again

    def _entry(self, job: Job) -> AuditEntry:
        labels = (one.label for one in map(self._registry.registration, job.registrations) if one)
        details = {
            "job": job.id,
            **details_of(job.selection),
            "label": None,
            "labels": ", ".join(labels) or None,
        }
        instance = self._registry.find_instance(job.instance)
        return self._audit.entry(AuditAction.DELIVERY_CANCEL, instance, details=details)


def _query(instance: str, registrations: tuple[str, ...], selection: DeliverySelection) -> CancelQuery:
    given = msgspec.structs.asdict(selection)
    return CancelQuery(**given, instance=instance, registrations=registrations)


def _described(state: DeliveryState) -> str:
    return "a dead letter already" if state is DeliveryState.DEAD else state.value


def _reason() -> str:
    actor = current_actor()
    if actor.kind is ActorKind.KEY and (actor.instance is not None or actor.is_limited):
        return f"Cancelled with the key {actor.name!r}."
    # The names of keys that reach everything are the operator's.
    return "Cancelled with a global key." if actor.kind is ActorKind.KEY else "Cancelled by hookgw."
