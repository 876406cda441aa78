"""The background tasks of plugins (``hookgw_run``)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import trio

from hookgw.app.gateway import Gateway
from hookgw.core.audit import acting_as
from hookgw.core.open import Core
from hookgw.kernel.errors import PluginFailed
from hookgw.plugins.supervise import restart_on_failure
from hookgw.records.audit import Actor, ActorKind


class PluginTasks:
    """Runs the tasks, each again after a failure."""

    def __init__(self) -> None:
        self._scope = trio.CancelScope()
        self._ended = trio.Event()

    async def run(
        self, core: Core, gateway: Gateway, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Run them until :meth:`stop`."""
        hooks = core.hooks

        async def note_failure(failure: PluginFailed, wait: float) -> None:
            core.restarts.failed(failure, wait)

        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    for plugin, run in hooks.background():
                        # With servers of its own, it needs a client that nobody else has.
                        http = core.clients[plugin].http if hooks.servers(plugin) else gateway.http
                        with acting_as(Actor(kind=ActorKind.PLUGIN, name=plugin)):
                            nursery.start_soon(
                                restart_on_failure,
                                partial(run, replace(gateway, http=http)),
                                note_failure,
                                name=f"hookgw_run of {plugin}",
                            )
                    task_status.started()
        finally:
            self._ended.set()

    async def stop(self) -> None:
        """Cancel them, and wait until they have ended: a plugin may send what it has collected."""
        self._scope.cancel()
        await self._ended.wait()
