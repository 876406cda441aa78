"""The commands of plugins, called through the boundary."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial, wraps
from typing import Any

import click

from hookgw.kernel.errors import HookgwError
from hookgw.plugins.boundary import Boundary
from hookgw.plugins.hook_implementation import HookImplementation
from hookgw.plugins.hooks import Hooks

# How a command ends: click and hookgw turn these into an exit code. A closed pipe is nobody's failure.
_ENDS = (
    click.ClickException,
    click.exceptions.Exit,
    click.Abort,
    HookgwError,
    SystemExit,
    KeyboardInterrupt,
    EOFError,
    BrokenPipeError,
)


def add_contained_commands(hooks: Hooks, group: click.Group) -> None:
    """Let plugins add commands to a group, and contain the exceptions of each."""
    known = dict(group.commands)

    def contain(added_by: HookImplementation, boundary: Boundary) -> None:
        nonlocal known
        _contain(group, known, added_by, boundary)
        known = dict(group.commands)

    hooks.commands(group, contain)


def _contain(
    group: click.Group, known: Mapping[str, click.Command], added_by: HookImplementation, boundary: Boundary
) -> None:
    """Contain the exceptions of a plugin's commands in a group.

    Args:
        known: the group's commands before that, by name.
        added_by: the ``hookgw_commands`` that was called.
    """
    for name, command in group.commands.items():
        if known.get(name) is not command:
            if command.callback is not None:
                command.callback = _contained(command.callback, added_by, boundary)
            if isinstance(command, click.Group):
                _contain(command, {}, added_by, boundary)


def _contained(
    callback: Callable[..., Any], added_by: HookImplementation, boundary: Boundary
) -> Callable[..., Any]:
    # wraps: click reads the help text and what pass_context noted at the function.
    @wraps(callback)
    def contained(*arguments: Any, **options: Any) -> Any:
        call = partial(callback, *arguments, **options)
        function = HookImplementation(plugin=added_by.plugin, hook=added_by.hook, call=call)
        return boundary.call(function, passes=_ENDS)

    return contained
