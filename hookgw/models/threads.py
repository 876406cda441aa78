"""Blocking work, and where it runs: in threads, or inline in a simulation, which must repeat from a seed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Protocol, TypeVar

import outcome
import trio

T = TypeVar("T")


class Worker(Protocol):
    """Makes calls one after the other, while Trio tasks wait for the results."""

    async def run(self, call: Callable[[], T]) -> T:
        """Make a call and return its result, or raise its exception.

        Cancellation does not interrupt it: what was begun is waited for. The caller sees to it that there is
        one call at a time.
        """

    def close(self) -> None:
        """End it, once it has made the calls so far. Later calls would never be made."""


class Threads(Protocol):
    """Runs blocking calls beside the event loop."""

    async def run(self, call: Callable[[], T], *, limiter: trio.CapacityLimiter | None = None) -> T:
        """Make a call and return its result, or raise its exception.

        Cancellation takes effect before or after the call.

        Args:
            call: may block. From within it, :meth:`run_in_loop` and :meth:`sleep` may be used.
            limiter: held during the call; by default Trio's, which all such calls share.
        """

    def run_in_loop(self, function: Callable[[], T]) -> T:
        """Call a function in the event loop's thread and return its result, from within a blocking call."""

    def sleep(self, seconds: float) -> None:
        """Let the event loop go on for some time, from within a blocking call.

        Raises:
            trio.Cancelled: the task that made the blocking call is cancelled.
        """

    def worker(self, name: str) -> Worker:
        """Return a worker for calls that are frequent. The caller closes it."""


class WorkerThread:
    """A :class:`Worker` with a thread of its own.

    ``trio.to_thread`` does the same for any call at any time. That takes a limiter, a pool of threads and a
    copy of the context for each call. Without them, an event that is emitted alone costs 7 to 12 % less CPU.
    """

    def __init__(self, name: str) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._calls: SimpleQueue[tuple[Callable[[], Any], trio.lowlevel.Task] | None] = SimpleQueue()
        # A daemon: an exception that skips close() must not keep the process alive.
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    async def run(self, call: Callable[[], T]) -> T:
        self._calls.put((call, trio.lowlevel.current_task()))
        result: T = await trio.lowlevel.wait_task_rescheduled(lambda _: trio.lowlevel.Abort.FAILED)
        return result

    def close(self) -> None:
        self._calls.put(None)

    def _work(self) -> None:
        while (found := self._calls.get()) is not None:
            call, task = found
            result = outcome.capture(call)
            self._token.run_sync_soon(trio.lowlevel.reschedule, task, result)
            # They would hold the last call's data until the next one.
            del found, call, task, result


class SystemThreads:
    """The :class:`Threads` of production: real threads."""

    async def run(self, call: Callable[[], T], *, limiter: trio.CapacityLimiter | None = None) -> T:
        return await trio.to_thread.run_sync(call, limiter=limiter)

    def run_in_loop(self, function: Callable[[], T]) -> T:
        return trio.from_thread.run_sync(function)

    def sleep(self, seconds: float) -> None:
        trio.from_thread.run(trio.sleep, seconds)

    def worker(self, name: str) -> Worker:
        return WorkerThread(name)


SYSTEM_THREADS = SystemThreads()
