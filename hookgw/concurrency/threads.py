"""Runs blocking work in threads, or inline in a simulation, which must repeat from a seed.

A system may refuse threads for a while: ``pids.max`` of a container, ``ulimit -u``, no memory for a stack.
Tenants can cause that with names that take half a minute to look up. So a gateway has threads in *reserve*,
which exist before its first lookup. They serve calls that get no other thread, and a worker's thread that
cannot start is tried again.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from queue import SimpleQueue
from typing import Any, Generic, Protocol, TypeVar

import outcome
import structlog
import trio

from hookgw.concurrency.hub import NO_HUB, Hub
from hookgw.concurrency.light import Waiter, in_task

_T = TypeVar("_T")

logger = structlog.get_logger("hookgw")


class Worker(Protocol):
    async def run(self, call: Callable[[], _T]) -> _T:
        """Make a call and return its result, or raise its exception. One call at a time.

        Cancellation does not interrupt it: the call is waited for.
        """

    def run_here(self, call: Callable[[], _T]) -> _T:
        """Make a call in the event loop's thread, which stands still meanwhile. No other one is under way."""

    def close(self) -> None:
        """End the worker after the calls so far. Do not call it afterwards."""


class Threads(Protocol):
    """Runs blocking calls.

    Attributes:
        at_work: how many calls are under way, those of workers left out.
    """

    at_work: int

    async def run(
        self,
        call: Callable[[], _T],
        *,
        limiter: trio.CapacityLimiter | None = None,
        uses_loop: bool = False,
    ) -> _T:
        """Make a call and return its result, or raise its exception.

        Cancellation takes effect before or after the call.

        Args:
            limiter: held during the call; by default Trio's, which all such calls share.
            uses_loop: whether the call uses :meth:`run_in_loop` or :meth:`sleep`. It may take long then, so
                it gets no thread of the reserve.
        """

    def reserve(self) -> AbstractAsyncContextManager[None]:
        """Have threads in reserve until the end of the block. The block starts once they exist."""

    def run_in_loop(self, function: Callable[[], _T]) -> _T:
        """Call a function in the event loop's thread and return its result, from within a blocking call."""

    def sleep(self, seconds: float) -> None:
        """Let the event loop run for some time, from within a blocking call.

        Raises:
            trio.Cancelled: the task that made the blocking call is cancelled.
        """

    def worker(self, name: str, hub: Hub = NO_HUB) -> Worker:
        """Return a worker for frequent calls. The caller closes it.

        Args:
            hub: makes the caller go on; without one, Trio does.
        """


START_AGAIN = 0.25
"""Seconds after which a thread that the system refused is tried again."""

RESERVED = 3
"""Threads in reserve. One is enough to go on; a long read must not hold up a short one."""

_REFUSED = "start new thread"


async def start_thread(thread: threading.Thread) -> None:
    """Start a thread, retrying while the system refuses it."""
    if try_to_start(thread):
        return
    logger.warning("the system refuses a thread; it is tried again", thread=thread.name)
    while not try_to_start(thread):  # noqa: ASYNC110 -- nobody says when there is one
        await trio.sleep(START_AGAIN)


def try_to_start(thread: threading.Thread) -> bool:
    try:
        thread.start()
    except (RuntimeError, MemoryError) as error:
        if not is_refusal(error):
            raise
        return False
    return True


def is_refusal(error: Exception) -> bool:
    """Return whether an error means that the system has no thread left."""
    return isinstance(error, MemoryError) or _REFUSED in str(error)


class WorkerCall(Waiter, Generic[_T]):
    """A call of a worker, and the wait for its result, which no cancellation ends."""

    is_cancellable = False
    result: outcome.Outcome[_T]

    def __init__(self, make: Callable[[], _T]) -> None:
        super().__init__()
        self.make = make


class WorkerThread:
    """A :class:`Worker` with its own thread.

    ``trio.to_thread`` does the same for any call at any time. That takes a limiter, a pool of threads and a
    copy of the context for each call. Without them, an event that is emitted alone costs 7 to 12 % less CPU.
    """

    def __init__(self, name: str, hub: Hub = NO_HUB) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._hub = hub
        self._calls: SimpleQueue[WorkerCall[Any] | None] = SimpleQueue()
        # A daemon: an exception that skips close() must not keep the process alive.
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._is_started = try_to_start(self._thread)

    async def wait_started(self) -> None:
        if not self._is_started:
            await start_thread(self._thread)
            self._is_started = True

    async def run(self, call: Callable[[], _T]) -> _T:
        if not self._is_started:
            await in_task()
            with trio.CancelScope(shield=True):  # as for the call itself
                await self.wait_started()
        made = WorkerCall(call)
        self._calls.put(made)
        await made
        try:
            return made.result.unwrap()
        finally:
            del made  # an error must not keep this frame, which has it

    def run_here(self, call: Callable[[], _T]) -> _T:
        return call()

    def close(self) -> None:
        self._calls.put(None)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call.result = outcome.capture(call.make)
            if not self._hub.call_soon(call.wake):
                self._token.run_sync_soon(call.wake)
            del call  # it would hold its data until the next one


class _Reserve:
    def __init__(self) -> None:
        self.free = [WorkerThread(f"hookgw reserve {number}") for number in range(1, RESERVED + 1)]
        self.limiter = trio.CapacityLimiter(RESERVED)

    async def run(self, call: Callable[[], _T]) -> _T:
        async with self.limiter:
            thread = self.free.pop()
            try:
                return await thread.run(call)
            finally:
                self.free.append(thread)


_reserve = trio.lowlevel.RunVar[_Reserve | None]("_reserve", None)


class SystemThreads:
    def __init__(self) -> None:
        self.at_work = 0

    async def run(
        self,
        call: Callable[[], _T],
        *,
        limiter: trio.CapacityLimiter | None = None,
        uses_loop: bool = False,
    ) -> _T:
        await in_task()
        is_begun = False

        def begin() -> _T:
            nonlocal is_begun
            is_begun = True
            return call()

        self.at_work += 1
        try:
            while True:
                try:
                    return await trio.to_thread.run_sync(begin, limiter=limiter)
                except (RuntimeError, MemoryError) as error:
                    if is_begun or not is_refusal(error):
                        raise
                reserve = _reserve.get()
                if reserve is not None and not uses_loop:
                    async with limiter or trio.to_thread.current_default_thread_limiter():
                        return await reserve.run(call)
                await trio.sleep(START_AGAIN)
        finally:
            self.at_work -= 1

    @asynccontextmanager
    async def reserve(self) -> AsyncIterator[None]:
        if _reserve.get() is not None:  # a second gateway in this process
            yield
            return
        reserve = _Reserve()
        threads = tuple(reserve.free)
        try:
            for thread in threads:
                await thread.wait_started()
            _reserve.set(reserve)
            yield
        finally:
            _reserve.set(None)
            for thread in threads:
                thread.close()

    def run_in_loop(self, function: Callable[[], _T]) -> _T:
        return trio.from_thread.run_sync(function)

    def sleep(self, seconds: float) -> None:
        trio.from_thread.run(trio.sleep, seconds)

    def worker(self, name: str, hub: Hub = NO_HUB) -> Worker:
        return WorkerThread(name, hub)


SYSTEM_THREADS = SystemThreads()
