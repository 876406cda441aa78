"""Calls the plugins' hooks. Each failure is contained and names its plugin.

pluggy itself stops at the first implementation that raises, and leaks the coroutines that earlier ones
returned. Therefore the implementations are taken from it once, at start, and called here one after another,
each through the :class:`~hookgw.plugins.boundary.Boundary`, which also runs the checks of the results.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from hookgw.kernel.errors import PluginFailed
from hookgw.plugins.boundary import message_of
from hookgw.plugins.hook_implementation import HOOKS
from hookgw.plugins.loading import LoadedPlugins
from hookgw.plugins.results import (
    PreparedRequest,
    check_body,
    check_response,
    check_transformed,
    check_verdict,
    copy_for_observer,
)
from hookgw.plugins.startup_hooks import StartupHooks
from hookgw.records.deliveries import Outgoing
from hookgw.records.destinations import OutgoingDelivery, Response
from hookgw.records.events import Event
from hookgw.records.registrations import Registration

DELIVERY_HOOKS = ("hookgw_filter", "hookgw_transform", "hookgw_encode", "hookgw_prepare")
"""The hooks that are called for a delivery, and decide what is sent."""


class Hooks(StartupHooks):
    """Calls the hooks of the loaded plugins, also the inherited hooks of the start.

    A failure of a plugin raises :class:`~hookgw.kernel.errors.PluginFailed`, whose ``__cause__`` is the
    plugin's exception. A failure of an observer is only logged. Both are reported to ``on_failure``. The
    cancellation of the caller is not a failure: it passes through.

    Args:
        hook_timeout: the limit for one call of an async implementation except ``hookgw_run``, in seconds.
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
        self._needed: dict[frozenset[str], frozenset[str]] = {}

    async def notify(self, hook: str, **arguments: Any) -> None:
        """Call an observer hook of every plugin, one after another, with all of its arguments.

        A failure changes nothing. This is a checkpoint only if a plugin makes one.
        """
        for implementation in self._implementations[hook]:
            try:
                await self.boundary.run(
                    implementation,
                    # A copy for each: an observer's changes to a record must not be seen elsewhere.
                    *[copy_for_observer(arguments[name]) for name in HOOKS[hook]],
                    timeout=self._hook_timeout,
                )
            except PluginFailed:
                continue  # it is logged and counted by now

    def concerned(self, registration: Registration) -> frozenset[str]:
        """Return which hooks of :data:`DELIVERY_HOOKS` the deliveries of a registration need.

        Pass a copy of the registration, because plugins get it.
        """
        indifferent = set()
        for implementation in self._implementations["hookgw_concerns"]:
            with suppress(PluginFailed):  # it is logged and counted by now
                if not self.boundary.call(implementation, registration, check=check_verdict):
                    indifferent.add(implementation.plugin)
        needed = frozenset(
            hook
            for hook in DELIVERY_HOOKS
            if any(found.plugin not in indifferent for found in self._implementations[hook])
        )
        if self.absent_plugin(registration) is not None:
            needed |= {"hookgw_filter", "hookgw_prepare"}  # where the deliveries are held
        # The same object each time: thousands of lanes keep it, and there are few different ones.
        return self._needed.setdefault(needed, needed)

    async def filter(self, event: Event, registration: Registration) -> bool:
        """Return whether the event goes to the registration: ``False`` if any plugin says ``False``.

        Raises:
            PluginFailed: a plugin raised, took too long, or returned neither a bool nor ``None``; or
                :class:`PluginMissing`.
        """
        if (missing := self.absent_plugin(registration)) is not None:
            raise missing
        for implementation in self._implementations["hookgw_filter"]:
            goes = await self.boundary.run(
                implementation, event, registration, timeout=self._hook_timeout, check=check_verdict
            )
            if not goes:
                return False
        return True

    async def transform(self, event: Event, registration: Registration) -> Event:
        """Return the event as transformed for the registration; each plugin sees the previous result.

        Raises:
            PluginFailed: a plugin raised, took too long, returned neither an event nor ``None``, changed the
                event's id or instance, or gave it a value that cannot be sent.
        """
        for implementation in self._implementations["hookgw_transform"]:
            event = await self.boundary.run(
                implementation,
                event,
                registration,
                timeout=self._hook_timeout,
                check=partial(check_transformed, event),
            )
        return event

    async def encode(self, event: Event, registration: Registration) -> bytes | None:
        """Return the first body that a plugin encodes, or ``None`` if no plugin does.

        Raises:
            PluginFailed: a plugin raised, took too long, or returned neither bytes nor ``None``.
        """
        for implementation in self._implementations["hookgw_encode"]:
            body: bytes | None = await self.boundary.run(
                implementation, event, registration, timeout=self._hook_timeout, check=check_body
            )
            if body is not None:
                return body
        return None

    async def send(self, scheme: str, outgoing: OutgoingDelivery) -> Response:
        """Let the plugin of a scheme make an attempt. The caller sets the deadline.

        Raises:
            OSError: the plugin says that the destination cannot be reached. Secrets are masked, and the
                text is short.
            PluginFailed: it raised something else, or returned no response.
        """
        try:
            response: Response = await self.boundary.run(
                self.destinations()[scheme], outgoing, check=check_response, passes=(OSError,)
            )
        except OSError as error:
            # A plain one: everything about the plugin's may be its code.
            text = message_of(error, partial(self.boundary.masked, (outgoing,)))
            raise ConnectionError(text or "The plugin says no more than OSError.") from error
        return response

    async def prepare(self, request: Outgoing, event: Event, registration: Registration) -> None:
        """Let the plugins change the headers of one attempt, in place.

        Raises:
            PluginFailed: a plugin raised, took too long, changed the URL or the body, or set a header
                that is invalid or reserved for hookgw; or :class:`PluginMissing`.
        """
        if (missing := self.absent_plugin(registration)) is not None:
            raise missing
        for implementation in self._implementations["hookgw_prepare"]:
            await self.boundary.run(
                implementation,
                request,
                event,
                registration,
                timeout=self._hook_timeout,
                check=PreparedRequest(request).check,
            )
