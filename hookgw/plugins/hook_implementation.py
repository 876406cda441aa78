"""Checks a plugin's hook implementations against the hookspecs, once. No I/O."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType, ModuleType
from typing import Any

import msgspec
import pluggy

from hookgw.kernel.errors import PluginFailed
from hookgw.kernel.nearest import suggestion
from hookgw.plugins import hookspecs
from hookgw.plugins.signatures import signature_of

# Read from the signatures, so that a hook is declared in one place.
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
        "hookgw_reconfigure",
        "hookgw_check_registration",
        "hookgw_concerns",
        "hookgw_secret_options",
        "hookgw_connectors",
        "hookgw_destinations",
        "hookgw_routes",
        "hookgw_dashboard_pages",
        "hookgw_commands",
    }
)
"""Hooks that must be plain functions: hookgw calls them outside of Trio, or while it must not wait."""


class HookImplementation(msgspec.Struct, frozen=True, kw_only=True):
    """One plugin's function for one hook, or another function of a plugin that hookgw calls.

    Attributes:
        hook: the hook's name; for a connector's method, ``hookgw_connectors.run`` or ``….send``; for a page,
            ``hookgw_dashboard_pages.<path>``.
        call: takes all arguments of the hook by position, in the order of the hookspec, and passes on the
            arguments that the plugin's function takes.
    """

    plugin: str
    hook: str
    call: Callable[..., Any]

    def failure(self, reason: str, cause: BaseException | None = None) -> PluginFailed:
        """Return an error that names this function and the reason; ``cause`` becomes its ``__cause__``."""
        # "raise … from" would not do: an observer's failure is logged with its cause and never raised.
        failure = PluginFailed(self.plugin, self.hook, reason)
        failure.__cause__ = cause
        return failure


_NAMES_OF_EVERY_OBJECT = frozenset(dir(object()))


class _PluginManager(pluggy.PluginManager):
    def parse_hookimpl_opts(self, plugin: object, name: str) -> pluggy.HookimplOpts | None:
        # Most names of a module are classes, imports and constants, and most names of another object are what
        # every object has. pluggy looks at each of them for long.
        if isinstance(plugin, ModuleType):
            if not inspect.isroutine(vars(plugin).get(name, len)):
                return None
        elif name in _NAMES_OF_EVERY_OBJECT:
            return None
        return super().parse_hookimpl_opts(plugin, name)


def new_manager() -> pluggy.PluginManager:
    manager = _PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    return manager


def check_plugin(plugin: object, manager: pluggy.PluginManager) -> tuple[str, ...]:  # noqa: C901
    """Check a plugin: a module, or any object with marked functions.

    Returns:
        The names of the hooks that the plugin implements, in the order of the hookspecs.

    Raises:
        ValueError: a hook does not exist, has a wrong argument, is not marked with ``@hookimpl``, is a
            wrapper or a generator, or is async where it must be plain. The message names it and what would
            be right.
    """
    found = set()
    for attribute in dir(plugin):
        marks = manager.parse_hookimpl_opts(plugin, attribute)
        if marks is None:
            # pluggy ignores a function without a mark: the author would wait for calls that never come.
            if attribute.startswith("hookgw_") and inspect.isroutine(getattr(plugin, attribute, None)):
                raise ValueError(
                    f"{attribute} is not marked: write @hookgw.hookimpl above it, or choose a name that does "
                    "not begin with hookgw_"
                )
            continue
        hook = marks.get("specname") or attribute
        if hook not in HOOKS:
            # With this mark, one plugin can implement a hook that only a newer hookgw has.
            if marks.get("optionalhook"):
                continue
            raise ValueError(f"hookgw has no hook {hook}.{suggestion(hook, HOOKS)}")
        # Wrappers work only inside pluggy's own call loop, which hookgw does not use (see hooks.py).
        if marks.get("wrapper") or marks.get("hookwrapper"):
            raise ValueError(f"{hook} is marked as a wrapper; hookgw does not support hook wrappers")
        function = getattr(plugin, attribute)
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise ValueError(f"{hook} has a yield, so a call of it would do nothing: return instead")
        if hook in PLAIN_HOOKS and inspect.iscoroutinefunction(function):
            raise ValueError(f"{hook} must be a plain function: write def, not async def")
        arguments = ", ".join(HOOKS[hook]) or "none"
        for parameter in signature_of(function).parameters.values():
            # Arguments are passed by name, so these would receive nothing.
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
                raise ValueError(f"{hook} takes {parameter}; name the arguments that it needs: {arguments}")
            if parameter.name not in HOOKS[hook] and parameter.default is parameter.empty:
                raise ValueError(f"{hook} has no argument {parameter.name}; its arguments are: {arguments}")
        found.add(hook)
    return tuple(hook for hook in HOOKS if hook in found)


def implementations_of(manager: pluggy.PluginManager, hook: str) -> tuple[HookImplementation, ...]:
    """Return the implementations of a hook in calling order."""
    caller: pluggy.HookCaller = getattr(manager.hook, hook)
    # pluggy lists implementations in the reverse of its calling order.
    return tuple(
        HookImplementation(plugin=found.plugin_name, hook=hook, call=_adapt(hook, found.function))
        for found in reversed(caller.get_hookimpls())
    )


def _adapt(hook: str, function: Callable[..., Any]) -> Callable[..., Any]:
    parameters = signature_of(function).parameters.values()
    wanted = [parameter.name for parameter in parameters if parameter.name in HOOKS[hook]]
    # A function that takes all arguments in order is called as it is: hooks run for every delivery.
    if tuple(wanted) == HOOKS[hook] and all(
        parameter.kind is parameter.POSITIONAL_OR_KEYWORD for parameter in parameters
    ):
        return function
    places = [(name, HOOKS[hook].index(name)) for name in wanted]

    def call(*arguments: Any) -> Any:
        return function(**{name: arguments[place] for name, place in places})

    return call
