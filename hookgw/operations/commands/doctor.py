"""``hookgw doctor``: why nothing arrives, in one screen."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator
from typing import Any

import click

from hookgw.command.client import Client, call_options
from hookgw.command.failure import Failed
from hookgw.command.names import instance_argument
from hookgw.command.output import Column, say, show_table, shown_as_json
from hookgw.command.words import told
from hookgw.kernel.language import gettext as _
from hookgw.kernel.language import ngettext

CLOCKS_APART = 60.0
"""Seconds. Receivers refuse signatures that are five minutes old."""
_REFUSES = (401, 403)


@click.command()
@instance_argument(required=False)
@click.option(
    "--no-test", is_flag=True, help="Send no test event to the webhooks of INSTANCE: only connect to them."
)
@call_options
def doctor(client: Client, instance: str | None, no_test: bool) -> None:
    """Find out why nothing arrives, and what to do.

    Follows an event's way: the connection of INSTANCE, its last event, its webhooks, the head of each lane
    with its last answer, then host, address and certificate of each receiver. Then a signed test event goes
    to each enabled webhook, outside its lane. Without INSTANCE, it lists the problems of all instances that
    the key reaches. The exit code is 1 if something has failed.
    """
    found = client.call("GET", "diagnosis", instance)
    checks = [*found["checks"]]
    if instance is not None and not no_test:
        checks += _tests(client, instance, checks)
    checks.append(_clock(client))
    failed = [one for one in checks if one["state"] == "failed"]
    if not shown_as_json({**found, "checks": checks}):
        show_table(
            (
                Column("", least=None),
                Column("check", least=None),
                Column("instance", least=8, drop=2),
                Column("label", least=8, drop=1),
                Column("found", least=30, wraps=True),
            ),
            (
                (one["state"], one["check"], one.get("instance"), one.get("label"), one["found"])
                for one in checks
            ),
        )
        shown: set[str] = set()
        for one in checks:
            if "advice" in one and one["advice"] not in shown:
                if not shown:
                    say("", _("What to do:"))
                shown.add(one["advice"])
                where = one.get("label") or one.get("instance")
                say(f"  {one['check']}{f' ({where})' if where else ''}: {told(one['advice'])}")
    if failed:
        raise Failed(_("{things} failed.", things=ngettext("{n} check", "{n} checks", len(failed))))


def _tests(client: Client, instance: str, checks: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Send a test event to each enabled webhook that accepts connections."""
    for label in [one["label"] for one in checks if (one["check"], one["state"]) == ("reach", "ok")]:
        one = {"check": "signature", "instance": instance, "label": label}
        try:
            attempt = client.call("POST", "webhook", "test", instance, label)
        except Failed as refusal:
            yield {**one, "state": "failed", "found": " ".join(refusal.messages)}
            continue
        milliseconds = f"{attempt['duration']:.0f} ms"
        if attempt["outcome"] == "delivered":
            text = f"A signed test event was answered with {attempt['status']} in {milliseconds}."
            yield {**one, "state": "ok", "found": text}
            continue
        why = attempt["error"] or f"The outcome is {attempt['outcome']}."
        if attempt["answer"]:
            why += f" It said: {' '.join(attempt['answer'].split())[:200]}"
        check = {**one, "state": "failed", "found": f"A signed test event was not delivered. {why}"}
        if attempt["status"] in _REFUSES:
            place = f"{shlex.quote(instance)} --label {shlex.quote(label)}"
            check["advice"] = (
                "Compare the receiver's secret with hookgw's, and the receiver's clock: "
                f"hookgw webhook secret {place}"
            )
        yield check


def _clock(client: Client) -> dict[str, Any]:
    apart = client.server_time - time.time()
    if abs(apart) < CLOCKS_APART:
        return {"check": "clock", "state": "ok", "found": "The clocks of both machines agree."}
    which = "ahead of" if apart > 0 else "behind"
    return {
        "check": "clock",
        "state": "failed",
        "found": f"The clock of hookgw's machine is {abs(apart):,.0f} s {which} that of this one.",
        "advice": "Set the clock that is wrong (NTP): receivers refuse signatures of another time.",
    }
