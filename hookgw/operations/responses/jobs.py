"""Responses about jobs."""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType

from hookgw.kernel.schema_parts import Time
from hookgw.records.jobs import JobKind, JobState
from hookgw.web.responses.common import Count


class Job(Struct, frozen=True, kw_only=True):
    """Work on many deliveries, which goes on after the response to the call that asked for it.

    Attributes:
        id: the job's id.
        kind: what it does.
        instance: the instance that it works on; `*` for a webhook of the configuration, and for a backup.
        state: whether it runs, and how it ended.
        done: how many deliveries became dead letters, are sent again, or are erased, so far; of a backup, the
            pages.
        total: the pages that a backup copies, as far as known; ``null`` for other jobs.
        events: how many events an erasure has removed so far; not of other kinds.
        started: when it began.
        finished: when it ended; ``null`` while it runs.
        error: why it failed; while it runs, why it is delayed.
        warning: what it has left behind, for example bytes of what was erased.
    """

    id: str
    kind: JobKind
    instance: str
    state: JobState
    done: Count
    total: Count | None
    events: Count | UnsetType = UNSET
    started: Time
    finished: Time | None
    error: str | None
    warning: str | UnsetType = UNSET
