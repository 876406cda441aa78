"""``hookgw job``: work that goes on after its call; other commands wait for it here."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import click

from hookgw.command.client import Client, call_options, table_call_options
from hookgw.command.failure import Failed, ServerUnavailable
from hookgw.command.group import CommandGroup
from hookgw.command.output import Column, say, show_fields, show_progress, show_table, shown_as_json
from hookgw.command.words import told
from hookgw.kernel.language import gettext as _
from hookgw.kernel.language import local_number, ngettext, translated

INTERVAL = 1.0
"""Seconds between two questions for a job's progress."""

COLUMNS = {
    "id": Column("id", least=None),
    "kind": Column("kind", least=10),
    "instance": Column("instance", least=8, drop=2),
    "state": Column("state", least=None),
    "done": Column("done", least=None, right=True),
    "started": Column("started", least=None, drop=3, is_time=True),
    "finished": Column("finished", least=None, drop=4, is_time=True),
    "by": Column("by", least=None, drop=5),
    "error": Column("error", drop=1, wraps=True),
}
"""The columns of a list, by the field of a job."""


@click.group(cls=CommandGroup)
def job() -> None:
    """Show work that takes longer than a call.

    Deletions, disabled registrations, replays, backfills, cancellations, erasures and backups become jobs
    after 2 seconds.
    """


@job.command()
@click.argument("job_id", metavar="ID")
@click.option("--wait", is_flag=True, help="Wait until the job has ended.")
@call_options
def find(client: Client, job_id: str, wait: bool) -> None:
    """Show a job.

    A job can be found for a day after its end.
    """
    found = follow(client, job_id) if wait else client.call("GET", "job", "find", job_id)
    if not shown_as_json(found):
        show_fields({**{name: found.get(name) for name in COLUMNS}, "done": _done(found)})


@job.command("list")
@table_call_options
def list_(client: Client) -> None:
    """List the jobs that the key can see, newest first."""
    found = client.call("GET", "job", "list")
    if not shown_as_json(found):
        rows = ([({**one, "done": _done(one)}).get(name) for name in COLUMNS] for one in found)
        show_table(tuple(COLUMNS.values()), rows)


def _order(order: str, done: str, text: str) -> None:
    @job.command(order, help=text)
    @click.argument("job_id", metavar="ID")
    @call_options
    def command(client: Client, job_id: str) -> None:
        found = client.call("POST", "job", order, job_id)
        if shown_as_json(found):
            return
        if found["state"] in (done, "done"):
            say(
                _(
                    "{job_id} is {state}; {done} deliveries so far.",
                    job_id=job_id,
                    state=translated(found["state"]),
                    done=found["done"],
                )
            )
        else:
            say(
                _(
                    "{job_id} is {state}: it obeys after its present step.",
                    job_id=job_id,
                    state=translated(found["state"]),
                )
            )


_order("pause", "paused", "Pause a replay, until it is resumed. A restart of hookgw does not resume it.")
_order("resume", "running", "Resume a paused replay.")
_order("cancel", "cancelled", "End a replay, a backfill or a cancellation early. What it has done stays.")


def _done(found: dict[str, Any]) -> str:
    """Return a job's progress: of a backup, the pages and all pages."""
    if found.get("total") is None:
        return local_number(found["done"])
    return _("{done}/{total} pages", done=found["done"], total=found["total"])


def follow(
    client: Client,
    job_id: str,
    on_progress: Callable[[int], None] = lambda _: None,
    wait: Callable[[], None] = lambda: time.sleep(INTERVAL),
) -> dict[str, Any]:
    """Wait until a job has ended, and return it. A restart of hookgw does not end the wait.

    Args:
        on_progress: called with the number of deliveries handled so far.
        wait: returns when the next question is due.

    Raises:
        Failed: the job failed, or cannot be found.
    """
    is_down = False
    while True:
        try:
            found: dict[str, Any] = client.call("GET", "job", "find", job_id)
        except ServerUnavailable as error:
            if not is_down:
                say(*error.messages, _("Waiting until hookgw responds …"), err=True)
            is_down = True
            wait()
            continue
        is_down = False
        on_progress(found["done"])
        if found["state"] == "failed":
            reason = told(found["error"] or "")
            if found.get("total") is not None:
                raise Failed(_("{job_id} failed: {reason}", job_id=job_id, reason=reason))
            done = ngettext("{n} delivery", "{n} deliveries", found["done"])
            raise Failed(_("{job_id} failed after {done}: {reason}", job_id=job_id, done=done, reason=reason))
        if found["state"] in ("done", "cancelled"):
            return found
        wait()


def follow_aloud(client: Client, job_id: str, what: str, *, pauses: bool = False) -> dict[str, Any]:
    """Like :func:`follow`, for a person: with the progress. Ctrl-C leaves the job to hookgw, or pauses it."""
    show = sys.stderr.isatty()

    def on_progress(done: int) -> None:
        if show:
            show_progress(_("{what}: {done} deliveries", what=what, done=done))

    try:
        found = follow(client, job_id, on_progress)
    except KeyboardInterrupt:
        goes_on = _("Stopped waiting. hookgw goes on; see: hookgw job find {job_id}", job_id=job_id)
        if not pauses:
            raise Failed(goes_on) from None
        try:
            found = client.call("POST", "job", "pause", job_id)
        except ServerUnavailable as error:
            raise Failed(*error.messages, goes_on) from None
        if found["state"] not in ("done", "cancelled"):  # it ended meanwhile
            raise Failed(_("Paused. To go on: hookgw job resume {job_id}", job_id=job_id)) from None
    finally:
        if show:
            say("", err=True)
    return found
