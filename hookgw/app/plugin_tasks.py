"""The background tasks of plugins (``hookgw_run``, ``hookgw_run_on_one_node``)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from functools import partial

import structlog
import trio
from msgspec.structs import replace

from hookgw.app.gateway import Gateway
from hookgw.core.audit import acting_as
from hookgw.core.open import Core
from hookgw.kernel.errors import PluginFailed
from hookgw.plugins.supervise import restart_on_failure
from hookgw.records.audit import Actor, ActorKind
from hookgw.records.shards import shard_of

LEAVE_WITHIN = 5.0
"""Seconds for which shards wait for the tasks of plugins before they go to another node."""

logger = structlog.get_logger("hookgw.fleet")


class PluginTasks:
    """Runs the tasks, each again after a failure.

    A task that runs on one node belongs to the shard of its plugin's name: it runs where that shard is.
    """

    def __init__(self, core: Core, gateway: Gateway) -> None:
        self._core = core
        self._gateway = gateway
        self._scope = trio.CancelScope()
        self._ended = trio.Event()
        self._nursery: trio.Nursery | None = None
        self._on_one_node = dict(core.hooks.background("hookgw_run_on_one_node"))
        self._held: set[str] = set()
        self._running: dict[str, _Running] = {}
        self._is_suspended = False

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run them until :meth:`stop`."""
        try:
            with self._scope:
                async with trio.open_nursery() as self._nursery:
                    for plugin, run in self._core.hooks.background("hookgw_run"):
                        self._nursery.start_soon(self._supervise, plugin, run, name=f"hookgw_run of {plugin}")
                    for plugin in self._held:
                        self._start_on_one_node(plugin)
                    task_status.started()
        finally:
            self._nursery = None
            self._ended.set()

    async def _supervise(self, plugin: str, run: Callable[[Gateway], Awaitable[object]]) -> None:
        core, gateway = self._core, self._gateway.for_plugin(plugin)
        # With servers of its own, it needs a client that nobody else has.
        if core.hooks.servers(plugin):
            gateway = replace(gateway, http=core.clients[plugin].http)

        async def note_failure(failure: PluginFailed, wait: float) -> None:
            core.restarts.failed(failure, wait)

        with acting_as(Actor(kind=ActorKind.PLUGIN, name=plugin)):
            await restart_on_failure(partial(run, gateway), note_failure)

    def take_up(self, shards: Collection[int]) -> None:
        """Start the tasks of these shards that run on one node; before :meth:`run`, they start with it."""
        for plugin in self._on_one_node:
            if shard_of(plugin) in shards and plugin not in self._held:
                self._held.add(plugin)
                self._start_on_one_node(plugin)

    def _start_on_one_node(self, plugin: str) -> None:
        if self._nursery is None:
            return  # before the start, which begins with it; or after the end
        running = self._running[plugin] = _Running()
        if self._is_suspended:
            running.suspend()
        self._nursery.start_soon(
            running.run,
            partial(self._supervise, plugin, self._on_one_node[plugin]),
            name=f"hookgw_run_on_one_node of {plugin}",
        )

    def suspend(self) -> None:
        """Cancel the tasks that run on one node, because another node may start them. They do not wait."""
        self._is_suspended = True
        for running in self._running.values():
            running.suspend()

    def unsuspend(self) -> None:
        """Start again what :meth:`suspend` has cancelled, and was not left meanwhile."""
        self._is_suspended = False
        for running in self._running.values():
            running.resumed.set()

    async def leave(self, shards: Collection[int]) -> None:
        """Cancel the tasks of these shards that run on one node; wait until they have ended, but not long."""
        left = [plugin for plugin in self._held if shard_of(plugin) in shards]
        self._held.difference_update(left)
        ending = {
            plugin: running for plugin in left if (running := self._running.pop(plugin, None)) is not None
        }
        for running in ending.values():
            running.scope.cancel()
        with trio.move_on_after(LEAVE_WITHIN):
            for running in ending.values():
                await running.ended.wait()
        # A task that waits for a thread, perhaps. The accounts of its shard must not wait for it.
        for plugin, running in ending.items():
            if not running.ended.is_set():
                logger.warning(
                    "a plugin did not end: its task may run on two nodes",
                    plugin=plugin,
                    hook="hookgw_run_on_one_node",
                )

    async def stop(self) -> None:
        """Cancel all, and wait until they have ended: a plugin may send what it has collected."""
        self._scope.cancel()
        await self._ended.wait()


class _Running:
    """A task that runs on one node."""

    def __init__(self) -> None:
        self.scope = trio.CancelScope()
        self.ended = trio.Event()
        self.resumed = trio.Event()
        self.resumed.set()
        self._turn = trio.CancelScope()

    def suspend(self) -> None:
        """Cancel the work until ``resumed`` is set."""
        self.resumed = trio.Event()
        self._turn.cancel()

    async def run(self, work: Callable[[], Awaitable[object]]) -> None:
        try:
            with self.scope:
                while True:
                    while not self.resumed.is_set():  # suspended once more by the time that this runs
                        await self.resumed.wait()
                    with trio.CancelScope() as self._turn:
                        await work()
                    if not self._turn.cancel_called:
                        break
        finally:
            self.ended.set()
