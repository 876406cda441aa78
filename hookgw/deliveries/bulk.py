"""Replays and cancellations over several instances: one job, with a part for each instance.

The job runs on one node of a fleet, and each part on the node of its instance. Parts are ordinary jobs: each
keeps the order of its lanes, and survives kills by itself. The job stores parts before it asks their nodes to
carry them out, in the commit that notes them. So a part is carried out exactly once: one that has no record
any more has ended, and is never begun again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

import msgspec
import trio

from hookgw.concurrency.clock import Clock
from hookgw.core.audit import Audit, acting_as
from hookgw.core.jobs import Begin, Jobs, RunningJob
from hookgw.core.registry import Registry
from hookgw.deliveries.cancellation import Cancellations
from hookgw.deliveries.replay import Replays
from hookgw.deliveries.selection import details_of, for_one
from hookgw.fair import PerHolder
from hookgw.fleet.all_nodes import AllNodes, Question
from hookgw.kernel.collaborator import Collaborator
from hookgw.kernel.errors import TooManyRequests
from hookgw.lanes.store_retry import log_refusal, retry_until_readable
from hookgw.records.audit import AuditAction, AuditEntry
from hookgw.records.jobs import Job, JobKind, JobOrder, JobPart
from hookgw.records.registrations import GLOBAL_INSTANCE
from hookgw.records.selection import DeliverySelection
from hookgw.store import Store

STEP = 50
"""The most parts that begin with one commit."""
MOST_OF_CALLER = 8
"""Jobs of a caller that run or wait. They wait for those of the same instances, for ever if one is paused,
and each has a part for each instance."""
MOST_PARTS = 1_000
"""The most parts that run at a time. They take turns; and one whose receiver has no room waits."""
ASK_EVERY = 0.25
"""Seconds between two questions for the progress of parts."""
LONGEST_WARNING = 1_000
"""Characters after which a warning names no more instances."""
_MORE = "And more."
_BEHIND = 2e-6
"""Seconds: what was accepted at this moment takes part, too."""

_ACTIONS = {JobKind.REPLAY: AuditAction.DELIVERY_REPLAY, JobKind.CANCEL: AuditAction.DELIVERY_CANCEL}

_refused = log_refusal("a job over several instances")


class PartsAsked(msgspec.Struct, frozen=True):
    """Parts of a job to carry out, and what they are to do."""

    parts: list[JobPart]
    order: JobOrder


class PartState(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far a part is.

    Attributes:
        error: why it failed, in a sentence.
    """

    id: str
    done: int
    is_ended: bool
    error: str | None = None


class PartsPart(msgspec.Struct, frozen=True):
    """The parts of a node's instances among them."""

    parts: list[PartState]


PARTS = Question("parts", PartsAsked, PartsPart)


class BulkJobs(Collaborator):
    """Replays and cancellations of several instances.

    Args:
        holds: returns whether this node has an instance, by its name.
    """

    _registry: Registry
    _store: Store
    _jobs: Jobs
    _audit: Audit
    _replays: Replays
    _cancellations: Cancellations
    _clock: Clock
    _holds: Callable[[str], bool]

    def __post_init__(self) -> None:
        self._starting: PerHolder[str] = PerHolder()
        self._makes = {JobKind.REPLAY: self._replays.job, JobKind.CANCEL: self._cancellations.job}
        self._starts = {JobKind.REPLAY: self._replays.replay, JobKind.CANCEL: self._cancellations.cancel}

    async def start_in(
        self,
        kind: JobKind,
        names: Sequence[str],
        selection: DeliverySelection,
        *,
        without_global: bool,
        caller: str | None,
    ) -> Job | None:
        """Replay or cancel in the instances that a selection has, which are ``names``.

        Of several instances, it takes events that were accepted before the call. Neither a cancelled caller
        nor a restart stops it, and a replay of an instance that is under way is waited for.

        Args:
            caller: who counts together, as the keys of an instance; ``None`` for an operator.

        Returns:
            The job, which may still run (see :meth:`Jobs.wait`); ``None`` if nothing can be selected.

        Raises:
            TooManyRequests: too many jobs of the caller run, or wait for others.
            Unavailable: the disk refused, and nothing is done; or the gateway is closing.
            As :meth:`Replays.replay` and :meth:`Cancellations.cancel` do, for one instance.
        """
        if (
            caller is not None
            and self._jobs.of_caller(caller) + self._starting.held(caller) >= MOST_OF_CALLER
        ):
            raise TooManyRequests.of(
                "job.too_many",
                "{most} replays and cancellations of this key run or wait, the maximum. Wait for one to end, "
                "or cancel a paused one.",
                most=MOST_OF_CALLER,
                retry_after=10,
            )
        if len(names) > 1:
            return await self._start(kind, selection, caller)
        found = for_one(selection, self._registry, names[0]) if names else None
        if found is None:
            return None
        return await self._starts[kind](
            names[0], found, without_global=without_global, waits=True, caller=caller
        )

    async def _start(self, kind: JobKind, selection: DeliverySelection, caller: str | None) -> Job:
        # Parts begin one after another, and each would have another end.
        now = self._clock.steady() + _BEHIND
        chosen = msgspec.structs.replace(
            selection, until=now if selection.until is None else min(selection.until, now)
        )
        job = self._jobs.new(
            kind,
            GLOBAL_INSTANCE,
            caller=caller,
            instances=len(self._names(chosen)),
            **{"replay" if kind is JobKind.REPLAY else "cancel": chosen},
        )
        details = {"job": job.id, **details_of(chosen)}
        entry = self._audit.entry(_ACTIONS[kind], details=details)
        # Shielded until it runs: the next start would carry out a job whose caller was refused.
        with trio.CancelScope(shield=True), self._counted(caller):
            await self._store.put_job(job, audit=[entry])
            running = self._jobs.start(job, None, is_stored=True)
        return await self._jobs.wait(running)

    @contextmanager
    def _counted(self, caller: str | None) -> Iterator[None]:
        if caller is None:
            yield
            return
        self._starting.take(caller)
        try:
            yield
        finally:
            self._starting.give(caller)

    def begin(self, of_one: Begin, nodes: AllNodes, running: RunningJob) -> Callable[[], Awaitable[None]]:
        """Return the work of a job: that of ``of_one``, or of this if it is over several instances."""
        if running.job.instance != GLOBAL_INSTANCE:
            return of_one(running)
        return partial(self._carry_out, running, nodes)

    async def _carry_out(self, running: RunningJob, nodes: AllNodes) -> None:
        while True:
            running.ordered = trio.Event()
            goes_on = await self._jobs.obey(running, holds=False)
            is_paused, are_more = running.job.is_paused, False
            order = JobOrder.PAUSE if is_paused else JobOrder.RESUME if goes_on else JobOrder.CANCEL
            if order is JobOrder.RESUME:
                are_more = await self._begin_parts(running)
            is_any_ended = await self._ask(running, nodes, order)
            if are_more or (is_any_ended and not running.job.parts):
                continue
            if not running.job.parts and not is_paused:
                return
            # Also if some have ended: a question is about all parts, and what it changes is stored with them.
            with trio.move_on_after(ASK_EVERY):
                await running.ordered.wait()

    async def _begin_parts(self, running: RunningJob) -> bool:
        """Store the next parts, as far as there is room; return whether there may be room for more."""
        job = running.job
        names = [name for name in self._names(job.selection) if name > (job.cursor or "")]
        chosen = names[: max(0, min(STEP, MOST_PARTS - len(job.parts)))]
        parts: list[Job] = []
        with acting_as(job.actor):
            for name in chosen:
                instance = self._registry.find_instance(name)
                if instance is not None:
                    part = self._makes[job.kind](instance, job.selection)
                    parts.append(msgspec.structs.replace(part, parent=job.id))
            entries = [self._entry(part) for part in parts]
        if chosen:
            job = msgspec.structs.replace(
                job,
                cursor=chosen[-1],
                parts=(*job.parts, *(JobPart(part.id, part.instance) for part in parts)),
                instances_done=job.instances_done + len(chosen) - len(parts),
            )
            put = partial(self._store.put_job, job, *parts, audit=entries)
            await retry_until_readable(put, _refused)
            running.job = job
        return len(chosen) == STEP

    async def _ask(self, running: RunningJob, nodes: AllNodes, order: JobOrder) -> bool:
        """Have the parts carried out, and count what they did; return whether any has ended."""
        job = running.job
        if not job.parts:
            return False
        asked = PartsAsked([*job.parts], order)
        gathered = await nodes.ask(PARTS, asked, instances={part.instance for part in job.parts})
        states = {state.id: state for part in gathered.parts.values() for state in part.parts}
        kept, done, ended, warning = [], job.done, 0, job.warning
        for part in job.parts:
            state = states.get(part.id)
            if state is None:  # its node does not answer, or it moves to another one
                kept.append(part)
                continue
            done += state.done - part.done
            if state.is_ended:
                ended += 1
                if state.error is not None:
                    warning = _with_failure(warning, f"{part.instance}: {state.error}")
            else:
                kept.append(msgspec.structs.replace(part, done=state.done))
        running.job = msgspec.structs.replace(
            job,
            parts=tuple(kept),
            done=done,
            instances_done=job.instances_done + ended,
            warning=warning,
        )
        if ended:
            await retry_until_readable(partial(self._store.put_job, running.job), _refused)
        return ended > 0

    async def answer(self, asked: PartsAsked) -> PartsPart:
        """Carry out the parts of this node's instances, and report them."""
        unknown = {
            part.id for part in asked.parts if self._holds(part.instance) and not self._jobs.find(part.id)
        }
        stored: Mapping[str, Job] = {}
        if unknown:
            # Not all: parts of former jobs are kept, and this is read for each few parts that begin.
            stored = await self._store.load_jobs(unknown)
            # Looked at again after the read: the shard may have moved meanwhile.
            self._jobs.take_up(
                stored[name] for name in unknown & stored.keys() if self._holds(stored[name].instance)
            )
        states = []
        for part in asked.parts:
            if not self._holds(part.instance):
                continue
            running, job = self._jobs.running_here(part.id), self._jobs.find(part.id) or stored.get(part.id)
            if job is None:  # it ended so long ago that it is forgotten
                states.append(PartState(part.id, part.done, is_ended=True))
                continue
            if running is not None:
                self._pass_on(running, asked.order)
            error = None if job.is_running else job.error  # of a running one, why it is delayed
            states.append(PartState(part.id, job.done, not job.is_running, error))
        return PartsPart(states)

    def _pass_on(self, running: RunningJob, order: JobOrder) -> None:
        if any(given is order for given, _, _ in running.orders):
            return
        is_obeyed = {
            JobOrder.PAUSE: running.job.is_paused,
            JobOrder.RESUME: not running.job.is_paused and not running.orders,
            JobOrder.CANCEL: running.job.is_cancelled,
        }
        if not is_obeyed[order]:
            running.order(order)

    def _names(self, selection: DeliverySelection) -> list[str]:
        # Of a key with a reach it has thousands of names.
        named = frozenset(selection.instances)
        beginnings = msgspec.structs.replace(
            selection, instances=tuple(one for one in selection.instances if one.endswith("*"))
        )
        return sorted(
            one.name
            for one in self._registry.tagged(selection.tags)
            if one.name in named or ((beginnings.instances or not named) and beginnings.names(one.name))
        )

    def _entry(self, part: Job) -> AuditEntry:
        details = {"job": part.parent, **details_of(part.selection)}
        instance = self._registry.find_instance(part.instance)
        return self._audit.entry(_ACTIONS[part.kind], instance, details=details)


def _with_failure(warning: str | None, failure: str) -> str:
    if warning is None:
        return f"Failed: {failure}"
    return (
        warning
        if warning.endswith(_MORE)
        else f"{warning} {failure if len(warning) < LONGEST_WARNING else _MORE}"
    )
