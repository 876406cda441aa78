"""hypercorn's handling of one connection, made to end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import trio
from hypercorn.config import Config
from hypercorn.events import Closed, Event, RawData
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import AppWrapper

from hookgw.api.server.connection import Connection


class ContainedServer(TCPServer):
    """One connection.

    Args:
        app, config, context: hypercorn's, shared by all connections.
        connection: what to serve; closed by :meth:`run`, which can raise whatever hypercorn does.
    """

    def __init__(
        self,
        app: AppWrapper,
        config: Config,
        context: WorkerContext,
        connection: Connection,
    ) -> None:
        stream: Any = connection  # hypercorn asks for one of Trio's two; this has what it uses of them
        super().__init__(app, config, context, {}, stream)
        self._connection = connection
        pauses: Any = _Pauses(connection)
        self.idle_task = pauses

    async def protocol_send(self, event: Event) -> None:
        """Write, shielded like hypercorn's own but not for ever: who does not read is cut off."""
        if not isinstance(event, RawData):
            await super().protocol_send(event)
            return
        data = self._connection.gather(event.data)
        if data and not await self._written(data):
            await self.protocol.handle(Closed())

    async def _written(self, data: bytes) -> bool:
        await self._lock()
        try:
            with trio.CancelScope(shield=True):  # the connection has a deadline of its own
                await self._connection.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return False
        else:
            return True
        finally:
            self.send_lock.release()

    async def _lock(self) -> None:
        try:
            self.send_lock.acquire_nowait()
        except trio.WouldBlock:
            await self.send_lock.acquire()


class _Pauses:
    """Tells a connection when a request begins and ends; in the place of hypercorn's task for each pause."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def restart(self, task_group: object, action: Callable[[], Awaitable[None]]) -> None:  # noqa: ARG002
        self._connection.end_request()

    async def stop(self) -> None:
        self._connection.begin_request()
