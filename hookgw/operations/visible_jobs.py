"""The jobs that a caller may see, and what they may ask of them: for the routes and the page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from hookgw.core.access import reaches
from hookgw.kernel.errors import Conflict, NotFound
from hookgw.records.api_keys import Principal
from hookgw.records.audit import AuditAction
from hookgw.records.jobs import CANCELLABLE, PAUSABLE, Job, JobKind, JobOrder
from hookgw.records.registrations import GLOBAL_INSTANCE

if TYPE_CHECKING:
    from hookgw.app.gateway import Gateway

_ACTIONS = {
    JobOrder.PAUSE: AuditAction.JOB_PAUSE,
    JobOrder.RESUME: AuditAction.JOB_RESUME,
    JobOrder.CANCEL: AuditAction.JOB_CANCEL,
}

_AT_ONCE = 1_000
"""Jobs that are looked at in one step. Tens of thousands may be kept, and a page looks each second."""


def orders_for(job: Job) -> list[JobOrder]:
    if not job.is_running or job.is_cancelled or job.parent is not None:
        return []
    found = []
    if job.kind in PAUSABLE:
        found.append(JobOrder.RESUME if job.is_paused else JobOrder.PAUSE)
    if job.kind in CANCELLABLE or job.kind is JobKind.BACKFILL:
        found.append(JobOrder.CANCEL)
    return found


class VisibleJobs:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def list(self, principal: Principal, parent: str | None = None) -> list[Job]:
        """Return jobs, the newest first.

        A job over several instances has a part for each. For a global key, parts are left out, unless those
        of one ``parent`` are asked for.
        """
        shows_parts = parent is None and not principal.is_global
        seen = []
        for number, job in enumerate(await self._gateway.jobs.everywhere(), 1):
            if (shows_parts or job.parent == parent) and self._may_see(principal, job):
                seen.append(job)
            if number % _AT_ONCE == 0:
                await trio.lowlevel.checkpoint()
        return seen

    async def find(self, principal: Principal, job_id: str) -> Job:
        job = await self._gateway.jobs.find_everywhere(job_id)
        # One answer for a job of another instance and for none: ids are random, and nobody learns of others.
        if job is None or not self._may_see(principal, job):
            raise NotFound.of(
                "job.not_found",
                "There is no job {id!r}. A job is kept for a day, unless it ended within 2 s: "
                "then the audit alone names it.",
                id=job_id[:64],
            )
        return job

    async def find_running(self, principal: Principal, job_id: str) -> Job:
        job = await self.find(principal, job_id)
        if not job.is_running:
            raise Conflict.of("job.ended", "The job has ended.")
        return job

    async def order(self, job: Job, order: JobOrder) -> Job:
        """Pause, resume or cancel a job of this node; see :meth:`hookgw.core.jobs.Jobs.order`."""
        if order is JobOrder.CANCEL and job.backfill is not None:  # lanes wait for it: it has its own way
            return await self._gateway.backfills.cancel(job.instance, job.backfill.label)
        instance = self._gateway.instances.find(job.instance)
        entry = self._gateway.audit.entry(_ACTIONS[order], instance, job.id, details={"kind": job.kind})
        return await self._gateway.jobs.order(job.id, order, entry)

    def _may_see(self, principal: Principal, job: Job) -> bool:
        registry = self._gateway.registry
        if principal.is_global:
            return True
        chosen = job.replay or job.cancel
        if job.instance == GLOBAL_INSTANCE and job.instances is not None and chosen is not None:
            # Over several instances: of those who reach all of them, also after a change of tags.
            return bool(chosen.instances) and all(
                registry.find_instance(one) is not None and reaches(registry, principal, one)
                for one in chosen.instances
            )
        # A later instance of the same name must not see the jobs of the former one.
        instance = self._gateway.instances.find(job.instance)
        is_same = instance is None or instance.id == job.instance_id
        return is_same and principal.reaches(job.instance, instance)
