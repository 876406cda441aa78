"""Arguments and options for names; a shell completes them with the gateway's names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from hookgw.command.client import Client
from hookgw.command.group import PROFILE
from hookgw.command.near_names import InstanceArgument, LabelOption
from hookgw.command.target import find_target
from hookgw.kernel.errors import Invalid
from hookgw.kernel.language import gettext as _
from hookgw.records.tags import parse_tag

F = TypeVar("F", bound=Callable[..., Any])

TIMEOUT = 1.0
"""Seconds that a person who pressed Tab waits at most."""


def complete_instances(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    return _matching(incomplete, [one.get("name") for one in _ask(ctx, "instance", "fetchInstances")])


def complete_labels(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    # While the value of an option is missing, click has not read the arguments before it.
    given = ctx.params.get("instance") or ctx.args
    instance = given[0] if isinstance(given, tuple | list) and given else given
    if not isinstance(instance, str):
        return []
    found = _ask(ctx, "webhook", "list", instance, of="registrations")
    return _matching(incomplete, [one.get("label") for one in found])


def complete_connectors(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    return _matching(incomplete, [one.get("name") for one in _ask(ctx, "connector", "list")])


def complete_kinds(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Complete event kinds, in lower case too."""
    return _matching(incomplete.upper(), [one.get("name") for one in _ask(ctx, "event", "kinds")])


def complete_tags(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    found = _ask(ctx, "instance", "fetchInstances")
    known = {f"{name}={value}" for one in found for name, value in one.get("tags", {}).items()}
    return _matching(incomplete, sorted(known))


def read_tags(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """Check tags in the form ``NAME=VALUE``."""
    try:
        for value in values:
            parse_tag(value, repr(value))
    except Invalid as error:
        raise click.BadParameter(str(error)) from None
    return values


def tags_of(given: Sequence[str]) -> dict[str, str]:
    """Return the tags of an option. Raise ``UsageError`` if a name has two values."""
    tags: dict[str, str] = {}
    for name, value in map(parse_tag, given):
        if tags.setdefault(name, value) != value:
            raise click.UsageError(
                _("--tag {name} has two values: {tags} and {value}.", name=name, tags=tags[name], value=value)
            )
    return tags


def tag_option(
    text: str = "Only instances that carry this tag. Repeat it for more: all must match.",
) -> Callable[[F], F]:
    return click.option(
        "--tag",
        "tags",
        multiple=True,
        metavar="NAME=VALUE",
        callback=read_tags,
        shell_complete=complete_tags,
        help=text,
    )


def read_name(
    _ctx: click.Context, _param: click.Parameter, value: str | tuple[str, ...] | None
) -> str | tuple[str, ...] | None:
    """Refuse a name with a slash: in the path of a request, it would name something else."""
    for name in value if isinstance(value, tuple) else (value,):
        if name is not None and "/" in name:
            raise click.BadParameter(_("{name!r} is not a name. Names contain no slash.", name=name))
    return value


def instance_argument(name: str = "instance", **options: Any) -> Callable[[F], F]:
    """Add the argument ``INSTANCE`` to a command, as its argument ``name``."""
    metavar = "INSTANCE"
    if options.get("required") is False or options.get("nargs") == -1:
        metavar = "[INSTANCE]..." if options.get("nargs") == -1 else "[INSTANCE]"
    return click.argument(
        name,
        cls=InstanceArgument,
        metavar=metavar,
        callback=read_name,
        shell_complete=complete_instances,
        **options,
    )


def kinds_option(name: str, text: str) -> Callable[[F], F]:
    return click.option(
        "--kind", name, multiple=True, metavar="KIND", shell_complete=complete_kinds, help=text
    )


label_option = click.option(
    "--label",
    cls=LabelOption,
    callback=read_name,
    shell_complete=complete_labels,
    help="Label of the registration; an instance may have several.  [default: default]",
)


def _ask(ctx: click.Context, *path: str, of: str | None = None) -> list[dict[str, Any]]:
    given = ctx.params
    profile = given.get("profile") or (None if given.get("server") else ctx.meta.get(PROFILE))
    # For any error: a message would break the line that is being typed. `--key -` cannot ask here.
    try:
        with Client(*find_target(given.get("server"), None, given.get("key_file"), profile)) as client:
            found = client.call("GET", *path, timeout=TIMEOUT)
    except (click.ClickException, OSError):
        return []
    if of is not None:
        found = found.get(of) if isinstance(found, dict) else None
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _matching(incomplete: str, names: list[Any]) -> list[str]:
    texts = {name for name in names if isinstance(name, str) and name.startswith(incomplete)}
    return sorted(filter(str.isprintable, texts))  # the shell writes them to the terminal as they are
