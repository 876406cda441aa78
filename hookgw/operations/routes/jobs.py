"""``/job``: work that goes on after the response to the call that asked for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quart import Blueprint, Response

from hookgw.kernel.errors import NotFound
from hookgw.operations import responses
from hookgw.operations.present import present_job
from hookgw.records.jobs import Job
from hookgw.web.auth import current_principal
from hookgw.web.lists import CURSOR_HEADER, CURSOR_QUERY, array
from hookgw.web.openapi.describe import describes
from hookgw.web.request_body import json_response, reserve
from hookgw.web.server.response_memory import LIST

if TYPE_CHECKING:
    from hookgw.app.gateway import Gateway

_TAG = "Jobs"


class JobRoutes:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def blueprint(self) -> Blueprint:
        blueprint = Blueprint("jobs", __name__, url_prefix="/job")
        blueprint.add_url_rule("/find/<job_id>", view_func=self.find)
        blueprint.add_url_rule("/list", view_func=self.list_jobs)
        return blueprint

    @describes(_TAG, {200: responses.Job}, errors=(404,))
    async def find(self, job_id: str) -> Response:
        """Return a job: how far it has come, or how it ended.

        A job can be found for a day after its end.
        """
        job = self._gateway.jobs.find(job_id)
        if job is None:
            job = next((one for one in await self._gateway.jobs.everywhere() if one.id == job_id), None)
        # One answer for a job of another instance and for none: ids are random, and nobody learns of others.
        if job is None or not self._may_see(job):
            raise NotFound(f"There is no job {job_id[:64]!r}.")
        return json_response(present_job(job))

    @describes(_TAG, {200: list[responses.Job]}, query=(CURSOR_QUERY,), headers=CURSOR_HEADER)
    async def list_jobs(self) -> Response:
        """List the jobs that the key may see, the newest first.

        If the list ends early, its cursor is in `hookgw-cursor`.
        """
        await reserve(LIST)
        seen = [job for job in await self._gateway.jobs.everywhere() if self._may_see(job)]
        return await array(seen, lambda job: (-job.started, job.id), present_job)

    def _may_see(self, job: Job) -> bool:
        principal = current_principal()
        if principal.is_global:
            return True
        # A later instance of the same name must not see the jobs of the former one.
        instance = self._gateway.instances.find(job.instance)
        return principal.may(job.instance) and (instance is None or instance.id == job.instance_id)
