"""``/job``: work that goes on after the response to the call that asked for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quart import Response, request

from hookgw.operations import responses
from hookgw.operations.present import present_job
from hookgw.operations.visible_jobs import VisibleJobs
from hookgw.records.api_keys import Right
from hookgw.records.jobs import JobOrder
from hookgw.web.auth import current_principal
from hookgw.web.forwarding import forward_call
from hookgw.web.lists import CURSOR_HEADER, CURSOR_QUERY, array
from hookgw.web.needs import within_reach
from hookgw.web.openapi.describe import describes, filter_of
from hookgw.web.request_body import json_response, reserve
from hookgw.web.route_group import RouteGroup, route
from hookgw.web.server.response_memory import LIST

if TYPE_CHECKING:
    from hookgw.app.gateway import Gateway

_TAG = "Jobs"
_PARENT = filter_of("parent", "Only the parts of this job.", {"type": "string"})


class JobRoutes(RouteGroup):
    def __init__(self, gateway: Gateway) -> None:
        self._jobs = VisibleJobs(gateway)

    @route("GET", "/job/find/<job_id>")
    @describes(_TAG, within_reach(Right.READ), {200: responses.Job}, errors=(404,))
    async def find(self, job_id: str) -> Response:
        """Return a job: how far it has come, or how it ended.

        A job can be found for a day after its end, unless 100 newer ones of its instance have ended. Of
        parts, the newest 10,000 are kept.
        """
        return json_response(present_job(await self._jobs.find(current_principal(), job_id)))

    @route("GET", "/job/list")
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
        seen = await self._jobs.list(current_principal(), request.args.get("parent") or None)
        return await array(seen, lambda job: (-job.started, job.id), present_job)

    @route("POST", "/job/pause/<job_id>")
    @describes(_TAG, within_reach(Right.REPLAY), {200: responses.Job}, errors=(404, 409))
    async def pause(self, job_id: str) -> Response:
        """Pause a replay, after its present step, until it is resumed. A restart does not resume it."""
        return await self._order(job_id, JobOrder.PAUSE)

    @route("POST", "/job/resume/<job_id>")
    @describes(_TAG, within_reach(Right.REPLAY), {200: responses.Job}, errors=(404, 409))
    async def resume(self, job_id: str) -> Response:
        """Resume a paused job."""
        return await self._order(job_id, JobOrder.RESUME)

    @route("POST", "/job/cancel/<job_id>")
    @describes(_TAG, within_reach(Right.REPLAY), {200: responses.Job}, errors=(404, 409))
    async def cancel(self, job_id: str) -> Response:
        """End a replay, a backfill or a cancellation early. What it has done stays."""
        return await self._order(job_id, JobOrder.CANCEL)

    async def _order(self, job_id: str, order: JobOrder) -> Response:
        job = await self._jobs.find_running(current_principal(), job_id)
        elsewhere = await forward_call(job.instance)
        if elsewhere is not None:
            return elsewhere
        return json_response(present_job(await self._jobs.order(job, order)))
