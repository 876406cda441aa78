"""The simulated disk: blocking calls run inline, and this decides how long they take and how they fail.

SQLite itself is the real one, on a real file. A disk that is full, or refuses, is a limit on the size of
files: SQLite fails in the middle of its work, as on a full disk. A kill copies the file as it is at that
moment, which is what the system has after a kill: the next start uses the copy.
"""

from __future__ import annotations

import random
import resource
import shutil
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TypeVar

import outcome
import trio

from tests.public.concurrency import NO_HUB, Hub, WorkerCall

T = TypeVar("T")

PAGE = 4096

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)


class Disk:
    """Runs blocking calls of one start of the gateway. It is a :class:`~hookgw.concurrency.threads.Threads`.

    Args:
        path: the data file.
        chance: the seed's.
        on_commit: called with the time at which a commit was handed over, once it is on disk.
        on_kill: called when the process is killed, with the moment.
        pause: sleeps, whatever is cancelled.
        stall: lets time pass while nothing runs: for each commit in the event loop's thread.

    Attributes:
        latest: the longest time of a call, in seconds; 0 for none.
        room: how many bytes files may still grow by before the disk refuses; ``None`` for all.
        kill_in: the process is killed at this call from now; 0 for none.
        is_dead: whether the process was killed: calls still work, but nobody sees what they do.
    """

    def __init__(
        self,
        path: Path,
        chance: random.Random,
        on_commit: Callable[[float], None],
        on_kill: Callable[[str], None],
        pause: Callable[[float], Awaitable[None]],
        stall: Callable[[float], None],
    ) -> None:
        self._path = path
        self._chance = chance
        self._on_commit = on_commit
        self._on_kill = on_kill
        self._pause = pause
        self._stall = stall
        self.latest = 0.0
        self.at_work = 0
        self.room: int | None = None
        self.kill_in = 0
        self.is_dead = False
        self.copy: Path | None = None

    async def run(
        self, call: Callable[[], T], *, limiter: trio.CapacityLimiter | None = None, uses_loop: bool = False
    ) -> T:
        """Make a call inline."""
        if limiter is None:
            return await self._call(call)
        async with limiter:
            return await self._call(call)

    def run_in_loop(self, function: Callable[[], T]) -> T:
        """Make a call in the same thread."""
        return function()

    def sleep(self, seconds: float) -> None:
        """Return at once: nothing else can run during a call. The process may be killed here, too."""
        self.kill_in -= 1
        if self.kill_in == 0:
            self.kill("within a copy")

    def reserve(self) -> AbstractAsyncContextManager[None]:
        """Have no threads."""
        return nullcontext()

    def worker(self, name: str, hub: Hub = NO_HUB) -> Writer:
        return Writer(self)

    async def _call(self, call: Callable[[], T], *, is_commit: bool = False) -> T:
        began = trio.current_time()
        seconds = self._seconds()
        # A thread cannot be interrupted. Its result may come late: other tasks go on meanwhile.
        late = seconds * self._chance.random() if seconds else 0.0
        if seconds:
            await self._pause(seconds - late)
        else:
            await trio.lowlevel.cancel_shielded_checkpoint()
        try:
            return self._make(call, began, is_commit=is_commit)
        finally:
            if late:
                await self._pause(late)

    def _seconds(self) -> float:
        """Return how long the next call takes."""
        is_slow = self.latest and not self.is_dead and self._chance.random() < 0.4
        return self.latest * self._chance.random() ** 4 if is_slow else 0.0

    def _make(self, call: Callable[[], T], began: float, *, is_commit: bool) -> T:
        self.kill_in -= 1
        if self.is_dead or (self.kill_in and self.room is None):
            result = call()
        else:
            with self._kill_here(is_commit), self._limited():
                result = call()
        if is_commit and not self.is_dead:
            self._on_commit(began)
        return result

    @contextmanager
    def _limited(self) -> Iterator[None]:
        if self.room is None or self.is_dead:  # killed before this call
            yield
            return
        largest = max(file.stat().st_size for file in _files(self._path))
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        # Pages of the log that exist already can be written again: not at a limit below their place.
        resource.setrlimit(resource.RLIMIT_FSIZE, (self.room and largest + self.room, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, hard))

    @contextmanager
    def _kill_here(self, is_commit: bool) -> Iterator[None]:
        if self.kill_in:
            yield
            return
        moment = self._chance.choice(("before", "within", "after"))
        before = {file.name: file.read_bytes() for file in _files(self._path)} if moment != "after" else {}
        if moment == "before":
            self.kill("before " + ("a commit" if is_commit else "a call"))
            yield
            return
        try:
            yield
        finally:
            self.kill(moment + (" a commit" if is_commit else " a call"))
            if moment == "within" and self.copy is not None:
                self._tear(before, self.copy)

    def kill(self, moment: str) -> None:
        """Kill the process: copy the data file as it is now."""
        if self.is_dead:
            return
        self.is_dead = True
        folder = self._path.parent.with_name(self._path.parent.name + "k")
        folder.mkdir(mode=0o700)
        self.copy = folder / self._path.name
        # The disk may be full in this call; the copy is no file of the run.
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, limits[1]))
        try:
            for file in _files(self._path):
                shutil.copyfile(file, folder / file.name)
            self._on_kill(moment)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    def _tear(self, before: dict[str, bytes], copy: Path) -> None:
        """Make a copy what it was in the middle of the call.

        A commit appends to the log: a part of that is there. A checkpoint writes pages of the file from the
        first to the last, while the log is whole: those up to some page are there.
        """
        log = copy.with_name(copy.name + "-wal")
        old_log, new_log = before.get(log.name, b""), log.read_bytes() if log.exists() else b""
        old, new = before[copy.name], copy.read_bytes()
        if new != old:
            if new_log == old_log:
                cut = self._chance.randrange(len(new) // PAGE) * PAGE
                copy.write_bytes(new[:cut] + old[cut:])
        elif len(new_log) > len(old_log) and new_log.startswith(old_log):
            log.write_bytes(new_log[: self._chance.randrange(len(old_log), len(new_log))])


class Writer:
    """Makes the calls of the group commit. It is a :class:`~hookgw.concurrency.threads.Worker`."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    async def run(self, call: Callable[[], T]) -> T:
        """Make a commit, in a task of its own as in a thread."""
        made = WorkerCall(call)
        trio.lowlevel.spawn_system_task(self._make, made)
        await made
        return made.result.unwrap()

    async def _make(self, call: WorkerCall[T]) -> None:
        call.result = await outcome.acapture(partial(self._disk._call, call.make, is_commit=True))
        call.wake()

    def run_here(self, call: Callable[[], T]) -> T:
        """Make a commit while the event loop stands still."""
        began = trio.current_time()
        self._disk._stall(self._disk._seconds())
        return self._disk._make(call, began, is_commit=True)

    def close(self) -> None:
        """Do nothing: there is no thread."""


def _files(path: Path) -> list[Path]:
    """Return the data file and its log, as far as they exist."""
    return [file for file in (path, path.with_name(path.name + "-wal")) if file.exists()]
