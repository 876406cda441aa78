"""Jobs: work on many deliveries, which goes on after its request, and after a restart.

A call that makes millions of deliveries dead letters, or sends them again, answers after
:data:`ANSWER_WITHIN` seconds, or as soon as the rest of the work is a record in the store. That is written in
the commit of the change that needs the work, and again in the commit of each step, so that the work continues
after a kill.

Steps are small, take turns among all jobs, and rest for as long as they took, so that others can write in
between.

An error in hookgw ends neither the process nor other work. A stored job is tried again until it succeeds: a
caller was promised that. Its lanes stay paused meanwhile.
"""

from __future__ import annotations

import traceback
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import ExitStack, asynccontextmanager
from functools import partial

import msgspec
import structlog
import trio

from hookgw.concurrency.clock import Clock
from hookgw.concurrency.share_line import WaitingClaim, take_in_line
from hookgw.concurrency.tasks import TaskFailed, retry_contained
from hookgw.core.audit import current_actor
from hookgw.fair import PerHolder, Share
from hookgw.kernel.errors import Conflict, HookgwError, NotFound, Unavailable
from hookgw.lanes.store_retry import log_refusal, retry_until_readable
from hookgw.records.audit import AuditEntry
from hookgw.records.jobs import CANCELLABLE, PAUSABLE, Job, JobKind, JobOrder, JobState, new_job_id
from hookgw.records.registrations import GLOBAL_INSTANCE
from hookgw.store import Store

logger = structlog.get_logger("hookgw.jobs")

ANSWER_WITHIN = 2.0
"""Seconds that a call waits for its job."""
KEPT_FOR = 86_400.0
"""Seconds for which a job can be found after its end."""
MOST_KEPT = 100
"""The most jobs of one instance that are kept after their end, the newest ones. Parts are counted apart."""
MOST_PARTS_KEPT = 10_000
"""The most parts of jobs that are kept after their end, the newest ones: a job over all instances has
thousands, and each takes half a kilobyte. A hundred of each instance were 100 MB after a hundred jobs over
1,800 instances."""
READ_BY_ID = 1_000
"""Jobs of other nodes from which on all jobs of the store are read."""
PRUNE_EVERY = 600.0
"""Seconds between two looks at the age of finished jobs."""
LONGEST_WAIT = 60.0
"""Seconds after which a job looks again whether it must wait for another one."""
MOST_REST = 0.5
"""The longest rest after a step, in seconds."""


_PARTS = ""
"""Stands for an instance: of all parts of jobs."""
_PARTICIPLES = {JobOrder.PAUSE: "paused", JobOrder.RESUME: "resumed", JobOrder.CANCEL: "cancelled"}


class RunningJob:
    """A job that is carried out.

    Attributes:
        job: the job as it is now. Its worker replaces it after each step.
        stored: set once the store has it. The worker stores it with its steps.
        is_resumed: whether it began in an earlier process.
        ended: set once it has ended, or is left to the next start.
        error: why it failed; ``None`` unless it did.
        pauses: keep lanes from starting an attempt until it has ended, or its work closes this.
        scope: its work runs in it. In a fleet, a job that moves to another node is cancelled.
    """

    def __init__(self, job: Job, *, is_stored: bool, is_resumed: bool = False) -> None:
        self.job = job
        self.stored = trio.Event()
        if is_stored:
            self.stored.set()
        self.is_resumed = is_resumed
        self.ended = trio.Event()
        self.error: HookgwError | TaskFailed | None = None
        self.pauses = ExitStack()
        self.scope = trio.CancelScope()
        # Whether a caller went on without it, and has its id.
        self.is_told = False
        # What it was asked to, and is to obey with its next step: with an entry for the audit, and an event.
        self.orders: list[tuple[JobOrder, AuditEntry | None, trio.Event]] = []
        self.ordered = trio.Event()
        self._woken = trio.Event()

    @property
    def is_stored(self) -> bool:
        return self.stored.is_set()

    def order(self, order: JobOrder, entry: AuditEntry | None = None) -> trio.Event:
        """Ask something of the job; return an event that is set once it has obeyed and stored that."""
        obeyed = trio.Event()
        self.orders.append((order, entry, obeyed))
        self.ordered.set()
        return obeyed

    async def sleep(self, seconds: float) -> None:
        """Wait for a while, or until :meth:`wake`."""
        with trio.move_on_after(seconds):
            await self._woken.wait()

    def wake(self) -> None:
        """Let its work look again now: somebody has ended it."""
        self._woken.set()


Begin = Callable[[RunningJob], Callable[[], Awaitable[None]]]
"""Prepares a job at once, for example pauses lanes, and returns its work. Work that fails raises a
:class:`~hookgw.kernel.errors.HookgwError`. If it raises anything else, it is called again, to go on from
:attr:`RunningJob.job`."""


class Jobs:
    """Carries out jobs, and remembers them for a while after their end."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._nursery: trio.Nursery | None = None
        self._begin: Mapping[JobKind, Begin] = {}
        self._running: dict[str, RunningJob] = {}
        # The same jobs, by what many of them look for: of one kind and instance.
        self._alike: dict[tuple[JobKind, str], dict[str, RunningJob]] = {}
        self._of_callers: PerHolder[str] = PerHolder()
        self._finished: dict[str, Job] = {}
        # The same jobs, in the order of their ends: of each instance, and all parts.
        self._kept: dict[str, deque[Job]] = {}
        # What other nodes have ended, as far as somebody has looked.
        self._ended_elsewhere: dict[str, Job] = {}
        # Among all jobs: twenty at once must not take twenty times as much of the disk as one. In turn among
        # instances: one of them has a job for each registration that it disables.
        self._disk: Share[WaitingClaim] = Share(1, ratio=1)

    async def load(self) -> None:
        """Read the records of jobs that have ended. The others are taken up with their shard."""
        for job in sorted((await self._store.load_jobs()).values(), key=lambda job: job.finished or 0.0):
            if not job.is_running:
                self._keep(job)

    async def run(
        self, begin: Mapping[JobKind, Begin], *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Carry out jobs until cancelled. ``begin`` prepares each kind."""
        async with trio.open_nursery() as nursery:
            self._nursery, self._begin = nursery, begin
            try:
                task_status.started()
                while True:
                    await trio.sleep(PRUNE_EVERY)
                    await self._forget_old(*self._kept)
            finally:
                self._nursery = None

    def take_up(self, stored: Iterable[Job]) -> None:
        """Continue jobs that another process has left. They are prepared when this returns.

        Args:
            stored: as they were read before anybody could begin jobs of their instances here, or end them.
        """
        for job in sorted((job for job in stored if job.is_running), key=lambda job: job.started):
            is_known = job.id in self._running or job.id in self._finished
            if not is_known and self._nursery is not None:
                running = self._add(RunningJob(job, is_stored=True, is_resumed=True))
                if job.parent is None:  # a part that begins is taken up, too
                    logger.info("job continues", job=job.id, kind=job.kind, instance=job.instance)
                self._nursery.start_soon(self._carry_out, running, self._begin[job.kind](running))

    async def leave(self, concerns: Callable[[Job], bool]) -> None:
        """Leave jobs to another node; return once their work here has ended."""
        left = [running for running in self._running.values() if concerns(running.job)]
        for running in left:
            running.scope.cancel()
        for running in left:
            await running.ended.wait()

    async def everywhere(self) -> list[Job]:
        """Return the jobs of this node, and those of others that are in the store, the newest first."""
        if self._store.shared is None:
            return self.all()  # the store has no others, and is not read for a page that looks each second
        ids = await self._store.job_ids()
        own = {job.id: job for job in self.all()}
        # A page looks each second, and tens of thousands may be stored: what ended elsewhere is read once.
        unknown = ids - own.keys() - self._ended_elsewhere.keys()
        known = dict(self._ended_elsewhere)
        if unknown:
            known |= await self._store.load_jobs(unknown if len(unknown) < READ_BY_ID else None)
        found = {id_: job for id_, job in known.items() if id_ in ids and id_ not in own}
        self._ended_elsewhere = {id_: job for id_, job in found.items() if not job.is_running}
        return sorted([*own.values(), *found.values()], key=lambda job: job.started, reverse=True)

    async def find_everywhere(self, job_id: str) -> Job | None:
        """Return a job of this node, or of another one if it is in the store."""
        # By its id: a client that waits for the end asks each second, and tens of thousands may be stored.
        return self.find(job_id) or (await self._store.load_jobs([job_id])).get(job_id)

    def new(self, kind: JobKind, instance: str, **more: object) -> Job:
        """Return a job of this moment, on behalf of the current task's actor."""
        job = Job(
            id=new_job_id(),
            kind=kind,
            instance=instance,
            started=self._clock.wall(),
            actor=current_actor(),
        )
        return msgspec.structs.replace(job, **more)

    def start(self, job: Job, begin: Begin | None, *, is_stored: bool) -> RunningJob:
        """Carry out a job. It is prepared when this returns.

        Args:
            begin: prepares it; by default, what prepares jobs of its kind.
            is_stored: whether the job is in the store. Otherwise its worker stores it with a step, or it ends
                with the process.
        """
        running = RunningJob(job, is_stored=is_stored)
        if self._nursery is None:  # the shutdown has begun: a job in the store goes on at the next start
            running.ended.set()
        else:
            self._add(running)
            begin = begin or self._begin[job.kind]
            self._nursery.start_soon(self._carry_out, running, begin(running))
        return running

    def _add(self, running: RunningJob) -> RunningJob:
        job = running.job
        self._running[job.id] = running
        self._alike.setdefault((job.kind, job.instance), {})[job.id] = running
        if job.caller is not None:
            self._of_callers.take(job.caller)
        return running

    def _remove(self, running: RunningJob) -> None:
        job = running.job
        del self._running[job.id]
        alike = self._alike[job.kind, job.instance]
        del alike[job.id]
        if not alike:
            del self._alike[job.kind, job.instance]
        if job.caller is not None:
            self._of_callers.give(job.caller)

    def of_caller(self, caller: str) -> int:
        """Return how many jobs run, or wait, that were started for a caller."""
        return self._of_callers.held(caller)

    async def wait(self, running: RunningJob) -> Job:
        """Wait until a job has ended, for :data:`ANSWER_WITHIN` seconds, or until it is stored.

        Returns:
            The job, which may still run. It can be found by its id then, also after its end.

        Raises:
            HookgwError: it failed.
            TaskFailed: an error in hookgw ended it, and nothing of it is stored.
            Unavailable: the gateway is closing.
        """
        with trio.move_on_after(ANSWER_WITHIN):
            await running.ended.wait()
        if running.job.kind in CANCELLABLE:  # others are in the store from the start, or never
            await _first_of(running.stored, running.ended)  # a kill would lose a job that a caller knows
        if not running.ended.is_set():
            running.is_told = True
        elif running.error is not None:
            raise running.error
        elif running.job.is_running:
            if running.job.kind is JobKind.BACKUP:
                raise Unavailable.of(
                    "backup.gateway_closing", "The gateway is closing. Nothing of the backup is kept."
                )
            done = f"{running.job.done:,} deliveries were handled before that"
            later = "; the rest follows at the next start" if running.is_stored else ""
            raise Unavailable.of(
                "job.gateway_closing", "The gateway is closing. {done}{later}.", done=done, later=later
            )
        return running.job

    async def obey(self, running: RunningJob, entry: AuditEntry | None = None, *, holds: bool = True) -> bool:
        """Store what was asked of a job since its last step, and hold while it is paused.

        The work of a job that can be paused or cancelled calls this before each step.

        Args:
            entry: of the job itself, for the audit, if the job is not stored yet.
            holds: whether to hold while it is paused.

        Returns:
            Whether the work goes on; otherwise it was cancelled.
        """
        while True:
            while running.orders:
                order, its_entry, obeyed = running.orders[0]
                job = msgspec.structs.replace(
                    running.job,
                    is_paused=order is JobOrder.PAUSE,
                    is_cancelled=running.job.is_cancelled or order is JobOrder.CANCEL,
                )
                entries = [one for one in (None if running.is_stored else entry, its_entry) if one]
                await self._store_until_done(partial(self._store.put_job, job, audit=entries))
                running.job = job
                running.stored.set()
                del running.orders[0]
                obeyed.set()
            if running.job.is_cancelled or not (running.job.is_paused and holds):
                return not running.job.is_cancelled
            running.ordered = trio.Event()
            await running.ordered.wait()

    async def order(self, job_id: str, order: JobOrder, entry: AuditEntry) -> Job:
        """Pause, resume or cancel a job that runs here.

        Returns:
            The job. If its present step takes long, it has not obeyed yet, but will.

        Raises:
            NotFound: no such job runs here.
            Conflict: a job of its kind cannot do that, or it is a part of another one.
        """
        running = self._running.get(job_id)
        if running is None:
            raise NotFound.of("job.not_running", "No job {id!r} runs.", id=job_id[:64])
        job = running.job
        if job.parent is not None:
            raise Conflict.of(
                "job.part_of",
                "The job is part of {parent}: {order} that one.",
                parent=job.parent,
                order=order,
            )
        if job.kind not in (CANCELLABLE if order is JobOrder.CANCEL else PAUSABLE):
            raise Conflict.of(
                "job.cannot",
                "A job of kind {job} cannot be {order}.",
                job=job.kind,
                order=_PARTICIPLES[order],
            )
        obeyed = running.order(order, entry)
        running.is_told = True
        with trio.move_on_after(ANSWER_WITHIN):
            # A job that ends meanwhile obeys no more.
            await _first_of(running.ended if order is JobOrder.CANCEL else obeyed, running.ended)
        return self.find(job_id) or running.job

    async def wait_for(self, former: RunningJob, running: RunningJob) -> None:
        """Wait until another job has ended, or something is asked of this one."""
        running.ordered = trio.Event()
        if not running.orders:
            with trio.move_on_after(LONGEST_WAIT):
                await _first_of(running.ordered, former.ended)

    def running_here(self, job_id: str) -> RunningJob | None:
        return self._running.get(job_id)

    def former(self, running: RunningJob) -> RunningJob | None:
        """Return a job of the same kind and instance that began before another one, and still runs."""
        alike = self._alike.get((running.job.kind, running.job.instance), {})
        first = next(iter(alike.values()), running)
        return None if first is running else first

    def find(self, job_id: str) -> Job | None:
        """Return a job that runs, or ended not long ago."""
        running = self._running.get(job_id)
        return running.job if running else self._finished.get(job_id)

    def all(self) -> list[Job]:
        """Return the jobs that run or ended not long ago, the newest first."""
        found = [*self._finished.values(), *(running.job for running in self._running.values())]
        return sorted(found, key=lambda job: job.started, reverse=True)

    def running(self, kind: JobKind, instance: str) -> Job | None:
        return next((one.job for one in self._alike.get((kind, instance), {}).values()), None)

    def running_backfill(self, registration: str) -> RunningJob | None:
        for running in self._running.values():
            if running.job.backfill is not None and running.job.backfill.registration == registration:
                return running
        return None

    def backfill_of(self, registration: str) -> Job | None:
        running = self.running_backfill(registration)
        return None if running is None else running.job

    def now(self) -> float:
        return self._clock.wall()

    def unfinished(self) -> list[Job]:
        return [running.job for running in self._running.values()]

    def taken_up(self) -> list[Job]:
        """Return the jobs that run, and that an earlier process has left."""
        return [running.job for running in self._running.values() if running.is_resumed]

    def parking(self, registration: str) -> Job | None:
        """Return the newest stored job that parks a registration, if any."""
        found = (one.job for one in reversed(self._running.values()) if one.is_stored)
        parks = (job for job in found if job.kind not in (JobKind.CANCEL, JobKind.ERASE))
        return next((job for job in parks if registration in job.registrations), None)

    @asynccontextmanager
    async def turn(self, instance: str) -> AsyncIterator[None]:
        """Hold the disk for one step of an instance's job. The next step of any job rests before it."""
        await take_in_line(self._disk, instance)
        rest = 0.0
        try:
            begun = trio.current_time()
            yield
            # As long as the step took: jobs together use at most half of the disk's capacity.
            rest = min(trio.current_time() - begun, MOST_REST)
        finally:
            if rest and self._nursery is not None:
                # Not here: after the last step, a caller waits for the end of the job.
                self._nursery.start_soon(self._give_after, rest, instance)
            else:
                self._disk.give(instance)

    async def _give_after(self, seconds: float, instance: str) -> None:
        try:
            await trio.sleep(seconds)
        finally:
            self._disk.give(instance)

    async def _carry_out(self, running: RunningJob, work: Callable[[], Awaitable[None]]) -> None:
        begun = trio.current_time()
        try:
            with running.scope, running.pauses:
                try:
                    await retry_contained(work, partial(self._met_error, running))
                except (HookgwError, TaskFailed) as error:
                    running.error = error
            if running.scope.cancelled_caught:
                return
            running.job = job = running.job.ended(
                self._clock.wall(), str(running.error) if running.error else None
            )
        finally:
            self._remove(running)
            running.ended.set()
        took = trio.current_time() - begun
        log = logger.warning if job.state is JobState.FAILED else logger.info
        if job.done or running.error:  # most have nothing to do
            log("job ended", job=job.id, kind=job.kind, instance=job.instance, done=job.done, error=job.error)
        if running.is_told or running.is_resumed or job.parent or took >= ANSWER_WITHIN:
            self._keep(job)
            await self._store_until_done(partial(self._store.put_job, job))
            await self._forget_old(_holder(job))
        elif running.is_stored:
            await self._store_until_done(partial(self._store.remove_jobs, [job.id]))

    def _met_error(self, running: RunningJob, failure: TaskFailed) -> None:
        """Note that an error in hookgw delays a job, or ends it by raising the failure."""
        job, cause = running.job, failure.__cause__
        reason = str(failure)
        trace: dict[str, object] = {"exc_info": cause}
        if job.erase is not None and cause is not None:
            # The message may have the person's identifier, which the log must not have. The lines of the code
            # have no values.
            reason = type(cause).__name__
            trace = {"traceback": "".join(traceback.format_tb(cause.__traceback__))}
        logger.error(
            "a job met an error in hookgw",
            job=job.id,
            kind=job.kind,
            instance=job.instance,
            reason=reason,
            **trace,
        )
        if not running.is_stored:
            raise failure
        running.job = msgspec.structs.replace(job, error=f"An error in hookgw: {reason}")

    def _keep(self, job: Job) -> None:
        self._finished[job.id] = job
        self._kept.setdefault(_holder(job), deque()).append(job)

    async def _forget_old(self, *holders: str) -> None:
        """Forget what ended long ago, and all but the newest, of these holders."""
        oldest = self._clock.wall() - KEPT_FOR
        gone = []
        for holder in holders:
            kept, most = self._kept.get(holder, ()), MOST_PARTS_KEPT if holder == _PARTS else MOST_KEPT
            while kept and (len(kept) > most or (kept[0].finished or 0.0) < oldest):
                job = kept.popleft()
                del self._finished[job.id]
                gone.append(job.id)
            if not kept:
                self._kept.pop(holder, None)
        if gone:
            await self._store_until_done(partial(self._store.remove_jobs, gone))

    async def _store_until_done(self, write: Callable[[], Awaitable[None]]) -> None:
        await retry_until_readable(write, log_refusal("a job"))


def _holder(job: Job) -> str:
    if job.parent is not None:
        return _PARTS
    if job.instance == GLOBAL_INSTANCE:
        return f"{GLOBAL_INSTANCE} {job.actor.instance} {job.actor.name}"  # nobody's jobs replace another's
    return job.instance


async def _first_of(event: trio.Event, ended: trio.Event) -> None:
    async def cancel_after_end() -> None:
        await ended.wait()
        nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(cancel_after_end)
        await event.wait()
        nursery.cancel_scope.cancel()
