"""The server: accepts connections and serves each on its own, so that no connection can end the process."""

from __future__ import annotations

import socket
from collections.abc import Callable
from functools import partial
from typing import Any

import structlog
import trio

from hookgw.concurrency.hub import NO_HUB, Hub
from hookgw.concurrency.tasks import TaskFailed, run_contained
from hookgw.config.settings import ServerSettings
from hookgw.kernel.collaborator import Collaborator
from hookgw.web.server.certificates import Certificates
from hookgw.web.server.client import Address
from hookgw.web.server.client_timeouts import ClientTimeouts
from hookgw.web.server.connection import Application, ClientConnection
from hookgw.web.server.connection_limits import ConnectionLimits
from hookgw.web.server.known_heads import KnownHeads
from hookgw.web.server.listeners import open_listeners, url_of
from hookgw.web.server.request_head import Refused
from hookgw.web.server.streams import ClientStream, TlsStream

logger = structlog.get_logger("hookgw.api")


async def serve(
    app: Application,
    settings: ServerSettings,
    certificates: Certificates | None = None,
    watch: Callable[[Callable[[], tuple[int, int]]], None] = lambda _: None,
    *,
    hub: Hub = NO_HUB,
    task_status: trio.TaskStatus[list[str]] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve HTTP requests until cancelled.

    Once the server listens, it calls ``started()`` with its URLs, with the actual ports. When cancelled, it
    stops listening, closes idle connections, waits at most ``shutdown_grace`` for open requests, and then
    raises ``Cancelled``.

    Args:
        app: an ASGI application; its lifespan is not used.
        certificates: for TLS on TCP ports; ``None`` for plain HTTP. Unix sockets always speak plain HTTP. The
            caller runs ``certificates.watch()``.
        hub: watches the sockets of clients without TLS.
        watch: called once with ``ConnectionLimits.count``, for metrics.

    Raises:
        StartError: hookgw cannot listen on an address.
    """
    async with open_listeners(settings.bind) as listeners, trio.open_nursery() as nursery:
        server = Server(app, settings, certificates, hub)
        watch(server.count)
        scheme = "http" if certificates is None else "https"
        try:
            # Within this: a cancellation during the start must end what has begun.
            connections = await nursery.start(server.hold)
            task_status.started([url_of(listener, settings.base_path, scheme) for listener in listeners])
            await trio.serve_listeners(server.handle, listeners, handler_nursery=connections)
        finally:
            server.stop()


class Server(Collaborator):
    """The connections of one call of :func:`serve`."""

    _app: Application
    _settings: ServerSettings
    _certificates: Certificates | None
    _hub: Hub = NO_HUB

    def __post_init__(self) -> None:
        self._timeouts = ClientTimeouts(self._settings)
        self._limits = ConnectionLimits(self._settings, self._timeouts)
        self._known_heads = KnownHeads()
        self._stopping = trio.Event()
        self._emptied = trio.Event()

    async def handle(self, stream: trio.SocketStream) -> None:
        """Serve one connection to its end. An exception of any class ends only this connection."""
        try:
            await run_contained(partial(self._serve, stream))
        except TaskFailed as failure:
            cause = failure.__cause__
            # The client disconnected; serve_listeners closes the stream.
            left = isinstance(cause, OSError) or (
                isinstance(cause, BaseExceptionGroup) and cause.split(OSError)[1] is None
            )
            if not left:
                logger.warning("connection failed", reason=str(failure), exc_info=cause)

    async def _serve(self, accepted: trio.SocketStream) -> None:
        client, server = address_of(accepted.socket.getpeername()), address_of(accepted.socket.getsockname())
        stream = self._stream(accepted)
        connection = ClientConnection(stream, self._settings, self._timeouts, self._known_heads)
        try:
            # Before the TLS handshake: a handshake costs more than everything that could be refused after it.
            peer = client[0] if client is not None else None
            if not self._limits.admit(connection, peer):
                return
            if await stream.handshake(peer or ""):
                try:
                    serving = connection.run(self._app, client, server)
                    # TLS waits for more than a call.
                    await (serving if stream.scheme == "https" else self._hub.steps.go(serving))
                finally:
                    # If this task is cancelled, both end at once.
                    await stream.send_eof()  # noqa: ASYNC102
                    await stream.aclose()  # noqa: ASYNC102
            elif stream.refusal is not None:
                await connection.refuse(Refused(400, stream.refusal))
        finally:
            connection.abort()
            self._limits.remove(connection)
            if not self._limits:
                self._emptied.set()

    def _stream(self, accepted: trio.SocketStream) -> ClientStream:
        if self._certificates is None or accepted.socket.family == socket.AF_UNIX:
            plain = socket.socket(fileno=accepted.socket.detach())
            plain.setblocking(False)
            return ClientStream(plain, self._hub)
        return TlsStream(accepted, self._certificates.context)

    async def hold(self, *, task_status: trio.TaskStatus[trio.Nursery] = trio.TASK_STATUS_IGNORED) -> None:
        """Hold the connections' nursery, which outlives the server's cancellation by ``shutdown_grace``."""
        async with trio.open_nursery() as connections:
            connections.start_soon(self._timeouts.watch)
            task_status.started(connections)
            await trio.lowlevel.checkpoint_if_cancelled()  # nothing would stop a shielded task
            connections.cancel_scope.shield = True  # open requests may finish after the listeners are gone
            await self._stopping.wait()
            self._timeouts.close()
            with trio.move_on_after(self._settings.shutdown_grace):
                while self._limits:
                    self._emptied = trio.Event()
                    await self._emptied.wait()
            for connection in self._limits:
                connection.abort()
            connections.cancel_scope.cancel()

    def count(self) -> tuple[int, int]:
        return self._limits.count()

    def stop(self) -> None:
        self._stopping.set()


def address_of(name: Any) -> Address:
    return (name[0], name[1]) if isinstance(name, tuple) else None
