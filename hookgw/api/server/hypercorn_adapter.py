"""hypercorn's handling of one connection, with write deadlines and without a task per idle period.

hypercorn documents only ``Config``. Everything else that this module imports, overrides or replaces may
change in any minor version, so ``pyproject.toml`` pins hypercorn below the next one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import trio
from hypercorn.config import Config

# Undocumented: TCPServer runs one connection (its accept loop, which one failing connection can end, is not
# used); Closed, Event and RawData are what it passes to protocol_send; WorkerContext and AppWrapper are types
# of its arguments.
from hypercorn.events import Closed, Event, RawData
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import AppWrapper

from hookgw.api.server.connection import Connection


class ContainedServer(TCPServer):
    """Serves one connection.

    Args:
        app, config, context: hypercorn's objects, shared by all connections.
        connection: the client's connection. :meth:`run` closes it, and raises what hypercorn raises.
    """

    def __init__(
        self,
        app: AppWrapper,
        config: Config,
        context: WorkerContext,
        connection: Connection,
    ) -> None:
        # TCPServer declares a stream of Trio's; it uses only the methods and attributes that Connection has.
        stream: Any = connection
        super().__init__(app, config, context, {}, stream)
        self._connection = connection
        # Undocumented attribute: hypercorn's object starts and cancels a task for every idle period.
        # ClientTimeouts does the same with an entry in a table.
        idle_hook: Any = _IdleHook(connection)
        self.idle_task = idle_hook

    async def protocol_send(self, event: Event) -> None:
        """Write, shielded as in hypercorn, but with a deadline: a client that does not read is cut off."""
        # Overrides an undocumented method, the one place through which hypercorn writes. hypercorn's own
        # shields a write without a deadline, so that such a client would hold its task forever.
        if not isinstance(event, RawData):
            await super().protocol_send(event)
            return
        data = self._connection.coalesce(event.data)
        if data and not await self._written(data):
            # Undocumented attribute: the protocol is told that the connection ended, as TCPServer does it.
            await self.protocol.handle(Closed())

    async def _written(self, data: bytes) -> bool:
        await self._lock()
        try:
            with trio.CancelScope(shield=True):  # send_all has a deadline: ClientTimeouts.writes
                await self._connection.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return False
        else:
            return True
        finally:
            self.send_lock.release()  # undocumented attribute: the lock of TCPServer.protocol_send

    async def _lock(self) -> None:
        try:  # without waiting if it is free: no checkpoint for the usual case of one writer
            self.send_lock.acquire_nowait()
        except trio.WouldBlock:
            await self.send_lock.acquire()


class _IdleHook:
    """Replaces hypercorn's ``TrioSingleTask``, which TCPServer calls when a request begins and ends."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def restart(self, task_group: object, action: Callable[[], Awaitable[None]]) -> None:  # noqa: ARG002
        self._connection.end_request()

    async def stop(self) -> None:
        self._connection.begin_request()
