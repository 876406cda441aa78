"""Call the plugins' hooks, so that each failure is contained and names its plugin.

pluggy itself stops at the first implementation that raises, and leaks the coroutines that earlier ones
returned. Therefore the implementations are taken from it once, at start, and called here one after another:
plain functions directly, async ones with a deadline.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import trio

from hookgw.models.deliveries import Outgoing
from hookgw.models.errors import Invalid, PluginFailed
from hookgw.models.events import Event
from hookgw.models.registrations import Registration
from hookgw.parsing.headers import check_headers
from hookgw.plugins.hook_implementation import HOOKS, PLUGIN_ERRORS, HookImplementation, reason_of
from hookgw.plugins.loading import LoadedPlugins
from hookgw.plugins.startup_hooks import StartupHooks


class Hooks(StartupHooks):
    """Calls the hooks of the loaded plugins; those called at start are inherited.

    A failure of a plugin raises :class:`~hookgw.models.errors.PluginFailed`, whose ``__cause__`` is the
    plugin's exception. A failure of an observer is only logged. Both are reported to ``on_failure``.
    Cancellation is not a failure: it always passes through.

    Args:
        loaded: the result of :func:`~hookgw.plugins.loading.load_plugins`.
        hook_timeout: the limit for one call of an async implementation, in seconds. It does not apply
            to ``hookgw_run``.
        on_failure: called with every failure, for counting.
    """

    def __init__(
        self,
        loaded: LoadedPlugins,
        *,
        hook_timeout: float = 10.0,
        on_failure: Callable[[PluginFailed], None] | None = None,
    ) -> None:
        super().__init__(loaded, on_failure=on_failure)
        self._hook_timeout = hook_timeout

    async def notify(self, hook: str, **arguments: Any) -> None:
        """Call an observer hook of every plugin, one after another.

        A failure changes nothing. This is a checkpoint only if a plugin makes one.

        Args:
            hook: the hook's name.
            arguments: all arguments of the hook, by name.
        """
        for implementation in self._implementations[hook]:
            try:
                await self._call(implementation, *[arguments[name] for name in HOOKS[hook]])
            except PluginFailed:
                continue  # it is logged and counted by now

    async def filter(self, event: Event, registration: Registration) -> bool:
        """Return whether the event goes to the registration: ``False`` if any plugin says ``False``.

        Raises:
            PluginFailed: a plugin raised, took too long, or returned neither a bool nor ``None``.
        """
        for implementation in self._implementations["hookgw_filter"]:
            answer = await self._call(implementation, event, registration)
            if answer is False:
                return False
            # By identity: 0 or "" is a mistake of the plugin, and must not drop an event.
            if answer is not None and answer is not True:
                raise self._wrong_answer(implementation, answer, "True, False or None")
        return True

    async def transform(self, event: Event, registration: Registration) -> Event:
        """Return the event as transformed for the registration; each plugin sees the previous result.

        Raises:
            PluginFailed: a plugin raised, took too long, returned neither an event nor ``None``, or
                changed the event's id or instance.
        """
        for implementation in self._implementations["hookgw_transform"]:
            answer = await self._call(implementation, event, registration)
            if answer is None:
                continue
            if not isinstance(answer, Event):
                raise self._wrong_answer(implementation, answer, "event.replace(data=…) or None")
            # Receivers deduplicate by id; the instance decides who may see the delivery.
            if answer.id != event.id or answer.instance != event.instance:
                raise self._failed(implementation, "it changed the event's id or instance, which must stay")
            event = answer
        return event

    async def encode(self, event: Event, registration: Registration) -> bytes | None:
        """Return the first body that a plugin encodes, or ``None`` if no plugin does.

        Raises:
            PluginFailed: a plugin raised, took too long, or returned neither bytes nor ``None``.
        """
        for implementation in self._implementations["hookgw_encode"]:
            answer = await self._call(implementation, event, registration)
            # A bytearray could still change after it was signed.
            if isinstance(answer, bytes):
                return answer
            if answer is not None:
                raise self._wrong_answer(implementation, answer, "bytes or None")
        return None

    async def prepare(self, request: Outgoing, event: Event, registration: Registration) -> None:
        """Let the plugins change the headers of one attempt, in place.

        Raises:
            PluginFailed: a plugin raised, took too long, changed the URL or the body, or set a header
                that is invalid or reserved for hookgw.
        """
        for implementation in self._implementations["hookgw_prepare"]:
            url, body, before = request.url, request.body, dict(request.headers)
            await self._call(implementation, request, event, registration)
            if request.url != url or request.body != body:
                reason = "it changed the request's url or body; only headers may change here"
                raise self._failed(implementation, reason)
            if request.headers == before:
                continue
            # Not all headers: the plugin is not to blame for those of the registration or of other plugins.
            changed = {name: value for name, value in request.headers.items() if before.get(name) != value}
            for name in changed:
                if not isinstance(name, str) or name != name.lower():
                    reason = f"it set a header {name!r}; write the name as a string in lower case"
                    raise self._failed(implementation, reason)
            # The rules for a registration's own headers. Without them, a CR or LF in a value that a plugin
            # copies from an event would inject headers into the request.
            try:
                check_headers(changed, "request.headers")
            except Invalid as error:
                raise self._failed(implementation, f"it set a header that cannot be sent: {error}") from None

    async def _call(self, implementation: HookImplementation, *arguments: Any) -> Any:
        """Call a plugin's function. This is the only place where plugin code runs in a delivery's path."""
        try:
            answer = implementation.call(*arguments)
            # Most hooks are plain functions: they cost neither a cancel scope nor a checkpoint.
            if answer is None or not isinstance(answer, Awaitable):
                return answer
            # Inside of the try, so that the scope removes its own cancellation from a group that a plugin's
            # nursery raises at the deadline. Cancellation that remains comes from outside and passes through.
            with trio.move_on_after(self._hook_timeout):
                return await answer
        except PLUGIN_ERRORS as error:
            raise self._failed(implementation, reason_of(error), error) from error
        except BaseExceptionGroup as group:
            failures, rest = group.split(PLUGIN_ERRORS)
            if rest is None:
                raise self._failed(implementation, reason_of(group), group) from group
            if failures is not None:
                self._report(implementation.failure(reason_of(failures), failures))
            raise rest from None
        reason = f"it took longer than {self._hook_timeout:g}s (plugins.hook_timeout)"
        raise self._failed(implementation, reason)

    def _wrong_answer(self, implementation: HookImplementation, answer: object, wanted: str) -> PluginFailed:
        reason = f"it returned a value of type {type(answer).__name__}; return {wanted}"
        return self._failed(implementation, reason)

    def _failed(
        self, implementation: HookImplementation, reason: str, cause: BaseException | None = None
    ) -> PluginFailed:
        failure = implementation.failure(reason, cause)
        self._report(failure)
        return failure
