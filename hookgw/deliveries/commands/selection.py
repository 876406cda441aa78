"""The options that select deliveries, of one instance or of several."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from hookgw.command.names import complete_kinds, tags_of
from hookgw.command.output import Column, say, show_table
from hookgw.kernel.language import gettext as _
from hookgw.kernel.language import ngettext
from hookgw.records.tags import tag_texts

_COUNTED = (
    Column("instance", least=12),
    Column("label", least=8),
    Column("deliveries", least=None, right=True),
)


kinds_option = click.option(
    "--kind",
    "kinds",
    multiple=True,
    shell_complete=complete_kinds,
    help="Only events of this kind; repeatable.",
)


def body_of(instance: str | None, instances: str | None, choice: dict[str, Any]) -> dict[str, Any]:
    """Return the body of a call that selects deliveries.

    Raises:
        click.UsageError: neither an instance nor several are named, or both are.
    """
    tags = tags_of(choice.pop("tags"))
    if (instance is None) is (instances is None and not tags):
        raise click.UsageError(_("Name an INSTANCE, or several with --instances ('*' for all) or --tag."))
    body = {name: value for name, value in choice.items() if value} | ({"tags": tags} if tags else {})
    return body if instances is None else {"instances": instances.split(",")} | body


def named(instance: str | None, body: Mapping[str, Any]) -> str:
    """Return the instances that a call is for, in a sentence."""
    if instance is not None:
        return repr(instance)
    names, tags = ",".join(body.get("instances", ())), ", ".join(tag_texts(body.get("tags", {})))
    if not tags:
        return _("the instances {names!r}", names=names)
    return (
        _("the instances {names!r} with {tags}", names=names, tags=tags)
        if names
        else _("the instances with {tags}", tags=tags)
    )


def count_of(found: dict[str, Any], *, is_pending: bool = False) -> str:
    """Return how many deliveries a dry run has found, for a sentence."""
    count = found["matching"]
    if found.get("complete") is False:
        return (
            _("{count} or more pending deliveries", count=count)
            if is_pending
            else _("{count} or more deliveries", count=count)
        )
    if is_pending:
        return ngettext("{n} pending delivery", "{n} pending deliveries", count)
    return ngettext("{n} delivery", "{n} deliveries", count)


def show_counts(found: dict[str, Any]) -> None:
    """Show what a dry run has found, by instance and label."""
    rows = [
        [instance, label, count]
        for instance, labels in found["instances"].items()
        for label, count in labels.items()
    ]
    if rows:
        show_table(_COUNTED, rows)
    say(_("{deliveries} would be selected.", deliveries=count_of(found)))
