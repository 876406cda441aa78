"""A way over TCP that a test cuts: silently, as a network does, or with an error, or makes slow."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Literal

import trio

PIECE = 65536
Way = Literal["there", "back"]
"""From those who connect, and to them."""
WAYS: tuple[Way, ...] = ("there", "back")
PIECES = 1000
"""The most pieces that are on their way."""


class Link:
    """A port on 127.0.0.1 that leads to another one.

    Args:
        target: returns the other port. It is asked for each connection.

    Attributes:
        port: of this end.
        delay: returns the seconds for which a piece is on its way, in each direction. What was sent earlier
            arrives earlier.
    """

    def __init__(self, target: Callable[[], int]) -> None:
        self.port = 0
        self.delay: Callable[[], float] = lambda: 0.0
        self._target = target
        self._passes = {way: trio.Event() for way in WAYS}
        self.mend()
        self._is_refused = False
        self._connections: set[trio.CancelScope] = set()

    def cut(self, *ways: Way) -> None:
        """Let nothing pass from now on, both ways or one. What was on its way arrives after :meth:`mend`."""
        for way in ways or WAYS:
            self._passes[way] = trio.Event()

    def refuse(self) -> None:
        """End all connections, and every new one at once, until :meth:`mend`."""
        self._is_refused = True
        for scope in tuple(self._connections):
            scope.cancel()

    def mend(self) -> None:
        """Let everything pass."""
        self._is_refused = False
        for passes in self._passes.values():
            passes.set()

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Serve until cancelled."""
        [listener] = await trio.open_tcp_listeners(self.port, host="127.0.0.1")
        self.port = listener.socket.getsockname()[1]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.serve_listeners, self._serve, [listener])
            task_status.started()

    async def _serve(self, near: trio.SocketStream) -> None:
        with trio.CancelScope() as scope:
            self._connections.add(scope)
            try:
                if self._is_refused:
                    return
                await self._passes["there"].wait()
                far = await trio.open_tcp_stream("127.0.0.1", self._target())
                async with far, trio.open_nursery() as nursery:
                    nursery.start_soon(self._pump, near, far, "there", nursery.cancel_scope)
                    nursery.start_soon(self._pump, far, near, "back", nursery.cancel_scope)
            except OSError:
                pass  # nobody listens there
            finally:
                self._connections.discard(scope)
                near.socket.close()

    async def _pump(
        self, source: trio.SocketStream, sink: trio.SocketStream, way: Way, both: trio.CancelScope
    ) -> None:
        send, receive = trio.open_memory_channel[tuple[float, bytes]](PIECES)

        async def read() -> None:
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                async with send:
                    while data := await source.receive_some(PIECE):
                        await send.send((trio.current_time() + self.delay(), data))

        async with receive, trio.open_nursery() as nursery:
            nursery.start_soon(read)
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                async for due, data in receive:
                    await trio.sleep_until(due)
                    await self._passes[way].wait()
                    await sink.send_all(data)
            nursery.cancel_scope.cancel()
        await self._passes[way].wait()  # an end is not seen through a cut, either
        both.cancel()


@asynccontextmanager
async def open_link(target: Callable[[], int]) -> AsyncIterator[Link]:
    """Run a link for the length of a block."""
    link = Link(target)
    async with trio.open_nursery() as nursery:
        await nursery.start(link.run)
        yield link
        nursery.cancel_scope.cancel()
