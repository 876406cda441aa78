"""Jobs: work on many deliveries that outlasts its request, as plain records. No I/O."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from hookgw.kernel.language import N_
from hookgw.kernel.masking import repr_without
from hookgw.kernel.randomness import random_hex
from hookgw.records.api_keys import Key
from hookgw.records.audit import HOOKGW, Actor
from hookgw.records.event_filters import Condition
from hookgw.records.selection import DeliverySelection


class JobKind(StrEnum):
    """What a job does."""

    CANCEL = "cancel"
    DELETE_INSTANCE = "delete_instance"
    DELETE_REGISTRATION = "delete_registration"
    DISABLE_REGISTRATION = "disable_registration"
    ERASE = "erase"
    REPLAY = "replay"
    BACKUP = "backup"
    BACKFILL = "backfill"


class JobState(StrEnum):
    """The state of a job. It fails only if what it works on is gone.

    A disk that refuses delays it. So does an error in hookgw, unless nothing of the job is stored yet.
    """

    RUNNING = N_("running")
    DONE = N_("done")
    FAILED = N_("failed")


PAUSABLE = frozenset({JobKind.REPLAY})
"""Kinds of jobs that can be paused. Others keep lanes, records or a person waiting."""
CANCELLABLE = PAUSABLE | {JobKind.CANCEL}
"""Kinds of jobs that can be cancelled: what they have done stays."""


class JobOrder(StrEnum):
    """What is asked of a job that runs."""

    PAUSE = "pause"
    RESUME = "resume"
    CANCEL = "cancel"


class JobPart(msgspec.Struct, frozen=True, array_like=True):
    """A job of one instance that is part of a job over several.

    Attributes:
        done: as far as the whole job has counted it.
    """

    id: str
    instance: str
    done: int = 0


class BackfillScope(msgspec.Struct, frozen=True, kw_only=True):
    """Which events of the log a backfill makes deliveries of. ``None`` or empty does not filter.

    Attributes:
        registration: the id of the registration that gets them.
        since, until: when the events were accepted, in seconds since the epoch.
        filter: conditions of the call, beside those of the registration.
        dead: whether the registration's dead letters are sent again, too.
        enabled_at: of the registration at the call: if it was disabled since then, the job is of no use.
        barrier: the place of the deliveries in their lanes, in the words of the storage that gave it.
    """

    registration: str
    label: str
    since: float | None = None
    until: float | None = None
    kinds: tuple[str, ...] = ()
    filter: tuple[Condition, ...] = ()
    dead: bool = False
    enabled_at: float = 0.0
    barrier: str = ""


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A job, and its progress.

    Attributes:
        id: ``job_`` and random characters.
        instance: the name of the instance; ``*`` for a registration of the configuration, and for a backup.
        instance_id: the id of that instance, because a later one may have the same name.
        done: how many deliveries became dead letters, are sent again, are made or are erased so far; the
            pages of a backup.
        total: the pages of the file that a backup copies, as far as known; ``None`` for other jobs.
        events: how many events are erased so far.
        started, finished: seconds since the epoch; ``finished`` is ``None`` while it runs.
        error: why it failed; while it runs, why it is delayed. A sentence.
        warning: what the caller must know although the job succeeded. A sentence.
        cursor: where the next step goes on; opaque, ``None`` before the first step.
        registrations: the ids of the registrations whose pending deliveries become dead letters. Their lanes
            do not start before the job continues at the next start.
        reason: of those dead letters; a sentence.
        keys: of an instance that is deleted: they show the job until it ends.
        replay, cancel: what it sends again, or cancels.
        parent: the id of the job over several instances that this is a part of.
        parts: of a job over several instances, those that run; ``cursor`` is the last instance that has one.
        instances: how many instances a job over several works on; ``None`` for other jobs.
        instances_done: how many of these it is done with.
        actor: who asked for it. A job over several instances makes its parts on behalf of them.
        caller: whom a limit of jobs counts it for, as the keys of an instance together; ``None`` for nobody.
        is_paused, is_cancelled: what it was asked to. A cancelled job ends with its next step.
        erase: the search texts for the person to be erased; ``None`` once the job has ended.
    """

    id: str
    kind: JobKind
    instance: str
    instance_id: str | None = None
    state: JobState = JobState.RUNNING
    done: int = 0
    total: int | None = None
    events: int = 0
    started: float
    finished: float | None = None
    error: str | None = None
    warning: str | None = None
    cursor: str | None = None
    registrations: tuple[str, ...] = ()
    reason: str = ""
    keys: tuple[Key, ...] = ()
    replay: DeliverySelection | None = None
    cancel: DeliverySelection | None = None
    parent: str | None = None
    parts: tuple[JobPart, ...] = ()
    instances: int | None = None
    instances_done: int = 0
    actor: Actor = HOOKGW
    caller: str | None = None
    is_paused: bool = False
    is_cancelled: bool = False
    backfill: BackfillScope | None = None
    erase: str | None = None

    __repr__ = repr_without("erase")

    @property
    def is_running(self) -> bool:
        return self.state is JobState.RUNNING

    @property
    def selection(self) -> DeliverySelection:
        """What it sends again, or cancels."""
        return self.replay or self.cancel or DeliverySelection()

    def advanced(self, count: int, cursor: str | None, *, events: int = 0) -> Job:
        return msgspec.structs.replace(
            self, done=self.done + count, events=self.events + events, cursor=cursor, error=None
        )

    def ended(self, at: float, error: str | None = None) -> Job:
        """Return the job at its end, done or failed for a reason. A job that has ended stays as it is."""
        if not self.is_running:
            return self
        state = JobState.FAILED if error else JobState.DONE
        # Nothing goes on with it, so what it was made of is not needed. A filter may name a person.
        backfill = self.backfill and msgspec.structs.replace(self.backfill, filter=(), barrier="")
        return msgspec.structs.replace(
            self,
            state=state,
            finished=at,
            error=error,
            keys=(),
            cursor=None,
            replay=None,
            cancel=None,
            parts=(),
            is_paused=False,
            erase=None,
            backfill=backfill,
        )


def new_job_id() -> str:
    return "job_" + random_hex(12)
