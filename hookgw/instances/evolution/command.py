"""``hookgw import``: take over what another gateway has."""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import click

from hookgw.command.client import Client, call_options
from hookgw.command.failure import Failed, ServerUnavailable
from hookgw.command.group import CommandGroup
from hookgw.command.output import say, show_json, wants_json
from hookgw.command.progress import ProgressBar, progress_bar
from hookgw.command.target import check_key, key_from_file, read_secret_line
from hookgw.instances.evolution.plan import LEAST_KEY, Action, Existing, Planned, plan_import
from hookgw.instances.evolution.source import SourceInstance, read_file, read_server, write_file
from hookgw.kernel.language import gettext as _
from hookgw.kernel.language import ngettext

_MOST_WRONG_TOKENS = 10
_IN_HEADER = re.compile("[!-~](?:[ -~]*[!-~])?")
"""hookgw locks out an address that shows 20 wrong keys in a minute (auth.failed_attempts)."""


def _read_names(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    names: dict[str, str] = {}
    for value in values:
        old, equals, new = value.rpartition("=")
        if not equals or not old:
            raise click.BadParameter(_("write OLD=NEW."))
        if old in names:
            raise click.BadParameter(_("{option} is given twice; it takes one value.", option=old))
        names[old] = new
    return names


@click.group("import", cls=CommandGroup)
def import_() -> None:
    """Take over what another gateway has."""


@import_.command()
@click.option(
    "--from",
    "source",
    required=True,
    metavar="URL|FILE",
    type=click.Path(),
    help="Address of Evolution API 2, or a file that --export wrote.",
)
@click.option(
    "--from-key-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File that contains the global key of Evolution API. Or set EVOLUTION_API_KEY.",
)
@click.option("--from-key", metavar="-", help="Read that key from standard input, or ask for it.")
@click.option("--apply", is_flag=True, help="Carry the plan out.  [default: only show it]")
@click.option("--replace", is_flag=True, help="Also replace what differs in hookgw.")
@click.option(
    "--rename",
    "names",
    multiple=True,
    metavar="OLD=NEW",
    callback=_read_names,
    help="Import an instance under another name. Repeat it for more.",
)
@click.option(
    "--envelope/--no-envelope",
    default=True,
    show_default=True,
    help="Deliver in the form of Evolution API (plugin evolution_envelope).",
)
@click.option(
    "--export",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write what Evolution API has to this new file, keys included, and do nothing else.",
)
@call_options
def evolution(
    client: Client,
    source: str,
    from_key_file: Path | None,
    from_key: str | None,
    apply: bool,
    replace: bool,
    names: dict[str, str],
    envelope: bool,
    export: Path | None,
) -> None:
    """Import instances, keys and webhooks from an Evolution API.

    Without --apply, it only reads both gateways, and shows what it would do. What hookgw has already stays,
    unless you add --replace. Run it as often as you like: what was imported is unchanged.
    """
    is_file = "://" not in source
    key = None if is_file else _evolution_key(from_key_file, from_key)
    with progress_bar(_("Reading")) as bar:
        found = read_file(Path(source)) if key is None else read_server(source, key, bar.show)
    if export is not None:
        write_file(export, found)
        say(
            _(
                "Wrote {things} to {export}, with their keys. Keep the file secret.",
                things=_counted(len(found)),
                export=str(export),
            )
        )
        return
    kinds = {kind["name"] for kind in client.call("GET", "event", "kinds")}
    connectors = client.call("GET", "connector", "list")
    with progress_bar(_("Comparing")) as bar:
        existing = _existing(client, found, names, bar)
    planned = plan_import(
        found,
        existing,
        kinds,
        names=names,
        staying={name for one in connectors if one["name"] == "evolution" for name in one["integrations"]},
        envelope=envelope,
        replace=replace,
        global_key=key,
    )
    results: list[_Result] = []
    try:
        # What somebody has to look at comes last: it would be lost among hundreds that are imported.
        for one in sorted(planned, key=lambda one: (one.action is Action.LEAVE_OUT, bool(one.conflicts))):
            result = _Result(one)
            if apply:
                result.apply(client)
            results.append(result)
            if not wants_json():
                result.show()
    finally:
        # Also if the rest fails, or somebody presses Ctrl-C: hookgw shows the keys that it made once.
        if wants_json():
            show_json([result.as_json() for result in results])
    _finish(results, apply=apply)


def _evolution_key(file: Path | None, given: str | None) -> str:
    if file is not None and given is not None:
        raise click.UsageError(_("Give either --from-key or --from-key-file."))
    if given not in (None, "-"):
        # Other users of the machine would see it.
        raise click.UsageError(
            _("--from-key takes no key: write --from-key -, and the key on standard input.")
        )
    if file is not None:
        key = key_from_file(file)
    else:
        of_environment = "" if given == "-" else os.environ.get("EVOLUTION_API_KEY", "")
        key = check_key(of_environment, "EVOLUTION_API_KEY")
        if not key and (given == "-" or sys.stdin.isatty()):
            key = check_key(read_secret_line("Key of Evolution API"), "standard input")
    if not key:
        raise Failed(
            _(
                "The key of Evolution API is missing. Give it with --from-key-file FILE, --from-key "
                "-, or as EVOLUTION_API_KEY."
            )
        )
    return key


def _existing(
    client: Client, found: list[SourceInstance], names: dict[str, str], bar: ProgressBar
) -> dict[str, Existing]:
    present = {one["name"] for one in client.call("GET", "instance", "fetchInstances")}
    existing: dict[str, Existing] = {}
    tried: set[str] = set()
    wrong = 0
    for number, one in enumerate(found, 1):
        bar.show(number, len(found))
        name = names.get(one.name, one.name)
        if name not in present or name in existing:
            continue
        token = one.instance.get("token")
        # No other text can be a header; asterisks are a mask. Short and shared tokens were replaced.
        text = token if isinstance(token, str) and _IN_HEADER.fullmatch(token) else ""
        has_token = None
        if len(text) >= LEAST_KEY and text.strip("*") and text not in tried and wrong < _MOST_WRONG_TOKENS:
            tried.add(text)
            has_token = _is_key(client, name, text)
            wrong += not has_token
        existing[name] = Existing(
            webhook=client.call("GET", "webhook", "find", name),
            settings=client.call("GET", "settings", "find", name),
            has_token=has_token,
        )
    return existing


def _is_key(client: Client, name: str, token: str) -> bool:
    try:
        client.call("GET", "instance", "connectionState", name, headers={"apikey": token})
    except ServerUnavailable:
        raise
    except (Failed, UnicodeEncodeError):
        return False
    return True


class _Result:
    def __init__(self, planned: Planned) -> None:
        self.planned = planned
        self.error: str | None = None
        self._key: str | None = None
        self._warnings: list[str] = []

    def apply(self, client: Client) -> None:
        """Carry the plan out; keep a refusal, so that the others are imported all the same."""
        planned = self.planned
        try:
            if planned.action is Action.CREATE:
                fields = {"token": planned.token, "integration": planned.integration or None}
                body = {
                    **planned.options,
                    **(planned.settings or {}),
                    **fields,
                    "instanceName": planned.name,
                    "webhook": planned.webhook,
                }
                created = client.call("POST", "instance", "create", body=body)
                self._key = None if planned.token else created["hash"]
                self._warnings += (created.get("webhook") or created).get("warnings") or []
            if planned.action is Action.CHANGE and planned.settings is not None:
                changed = client.call("POST", "settings", "set", planned.name, body=planned.settings)
                self._warnings += changed["warnings"]
            if planned.action is Action.CHANGE and planned.webhook is not None:
                body = {"webhook": planned.webhook}
                stored = client.call("POST", "webhook", "set", planned.name, body=body)
                self._warnings += stored["warnings"]
        except ServerUnavailable:
            raise
        except Failed as error:
            self.error = " ".join(error.messages)

    def show(self) -> None:
        planned = self.planned
        name = planned.source if planned.name == planned.source else f"{planned.source} as {planned.name}"
        say(f"{name}: {planned.action}")
        for note in planned.notes:
            say(f"  {note}")
        for conflict in planned.conflicts:
            say("  " + _("Conflict: {conflict}", conflict=conflict))
        for warning in self._warnings:
            say("  " + _("Warning: {warning}", warning=warning))
        if self._key is not None:
            say("  " + _("Key (shown once, store it now): {key}", key=self._key))
        if self.error is not None:
            say("  " + _("Failed: {error}", error=self.error))

    def as_json(self) -> dict[str, Any]:
        planned = self.planned
        shown = {
            "source": planned.source,
            "name": planned.name,
            "action": planned.action.value,
            "notes": planned.notes,
            "conflicts": planned.conflicts,
            "warnings": self._warnings,
            "error": self.error,
        }
        return shown if self._key is None else {**shown, "key": self._key}


def _finish(results: list[_Result], *, apply: bool) -> None:
    """Print the result; exit with code 1 if a part of the plan was not applied."""
    counts = Counter(result.planned.action for result in results)
    conflicts = sum(1 for result in results if result.planned.conflicts)
    failed = sum(1 for result in results if result.error is not None)
    words = [f"{counts[action]} {action}" for action in Action if counts[action]]
    words += [f"{conflicts} with conflicts"] if conflicts else []
    say(f"{_counted(len(results))}: {', '.join(words) or 'nothing to do'}.", err=True)
    if any(one.planned.action is Action.CREATE and one.planned.integration for one in results):
        say(
            _(
                "With the connector evolution, an account stays in Evolution API, and `hookgw instance "
                "connect` takes its events from then on. With any other connector, it needs a new code, "
                "because its login is not imported."
            ),
            err=True,
        )
    if not apply:
        say(_("Nothing was changed. Add --apply to carry it out."), err=True)
    elif failed:
        raise Failed(_("{failed} of them failed: see above. Run the command again to retry.", failed=failed))
    elif conflicts:
        raise Failed(_("What conflicts was left as it is in hookgw. Add --replace to replace it."))
    elif counts[Action.LEAVE_OUT]:
        raise Failed(_("{things} left out: see above.", things=_counted(counts[Action.LEAVE_OUT])))


def _counted(count: int) -> str:
    return ngettext("{n} instance", "{n} instances", count)
