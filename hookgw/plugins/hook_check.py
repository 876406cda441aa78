"""Whether an object is a plugin that can be called: its hooks against the hookspecs. No I/O."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

import pluggy

from hookgw.plugins import hookspecs

HOOKS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        name: tuple(inspect.signature(spec).parameters)
        for name, spec in vars(hookspecs).items()
        if name.startswith("hookgw_")
    }
)
"""Every hook, with the names of its arguments in order."""

PLAIN_HOOKS = frozenset(
    {
        "hookgw_event_kinds",
        "hookgw_configure",
        "hookgw_check_registration",
        "hookgw_connectors",
        "hookgw_routes",
        "hookgw_commands",
    }
)
"""Hooks that must be plain functions: they are asked at moments when nothing may wait."""


def new_manager() -> pluggy.PluginManager:
    """A plugin manager that knows the hookspecs and no plugin."""
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    return manager


def check_plugin(plugin: object, manager: pluggy.PluginManager) -> tuple[str, ...]:
    """Check every hook of a plugin.

    Args:
        plugin: a module, or any object with marked functions.
        manager: one that knows the hookspecs; it is not changed.

    Returns:
        The names of the hooks that the plugin implements, in the order of the hookspecs.

    Raises:
        ValueError: a hook that does not exist, has a wrong argument, is not marked with ``@hookimpl``,
            is a wrapper, or is async where it must be plain. The sentence names it and what is near.
    """
    found = set()
    for attribute in dir(plugin):
        marks = manager.parse_hookimpl_opts(plugin, attribute)
        if marks is None:
            _refuse_unmarked(plugin, attribute)
            continue
        hook = marks.get("specname") or attribute
        if hook not in HOOKS:
            if marks.get("optionalhook"):
                continue
            raise ValueError(f"hookgw has no hook {hook}.{nearest(hook, HOOKS)}")
        if marks.get("wrapper") or marks.get("hookwrapper"):
            raise ValueError(f"{hook} is marked as a wrapper, which hookgw's hooks cannot be")
        _check_function(hook, getattr(plugin, attribute))
        found.add(hook)
    return tuple(hook for hook in HOOKS if hook in found)


def accepted_arguments(hook: str, function: Callable[..., Any]) -> tuple[str, ...]:
    """The arguments of a hook that a function takes, in the function's order."""
    return tuple(name for name in inspect.signature(function).parameters if name in HOOKS[hook])


def nearest(name: str, known: Iterable[str]) -> str:
    """``" Did you mean …?"`` with the known name most like the given one; empty where none is."""
    near = difflib.get_close_matches(name, list(known), n=1)
    return f" Did you mean {near[0]}?" if near else ""


def _refuse_unmarked(plugin: object, attribute: str) -> None:
    if attribute.startswith("hookgw_") and inspect.isroutine(getattr(plugin, attribute, None)):
        raise ValueError(
            f"{attribute} is not marked: write @hookgw.hookimpl above it, or give it a name that does not "
            "begin with hookgw_"
        )


def _check_function(hook: str, function: Callable[..., Any]) -> None:
    if hook in PLAIN_HOOKS and inspect.iscoroutinefunction(function):
        raise ValueError(f"{hook} is called where nothing may wait: write def, not async def")
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise ValueError(f"{hook} takes {parameter}: name each argument that it wants, {_listed(hook)}")
        if parameter.name not in HOOKS[hook] and parameter.default is parameter.empty:
            raise ValueError(f"{hook} has no argument {parameter.name}: it has {_listed(hook)}")


def _listed(hook: str) -> str:
    return ", ".join(HOOKS[hook]) or "none"
