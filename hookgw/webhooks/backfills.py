"""Backfills: a registration gets events of the log that it has missed, in order, before anything newer.

A backfill is a job (see :mod:`hookgw.core.jobs`). Its call keeps a place in the lanes free, behind what is
pending and before all that follows (:class:`hookgw.store.Backfills`). The job fills that place step by step,
as there is room in the backlog. Until it ends, the lanes stop at the barrier, which is the end of the place.
So what lies before it is sent, and makes room for the next step.

The barrier lives in the job's record and in the dispatcher. A process that takes the job up sets it again
before any lane of the registration starts.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import msgspec
import trio

from hookgw.core.audit import Audit
from hookgw.core.backlog_limits import LimitedOutbox
from hookgw.core.jobs import Jobs, RunningJob
from hookgw.core.pending import PendingDeliveries
from hookgw.core.registry import Registry
from hookgw.core.shielded import completes
from hookgw.core.this_node import ThisNode
from hookgw.core.turns import instance_turn
from hookgw.kernel.collaborator import Collaborator
from hookgw.kernel.errors import Conflict, HookgwError, Invalid, NotFound
from hookgw.kernel.sentences import Sentence
from hookgw.kernel.times import rfc3339
from hookgw.lanes.dispatcher import Dispatcher
from hookgw.lanes.store_retry import log_refusal, retry_until_readable
from hookgw.records.audit import AuditAction, AuditEntry
from hookgw.records.instances import Instance
from hookgw.records.jobs import BackfillScope, Job, JobKind
from hookgw.records.lanes import lane_rule
from hookgw.records.registrations import Registration
from hookgw.records.sentences import THE_INSTANCE_DELETED
from hookgw.store import BackfillQuery, JobStep, Missed, Store
from hookgw.store.backfills import scope_of
from hookgw.webhooks.requests import BackfillRequest

ROOM_WAIT = 1.0
"""Seconds between two looks for room."""
COUNT_SECONDS = 1.0
"""Seconds for which what a registration missed is counted, unless somebody asks for no more than that."""
ENABLING = 60.0
"""The longest time, in seconds, until all nodes know that a registration is enabled."""
NO_KIND = ("",)
"""Kinds that no event has."""

DISABLED = Sentence(
    "backfill.disabled_meanwhile",
    "The webhook was disabled. What the backfill had made until then is among its dead letters; once it is "
    "enabled, make the call again.",
)


class Found(msgspec.Struct, frozen=True):
    """What a registration has missed.

    Attributes:
        is_complete: ``False`` if the search was ended before it had looked at everything.
    """

    count: int
    first: Missed | None = None
    last: Missed | None = None
    is_complete: bool = True


class Backfills(Collaborator):
    _node: ThisNode
    _registry: Registry
    _store: Store
    _jobs: Jobs
    _outbox: LimitedOutbox
    _pending: PendingDeliveries
    _dispatcher: Dispatcher
    _audit: Audit

    async def find(self, registration: Registration, asked: BackfillRequest) -> Found:
        """Return what a backfill would send now, but for what plugins filter out.

        Raises:
            Invalid: the registration does not get one of the kinds.
        """
        return await self._find(_query(registration, _scope(registration, asked)))

    async def missed_while_disabled(self, registration: Registration) -> Found | None:
        """Return what a registration has missed since it was last disabled, or while it was.

        The count ends after :data:`COUNT_SECONDS`. ``None`` if it was never disabled.
        """
        if registration.disabled_at is None:
            return None
        return await self._find(_query(registration, self._missed_scope(registration)), COUNT_SECONDS)

    async def _find(self, query: BackfillQuery, seconds: float | None = None) -> Found:
        ends = None if seconds is None else trio.current_time() + seconds
        found, cursor = Found(0), None
        while True:
            part = await self._store.find_missed(query, cursor)
            cursor = part.cursor
            found = Found(found.count + part.count, found.first or part.first, part.last or found.last)
            if cursor is None:
                return found
            if ends is not None and trio.current_time() >= ends:
                return msgspec.structs.replace(found, is_complete=False)

    async def backfill(self, instance: str, label: str, asked: BackfillRequest) -> Job:
        """Send a registration the events that it has missed. Return the job, which may still run.

        Neither a cancelled caller nor a restart stops it; see :meth:`cancel`.

        Raises:
            NotFound: there is no such instance or registration.
            Invalid: the registration does not get one of the kinds.
            Conflict: the registration is disabled, or is backfilled already.
            Unavailable: the disk refuses, and nothing has changed; or the gateway is closing.
        """
        return await self._jobs.wait(await self._begin(instance, label, asked))

    async def backfill_missed(self, instance: str, label: str) -> Job:
        """Send what a registration has missed while it was disabled last; see :meth:`backfill`."""
        registration = self._registry.get(instance, label)
        scope = self._missed_scope(registration)
        if scope.since is None:
            raise Conflict.of(
                "backfill.since_unknown",
                "hookgw does not know when the webhook was disabled, or it never was.",
            )
        asked = BackfillRequest(since=scope.since, until=scope.until)
        return await self.backfill(instance, label, asked)

    @completes
    async def _begin(self, instance: str, label: str, asked: BackfillRequest) -> RunningJob:
        # At once: a step of the former one may hold the lock for long.
        self._check_free(self._registry.get(instance, label))
        async with self._registry.changing_existing(instance) as found:
            registration = self._registry.get(instance, label)
            if not registration.enabled:
                raise Conflict.of(
                    "backfill.webhook_disabled",
                    "The webhook is disabled. Enable it first, with backfill: true for what it has missed.",
                )
            job = self.new(registration, found, _scope(registration, asked))
            # The lanes hold nothing, and take nothing, until they know the barrier.
            with self._dispatcher.paused(registration.id):
                # The write is done even if the deadline passes, and the stored job would not run until the
                # next start. The store bounds the wait: it writes, refuses, or closes.
                with trio.CancelScope(shield=True):
                    begun = await self._store.begin_backfill(job, audit=[self._entry(job, found)])
                return self._jobs.start(begun, self.backfilling, is_stored=True)

    def new_of_enabled(self, registration: Registration, instance: Instance) -> Job:
        """Return a job for what a registration has missed that is about to be enabled; see :meth:`new`.

        Raises:
            Conflict: it is backfilled already.
        """
        # As it was while it was disabled: until now.
        disabled = msgspec.structs.replace(registration, enabled=False)
        return self.new(registration, instance, self._missed_scope(disabled))

    def new(self, registration: Registration, instance: Instance, scope: BackfillScope) -> Job:
        """Return a job that is neither stored nor started.

        Raises:
            Conflict: the registration is backfilled already.
        """
        self._check_free(registration)
        return self._jobs.new(JobKind.BACKFILL, instance.name, instance_id=instance.id, backfill=scope)

    def _check_free(self, registration: Registration) -> None:
        former = self._jobs.backfill_of(registration.id)
        if former is not None:
            raise Conflict.of(
                "backfill.under_way",
                "A backfill of this webhook is under way ({id}, {done:,} so far); try again when it "
                "has ended.",
                id=former.id,
                done=former.done,
            )

    async def put_and_begin(
        self, registration: Registration, job: Job, *, due: bool, parking: Job | None
    ) -> RunningJob:
        """Store a registration, and begin a backfill of it, in one commit. Its lanes must be paused.

        Args:
            due, parking: as ``due`` and ``job`` of :meth:`Registry.put`.
        """
        instance = self._registry.instance(registration.instance)
        audit = [self._entry(job, instance)]
        begun = await self._registry.put_and_begin(registration, job, due=due, parking=parking, audit=audit)
        return self._jobs.start(begun, self.backfilling, is_stored=True)

    @completes
    async def cancel(self, instance: str, label: str) -> Job:
        """End the backfill of a registration. What it has made so far is sent; then the lanes go on.

        Raises:
            NotFound: there is no such instance or registration.
            Conflict: the registration is not being backfilled.
        """
        registration = self._registry.get(instance, label)
        async with instance_turn(self._jobs, self._registry, instance):
            running = self._jobs.running_backfill(registration.id)
            if running is None or not running.job.is_running:
                raise Conflict.of("backfill.none", "No backfill of this webhook is under way.")
            ended = msgspec.structs.replace(running.job, is_cancelled=True).ended(self._jobs.now())
            # On disk before the answer: a process that is killed now must not go on with it.
            await self._store.put_job(ended)
            running.job = ended
        running.wake()
        return ended

    def backfilling(self, running: RunningJob) -> Callable[[], Awaitable[None]]:
        """Set the barrier, and return the work of a backfill; see :class:`Jobs`."""
        try:
            barrier = self._store.backfill_barrier(running.job)
        except Conflict:
            pass  # the first step says why it fails
        else:
            self._dispatcher.set_barrier(scope_of(running.job).registration, barrier)
        return partial(self._carry_out, running)

    async def _carry_out(self, running: RunningJob) -> None:
        """Backfill to the end, or raise why it cannot go on. The barrier is lifted in both cases.

        If the job is left to another node or to the next start, or meets an error in hookgw and is tried
        again, the barrier stays: the lanes must not pass it.
        """
        registration_id = scope_of(running.job).registration
        failure = None
        try:
            await self._make_all(running)
        except HookgwError as error:
            failure = error
        # At once with the start of the others: of events about several chats, none may pass a partition that
        # was retired at the barrier.
        lift = partial(self._dispatcher.lift_barrier, registration_id)
        await self._pending.start_lanes(registration_id, lift)
        if failure is not None:
            raise failure

    async def _make_all(self, running: RunningJob) -> None:
        refused = log_refusal("backfill", instance=running.job.instance)
        while running.job.is_running:
            step = await retry_until_readable(partial(self._make_some, running), refused)
            if step is None:
                await running.sleep(ROOM_WAIT)
            elif step.cursor is None:
                return

    async def _make_some(self, running: RunningJob) -> JobStep | None:
        """Make a step; ``None`` if there is no room, or the backfill has ended."""
        instance, scope = running.job.instance, scope_of(running.job)
        # A registration that changes between two steps is seen by the next one. Within a step none may
        # change: its deliveries would go to lanes that it no longer has.
        async with instance_turn(self._jobs, self._registry, instance):
            job = running.job
            if not job.is_running:
                return None
            registration = self._registration_of(job, scope)
            is_drained = self._dispatcher.is_drained(registration.id)
            with self._outbox.holding_for_backfill(instance, registration.id, is_drained) as (count, size):
                # An erasure would not find what is made: wait for its end.
                if not count or self._jobs.running(JobKind.ERASE, instance) is not None:
                    return None
                query, rule = _query(registration, scope), lane_rule(registration)
                step = await self._store.backfill_step(query, rule, job, count=count, size=size)
                running.job = job.advanced(step.count, step.cursor)
                return step

    def _registration_of(self, job: Job, scope: BackfillScope) -> Registration:
        instance = self._registry.find_instance(job.instance)
        if instance is None or instance.id != job.instance_id:
            raise NotFound(THE_INSTANCE_DELETED)
        registration = self._registry.registration(scope.registration)
        if registration is None:
            raise NotFound.of("webhook.deleted", "The webhook was deleted.")
        if not registration.enabled or registration.enabled_at != scope.enabled_at:
            raise Conflict(DISABLED)
        return registration

    def _missed_scope(self, registration: Registration) -> BackfillScope:
        """Return the scope of what a registration has missed since it was last disabled, or while it was."""
        # Both ends are too far rather than too near: another node may accept an event while this one disables
        # or enables the registration. What has a delivery does not count.
        since, until = registration.disabled_at, None
        if since is not None:
            since = min(since, max(since - self._node.clocks_apart, registration.created_at))
        if registration.enabled:
            until = registration.enabled_at + ENABLING
        return BackfillScope(
            registration=registration.id,
            label=registration.label,
            since=since,
            until=until,
            enabled_at=registration.enabled_at,
        )

    def _entry(self, job: Job, instance: Instance) -> AuditEntry:
        scope = scope_of(job)
        details = {
            "job": job.id,
            "since": None if scope.since is None else rfc3339(scope.since),
            "until": None if scope.until is None else rfc3339(scope.until),
            "kinds": ", ".join(scope.kinds) or None,
            # Not the values: they may name a person, and the audit is not erased with the events.
            "filter": ", ".join(f"{one.pointer} {one.op}" for one in scope.filter) or None,
            "dead": "true" if scope.dead else None,
        }
        return self._audit.entry(AuditAction.REGISTRATION_BACKFILL, instance, scope.label, details=details)


def _scope(registration: Registration, asked: BackfillRequest) -> BackfillScope:
    unwanted = [kind for kind in asked.kinds if registration.events and kind not in registration.events]
    if unwanted:
        raise Invalid.of(
            "backfill.kinds_unwanted",
            "events: the webhook does not get {kinds}; add that to its events.",
            kinds=", ".join(unwanted),
        )
    return BackfillScope(
        registration=registration.id,
        label=registration.label,
        since=asked.since,
        until=asked.until,
        kinds=asked.kinds,
        filter=asked.filter,
        dead=asked.dead,
        enabled_at=registration.enabled_at,
    )


def _query(registration: Registration, scope: BackfillScope) -> BackfillQuery:
    kinds = registration.events or scope.kinds
    if registration.events and scope.kinds:
        # A kind that the registration does not get any more is no kind of the backfill, either.
        kinds = tuple(kind for kind in scope.kinds if kind in registration.events) or NO_KIND
    return BackfillQuery(
        instance=registration.instance,
        registration=registration.id,
        since=scope.since,
        until=scope.until,
        kinds=kinds,
        filters=(registration.filter, scope.filter),
        with_files=registration.base64,
        dead=scope.dead,
    )
