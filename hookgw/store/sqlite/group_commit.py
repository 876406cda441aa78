"""The group commit: one task that writes, and everything that is asked for meanwhile shares the next.

While the disk refuses, appends and functions fail at once with the reason; settlements are kept, since
they tell of what has happened already, and the committer tries again after waits that grow.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import Protocol

import trio

from hookgw.models.deliveries import Delivery, Settlement
from hookgw.models.errors import StorageUnavailable
from hookgw.store.records import StoreObserver, StoreStatistics
from hookgw.store.sqlite.jobs import AppendJob, FunctionJob, Group, Job
from hookgw.store.sqlite.pending_counts import Change
from hookgw.store.sqlite.writer import Committed

FIRST_RETRY = 0.1
LAST_RETRY = 5.0
"""The wait, in seconds, before the disk is tried again: doubled from the first up to the last."""

COMMIT_GROUPS = 4
"""A commit takes no more groups than this, so that nobody waits for long in it."""

CLOSE_GRACE = 5.0
"""How long, in seconds, closing waits for what is queued."""


class Commits(Protocol):
    """What the committer needs of the writer."""

    def commit(self, groups: list[Group], *, probe: bool = False) -> Committed:
        """See :meth:`hookgw.store.sqlite.writer.Writer.commit`."""


class GroupCommit:
    """Collects jobs and writes them, group after group, in the order they were asked for.

    Args:
        writer: runs in a worker thread, one call at a time.
        observer: hears of commits and of a disk that refuses.
        pending: how many deliveries are pending at the start.
        settle_limit: from how many waiting settlements on :meth:`settle_capacity` waits.

    Attributes:
        thread: held while the writer writes.
        on_appended: called in the Trio thread after each commit with the deliveries it appended, in
            order, before any of its waiters runs.
        on_committed: called after each commit.
        on_changed: called after each commit that changed what is pending otherwise than by appending,
            before any of its waiters runs, with the change.
        on_requeued: called before that with how many finished deliveries the commit made pending again,
            by lane, if it did.
        failing: why the disk refuses; ``None`` while it works.
    """

    def __init__(
        self, writer: Commits, observer: StoreObserver, *, pending: int = 0, settle_limit: int = 10_000
    ) -> None:
        self.on_appended: Callable[[list[Delivery]], None] = _ignore
        self.on_requeued: Callable[[Mapping[str, int]], None] = _ignore
        self.on_committed: Callable[[], None] = _do_nothing
        self.on_changed: Callable[[Change], None] = _ignore
        self.failing: StorageUnavailable | None = None
        self._writer = writer
        self._observer = observer
        self._settle_limit = settle_limit
        self._groups: deque[Group] = deque()
        self._taken: list[Group] = []
        self._work = trio.Event()
        self._room = trio.Event()
        self._room.set()
        self.thread = trio.CapacityLimiter(1)
        self._scope = trio.CancelScope(shield=True)
        self._closed: StorageUnavailable | None = None
        self._settlements = 0
        self._pending = pending
        self._commits = 0
        self._rows = 0
        self._last = Committed(0.0, 0, 0)

    async def run(self) -> None:
        """Commit until :meth:`close` is called.

        Being cancelled from outside does not stop it: what those who were cancelled asked for before is
        written still. A bug in ``on_appended`` or in the writer is raised.
        """
        wait = FIRST_RETRY
        try:
            with self._scope:
                while True:
                    await self._work.wait()
                    if await self._commit():
                        wait = FIRST_RETRY
                        continue
                    await trio.sleep(wait)
                    wait = min(2 * wait, LAST_RETRY)
                    self._work.set()
        finally:
            self._stop()

    async def close(self) -> None:
        """Take no more, write what is queued within :data:`CLOSE_GRACE`, and end :meth:`run`.

        It is not cut short by being cancelled. Settlements that the disk does not take in that time are
        lost, and their deliveries are repeated after the next start.
        """
        closed, self._closed = self._closed, _CLOSED
        if closed is None:
            with trio.move_on_after(CLOSE_GRACE, shield=True), suppress(StorageUnavailable):
                await self._flush()
        self._scope.cancel()

    def check_open(self) -> None:
        """Return if a write would be taken now.

        Raises:
            StorageUnavailable: the disk refuses, or the store is closed.
        """
        refusal = self._closed or self.failing
        if refusal is not None:
            raise _same(refusal)

    def append_nowait(self, job: AppendJob) -> None:
        """Queue an append.

        Raises:
            StorageUnavailable: the disk refuses, or the store is closed.
        """
        self.check_open()
        group = self._open_group()
        group.appends.append(job)
        group.rows += sum(1 + len(new.deliveries) for new in job.news)

    def call_nowait(self, job: FunctionJob) -> None:
        """Queue a function; it runs after everything that was queued before.

        Raises:
            StorageUnavailable: the disk refuses, or the store is closed.
        """
        self.check_open()
        self._last_group().functions.append(job)

    def settle_nowait(self, settlement: Settlement) -> None:
        """Queue a settlement; once the store is closed it is passed over."""
        if self._closed is not None:
            return
        group = self._open_group()
        group.settlements.append(settlement)
        group.rows += 1
        self._settlements += 1
        if self._settlements > self._settle_limit and self._room.is_set():
            self._room = trio.Event()

    async def settle_capacity(self) -> None:
        """Wait while too many settlements are queued. Where there is room it is no checkpoint."""
        while not self._room.is_set():
            await self._room.wait()

    async def flush(self) -> None:
        """Wait until everything that was queued before is on disk, however long the disk refuses.

        Raises:
            StorageUnavailable: the store is closed, or was closed before that.
        """
        if self._closed is not None:
            raise _same(self._closed)
        await self._flush()

    def statistics(self) -> StoreStatistics:
        """What has been done so far."""
        waiting = sum(group.rows + len(group.functions) for group in chain(self._taken, self._groups))
        return StoreStatistics(
            commits=self._commits,
            rows=self._rows,
            last_commit_seconds=self._last.seconds,
            last_commit_rows=self._last.rows,
            waiting=waiting,
            pending=self._pending,
            failing=self.failing,
        )

    async def _flush(self) -> None:
        job = Job()
        self._last_group().flushes.append(job)
        await job.wait()

    def _open_group(self) -> Group:
        if self._groups and self._groups[-1].is_full:
            self._groups.append(Group())
        return self._last_group()

    def _last_group(self) -> Group:
        if not self._groups:
            self._groups.append(Group())
        if self.failing is None:
            self._work.set()
        return self._groups[-1]

    async def _commit(self) -> bool:
        """Write the next groups; say whether the disk took them."""
        self._taken = [self._groups.popleft() for _ in range(min(COMMIT_GROUPS, len(self._groups)))]
        self._work = trio.Event()
        commit = partial(self._writer.commit, self._taken, probe=self.failing is not None)
        try:
            committed = await trio.to_thread.run_sync(commit, limiter=self.thread)
        except StorageUnavailable as error:
            self._refuse(error)
            return False
        self._recover()
        self._finish(committed)
        return True

    def _finish(self, committed: Committed) -> None:
        groups = self._taken
        self._commits += 1
        self._rows += committed.rows
        self._pending += committed.pending
        self._last = committed
        self._settlements -= sum(len(group.settlements) for group in groups)
        if self._settlements <= self._settle_limit:
            self._room.set()
        if committed.change:
            self.on_changed(committed.change)
        if committed.requeued:
            self.on_requeued(committed.requeued)
        appended = [d for group in groups for job in group.appends if not job.error for d in job.deliveries()]
        if appended:
            self.on_appended(appended)
        self._taken = []
        for group in groups:
            group.finish()
        self.on_committed()
        self._observer.committed(committed.seconds, committed.rows)

    def _refuse(self, error: StorageUnavailable) -> None:
        """Fail everybody who waits, keep the settlements, in order."""
        began = self.failing is None
        self.failing = error
        groups = [*self._taken, *self._groups]
        for group in groups:
            group.refuse(lambda: _same(error))
        self._taken = []
        self._groups = deque(group for group in groups if group.settlements or group.flushes)
        if began:
            self._observer.disk_failed(error)

    def _recover(self) -> None:
        if self.failing is not None:
            self.failing = None
            self._observer.disk_recovered()
        if self._groups:
            self._work.set()

    def _stop(self) -> None:
        """Let nobody wait for a task that has ended."""
        self._closed = _CLOSED
        self._room.set()
        for group in chain(self._taken, self._groups):
            group.abandon(lambda: _same(_CLOSED))
        self._groups.clear()


_CLOSED = StorageUnavailable("The store is closed: hookgw is stopping.")


def _same(error: StorageUnavailable) -> StorageUnavailable:
    """The error once more, for one more task to raise."""
    return StorageUnavailable(*error.messages, retry_after=error.retry_after)


def _do_nothing() -> None:
    """What is done about commits until somebody wants to know."""


def _ignore(news: object) -> None:
    """What is done with what commits bring until somebody wants it."""
