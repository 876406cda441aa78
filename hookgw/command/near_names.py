"""Suggestions for names of instances and registrations that a command gives and that are not there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from hookgw.command.failure import Failed
from hookgw.kernel.language import gettext as _
from hookgw.kernel.nearest import nearest

ASK_WITHIN = 5.0
"""Seconds for finding a name that was meant."""
FEW = 8
"""Names that a message lists, if none of them is near."""


class InstanceArgument(click.Argument):
    pass


def near_names(call: Callable[..., Any], ctx: click.Context) -> list[str]:
    """Return a suggestion for each instance and label that a command names and that the key cannot find."""
    try:
        known = [one["name"] for one in call("GET", "instance", "fetchInstances", timeout=ASK_WITHIN)]
        instance = None
        for parameter in ctx.command.params:
            given = ctx.params.get(parameter.name or "")
            if isinstance(parameter, InstanceArgument) and isinstance(given, str):
                if given not in known:
                    return _suggested(given, known)
                instance = given
        label = ctx.params.get("label")
        if instance is None or not isinstance(label, str):
            return []
        found = call("GET", "webhook", "list", instance, timeout=ASK_WITHIN)["registrations"]
        labels = [one["label"] for one in found]
        return [] if label in labels else _suggested(label, labels, of=instance)
    except (Failed, KeyError, TypeError):
        return []  # the refusal itself is what matters


def _suggested(given: str, known: list[str], *, of: str | None = None) -> list[str]:
    in_other_case = (name for name in known if name.casefold() == given.casefold())
    if near := nearest(given, known) or next(in_other_case, None):
        return [_("Did you mean {near}?", near=near)]
    if not 0 < len(known) <= FEW:
        return []
    names = ", ".join(sorted(known))
    if of is None:
        return [_("The instances that the key can access: {names}.", names=names)]
    return [_("The labels of {instance}: {names}.", instance=of, names=names)]
