"""One epoll for the sockets of clients and receivers, and for the calls of other threads.

Trio arms and disarms a socket around each wait, with two calls to the system. Here each socket is registered
once, edge-triggered (epoll(7)), and one task waits for the epoll itself. What has become readable goes on in
light steps (:mod:`hookgw.concurrency.light`).

An edge says that something has arrived since the last one, so none may be lost:

- An edge while nobody waits is kept: the next wait returns at once.
- A reader that got as many bytes as it asked for says so: more may be there, without another edge.
- The end of a stream, or a reset, may come in one edge with the last bytes. It stays true from then on.
- The edges of one look are noted before any step is made: a step that closes a socket cannot make the number
  of that socket mean another one.
"""

from __future__ import annotations

import os
import select
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial

import trio

from hookgw.concurrency.light import LightSteps, Waiter, in_task, let_others_go_on

_EDGES = 0x80002001
"""``EPOLLIN | EPOLLRDHUP | EPOLLET``: systems without epoll do not have these names."""

_ARRIVED = 0x1
_MOST_EDGES = 128
"""Edges that are taken at one look. The others come at the next, after the other tasks."""


class Readable:
    """A socket that is watched, for one reader. Its owner calls :meth:`close` before closing the socket.

    Attributes:
        has_more: whether there may be more to read than the last wait was for.
        has_ended: whether the stream has ended, or was reset.
        wake: ends the present wait, and returns whether there was one.
    """

    __slots__ = ("_fileno", "_hub", "_waiter", "has_ended", "has_more", "wake")

    def __init__(self, hub: Hub, fileno: int) -> None:
        self._hub = hub
        self._fileno = fileno
        self._waiter = Waiter()
        self.wake = self._waiter.wake
        self.has_more = False
        self.has_ended = False

    def wait(self) -> Awaitable[None]:
        """Wait until there may be something to read, or :meth:`interrupt` or :meth:`close` is called.

        Read after each wait: it takes the edges before it.

        Raises:
            trio.ClosedResourceError: it was closed before. If the socket is not watched, also if one of the
                two is called during the wait.
        """
        # Not a coroutine: each wait of a request or a delivery would pass one more.
        if self._fileno < 0:
            raise trio.ClosedResourceError
        if self.has_more or self.has_ended or not self._hub.is_running:
            return self._look()
        return self._waiter

    async def _look(self) -> None:
        if self._hub.is_running:
            await let_others_go_on()
        else:
            await in_task()
            await trio.lowlevel.wait_readable(self._fileno)
        self.has_more = False  # not before: a wait that is cancelled takes no edge

    def note_more(self) -> None:
        """Note that a read has taken as much as it asked for."""
        self.has_more = True

    def note_nothing(self) -> None:
        """Note that a read would have had to wait."""
        self.has_ended = False

    def interrupt(self) -> None:
        """End the waits for the socket, although nothing may have arrived."""
        trio.lowlevel.notify_closing(self._fileno)
        self.wake()

    def close(self) -> None:
        """Stop watching, and end the waits."""
        # The kernel may give the number to another socket, which must not wake our tasks.
        self._hub.forget(self._fileno)
        self.interrupt()
        self._fileno = -1


class Hub:
    """Watches sockets, and makes the light steps of the coroutines that read them.

    Args:
        is_on: whether it ever runs. If not, each reader waits for its socket by itself.
    """

    def __init__(self, *, is_on: bool = True) -> None:
        self.steps = LightSteps()
        self.is_running = False
        is_on = is_on and hasattr(select, "epoll") and hasattr(os, "eventfd")
        self._epoll = select.epoll() if is_on else None
        self._sockets: dict[int, Readable] = {}
        self._calls: deque[Callable[[], object]] = deque()
        self._signal = -1
        # No thread may write to the number of a descriptor that was closed.
        self._signalling = threading.Lock()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Watch until cancelled. Who waits then, or later, waits for its socket by itself."""
        epoll = self._epoll
        if epoll is None:
            task_status.started()
            await trio.sleep_forever()
            return
        async with trio.open_nursery() as nursery:
            await nursery.start(self.steps.run)
            self._signal = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
            self.watch(self._signal).wake = self._make_calls
            self.is_running = True
            look = partial(self._look, epoll)
            try:
                task_status.started()
                while True:
                    await trio.lowlevel.wait_readable(epoll.fileno())
                    self.steps.make_after(look)
            finally:
                with self._signalling:
                    self.is_running, self._epoll = False, None
                    self._sockets.pop(self._signal, None)
                    os.close(self._signal)
                epoll.close()
                self._make_calls()
                for readable in self._sockets.values():
                    readable.wake()

    def _look(self, epoll: select.epoll) -> None:
        for fileno, events in epoll.poll(0, _MOST_EDGES):
            readable = self._sockets[fileno]
            readable.has_ended = readable.has_ended or events & ~_ARRIVED != 0
            # A reader that waits takes the edge.
            readable.has_more = not readable.wake()

    def call_soon(self, function: Callable[[], object]) -> bool:
        """Have a function called in the event loop's thread, from another thread.

        Trio's own way takes a round of the loop more. The function must not raise.

        Returns:
            Whether that will happen; ``False`` if the hub does not run.
        """
        with self._signalling:
            if self._signal not in self._sockets:
                return False
            self._calls.append(function)
            os.eventfd_write(self._signal, 1)  # each is an edge of its own: nobody has to read them
        return True

    def _make_calls(self) -> bool:
        while self._calls:
            self._calls.popleft()()
        return True

    def watch(self, fileno: int) -> Readable:
        """Watch a connected socket until :meth:`Readable.close`."""
        readable = Readable(self, fileno)
        if self._epoll is not None:
            try:
                self._epoll.register(fileno, _EDGES)
            except OSError:  # the user's epolls watch as many as they may: epoll(7), max_user_watches
                return Readable(NO_HUB, fileno)
            self._sockets[fileno] = readable
        return readable

    def forget(self, fileno: int) -> None:
        if self._sockets.pop(fileno, None) is not None and self._epoll is not None:
            self._epoll.unregister(fileno)


NO_HUB = Hub(is_on=False)
