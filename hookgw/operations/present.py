"""Shows jobs, problems and the audit as responses."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from hookgw.kernel.fields import write_time
from hookgw.kernel.times import rfc3339
from hookgw.operations import responses
from hookgw.records.audit import ActorKind, AuditEntry, who
from hookgw.records.figures import Figures, FigureSeries, Percentiles
from hookgw.records.jobs import Job, JobKind, JobState
from hookgw.records.problems import ProblemGroup
from hookgw.web.present import shown


def present_job(job: Job) -> responses.Job:
    return shown(
        responses.Job,
        job,
        state=shown_state(job),
        events=job.events if job.kind is JobKind.ERASE else UNSET,
        started=rfc3339(job.started),
        finished=write_time(job.finished),
        warning=UNSET if job.warning is None else job.warning,
        by=who(job.actor),
        parent=job.parent or UNSET,
        instances=UNSET
        if job.instances is None
        else responses.JobInstances(done=job.instances_done, total=job.instances),
    )


def shown_state(job: Job) -> responses.ShownJobState:
    if job.state is JobState.FAILED:
        return "failed"
    if job.is_cancelled and not job.is_running:
        return "cancelled"
    if job.is_running:
        return "paused" if job.is_paused else "running"
    return "done"


def present_audit_entry(entry: AuditEntry, *, is_global: bool) -> responses.AuditEntry:
    """Return an entry of the audit. Only for a global key, it has the addresses of operators."""
    actor = entry.actor
    is_operator = actor.kind is ActorKind.KEY and actor.instance is None
    return shown(
        responses.AuditEntry,
        entry,
        at=rfc3339(entry.at),
        actor=responses.Actor(
            kind=actor.kind,
            name=actor.name or None,
            instance=actor.instance,
            address=actor.address if is_global or not is_operator else None,
            via=actor.via or None,
            person=(actor.person or None) if is_global or not is_operator else None,
        ),
        changes=[shown(responses.FieldChange, change) for change in entry.changes],
    )


def present_group(group: ProblemGroup) -> responses.ProblemGroup:
    mute = group.mute
    return shown(
        responses.ProblemGroup,
        group,
        cause=group.title or None,
        loss=group.loss.name.lower(),
        since=write_time(group.since),
        problems=[
            shown(
                responses.Problem,
                one,
                since=write_time(one.since),
                instance=one.instance or UNSET,
                label=one.label or UNSET,
                url=one.detail or UNSET,
                delivery=one.delivery.partition("/")[2] or UNSET,
                plugin=one.plugin or UNSET,
                node=one.node or UNSET,
            )
            for one in group.problems
        ],
        repairs=list(group.repairs),
        mute=None
        if mute is None
        else responses.Mute(reason=mute.reason, until=rfc3339(mute.until), by=mute.by or None),
    )


def present_series(series: FigureSeries) -> responses.FigureSeries:
    return responses.FigureSeries(
        span=series.span.value,
        since=rfc3339(series.since),
        until=rfc3339(series.until),
        step=int(series.step),
        steps=[
            shown(responses.FigureStep, figures, at=rfc3339(at), **_changed(figures))
            for at, figures in series.points
        ],
        total=shown(responses.Figures, series.total, **_changed(series.total)),
        oldest_pending=write_time(series.oldest_pending),
    )


def _changed(figures: Figures) -> dict[str, Any]:
    return {
        "receiver": _milliseconds(figures.receiver),
        "whole": _milliseconds(figures.whole),
        "oldest_pending": None if figures.oldest_pending is None else round(figures.oldest_pending, 3),
    }


def _milliseconds(found: Percentiles | None) -> responses.Percentiles | None:
    return None if found is None else responses.Percentiles(*(round(one * 1000, 1) for one in found))
