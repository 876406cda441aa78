"""Calling the plugins' hooks, so that each plugin's failure is its own and has a name.

pluggy stops at the first implementation that raises and leaks the coroutines of earlier ones. So the
implementations are taken from it once, at the start, and called here one by one: sync ones directly,
async ones under a deadline. A sync one cannot be interrupted.

What is asked at the start or outside of Trio is in :mod:`hookgw.plugins.startup_hooks`.
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
from hookgw.plugins.hook_check import HOOKS
from hookgw.plugins.hook_implementation import PLUGIN_ERRORS, Implementation, reason_of
from hookgw.plugins.loading import LoadedPlugins
from hookgw.plugins.startup_hooks import StartupHooks


class Hooks(StartupHooks):
    """Calls the hooks of the loaded plugins. Made once for a gateway; it keeps no state of calls.

    A failure raises, or for observers only logs, a :class:`~hookgw.models.errors.PluginFailed` whose
    ``__cause__`` is what the plugin raised. Cancellation is no failure: it always passes through.

    Args:
        loaded: what :func:`~hookgw.plugins.loading.load_plugins` gave.
        hook_timeout: how long an async implementation may take, in seconds. It does not limit
            ``hookgw_run``.
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

        Failures are logged with their traceback, reported to ``on_failure``, and change nothing. A
        checkpoint only where a plugin makes one.

        Args:
            hook: the hook's name.
            arguments: all arguments of the hook, by name.
        """
        for implementation in self._of[hook]:
            try:
                await self._ask(implementation, *[arguments[name] for name in HOOKS[hook]])
            except PluginFailed:
                continue

    async def filter(self, event: Event, registration: Registration) -> bool:
        """Whether the event goes to the registration: whether no plugin says ``False``.

        Raises:
            PluginFailed: a plugin raised, took too long, or returned neither a bool nor ``None``.
        """
        for implementation in self._of["hookgw_filter"]:
            answer = await self._ask(implementation, event, registration)
            if answer is False:
                return False
            if answer is not None and answer is not True:
                raise self._failed(implementation, _wrong(answer, "True, False or None"))
        return True

    async def transform(self, event: Event, registration: Registration) -> Event:
        """The event as the registration is to see it; each plugin sees what the one before made of it.

        Raises:
            PluginFailed: a plugin raised, took too long, returned something else than an event or
                ``None``, or changed the event's id or instance.
        """
        for implementation in self._of["hookgw_transform"]:
            answer = await self._ask(implementation, event, registration)
            if answer is None:
                continue
            if not isinstance(answer, Event):
                raise self._failed(implementation, _wrong(answer, "event.replace(data=…) or None"))
            if answer.id != event.id or answer.instance != event.instance:
                raise self._failed(implementation, "it changed the event's id or instance, which must stay")
            event = answer
        return event

    async def encode(self, event: Event, registration: Registration) -> bytes | None:
        """The body of the first plugin that gives one; ``None`` where none does.

        Raises:
            PluginFailed: a plugin raised, took too long, or returned neither bytes nor ``None``.
        """
        for implementation in self._of["hookgw_encode"]:
            answer = await self._ask(implementation, event, registration)
            if isinstance(answer, bytes):
                return answer
            if answer is not None:
                raise self._failed(implementation, _wrong(answer, "bytes or None"))
        return None

    async def prepare(self, request: Outgoing, event: Event, registration: Registration) -> None:
        """Let the plugins change the headers of one attempt, in place.

        Raises:
            PluginFailed: a plugin raised, took too long, changed the URL or the body, or set a header
                that cannot be sent or is the gateway's.
        """
        for implementation in self._of["hookgw_prepare"]:
            url, body, before = request.url, request.body, dict(request.headers)
            await self._ask(implementation, request, event, registration)
            if request.url != url or request.body != body:
                raise self._failed(
                    implementation, "it changed the request's url or body: only headers may change here"
                )
            if request.headers != before and (wrong := _wrong_headers(request.headers, before)):
                raise self._failed(implementation, wrong)

    async def _ask(self, implementation: Implementation, *arguments: Any) -> Any:
        try:
            answer = implementation.call(*arguments)
        except PLUGIN_ERRORS as error:
            raise self._failed(implementation, reason_of(error), error) from error
        if answer is None or not isinstance(answer, Awaitable):
            return answer
        return await self._wait(implementation, answer)

    async def _wait(self, implementation: Implementation, awaitable: Awaitable[Any]) -> Any:
        """What an async implementation returns.

        The scope is inside of the ``try``: a group that a plugin's nursery raises has lost the
        deadline's own cancellation by then. What is left of cancellation in it comes from outside
        and goes on.
        """
        try:
            with trio.move_on_after(self._hook_timeout):
                return await awaitable
        except PLUGIN_ERRORS as error:
            raise self._failed(implementation, reason_of(error), error) from error
        except BaseExceptionGroup as group:
            own, rest = group.split(PLUGIN_ERRORS)
            if rest is None:
                raise self._failed(implementation, reason_of(group), group) from group
            if own is not None:
                self._report(implementation.failure(reason_of(own), own))
            raise rest from None
        raise self._failed(
            implementation, f"it took longer than {self._hook_timeout:g}s (plugins.hook_timeout)"
        )

    def _failed(
        self, implementation: Implementation, reason: str, cause: BaseException | None = None
    ) -> PluginFailed:
        """The error to raise, logged and counted."""
        failure = implementation.failure(reason, cause)
        self._report(failure)
        return failure


def _wrong(answer: object, wanted: str) -> str:
    return f"it returned a value of type {type(answer).__name__}; return {wanted}"


def _wrong_headers(headers: dict[str, str], before: dict[str, str]) -> str | None:
    """What is wrong with the headers that a plugin set; the rules are those of a registration's own."""
    changed = {name: value for name, value in headers.items() if before.get(name) != value}
    for name in changed:
        if not isinstance(name, str) or name != name.lower():
            return f"it set a header {name!r}; write the name as a string in lower case"
    try:
        check_headers(changed, "request.headers")
    except Invalid as error:
        return f"it set a header that cannot be sent: {error}"
    return None
