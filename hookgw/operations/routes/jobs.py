"""``/job``: work that goes on after the response to the call that asked for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quart import Blueprint, Response, request

from hookgw.core.access import reaches
from hookgw.kernel.errors import Conflict, NotFound
from hookgw.operations import responses
from hookgw.operations.present import present_job
from hookgw.records.api_keys import Right
from hookgw.records.audit import AuditAction, AuditEntry
from hookgw.records.jobs import Job, JobOrder
from hookgw.records.registrations import GLOBAL_INSTANCE
from hookgw.web.auth import current_principal
from hookgw.web.forwarding import forward_call
from hookgw.web.lists import CURSOR_HEADER, CURSOR_QUERY, array
from hookgw.web.needs import within_reach
from hookgw.web.openapi.describe import Parameter, describes
from hookgw.web.request_body import json_response, reserve
from hookgw.web.server.response_memory import LIST

if TYPE_CHECKING:
    from hookgw.app.gateway import Gateway

_TAG = "Jobs"
_PARENT = Parameter(
    "parent", "Only the parts of this job.", {"type": "string"}, place="query", may_be_empty=True
)
_ACTIONS = {
    JobOrder.PAUSE: AuditAction.JOB_PAUSE,
    JobOrder.RESUME: AuditAction.JOB_RESUME,
    JobOrder.CANCEL: AuditAction.JOB_CANCEL,
}


class JobRoutes:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def blueprint(self) -> Blueprint:
        blueprint = Blueprint("jobs", __name__, url_prefix="/job")
        blueprint.add_url_rule("/find/<job_id>", view_func=self.find)
        blueprint.add_url_rule("/list", view_func=self.list_jobs)
        for order, view in (("pause", self.pause), ("resume", self.resume), ("cancel", self.cancel)):
            blueprint.add_url_rule(f"/{order}/<job_id>", view_func=view, methods=["POST"])
        return blueprint

    @describes(_TAG, within_reach(Right.READ), {200: responses.Job}, errors=(404,))
    async def find(self, job_id: str) -> Response:
        """Return a job: how far it has come, or how it ended.

        A job can be found for a day after its end.
        """
        return json_response(present_job(await self._find(job_id)))

    async def _find(self, job_id: str) -> Job:
        job = self._gateway.jobs.find(job_id)
        if job is None:
            job = next((one for one in await self._gateway.jobs.everywhere() if one.id == job_id), None)
        # One answer for a job of another instance and for none: ids are random, and nobody learns of others.
        if job is None or not self._may_see(job):
            raise NotFound(f"There is no job {job_id[:64]!r}.")
        return job

    @describes(_TAG, within_reach(Right.REPLAY), {200: responses.Job}, errors=(404, 409))
    async def pause(self, job_id: str) -> Response:
        """Pause a replay, after its present step, until it is resumed. A restart does not resume it."""
        return await self._order(job_id, JobOrder.PAUSE)

    @describes(_TAG, within_reach(Right.REPLAY), {200: responses.Job}, errors=(404, 409))
    async def resume(self, job_id: str) -> Response:
        """Resume a paused job."""
        return await self._order(job_id, JobOrder.RESUME)

    @describes(_TAG, within_reach(Right.REPLAY), {200: responses.Job}, errors=(404, 409))
    async def cancel(self, job_id: str) -> Response:
        """End a replay, a backfill or a cancellation early. What it has done stays."""
        return await self._order(job_id, JobOrder.CANCEL)

    async def _order(self, job_id: str, order: JobOrder) -> Response:
        job = await self._find(job_id)
        if not job.is_running:
            raise Conflict("The job has ended.")
        elsewhere = await forward_call(job.instance)
        if elsewhere is not None:
            return elsewhere
        if order is JobOrder.CANCEL and job.backfill is not None:  # lanes wait for it: it has its own way
            cancelled = await self._gateway.backfills.cancel(job.instance, job.backfill.label)
            return json_response(present_job(cancelled))
        return json_response(
            present_job(await self._gateway.jobs.order(job_id, order, self._entry(job, order)))
        )

    def _entry(self, job: Job, order: JobOrder) -> AuditEntry:
        instance = self._gateway.instances.find(job.instance)
        return self._gateway.audit.entry(_ACTIONS[order], instance, job.id, details={"kind": job.kind})

    @describes(
        _TAG,
        within_reach(Right.READ),
        {200: list[responses.Job]},
        query=(_PARENT, CURSOR_QUERY),
        headers=CURSOR_HEADER,
    )
    async def list_jobs(self) -> Response:
        """List the jobs that the key may see, the newest first.

        A job over several instances has a part for each. For a global key, `parent` lists these parts; they
        are left out otherwise. If the list ends early, its cursor is in `hookgw-cursor`.
        """
        await reserve(LIST)
        seen = [job for job in await self._gateway.jobs.everywhere() if self._may_see(job)]
        parent = request.args.get("parent") or None
        if parent is not None or current_principal().is_global:
            seen = [job for job in seen if job.parent == parent]
        return await array(seen, lambda job: (-job.started, job.id), present_job)

    def _may_see(self, job: Job) -> bool:
        principal, registry = current_principal(), self._gateway.registry
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
