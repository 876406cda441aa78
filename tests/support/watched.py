"""A hub under test, and connections over TCP."""

import select
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest
import trio
from trio.lowlevel import current_task
from trio.testing import wait_all_tasks_blocked

from tests.public.concurrency import Hub
from tests.public.delivery import PlainStream
from tests.public.web import ClientStream

Kind = type[PlainStream] | type[ClientStream]
READ_SIZE = 32 * 2**10
"""Bytes that the stream of a receiver reads at once: half as many as that of a client."""
both_kinds = pytest.mark.parametrize("kind", [PlainStream, ClientStream])


class Counted(socket.socket):
    """Counts how often it is read, and how often it has nothing."""

    reads = blocked = 0

    def recv(self, *arguments: int) -> bytes:
        self.reads += 1
        try:
            return super().recv(*arguments)
        except BlockingIOError:
            self.blocked += 1
            raise


def connect() -> tuple[Counted, socket.socket]:
    """Return the two ends of a connection over TCP."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        theirs = socket.create_connection(listener.getsockname())
        accepted, _ = listener.accept()
    ours = Counted(fileno=accepted.detach())
    ours.setblocking(False)
    theirs.setblocking(False)
    theirs.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return ours, theirs


@contextmanager
def connected() -> Iterator[tuple[Counted, socket.socket]]:
    ours, theirs = connect()
    with ours, theirs:
        yield ours, theirs


def reset(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


async def at_rest() -> None:
    """Wait until what has been sent has arrived, and the hub has looked."""
    for _ in range(3):
        await trio.sleep(0.002)
        await wait_all_tasks_blocked()


_epoll = select.epoll


class Full:
    """An epoll of a user who may watch no more sockets."""

    def __init__(self) -> None:
        self._epoll = _epoll()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._epoll, name)

    def register(self, fileno: int, events: int) -> None:
        raise OSError(28, "No space left on device")


class World:
    """A hub that runs."""

    def __init__(self) -> None:
        self.hub = Hub()
        self.scope = trio.CancelScope()
        self.nursery: trio.Nursery
        self._makers: list[object] = []

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        self._makers.append(current_task())
        with self.scope:
            await self.hub.run(task_status=task_status)

    @property
    def is_light(self) -> bool:
        """Whether the caller runs in a step that the hub makes."""
        return current_task() in self._makers

    def go(self, function: Callable[..., Awaitable[None]], *arguments: Any) -> None:
        """Start a task that runs a function in light steps."""

        async def run() -> None:
            await self.hub.steps.go(function(*arguments))  # type: ignore[arg-type]

        self.nursery.start_soon(run)


@asynccontextmanager
async def running() -> AsyncIterator[World]:
    world = World()
    async with trio.open_nursery() as nursery:
        world.nursery = nursery
        await nursery.start(world.run)
        yield world
        nursery.cancel_scope.cancel()
