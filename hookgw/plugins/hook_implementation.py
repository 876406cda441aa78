"""One plugin's function for one hook, made ready to be called often."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import msgspec
import pluggy

from hookgw.models.errors import PluginFailed
from hookgw.plugins.hook_check import HOOKS, accepted_arguments

PLUGIN_ERRORS = (Exception, SystemExit)
"""What counts as a plugin's failure: also ``sys.exit()``, which must not end the gateway."""


class Implementation(msgspec.Struct, frozen=True, kw_only=True):
    """One plugin's function for one hook.

    Attributes:
        plugin: the plugin's name.
        hook: the hook's name.
        call: takes every argument of the hook, by position and in the order of the hookspec, and hands
            on those that the plugin's function wants.
    """

    plugin: str
    hook: str
    call: Callable[..., Any]

    def failure(self, reason: str, cause: BaseException | None = None) -> PluginFailed:
        """The error that says that this function failed, and why; ``cause`` is what it raised."""
        failure = PluginFailed(self.plugin, self.hook, reason)
        failure.__cause__ = cause
        return failure


def reason_of(error: BaseException) -> str:
    """What a plugin raised, in one line."""
    return f"{type(error).__name__}: {error}"


def implementations_of(manager: pluggy.PluginManager, hook: str) -> tuple[Implementation, ...]:
    """The implementations of a hook, in the order of calling.

    pluggy lists first what it would call last.
    """
    caller: pluggy.HookCaller = getattr(manager.hook, hook)
    return tuple(
        Implementation(plugin=found.plugin_name, hook=hook, call=_adapted(hook, found.function))
        for found in reversed(caller.get_hookimpls())
    )


def _adapted(hook: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function itself where it takes all arguments in order: the common case costs nothing."""
    offered = HOOKS[hook]
    wanted = accepted_arguments(hook, function)
    by_position = all(
        parameter.kind is parameter.POSITIONAL_OR_KEYWORD
        for parameter in inspect.signature(function).parameters.values()
    )
    if by_position and wanted == offered:
        return function
    places = [(name, offered.index(name)) for name in wanted]

    def call(*arguments: Any) -> Any:
        return function(**{name: arguments[place] for name, place in places})

    return call
