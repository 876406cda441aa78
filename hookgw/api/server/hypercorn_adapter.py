"""hypercorn's server of one connection, which speaks hookgw's protocol.

hypercorn documents only ``Config``. Everything else that this module imports or overrides may change in any
minor version, so ``pyproject.toml`` pins hypercorn below the next one.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import trio
from hypercorn.config import Config

# Undocumented: TCPServer serves one connection (its accept loop, which one failing connection can end, is not
# used), calls the application through an AppWrapper, and knows the state of its worker from WorkerContext.
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import AppWrapper
from hypercorn.utils import parse_socket_addr

from hookgw.api.server.connection import Connection
from hookgw.api.server.streams import ClientStream


class ConnectionServer(TCPServer):
    """Serves one connection.

    Args:
        app, config, context: hypercorn's objects, shared by all connections.
        stream: the client's bytes. :meth:`run` closes it.
        connection: reads and answers them.
    """

    def __init__(
        self,
        app: AppWrapper,
        config: Config,
        context: WorkerContext,
        stream: ClientStream,
        connection: Connection,
    ) -> None:
        # TCPServer declares a stream of Trio's, and here uses only methods that ClientStream has, too.
        declared: Any = stream
        super().__init__(app, config, context, {}, declared)
        self._connection = connection

    async def run(self) -> None:
        """Serve the connection to its end.

        hypercorn's own ``run`` does the same with its protocols, HTTP/2 and WebSocket among them. They push
        bytes, through a task and a queue for each request, which is most of the cost of a short request.
        """
        sock: Any = self.stream.socket
        # hypercorn's wrappers can also run synchronous applications, for which they want two more functions.
        application: Any = partial(
            self.app, sync_spawn=trio.to_thread.run_sync, call_soon=trio.from_thread.run
        )
        try:
            client = parse_socket_addr(sock.family, sock.getpeername())
            server = parse_socket_addr(sock.family, sock.getsockname())
            await self._connection.run(application, client, server)
        except OSError:
            pass  # the client is gone
        finally:
            # Undocumented: sends the end, and closes; at once if this task is cancelled.
            await self._close()  # noqa: ASYNC102
