"""The jobs: how far they are, who asked for them, and what they can be asked to."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple
from urllib.parse import quote

from quart import Response, request

from hookgw.kernel.errors import HookgwError, Invalid
from hookgw.kernel.language import N_, ngettext
from hookgw.kernel.language import gettext as _
from hookgw.operations.present import shown_state
from hookgw.operations.responses import ShownJobState
from hookgw.operations.visible_jobs import VisibleJobs, orders_for
from hookgw.records.api_keys import Principal, Right
from hookgw.records.audit import who
from hookgw.records.jobs import Job, JobKind, JobOrder
from hookgw.records.registrations import GLOBAL_INSTANCE
from hookgw.site.page_paths import instance_path, job_path, webhook_path
from hookgw.site.site import NavEntry, Page, Site, visitor
from hookgw.web.forwarding import forward_call
from hookgw.web.needs import within_reach

MOST_JOBS = 200
"""The most jobs on the page, the newest ones."""

_WORDS = {
    JobKind.CANCEL: N_("Cancellation of pending deliveries"),
    JobKind.DELETE_INSTANCE: N_("Deletion of the instance"),
    JobKind.DELETE_REGISTRATION: N_("Deletion of a webhook"),
    JobKind.DISABLE_REGISTRATION: N_("Disabling of a webhook"),
    JobKind.ERASE: N_("Erasure of a person"),
    JobKind.REPLAY: N_("Replay"),
    JobKind.BACKUP: N_("Backup"),
    JobKind.BACKFILL: N_("Backfill"),
}
_ORDERS = {JobOrder.PAUSE: N_("Pause"), JobOrder.RESUME: N_("Resume"), JobOrder.CANCEL: N_("Cancel")}
_NOTICES = {
    JobOrder.PAUSE: "job_paused",
    JobOrder.RESUME: "job_resumed",
    JobOrder.CANCEL: "job_cancelled",
}


class Row(NamedTuple):
    """A job in the list.

    Attributes:
        what: its kind, in words.
        where: the instance, or how many; ``path`` is that of its page below the dashboard, empty for none.
        done: its progress, in words.
        orders: what it can be asked to, with the words for it.
    """

    job: Job
    what: str
    where: str
    path: str
    done: str
    state: ShownJobState
    who: str
    orders: list[tuple[JobOrder, str]]


class JobsPage(Page):
    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._jobs = VisibleJobs(site.gateway)
        site.nav.append(NavEntry(N_("Jobs"), "/jobs"))
        site.add("/jobs", self.show, within_reach(Right.READ))
        site.add("/live/jobs", self.live, within_reach(Right.READ))
        site.add("/jobs/<job_id>", self.show_job, within_reach(Right.READ))
        site.add("/live/job/<job_id>", self.live_job, within_reach(Right.READ))
        site.add("/jobs/order", self.order, within_reach(Right.REPLAY), "POST", page="/jobs")

    async def show(self, error: HookgwError | None = None) -> Response:
        return await self._site.render(
            "jobs.html",
            error=error,
            table=await self._table(visitor().principal),
        )

    async def live(self) -> Response:
        principal = visitor().principal
        render = partial(self._table, principal)
        return self._streams.open(("jobs", principal), render)

    async def show_job(self, job_id: str) -> Response:
        """Show one job; ``of`` of the query says how many deliveries its plan had."""
        principal, planned = visitor().principal, _planned(request.args.get("of", ""))
        job = await self._jobs.find(principal, job_id)
        return await self._site.render(
            "job.html",
            row=_row(job, may_order=False),
            now=await self._now(principal, job_id, planned),
            planned=planned,
            live=f"/live/job/{quote(job_id)}" + (f"?of={planned}" if planned else ""),
        )

    async def live_job(self, job_id: str) -> Response:
        principal, planned = visitor().principal, _planned(request.args.get("of", ""))
        await self._jobs.find(principal, job_id)
        render = partial(self._now, principal, job_id, planned)
        return self._streams.open(("job", principal, job_id, planned), render)

    async def _now(self, principal: Principal, job_id: str, planned: int) -> str:
        job = await self._jobs.find(principal, job_id)
        return await self._site.fragment(
            "job_now.html",
            row=_row(job, may_order=principal.rights.has(Right.REPLAY)),
            planned=planned,
            parts_now=sorted(job.parts, key=lambda part: part.instance)[:MOST_JOBS],
        )

    async def order(self) -> Response:
        """Pause, resume or cancel a job: ``order`` in the form is ``pause/job_17``."""
        form = await self._site.form()
        name, _, job_id = form.get("order").partition("/")
        try:
            if name not in set(JobOrder):
                raise Invalid.of(
                    "job.order_form", "order must be pause, resume or cancel, with the id of a job."
                )
            order = JobOrder(name)
            job = await self._jobs.find_running(visitor().principal, job_id)
            elsewhere = await forward_call(job.instance)
            if elsewhere is not None:
                return elsewhere
            await self._jobs.order(job, order)
        except HookgwError as error:
            return await self.show(error)
        planned = _planned(form.get("of"))
        if form.get("page") == job_id:
            of = {"of": str(planned)} if planned else {}
            return self._site.redirect(job_path(job_id), **of, done=_NOTICES[order])
        return self._site.redirect("/jobs", done=_NOTICES[order])

    async def _table(self, principal: Principal) -> str:
        jobs, may_order = await self._jobs.list(principal), principal.rights.has(Right.REPLAY)
        rows = [_row(job, may_order=may_order) for job in jobs[:MOST_JOBS]]
        return await self._site.fragment("jobs_table.html", rows=rows, total=len(jobs))


def _planned(text: str) -> int:
    """Return the number of deliveries that a plan had; 0 if it is not known."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 12 else 0


def _row(job: Job, *, may_order: bool) -> Row:
    where, path = job.instance, instance_path(job.instance)
    if job.instance == GLOBAL_INSTANCE:
        where = (
            _("every instance")
            if job.instances is None
            else ngettext("{n} instance", "{n} instances", job.instances)
        )
        where, path = "" if job.kind is JobKind.BACKUP else where, ""
    elif job.backfill is not None:
        where = f"{where} / {job.backfill.label}"
        path = webhook_path(job.instance, job.backfill.label)
    if job.total is not None:
        done = _("{done} of {n} pages", done=job.done, n=job.total)
    elif job.kind is JobKind.BACKUP:
        done = ngettext("{n} page", "{n} pages", job.done)
    else:
        done = ngettext("{n} delivery", "{n} deliveries", job.done)
    if job.instances is not None:
        done += ", " + _("{done} of {n} instances", done=job.instances_done, n=job.instances)
    orders = [(one, _(_ORDERS[one])) for one in orders_for(job)] if may_order else []
    return Row(job, _(_WORDS[job.kind]), where, path, done, shown_state(job), who(job.actor), orders)
