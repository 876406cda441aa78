"""``hookgw apply`` and ``hookgw export``: a file that says what should be there."""

from __future__ import annotations

import os
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

import click

from hookgw.accounts.key_files import KeyPlace
from hookgw.accounts.yaml_file import AccountsFile, FileWrong, read_file
from hookgw.command.client import Client, call_options
from hookgw.command.failure import Failed, ServerUnavailable
from hookgw.command.output import (
    say,
    show_drawing,
    show_json,
    show_progress,
    shown_as_json,
    takes_all_characters,
    wants_json,
)
from hookgw.config.yaml_writer import write_document
from hookgw.kernel.language import N_, ngettext
from hookgw.kernel.language import gettext as _

MOST_NAMED = 5
"""Instances, webhooks and keys that a line names."""
AT_ONCE = 50
"""Instances in one call: few enough to see progress, and to lose little if the server stops."""
CALL_WITHIN = 300.0
"""Seconds for a call."""
TRIES = 4
RETRY_AFTER = 1.0
"""Seconds before another try of a call that the server did not answer: it may be restarting."""
_SIGNS = {"create": "+", "change": "~", "delete": "-", "conflict": "!"}
_COUNTS = {
    "create": N_("{count} to create"),
    "change": N_("{count} to change"),
    "delete": N_("{count} to delete"),
}
_BAR = 30
_BAD_REQUEST = 400

Change = dict[str, Any]
_Id = tuple[str, str, str, bool]


def _print_schema(ctx: click.Context, _param: click.Parameter, wanted: bool) -> None:
    if wanted:
        from hookgw.accounts.schema import file_schema

        show_json(file_schema())
        ctx.exit()


@click.command()
@click.option(
    "-f",
    "--file",
    "path",
    metavar="FILE",
    type=click.Path(dir_okay=False, allow_dash=True),
    help="The file; - reads standard input.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would change.")
@click.option(
    "--prune", is_flag=True, help="Delete what an earlier apply of this file has made, and it no longer has."
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option(
    "--schema",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_schema,
    help="Print the JSON Schema of the file, for editors.",
)
@call_options
def apply(client: Client, path: str | None, dry_run: bool, prune: bool, yes: bool) -> None:
    """Make instances, webhooks and keys as a file says.

    It shows what would change, asks, and does it, without stopping at what fails. What the file does not have
    stays as it is. Run it again as often as you like.

    \b
        hookgw apply -f accounts.yaml --dry-run

    The exit code is 1 if a part failed, and 2 if the file is wrong.
    """
    if path is None:
        raise click.UsageError(_("Name the file: hookgw apply -f accounts.yaml"))
    file = read_file(path, os.environ)
    pending = {place.name: value for place in _places(file) if (value := place.pending()) is not None}
    plan = _plan(client, file, pending, prune=prune)
    changes: list[Change] = plan["changes"]
    if not dry_run:
        _settle_pending(file, changes, pending)
    if not wants_json():
        _show_plan(file, plan)
    if dry_run or not changes:
        if wants_json():
            show_json(plan)
        if any(one["action"] == "conflict" for one in changes):
            raise Failed(_("What conflicts cannot be changed: see above."))
        return
    _confirm(is_sure=yes, reads_input=path == "-")
    carrying_out = _CarryingOut(client, file, changes)
    carrying_out.run()
    results = list(carrying_out.results.values())
    failed = [one for one in results if _is_failed(one)]
    if not shown_as_json({**plan, "dryRun": False, "changes": results, "failed": len(failed)}):
        _report(file, results, failed)
    if unknown := sum(one["state"] == "planned" and not _is_failed(one) for one in results):
        things = ngettext("{n} change", "{n} changes", unknown)
        raise Failed(_("Stopped: {things} may not be done. Apply the file again.", things=things))
    if failed:
        raise Failed(
            _(
                "{things} failed. Apply the file again to retry.",
                things=ngettext("{n} change", "{n} changes", len(failed)),
            )
        )


def _report(file: AccountsFile, results: Sequence[Change], failed: Sequence[Change]) -> None:
    # Each reason once: two hundred webhooks with one refused port are one line.
    warnings, failures = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
    for one in results:
        for line in one["messages"] if one["state"] == "done" else ():
            warnings[line].append(_named(one))
    for one in failed:
        failures[" ".join(one["messages"])].append(_named(one))
    for line, names in warnings.items():
        say(_("Warning: {of}: {message}", of=_some(names), message=file.masked(line)), err=True)
    for line, names in failures.items():
        say(_("Failed: {of}: {message}", of=_some(names), message=file.masked(line)), err=True)
    say(
        _(
            "{things} done, {count} failed.",
            things=ngettext("{n} change", "{n} changes", sum(one["state"] == "done" for one in results)),
            count=len(failed),
        ),
        err=True,
    )


def _confirm(*, is_sure: bool, reads_input: bool) -> None:
    if is_sure:
        return
    if reads_input or not sys.stdin.isatty():
        raise Failed(_("Nothing was changed. Add --yes to apply it without a question."))
    click.confirm(_("Apply this?"), abort=True, err=True)


def _plan(client: Client, file: AccountsFile, pending: Mapping[str, str], *, prune: bool) -> dict[str, Any]:
    """Return what the server would change; raise ``FileWrong`` with all mistakes.

    ``pending`` are the values that a killed apply has left: hookgw may know their keys.
    """
    if not file.may_be_asked:
        raise FileWrong(*file.mistakes())
    try:
        plan: dict[str, Any] = _call(
            client, _with_values(file, pending), dryRun="true", prune=str(prune).lower()
        )
    except Failed as error:
        if error.status == _BAD_REQUEST:
            raise FileWrong(*file.mistakes(error.messages)) from error
        if file.problems:
            raise FileWrong(*file.mistakes()) from error
        raise
    if file.problems:
        raise FileWrong(*file.mistakes())
    return plan


def _places(file: AccountsFile) -> Iterator[KeyPlace]:
    keys = file.body.get("keys")
    for name, fields in keys.items() if isinstance(keys, dict) else ():
        if isinstance(fields, dict) and isinstance(fields.get("file"), str):
            yield KeyPlace(name, fields, file.folder)


def _with_values(file: AccountsFile, values: Mapping[str, str]) -> dict[str, Any]:
    if not values:
        return file.body
    keys = file.body["keys"]
    return {**file.body, "keys": keys | {name: {**keys[name], "value": values[name]} for name in values}}


def _settle_pending(file: AccountsFile, changes: Sequence[Change], pending: Mapping[str, str]) -> None:
    changed = {one["name"] for one in changes if one["kind"] == "key"}
    for place in _places(file):
        if place.name in pending and place.name not in changed:
            place.settle(pending[place.name], is_created=True)


def _call(client: Client, body: dict[str, Any], **query: str) -> Any:
    return client.call("POST", "apply", body=body, query=query, timeout=CALL_WITHIN)


def _show_plan(file: AccountsFile, plan: dict[str, Any]) -> None:
    changes: Sequence[Change] = plan["changes"]
    say(*(_("Warning: {line}", line=line) for line in plan["warnings"]), err=True)
    for one in changes:
        fields = f" {', '.join(one['fields'])}" if one["action"] == "change" else ""
        why = f": {file.masked(' '.join(one['messages']))}" if one["action"] == "conflict" else ""
        say(f"{_SIGNS.get(one['action'], '?')} {_named(one)}{fields}{why}")
    counts = [
        _(text, count=count)
        for action, text in _COUNTS.items()
        if (count := sum(one["action"] == action for one in changes))
    ]
    say(
        _(
            "{text}; {unchanged} as the file says.",
            text=", ".join(counts) or _("Nothing to change"),
            unchanged=plan["unchanged"],
        ),
        err=True,
    )


def _named(change: Change) -> str:
    if change["kind"] == "key":
        return f"key {change['name']}"
    return f"{change['name']}/{change['label']}" if change["label"] else str(change["name"])


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:MOST_NAMED])
    if len(names) <= MOST_NAMED:
        return shown
    return _("{names} and {count} more", names=shown, count=len(names) - MOST_NAMED)


def _is_made(change: Change) -> bool:
    return change["action"] in ("create", "change")


def _is_failed(change: Change) -> bool:
    return bool(change["state"] == "failed" or change["action"] == "conflict")


def _id(change: Change) -> _Id:
    # The conflicts of a thing are a change of their own: others of the same thing can be carried out.
    return change["kind"], change["name"], change["label"] or "", change["action"] == "conflict"


class _CarryingOut:
    """Carries a plan out, in parts, with a bar on a terminal.

    Attributes:
        results: every change as it went: after Ctrl-C, the rest is still planned.
    """

    def __init__(self, client: Client, file: AccountsFile, changes: Sequence[Change]) -> None:
        self._client = client
        self._file = file
        self._changes = changes
        self._done = 0
        self.results = {_id(one): one for one in changes}

    def run(self) -> None:
        with suppress(KeyboardInterrupt):
            self._carry_out()
        if sys.stderr.isatty():
            say("", err=True)

    def _carry_out(self) -> None:
        body, changes = self._file.body, self._changes
        made = [one for one in changes if _is_made(one)]
        names = iter(dict.fromkeys(one["name"] for one in made if one["kind"] != "key"))
        while part := list(islice(names, AT_ONCE)):
            instances = {name: body["instances"][name] for name in part}
            # Without prune: instances that are not in this part must not be deleted.
            self._try(
                {"name": body.get("name"), "defaults": body.get("defaults"), "instances": instances},
                [one for one in changes if one["name"] in instances],
            )
        keys = [one for one in made if one["kind"] == "key"]
        for one in keys:
            self._make_key(one)
        if removals := [one for one in changes if one["action"] == "delete"]:
            # Without the keys that were not made: this call would make them, and nobody would have their
            # values.
            created = [one for one in keys if one["action"] == "create"]
            missing = {one["name"] for one in created if _is_failed(self.results[_id(one)])}
            rest = {name: one for name, one in (body.get("keys") or {}).items() if name not in missing}
            self._try({**body, "keys": rest}, removals, prune="true")

    def _try(self, body: dict[str, Any], planned: Sequence[Change], **query: str) -> bool:
        """Send a part, again if the server does not answer. Return whether it answered."""
        answered: list[Change] | None = None
        messages: tuple[str, ...] = ()
        for number in range(TRIES):
            if number:
                time.sleep(RETRY_AFTER * number)
            try:
                answered = _call(self._client, body, **query)["changes"]
                break
            except ServerUnavailable as error:
                messages = error.messages
            except Failed as error:
                messages = error.messages
                break
        results, wanted = self.results, {_id(one) for one in planned}
        if answered is None:
            for one in planned:
                if one["action"] != "conflict" and results[_id(one)]["state"] == "planned":
                    results[_id(one)] = {**one, "state": "failed", "messages": list(messages)}
        else:
            # A change that is no longer one was made by another apply, or by a try whose answer was lost.
            for one in planned:
                if one["action"] != "conflict" and (query or one["action"] != "delete"):
                    results[_id(one)] = {**one, "state": "done", "messages": []}
            results.update((_id(one), one) for one in answered if _id(one) in wanted or _is_failed(one))
        self._show_progress(len(planned))
        return answered is not None

    def _show_progress(self, more: int) -> None:
        total = len(self._changes)
        self._done = min(self._done + more, total)
        if sys.stderr.isatty():
            full = _BAR * self._done // total
            show_progress(f"[{'#' * full}{'.' * (_BAR - full)}] {self._done:,} of {total:,}")

    def _make_key(self, planned: Change) -> None:
        name, results = planned["name"], self.results
        fields = self._file.body["keys"][name] or {}
        place = KeyPlace(name, fields, self._file.folder)
        sent = {**fields}
        try:
            if planned["action"] == "create":
                sent["value"] = place.store()
            body = {"name": self._file.body.get("name"), "keys": {name: sent}}
            if self._try(body, [planned]) and planned["action"] == "create":
                conflict = results.get(refused := (*_id(planned)[:-1], True))
                if conflict is not None:
                    # Somebody has made the key meanwhile. With another value alone, it is as the file says.
                    is_made = conflict["fields"] == ["value"] and place.value is None
                    del results[refused if is_made else _id(planned)]
                is_created = conflict is None and results[_id(planned)]["state"] == "done"
                place.settle(sent["value"], is_created=is_created)
        except Failed as error:
            results[_id(planned)] = {**planned, "state": "failed", "messages": list(error.messages)}


@click.command()
@click.option(
    "--signing-secrets",
    is_flag=True,
    help="Also name the webhooks' signing secrets, so that a copy elsewhere signs with the same.",
)
@call_options
def export(client: Client, signing_secrets: bool) -> None:
    """Print a file for `hookgw apply` that says what is there.

    ${NAME} stands for each secret; a list of these follows on standard error. Set them before you apply the
    file. Keys are listed without their values, which hookgw does not have.

    \b
        hookgw export > accounts.yaml
    """
    query = {"signingSecrets": str(signing_secrets).lower()}
    found = client.call("GET", "apply", query=query, timeout=CALL_WITHIN)
    if shown_as_json(found):
        return
    plain = {f"${{{one['variable']}}}" for one in found["secrets"] if not one["isText"]}
    text = write_document(found["document"], plain, in_ascii=not takes_all_characters())
    show_drawing(text.rstrip("\n"))
    if found["secrets"]:
        say(
            _("{things} to set:", things=ngettext("{n} variable", "{n} variables", len(found["secrets"]))),
            err=True,
        )
        for one in found["secrets"]:
            first, *more = one["paths"]
            others = " " + _("and {n} more", n=len(more)) if more else ""
            say(f"  {one['variable']}  {first}{others}", err=True)
