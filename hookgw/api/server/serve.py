"""Serving the application with hypercorn, contained: no connection can end the process.

hypercorn's connections are used as they are; its loop around them is not, because there one connection
that raises (a byte after a WebSocket handshake, a burst of HTTP/2 resets) ends the whole server.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable

import structlog
import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ASGIFramework

from hookgw.api.server.certificates import Certificates
from hookgw.api.server.client_timeouts import ClientTimeouts
from hookgw.api.server.connection import Connection
from hookgw.api.server.connection_limits import ConnectionLimits
from hookgw.api.server.hypercorn_adapter import ContainedServer
from hookgw.api.server.listeners import open_listeners, url_of
from hookgw.api.server.request_framing import RequestFilter
from hookgw.api.server.tls_connection import SecuredConnection
from hookgw.config.settings import ServerSettings

logger = structlog.get_logger("hookgw.api")


async def serve(
    app: ASGIFramework,
    settings: ServerSettings,
    certificates: Certificates | None = None,
    watch: Callable[[Callable[[], tuple[int, int]]], None] = lambda _: None,
    *,
    task_status: trio.TaskStatus[list[str]] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Answer HTTP requests until cancelled.

    ``started()`` is called with the URLs that are listened on, once they are; the ports in them are the
    real ones. When cancelled, it stops listening, closes idle connections, lets open requests end for
    at most ``shutdown_grace``, and returns by raising ``Cancelled``.

    Args:
        app: the application (ASGI). Its lifespan is not used.
        settings: where to listen, and how long to wait for what.
        certificates: what TLS is spoken with on ports; ``None``: plain HTTP. It is spoken on Unix
            sockets in any case. Who calls keeps them renewed.
        watch: called with ``ConnectionLimits.count``, for whoever wants to know.

    Raises:
        StartError: an address cannot be listened on.
    """
    async with open_listeners(settings.bind) as listeners, trio.open_nursery() as nursery:
        server = _Server(app, settings, certificates)
        watch(server.count)
        connections = await nursery.start(server.hold)
        scheme = "http" if certificates is None else "https"
        task_status.started([url_of(listener, settings.base_path, scheme) for listener in listeners])
        try:
            await trio.serve_listeners(server.handle, listeners, handler_nursery=connections)
        finally:
            server.stop()


class _Server:
    """The connections of one ``serve``."""

    def __init__(
        self, app: ASGIFramework, settings: ServerSettings, certificates: Certificates | None
    ) -> None:
        self._app = ASGIWrapper(app)
        self._settings = settings
        self._certificates = certificates
        self._config = _hypercorn_config()
        self._context = WorkerContext(None)
        self._waits = ClientTimeouts(settings)
        self._seats = ConnectionLimits(settings, self._waits)
        self._stopping = trio.Event()
        self._emptied = trio.Event()

    async def handle(self, stream: trio.SocketStream) -> None:
        """Serve one connection to its end. What it raises is logged and ends it alone."""
        try:
            await self._serve(stream)
        except* OSError:
            pass  # the client went away; who accepted the stream closes it
        except* Exception as group:
            logger.warning("connection failed", exc_info=group)

    async def _serve(self, stream: trio.SocketStream) -> None:
        connection = self._connection(stream)
        try:
            if not self._seats.take(connection, _peer_of(stream.socket)):
                connection.abort()
            elif not isinstance(connection, SecuredConnection) or await connection.shake():
                await ContainedServer(self._app, self._config, self._context, connection).run()
        finally:
            connection.leave()
            self._seats.leave(connection)
            if not self._seats:
                self._emptied.set()

    def _connection(self, stream: trio.SocketStream) -> Connection:
        gate = RequestFilter(self._settings.max_header)
        if self._certificates is None or stream.socket.family == socket.AF_UNIX:
            return Connection(stream, stream.socket, gate, self._waits)
        return SecuredConnection(stream, self._certificates.context, gate, self._waits)

    async def hold(self, *, task_status: trio.TaskStatus[trio.Nursery] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep the nursery of the connections, which outlives the cancellation of the server by the grace."""
        async with trio.open_nursery() as connections:
            connections.cancel_scope.shield = True
            connections.start_soon(self._waits.watch)
            task_status.started(connections)
            await self._stopping.wait()
            await self._context.terminated.set()
            self._waits.close()
            await self._wait_empty()
            for connection in self._seats:
                connection.abort()
            connections.cancel_scope.cancel()

    async def _wait_empty(self) -> None:
        with trio.move_on_after(self._settings.shutdown_grace):
            while self._seats:
                self._emptied = trio.Event()
                await self._emptied.wait()

    def count(self) -> tuple[int, int]:
        """See :meth:`hookgw.api.server.connection_limits.ConnectionLimits.count`."""
        return self._seats.count()

    def stop(self) -> None:
        """Begin to end."""
        self._stopping.set()


def _peer_of(sock: trio.socket.SocketType) -> str | None:
    """The client's address; ``None`` on a Unix socket.

    Raises:
        OSError: the client is gone already.
    """
    if sock.family == socket.AF_UNIX:
        return None
    peer: str = sock.getpeername()[0]
    return peer


def _hypercorn_config() -> Config:
    config = Config()
    config.include_server_header = False
    config.accesslog = None
    config.errorlog = logging.getLogger("hookgw.http")  # its default brings a handler of its own
    return config
