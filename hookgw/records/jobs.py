"""Jobs: work on many deliveries that outlasts the request which asked for it, as plain records. No I/O."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

import msgspec

from hookgw.kernel.masking import repr_without
from hookgw.kernel.randomness import random_hex
from hookgw.records.api_keys import Key


class JobKind(StrEnum):
    """What a job does."""

    CANCEL = "cancel"
    DELETE_INSTANCE = "delete_instance"
    DELETE_REGISTRATION = "delete_registration"
    DISABLE_REGISTRATION = "disable_registration"
    ERASE = "erase"
    REPLAY = "replay"
    BACKUP = "backup"


class JobState(StrEnum):
    """The state of a job. It fails only if what it works on is gone.

    A disk that refuses delays it. So does an error in hookgw, unless nothing of the job is stored yet.
    """

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


class ReplayScope(msgspec.Struct, frozen=True, kw_only=True):
    """Which deliveries a replay sends again. What is ``None`` or empty does not filter.

    Attributes:
        state: ``dead`` for dead letters alone, ``all`` for everything that is finished.
        since, until: when the events were accepted, in seconds since the epoch.
        kinds: events of those kinds.
        label: deliveries to the instance's registration of that label.
        without_global: leave deliveries to registrations of the configuration alone.
    """

    state: Literal["dead", "all"] = "dead"
    since: float | None = None
    until: float | None = None
    kinds: tuple[str, ...] = ()
    label: str | None = None
    without_global: bool = False


class CancelScope(msgspec.Struct, frozen=True, kw_only=True):
    """Which pending deliveries are cancelled, of those to the job's registrations.

    Attributes:
        since, until: when the events were accepted, in seconds since the epoch; ``None`` does not filter.
        kinds: events of those kinds; empty for all.
    """

    since: float | None = None
    until: float | None = None
    kinds: tuple[str, ...] = ()


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A job: what it is to do, and how far it has come.

    Attributes:
        id: ``job_`` and random characters.
        kind: what it does.
        instance: the name of the instance that it works on; ``*`` for a registration of the configuration,
            and for a backup.
        instance_id: the id of that instance, because a later one may have the same name.
        state: whether it runs, and how it ended.
        done: how many deliveries became dead letters, are sent again, or are erased, so far; of a backup, the
            pages.
        total: the pages of the file that a backup copies, as far as known; ``None`` for other jobs.
        events: how many events are erased so far.
        started, finished: seconds since the epoch; ``finished`` is ``None`` while it runs.
        error: why it failed; while it runs, why it is delayed. A sentence.
        warning: what the caller must know although it did what it was to do. A sentence.
        cursor: where the next step goes on; opaque, ``None`` before the first step.
        registrations: the ids of the registrations whose pending deliveries become dead letters. Their lanes
            do not start before the job continues at the next start.
        reason: of those dead letters; a sentence.
        keys: of an instance that is deleted: they show the job until it ends.
        replay: which deliveries a replay sends again.
        cancel: which deliveries are cancelled.
        erase: what names the person whose data is erased; ``None`` from the end on.
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
    replay: ReplayScope | None = None
    cancel: CancelScope | None = None
    erase: str | None = None

    __repr__ = repr_without("erase")

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self.state is JobState.RUNNING

    def advanced(self, count: int, cursor: str | None, *, events: int = 0) -> Job:
        """Return the job after a step that handled so many deliveries, and erased so many events."""
        return msgspec.structs.replace(
            self, done=self.done + count, events=self.events + events, cursor=cursor, error=None
        )

    def ended(self, at: float, error: str | None = None) -> Job:
        """Return the job at its end, unless it has ended before: done, or failed for a reason."""
        if not self.is_running:
            return self
        state = JobState.FAILED if error else JobState.DONE
        # Nothing goes on with it, so what it was made of is not needed.
        return msgspec.structs.replace(
            self, state=state, finished=at, error=error, keys=(), cursor=None, erase=None
        )


def new_job_id() -> str:
    """Create a job's id."""
    return "job_" + random_hex(12)
