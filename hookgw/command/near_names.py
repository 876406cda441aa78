"""Suggestions for names of instances and registrations that a command gives and that are not there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from hookgw.command.failure import Failed
from hookgw.kernel.language import gettext as _
from hookgw.kernel.nearest import nearest
from hookgw.records.registrations import DEFAULT_LABEL

ASK_WITHIN = 5.0
"""Seconds for finding a name that was meant."""
FEW = 8
"""Names that a message lists, if none of them is near."""


class InstanceArgument(click.Argument):
    pass


class LabelOption(click.Option):
    """Names one registration: without it, the one with the label ``default``."""


def near_names(call: Callable[..., Any], ctx: click.Context) -> list[str]:
    """Return a suggestion for each instance and label that a command names and that the key cannot find."""
    try:
        known = [one["name"] for one in call("GET", "instance", "fetchInstances", timeout=ASK_WITHIN)]
        instance, label = None, ctx.params.get("label")
        for parameter in ctx.command.params:
            given = ctx.params.get(parameter.name or "")
            if isinstance(parameter, InstanceArgument) and given is not None:
                for name in given if isinstance(given, tuple) else (given,):
                    if name not in known:
                        return _suggested(name, known)
                    instance = name
            elif isinstance(parameter, LabelOption) and given is None:
                label = DEFAULT_LABEL
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
