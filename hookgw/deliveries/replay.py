"""Sends finished deliveries again: one delivery, or all of a period.

A replay is a job (see :mod:`hookgw.core.jobs`): neither a lost client nor the end of the process stops it
half-way.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import structlog
import trio

from hookgw.core.audit import Audit
from hookgw.core.backlog import Need
from hookgw.core.backlog_limits import LimitedOutbox
from hookgw.core.jobs import Jobs, RunningJob
from hookgw.core.registry import Registry
from hookgw.core.turns import instance_turn
from hookgw.deliveries.history import DeliveryHistory
from hookgw.deliveries.requests import Replay
from hookgw.kernel.errors import Conflict, NotFound, StorageUnavailable
from hookgw.kernel.times import rfc3339
from hookgw.lanes.store_retry import FIRST_WAIT, LAST_WAIT
from hookgw.records.audit import AuditAction, AuditEntry
from hookgw.records.instances import Instance
from hookgw.records.jobs import Job, JobKind, ReplayScope
from hookgw.records.lanes import LaneRule, lane_rule
from hookgw.records.registrations import is_global
from hookgw.store import DeliverySummary, ReplayQuery, Store

ROOM_WAIT = 1.0
"""Seconds between two looks for room."""

logger = structlog.get_logger("hookgw.resending")


class Replays:
    def __init__(
        self,
        registry: Registry,
        store: Store,
        history: DeliveryHistory,
        jobs: Jobs,
        outbox: LimitedOutbox,
        audit: Audit,
    ) -> None:
        self._audit = audit
        self._outbox = outbox
        self._jobs = jobs
        self._registry = registry
        self._store = store
        self._history = history

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
        present = self._registry.instance(instance)
        report = await self._history.find(instance, name, without_global=without_global)
        found = report.summary
        registration = self._registry.registration(found.registration)
        if registration is None:
            raise Conflict("The registration of this delivery was deleted, so there is nowhere to send it.")
        if not registration.enabled:
            raise Conflict(
                "The registration of this delivery is disabled: enable it first (set enabled to true)."
            )
        erasure = self._jobs.running(JobKind.ERASE, instance)
        if erasure is not None:  # it may concern the event, and would not find it once it is pending again
            raise Conflict(
                f"An erasure of {instance!r} is under way ({erasure.id}); try again when it has ended."
            )
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
                raise Conflict("The delivery is still pending; hookgw will send it anyway.")
        return (await self._history.find(instance, found.id, without_global=without_global)).summary

    async def replay(self, instance: str, replay: Replay, *, without_global: bool = False) -> Job:
        """Send finished deliveries of an instance again, in their original order.

        Neither a cancelled caller nor a restart stops it. Deliveries of a deleted or disabled registration
        are left alone. Return the job, which may still run; see :meth:`Jobs.wait`.

        Raises:
            NotFound: there is no such instance, or it has no registration of the label.
            Conflict: a replay of the instance is under way.
            Unavailable: the disk refused, and nothing is replayed; or the gateway is closing.
        """
        instance_id = self._registry.instance(instance).id
        if replay.label is not None and self._registry.find(instance, replay.label) is None:
            raise NotFound(f"The instance {instance!r} has no webhook {replay.label!r}.")
        # One at a time for each instance: two at once would mix their orders.
        former = self._jobs.running(JobKind.REPLAY, instance)
        if former is not None:
            raise Conflict(
                f"A replay of {instance!r} is under way ({former.id}, {former.done:,} so far); "
                "try again when it has ended."
            )
        scope = ReplayScope(
            state=replay.state,
            since=replay.since,
            until=replay.until,
            kinds=replay.kinds,
            label=replay.label,
            without_global=without_global,
        )
        job = self._jobs.new(JobKind.REPLAY, instance, instance_id=instance_id, replay=scope)
        # Stored with its first step, unless that is the last: many replays are short.
        return await self._jobs.wait(self._jobs.start(job, self.replaying, is_stored=False))

    def replaying(self, running: RunningJob) -> Callable[[], Awaitable[None]]:
        """Return the work of a replay; see :class:`Jobs`."""
        return partial(self._carry_out, running)

    async def _carry_out(self, running: RunningJob) -> None:
        """Replay to the end, or raise why it cannot go on."""
        instance, scope = running.job.instance, running.job.replay or ReplayScope()
        query = ReplayQuery(
            instance=instance, state=scope.state, since=scope.since, until=scope.until, kinds=scope.kinds
        )
        wait = FIRST_WAIT
        while running.job.is_running:
            try:
                # A registration that changes between two steps is seen by the next one. Within a step
                # none may change: its deliveries would go to lanes that it no longer has.
                async with instance_turn(self._jobs, self._registry, instance):
                    found = self._registry.find_instance(instance)
                    if found is None or found.id != running.job.instance_id:
                        raise NotFound("The instance was deleted.")
                    rules = self._rules(instance, scope.label, scope.without_global)
                    job, step = running.job, None
                    # With the first step that changes anything, or stores the job.
                    audit = [] if running.is_stored else [self._entry(job, found)]
                    with self._outbox.holding_for_replay(instance, rules) as (count, size):
                        if self._jobs.running(JobKind.ERASE, instance) is not None:
                            count = 0  # an erasure would not find what is sent again: wait for its end
                        if any(self._jobs.backfill_of(one) for one in rules):
                            # The lanes would not send it before the backfill ends, and the backfill needs
                            # the room.
                            count = 0
                        if count or job.cursor is None:
                            # Without room, the first step only stores the job, and what takes part.
                            step = await self._store.replay_step(
                                query, rules, job.cursor, count=count, size=size, job=job, audit=audit
                            )
            except StorageUnavailable as error:
                if not running.is_stored:  # nothing is replayed: the caller may ask again
                    raise StorageUnavailable(*error.messages, retry_after=error.retry_after) from error
                logger.warning("replay waits for the disk", instance=instance, reason=str(error))
                await trio.sleep(wait)
                wait = min(2 * wait, LAST_WAIT)
                continue
            wait = FIRST_WAIT
            if step is None:
                await trio.sleep(ROOM_WAIT)
                continue
            running.job = job.advanced(step.count, step.cursor)
            if step.cursor is None:
                return
            running.is_stored = True

    def _entry(self, job: Job, instance: Instance) -> AuditEntry:
        scope = job.replay or ReplayScope()
        details = {
            "job": job.id,
            "state": scope.state,
            "since": None if scope.since is None else rfc3339(scope.since),
            "until": None if scope.until is None else rfc3339(scope.until),
            "kinds": ", ".join(scope.kinds) or None,
            "label": scope.label,
        }
        return self._audit.entry(AuditAction.DELIVERY_REPLAY, instance, details=details)

    def _rules(self, instance: str, label: str | None, without_global: bool) -> dict[str, LaneRule]:
        """Return the lane rules of the registrations that take part, by id."""
        return {
            one.id: lane_rule(one)
            for one in self._registry.hearing(instance)
            if one.enabled
            and (label is None or (one.instance, one.label) == (instance, label))
            and not (without_global and is_global(one.id))
        }
