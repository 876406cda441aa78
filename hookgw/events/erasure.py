"""Erases a person's data: events with their deliveries, attempts and stored bodies.

An erasure is a job (see :mod:`hookgw.core.jobs`) in two passes. The first goes through the pending
deliveries, while the instance's own lanes start no attempt, so that nothing of the person is sent after the
call, except by attempts in flight. The second goes through the whole history beside the deliveries; the lanes
rest only for each commit that removes something. Lanes that other instances share rest for such commits
alone. Events with an attempt in flight are removed once it has ended.

The person's identifier is not in the log, the audit or the finished job.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

import msgspec
import structlog
import trio

from hookgw.concurrency.clock import Clock
from hookgw.core.audit import Audit
from hookgw.core.jobs import Jobs, RunningJob
from hookgw.core.pending import PendingDeliveries
from hookgw.core.registry import Registry
from hookgw.core.shielded import completes
from hookgw.fleet.lane_pauses import LanePauses
from hookgw.kernel.collaborator import Collaborator
from hookgw.kernel.errors import Conflict, NotFound
from hookgw.lanes.dispatcher import Dispatcher
from hookgw.lanes.store_retry import log_refusal, retry_until_readable
from hookgw.records.audit import AuditAction
from hookgw.records.erased_persons import with_erased
from hookgw.records.instances import Instance
from hookgw.records.jobs import Job, JobKind
from hookgw.records.registrations import is_global
from hookgw.records.sentences import ERASURE_UNDER_WAY, THE_INSTANCE_DELETED
from hookgw.store import Store

_refused = log_refusal("an erasure")

logger = structlog.get_logger("hookgw.erasing")


LEFT_BYTES = (
    "The data is erased from all tables, but its bytes are still in the storage, because something else was "
    "in the way. They go when the storage cleans up by itself; hookgw's log says what was in the way."
)
"""The warning for the caller of an erasure if the engine could not overwrite the freed pages."""


class Erasures(Collaborator):
    _registry: Registry
    _store: Store
    _dispatcher: Dispatcher
    _pending: PendingDeliveries
    _lane_pauses: LanePauses
    _jobs: Jobs
    _audit: Audit
    _clock: Clock
    _passes_on: Callable[[Instance], bool]  # whether the network's own messages of an instance are passed on

    async def erase(self, instance: str, remote_jid: str) -> Job:
        """Remove an instance's events that concern a person, whatever became of their deliveries.

        An event concerns the person if its payload has the identifier as a string, or as the name of a
        member, at any depth. Events that are accepted after the call stay. Neither a cancelled caller nor a
        restart stops it.

        Args:
            remote_jid: the network's name of the person or the chat.

        Returns:
            The job, which may still run; see :meth:`Jobs.wait`. It counts the removed deliveries (``done``)
            and ``events``.

        Raises:
            NotFound: there is no such instance.
            Conflict: an erasure of the instance is under way.
            Unavailable: the disk refused, and nothing is erased; or the gateway is closing.
        """
        return await self._jobs.wait(await self._begin(instance, remote_jid))

    @completes
    async def _begin(self, instance: str, remote_jid: str) -> RunningJob:
        # Held until the job runs, or several calls at once would find no erasure under way.
        async with self._registry.changing_existing(instance) as found:
            # Jobs take turns: one instance must not have a thousand in the line.
            former = self._jobs.running(JobKind.ERASE, instance)
            if former is not None:
                raise Conflict(ERASURE_UNDER_WAY(instance=instance, id=former.id))
            own = [one.id for one in self._registry.of_instance(instance)]
            job = self._jobs.new(
                JobKind.ERASE,
                instance,
                instance_id=found.id,
                registrations=tuple(own),
                cursor=await self._store.cancel_cursor(),
                erase=remote_jid,
            )
            entry = self._audit.entry(AuditAction.EVENT_ERASE, found, details={"job": job.id})
            # The write is done even if the deadline passes, and the stored job would not run until the next
            # start. The store bounds the wait: it writes, refuses, or closes.
            with trio.CancelScope(shield=True):
                if self._passes_on(found):
                    # Before the job, which begins at once. Without it, they are left out all the same.
                    await self._registry.put_instance(with_erased(found, remote_jid, self._clock.wall()))
                # In one commit: the next start would carry out a job whose caller was refused.
                await self._store.put_job(job, audit=[entry])
            return self._jobs.start(job, self.erasing, is_stored=True)

    def erasing(self, running: RunningJob) -> Callable[[], Awaitable[None]]:
        """Pause the instance's lanes, and return the work that erases; see :class:`Jobs`."""
        for registration_id, lane in self._lanes(running.job.instance, shared=False):
            running.pauses.enter_context(self._dispatcher.paused(registration_id, lane))
        return partial(self._carry_out, running)

    async def _carry_out(self, running: RunningJob) -> None:
        own = [name for name, _ in self._lanes(running.job.instance, shared=False)]
        async with self._lane_pauses.paused(running.job.instance, own):
            await self._walk(running, pending=True)
        if running.is_resumed:
            # The start of hookgw left the lanes of these registrations to this job. They start while they are
            # paused: later, a new event could start them and overtake pending deliveries. The lanes of a
            # deleted registration park theirs.
            for registration_id in running.job.registrations:
                await self._pending.start_lanes(registration_id)
        running.pauses.close()
        await self._walk(running, pending=False)
        if running.job.erase is not None:  # it was not cut off just before its end
            # If the instance was deleted, its events have another name, and were not found. A deletion that
            # is under way may still be refused by the disk.
            async with self._registry.changing(running.job.instance):
                found = self._registry.find_instance(running.job.instance)
            if found is None or found.id != running.job.instance_id:
                raise NotFound(THE_INSTANCE_DELETED)
        # Before the log is emptied, because it has the record, too.
        running.job = msgspec.structs.replace(running.job, erase=None)
        await retry_until_readable(partial(self._store.put_job, running.job), _refused)
        if not await retry_until_readable(self._store.scrub, _refused):
            running.job = msgspec.structs.replace(running.job, warning=LEFT_BYTES)
            logger.warning("erased bytes are still in the storage", instance=running.job.instance)

    async def _walk(self, running: RunningJob, *, pending: bool) -> None:
        """Erase all events found, until no attempt was in the way."""
        job = running.job
        value, first = job.erase, job.cursor
        if value is None or first is None:  # it was cut off just before its end
            return
        flights: list[trio.Event] | None = []
        while flights is not None:
            for ended in flights:
                await ended.wait()
            if flights:
                await self._store.flush()
            flights = None
            cursor: str | None = first
            while cursor is not None:
                find = partial(self._store.find_concerned, job.instance, value, cursor, pending=pending)
                async with self._jobs.turn(job.instance):
                    page = await retry_until_readable(find, _refused)
                    if page.events:
                        met = await self._erase(running, page.events, value)
                        if met:
                            flights = [*(flights or ()), *met]
                cursor = page.cursor

    async def _erase(self, running: RunningJob, events: list[int], value: str) -> list[trio.Event]:
        """Erase events in one commit; return the ends of attempts that were in the way."""
        async with self._paused(running.job.instance) as flights:
            erase = partial(
                self._store.erase,
                events,
                value,
                spared=[seq for seq, _ in flights],
                job=running.job,
            )
            erased = await retry_until_readable(erase, _refused)
        running.job = running.job.advanced(erased.deliveries, running.job.cursor, events=erased.events)
        return [ended for _, ended in flights] if erased.left else []

    @asynccontextmanager
    async def _paused(self, instance: str) -> AsyncIterator[list[tuple[int, trio.Event]]]:
        """Pause all lanes that may have the instance's events; yield the attempts in flight."""
        async with AsyncExitStack() as pauses:
            lanes = self._lanes(instance, shared=True)
            others = self._lane_pauses.paused(instance, [name for name, _ in lanes])
            flights = [*await pauses.enter_async_context(others)]
            # Looked up again: the webhooks may have changed in that wait.
            for registration_id, lane in self._lanes(instance, shared=True):
                pauses.enter_context(self._dispatcher.paused(registration_id, lane))
                flights += self._dispatcher.in_flight(registration_id, lane)
            # The lanes of deleted registrations start no attempt, but the last one of each may still carry an
            # event of the person.
            flights += self._dispatcher.in_flight_of_deleted(
                lambda name: self._registry.registration(name) is not None
            )
            yield flights

    def _lanes(self, instance: str, *, shared: bool) -> list[tuple[str, str | None]]:
        """Return the lanes of an instance's events, as the dispatcher pauses them.

        With ``shared``, they include lanes with events of other instances.
        """
        found: list[tuple[str, str | None]] = []
        for registration in self._registry.hearing(instance):
            if not is_global(registration.id):
                # All of it: a re-partition may give it other lanes meanwhile.
                found.append((registration.id, None))
            elif (lane := self._pending.lane_of_instance(registration, instance)) is not None or shared:
                found.append((registration.id, lane))
        return found
