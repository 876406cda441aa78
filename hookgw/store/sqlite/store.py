"""The store in one SQLite file: its parts, composed."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import trio

from hookgw.concurrency.clock import Clock
from hookgw.concurrency.hub import NO_HUB, Hub
from hookgw.concurrency.loop_load import LoopLoad
from hookgw.concurrency.tasks import run_essential
from hookgw.concurrency.threads import SYSTEM_THREADS, Threads
from hookgw.config.master_keys import MasterKeys
from hookgw.store.audit_entries import SteppedAudit
from hookgw.store.commits.group_commit import GroupCommit
from hookgw.store.commits.inline import InlineCommits
from hookgw.store.commits.read_failures import ReadFailures
from hookgw.store.composed import ComposedStore, Parts
from hookgw.store.encryption import RecordCipher
from hookgw.store.figures import SteppedFigures
from hookgw.store.fleet import SharedStore
from hookgw.store.log import SteppedLog
from hookgw.store.protocol.store import Store
from hookgw.store.records import DiskSpace, Held, SilentObserver, StoreObserver
from hookgw.store.sqlite import audit, backfills, figures, history, log, outbox, pending_changes, shelves
from hookgw.store.sqlite.backfills import SqliteBackfills
from hookgw.store.sqlite.backup import OnlineBackup
from hookgw.store.sqlite.checkpoints import Checkpoints
from hookgw.store.sqlite.database import (
    DatabaseConnections,
    Reader,
    measure_disk_space,
    open_database,
    start_errors,
)
from hookgw.store.sqlite.file_watch import FileWatch
from hookgw.store.sqlite.history import SqliteHistory
from hookgw.store.sqlite.log import begin_log
from hookgw.store.sqlite.outbox import SqliteOutbox
from hookgw.store.sqlite.pending_changes import SqlitePendingChanges
from hookgw.store.sqlite.recent_events import RecentEvents
from hookgw.store.sqlite.reencrypt import reencrypt
from hookgw.store.sqlite.sequence_numbers import SequenceNumbers, last_numbers
from hookgw.store.sqlite.shelves import SqliteRecords
from hookgw.store.sqlite.transaction import Transaction
from hookgw.store.sqlite.writer import Writer, touch


class SqliteStore(ComposedStore[Transaction]):
    shared: SharedStore | None = None

    def __init__(
        self,
        commits: GroupCommit[Transaction],
        parts: Parts,
        checkpoints: Checkpoints,
        background: Reader,
        path: Path,
    ) -> None:
        super().__init__(commits, parts)
        self._background = background
        self._path = path
        self.scrub = checkpoints.empty

    async def check(self) -> None:
        await self._commits.call(touch)

    async def disk_space(self) -> DiskSpace:
        return await self._background.run(partial(measure_disk_space, path=self._path))


@asynccontextmanager
async def open_store(
    path: Path,
    *,
    clock: Clock,
    observer: StoreObserver | None = None,
    keep_history: bool = True,
    keep_unwanted: bool = True,
    keys: MasterKeys = MasterKeys(),  # noqa: B008 - it is immutable
    loop_load: LoopLoad | None = None,
    threads: Threads = SYSTEM_THREADS,
    hub: Hub = NO_HUB,
) -> AsyncIterator[Store]:
    """Open the data file, and create it if it is missing.

    Args:
        path: the file. Files named ``-wal``, ``-shm`` and ``.lock`` are created beside it.
        keep_history: whether finished deliveries and attempts are kept. If not, a delivery is removed when it
            is settled, and its event, but for its id, with the last of them. Parked deliveries, and events
            without a delivery, are removed with the next
            :meth:`~hookgw.store.History.enforce_retention`.
        keep_unwanted: whether events without a delivery are kept with their payloads.
        keys: encrypt the records, at once and from now on; without a key they are in the clear.
        loop_load: what the event loop has to do. While that is little, commits run in its thread; with
            ``None`` they never do.

    Returns:
        An async context manager that gives the store. It owns the tasks that write, the connections and the
        lock. At its end it writes what is queued (for at most 5 s, also when cancelled), folds the
        write-ahead log into the file, and releases the lock.

    Raises:
        StartError: the file is in use, damaged, not hookgw's, too old or too new, encrypted with another
            master key, writable by others, or it cannot be created or written. Errors of the block come out
            in an exception group, as from any nursery.
    """
    observer = observer or SilentObserver()
    # In a thread: a migration or an encryption may take many seconds.
    opened = await threads.run(partial(_open, path, keys, keep_unwanted, clock.steady()))
    connections = opened.connections
    try:
        # One connection writes, for the commits and for the last pages of a long log, one at a time. The lock
        # is for the steps of backups: theirs must not wait for the event loop before they let others in.
        writing = trio.CapacityLimiter(1)
        in_use = threading.Lock()
        file, failures, recent = connections.file, ReadFailures(), RecentEvents()
        checkpoints = Checkpoints(connections, writing, in_use, threads)
        writer = Writer(
            connections.writer,
            file,
            keep_history=keep_history,
            keep_unwanted=keep_unwanted,
            in_use=in_use,
            recent=recent,
        )
        commits = GroupCommit(
            writer,
            observer,
            in_use=writing,
            on_committed=lambda: committed(),
            inline=None if loop_load is None else InlineCommits(writer.commit_at_once, loop_load),
            unusable=lambda: file.lost or failures.current(),
            threads=threads,
            hub=hub,
        )
        reader = partial(Reader, file, failures=failures, threads=threads)
        lanes, lists = reader(connections.lanes), reader(*connections.lists)
        background = reader(connections.background)
        backup = OnlineBackup(connections.writer, in_use, path, threads)
        watch = FileWatch(file, commits, backup, observer, threads)
        records = SqliteRecords(commits, background, opened.cipher, shelves, opened.numbers)
        events = SteppedLog(commits, lists, background, log, partial(log.read_unindexed, recent=recent))
        parts = Parts(
            SqliteOutbox(commits, lanes, background, clock, records, outbox, None, Held, opened.numbers),
            SqlitePendingChanges(commits, background, clock, records, pending_changes, opened.numbers),
            SqliteHistory(commits, lists, background, clock, history, events),
            records,
            SteppedAudit(commits, lists, background, audit),
            backup,
            SqliteBackfills(commits, background, clock, records, backfills, opened.numbers),
            SteppedFigures(commits, lists, background, figures),
        )

        def committed() -> None:
            checkpoints.committed()
            events.committed()

        # Its methods are those of the parts.
        store = SqliteStore(commits, parts, checkpoints, background, path)  # type: ignore[abstract]
        async with trio.open_nursery() as nursery:
            is_closing = False
            nursery.start_soon(run_essential, "The writer", lambda: is_closing, commits.run)
            nursery.start_soon(run_essential, "The watch of commits", None, commits.watch)
            nursery.start_soon(run_essential, "The task of checkpoints", None, checkpoints.run)
            nursery.start_soon(run_essential, "The watch of the data file", None, watch.run)
            nursery.start_soon(run_essential, "The index of the log", None, events.run)
            try:
                yield store
            finally:
                is_closing = True
                await commits.close()  # noqa: ASYNC102 -- it shields and bounds itself
                nursery.cancel_scope.cancel()
    finally:
        with trio.CancelScope(shield=True):  # the last write to the disk; a thread cannot be cut short
            await threads.run(opened.resources.close)


class _Opened(NamedTuple):
    """The data file, ready for use, and what the start read from it."""

    connections: DatabaseConnections
    numbers: SequenceNumbers
    cipher: RecordCipher | None
    resources: ExitStack


def _open(path: Path, keys: MasterKeys, keep_unwanted: bool, now: float) -> _Opened:
    with ExitStack() as stack:
        connections = stack.enter_context(open_database(path))
        with start_errors(path):
            cipher = reencrypt(connections.writer, keys, path)
            begin_log(connections.writer, now, is_whole=keep_unwanted)
            numbers = last_numbers(connections.writer)
        return _Opened(connections, numbers, cipher, stack.pop_all())
