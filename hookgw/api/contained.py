"""hypercorn's handling of one connection, contained and made to end."""

from __future__ import annotations

from typing import Any

import structlog
import trio
from hypercorn.config import Config
from hypercorn.events import Closed, Event, RawData
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import AppWrapper

from hookgw.api.connection import Connection
from hookgw.api.idle import IdleConnections, IdleMark

logger = structlog.get_logger("hookgw.api")

WRITE_PATIENCE = 30.0
"""How long a client may leave an answer unread, in seconds."""


class ContainedServer(TCPServer):
    """One connection.

    Args:
        app, config, context: hypercorn's, shared by all connections.
        connection: what to serve; closed by :meth:`run`.
        idle: where its pauses are counted.
    """

    def __init__(
        self,
        app: AppWrapper,
        config: Config,
        context: WorkerContext,
        connection: Connection,
        idle: IdleConnections,
    ) -> None:
        stream: Any = connection  # hypercorn asks for one of Trio's two; this has what it uses of them
        super().__init__(app, config, context, {}, stream)
        self._connection = connection
        mark: Any = IdleMark(idle, connection)
        self.idle_task = mark

    async def run(self) -> None:
        """Serve to the end. Only cancellation leaves; everything else is logged, and ends this connection."""
        try:
            await super().run()
        except* Exception as group:
            logger.warning("connection failed", exc_info=group)

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
            with trio.move_on_after(WRITE_PATIENCE, shield=True):
                await self._connection.send_all(data)
                return True
            self._connection.abort()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            self.send_lock.release()
        return False

    async def _lock(self) -> None:
        try:
            self.send_lock.acquire_nowait()
        except trio.WouldBlock:
            await self.send_lock.acquire()
