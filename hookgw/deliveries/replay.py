"""Sends finished deliveries again: one delivery, or all of a period.

A replay is a job (see :mod:`hookgw.core.jobs`): neither a lost client nor the end of the process stops it
half-way.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial

import msgspec
import trio

from hookgw.core.audit import Audit
from hookgw.core.backlog import Need
from hookgw.core.backlog_limits import LimitedOutbox
from hookgw.core.jobs import Jobs, RunningJob
from hookgw.core.registry import Registry
from hookgw.core.turns import instance_turn
from hookgw.deliveries.history import DeliveryHistory
from hookgw.deliveries.selection import check_label, details_of, limited, receivers
from hookgw.kernel.collaborator import Collaborator
from hookgw.kernel.errors import Conflict, NotFound
from hookgw.lanes.store_retry import log_refusal, retry_until_readable
from hookgw.records.audit import AuditAction, AuditEntry
from hookgw.records.instances import Instance
from hookgw.records.jobs import Job, JobKind
from hookgw.records.lanes import LaneRule, lane_rule
from hookgw.records.registrations import Registration
from hookgw.records.selection import DeliverySelection
from hookgw.records.sentences import (
    DELIVERYS_WEBHOOK_DELETED,
    DELIVERYS_WEBHOOK_DISABLED,
    ERASURE_UNDER_WAY,
    THE_INSTANCE_DELETED,
)
from hookgw.store import DeliveryReport, DeliverySummary, JobStep, ReplayQuery, Store

ROOM_WAIT = 1.0
"""Seconds between two looks for room."""


class Replays(Collaborator):
    _registry: Registry
    _store: Store
    _history: DeliveryHistory
    _jobs: Jobs
    _outbox: LimitedOutbox
    _audit: Audit

    async def resend(self, instance: str, name: str, *, without_global: bool = False) -> DeliverySummary:
        """Send a finished delivery again: at the end of its lane, with the same ``webhook-id``.

        Args:
            name: the delivery's id; or its event's, which means the newest delivery of it.
            without_global: leave deliveries to registrations of the configuration alone: they are the
                operator's.

        Raises:
            NotFound: there is no such instance, or it has no such delivery.
            Conflict: it is pending, its registration is deleted or disabled, or an erasure is under way.
            TooManyRequests: the instance or the registration is at its limit of pending deliveries, or too
                many reads of the instance are in progress.
            Unavailable: the disk refused, or there is no room for anybody.
        """
        present, report, registration = await self.find(instance, name, without_global=without_global)
        found = report.summary
        if not registration.enabled:
            raise Conflict(DELIVERYS_WEBHOOK_DISABLED)
        # No checkpoint between the look at the registration and this call: a change of the registration is
        # either seen above, or written after this, and then moves or parks this delivery, too.
        need: Need = {(registration.id, instance): (1, len(report.event.data_json))}
        audit = [
            self._audit.entry(
                AuditAction.DELIVERY_RESEND, present, found.id, details={"label": registration.label}
            )
        ]
        with self._outbox.holding(need):
            if await self._store.resend(instance, found.seq, lane_rule(registration), audit=audit) is None:
                raise Conflict.of(
                    "delivery.pending", "The delivery is still pending; hookgw will send it anyway."
                )
        return (await self._history.find(instance, found.id, without_global=without_global)).summary

    async def find(
        self, instance: str, name: str, *, without_global: bool
    ) -> tuple[Instance, DeliveryReport, Registration]:
        """Return a delivery whose event is to be sent again, and its registration.

        Raises:
            NotFound: there is no such instance, or it has no such delivery.
            Conflict: its registration is deleted, or an erasure is under way.
        """
        present = self._registry.instance(instance)
        report = await self._history.find(instance, name, without_global=without_global)
        registration = self._registry.registration(report.summary.registration)
        if registration is None:
            raise Conflict(DELIVERYS_WEBHOOK_DELETED)
        self.check_no_erasure(instance)
        return present, report, registration

    def check_no_erasure(self, instance: str) -> None:
        erasure = self._jobs.running(JobKind.ERASE, instance)
        if erasure is not None:  # it may concern the event, and would not find it once it is pending again
            raise Conflict(ERASURE_UNDER_WAY(instance=instance, id=erasure.id))

    async def replay(
        self,
        instance: str,
        selection: DeliverySelection,
        *,
        without_global: bool = False,
        waits: bool = False,
        caller: str | None = None,
    ) -> Job:
        """Send finished deliveries of an instance again, in their original order.

        Neither a cancelled caller nor a restart stops it. Deliveries of a deleted or disabled registration
        are left alone. Return the job, which may still run; see :meth:`Jobs.wait`.

        Args:
            waits: whether it waits for the end of a replay of the instance that is under way.
            caller: see :meth:`Jobs.of_caller`.

        Raises:
            NotFound: there is no such instance, or it has no registration of the label.
            Conflict: a replay of the instance is under way.
            Unavailable: the disk refused, and nothing is replayed; or the gateway is closing.
        """
        present = self._registry.instance(instance)
        check_label(self._registry, instance, selection)
        # One at a time for each instance: two at once would mix their orders.
        former = self._jobs.running(JobKind.REPLAY, instance)
        if former is not None and not waits:
            raise Conflict.of(
                "replay.under_way",
                "A replay of {instance!r} is under way ({id}, {done:,} so far); try again when it has ended.",
                instance=instance,
                id=former.id,
                done=former.done,
            )
        job = self.job(present, limited(selection, without_global=without_global), caller)
        # Stored with its first step, unless that is the last: many replays are short.
        return await self._jobs.wait(self._jobs.start(job, self.replaying, is_stored=False))

    def job(self, instance: Instance, selection: DeliverySelection, caller: str | None = None) -> Job:
        return self._jobs.new(
            JobKind.REPLAY, instance.name, instance_id=instance.id, replay=selection, caller=caller
        )

    async def count(self, instance: str, selection: DeliverySelection, most: int) -> Mapping[str, int]:
        """Count the deliveries that :meth:`replay` would send, by registration; it ends at about ``most``."""
        rules = self._rules(instance, selection)
        return await self._store.count_replayable(_query(instance, selection), rules, most)

    def replaying(self, running: RunningJob) -> Callable[[], Awaitable[None]]:
        """Return the work of a replay; see :class:`Jobs`."""
        return partial(self._carry_out, running)

    async def _carry_out(self, running: RunningJob) -> None:
        """Replay to the end, or raise why it cannot go on."""
        instance = running.job.instance
        refused = log_refusal("replay", instance=instance)
        while await self._jobs.obey(
            running, self._entry(running.job, self._registry.find_instance(instance))
        ):
            former = self._jobs.former(running)
            if former is not None:
                if not running.is_stored:  # the former may take hours
                    entry = self._entry(running.job, self._registry.find_instance(instance))
                    await self._store.put_job(running.job, audit=[entry])
                    running.stored.set()
                await self._jobs.wait_for(former, running)
                continue
            make = partial(self._make_some, running)
            # Before the first step, nothing is replayed: the caller may ask again.
            step = await (retry_until_readable(make, refused) if running.is_stored else make())
            if step is None:
                if not running.orders:
                    await trio.sleep(ROOM_WAIT)
                continue
            running.job = running.job.advanced(step.count, step.cursor)
            if step.cursor is None:
                return
            running.stored.set()

    async def _make_some(self, running: RunningJob) -> JobStep | None:
        """Send some deliveries again; ``None`` if there is no room, or something is asked of the replay."""
        if running.orders:  # obeyed first, also while the disk refuses
            return None
        job, instance, selection = running.job, running.job.instance, running.job.selection
        # A registration that changes between two steps is seen by the next one. Within a step none may
        # change: its deliveries would go to lanes that it no longer has.
        async with instance_turn(self._jobs, self._registry, instance):
            found = self._registry.find_instance(instance)
            if found is None or found.id != job.instance_id:
                raise NotFound(THE_INSTANCE_DELETED)
            rules = self._rules(instance, selection)
            with self._outbox.holding_for_replay(instance, rules) as (count, size):
                if self._jobs.running(JobKind.ERASE, instance) is not None:
                    count = 0  # an erasure would not find what is sent again: wait for its end
                if any(self._jobs.backfill_of(one) for one in rules):
                    # The lanes would not send it before the backfill ends, and the backfill needs the room.
                    count = 0
                if not count and job.cursor is not None:
                    return None
                # Without room, the first step only stores the job, and what takes part.
                return await self._store.replay_step(
                    _query(instance, selection),
                    rules,
                    job.cursor,
                    count=count,
                    size=size,
                    job=job,
                    is_stored=running.is_stored,
                    # With the first step that changes anything, or stores the job.
                    audit=[] if running.is_stored else [self._entry(job, found)],
                )

    def _entry(self, job: Job, instance: Instance | None) -> AuditEntry:
        details = {"job": job.id, **details_of(job.selection), "state": job.selection.state or "dead"}
        return self._audit.entry(AuditAction.DELIVERY_REPLAY, instance, details=details)

    def _rules(self, instance: str, selection: DeliverySelection) -> dict[str, LaneRule]:
        """Return the lane rules of the registrations that take part, by id."""
        found = receivers(self._registry, instance, selection)
        return {one.id: lane_rule(one) for one in found if one.enabled}


def _query(instance: str, selection: DeliverySelection) -> ReplayQuery:
    return ReplayQuery(**msgspec.structs.asdict(selection), instance=instance)
