"""Faults that are planted into the recorded program, to show that the check finds each of them."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import trio

from hookgw.models.jobs import Job
from hookgw.store.records import ParkStep
from hookgw.store.sqlite import backup, checkpoints, database, maintenance, new_file, schema
from hookgw.store.commits.jobs import AppendJob
from hookgw.store.sqlite.pending_changes import SqlitePendingChanges


def _nothing() -> None:
    """Plant nothing."""


def _pragmas(*pragmas: str) -> Callable[[], None]:
    """Have every connection to the data file use other settings."""

    def plant() -> None:
        connect = database._connect

        def other(path: Path, *, cache_kib: int, query_only: bool = False) -> sqlite3.Connection:
            connection = connect(path, cache_kib=cache_kib, query_only=query_only)
            for pragma in pragmas:
                connection.execute(f"PRAGMA {pragma}").fetchall()
            return connection

        database._connect = other

    return plant


def _checkpoint_unsynced() -> None:
    """Fold the log without a sync."""
    fold = checkpoints.fold

    def unsynced(connection: sqlite3.Connection) -> int:
        connection.execute("PRAGMA synchronous = OFF")
        return fold(connection)

    checkpoints.fold = unsynced


def _folder_unsynced() -> None:
    """Create the folder of the data file without a sync of its name."""
    database.make_folder = lambda folder: folder.mkdir(mode=0o700, exist_ok=True)


def _log_unsynced() -> None:
    """Cut off the log without a sync of it."""
    checkpoints.sync_log = lambda connection: None


def _restore_in_any_order() -> None:
    """Move the former files aside without a sync before the backup takes their place."""
    sync, done = maintenance.sync_folder, []

    def last_alone(folder: Path) -> None:
        done.append(folder)
        if len(done) > 1:
            sync(folder)

    maintenance.sync_folder = last_alone


class _WithoutFileSync:
    """The module ``os``, in which to synchronize a file has no effect."""

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def fsync(self, descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            os.fsync(descriptor)


class _WithoutFolderSync:
    """The module ``os``, in which to synchronize a folder has no effect."""

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def fsync(self, descriptor: int) -> None:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            os.fsync(descriptor)


def _replace_os(module: Any, system: object) -> Callable[[], None]:
    def plant() -> None:
        module.os = system

    return plant


def _backup_name_unsynced() -> None:
    """Give a backup its name without a sync of the folder."""
    new_file.sync_folder = lambda folder: None
    database.make_folder = _make_folder


def _make_folder(folder: Path) -> None:
    folder.mkdir(mode=0o700)
    descriptor = os.open(folder.parent, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def _answer_early() -> None:
    """Answer before the commit."""

    async def wait(self: AppendJob) -> None:
        await trio.lowlevel.checkpoint()

    AppendJob.wait = wait  # type: ignore[method-assign]


def _job_apart() -> None:
    """Store the progress of a job in a commit of its own, before the step."""
    step = SqlitePendingChanges.park_step

    async def apart(
        self: SqlitePendingChanges, registration: str, reason: str, cursor: str, *, job: Job, **more: Any
    ) -> ParkStep:
        count = len((await self._commits.call(lambda t: t.connection.execute(
            "SELECT seq FROM deliveries WHERE state = 'pending' AND registration = "
            "(SELECT number FROM names WHERE name = ?) LIMIT 4", (registration,)).fetchall())))
        await self._records.put_job(job.advanced(count, cursor))
        return await step(self, registration, reason, cursor, **more)

    SqlitePendingChanges.park_step = apart  # type: ignore[method-assign, assignment]


def _backup_in_place() -> None:
    """Write a backup under its name from the beginning."""
    @contextmanager
    def in_place(path: Path) -> Iterator[Path]:
        path.touch(mode=0o600)
        yield path

    backup.new_file = in_place


PLANTS: dict[str, Callable[[], None]] = {
    "nothing": _nothing,
    "synchronous NORMAL": _pragmas("synchronous = NORMAL"),
    "synchronous OFF": _pragmas("synchronous = OFF"),
    "a rollback journal that is not synchronized": _pragmas("journal_mode = DELETE", "synchronous = OFF"),
    "checkpoints without a sync": _checkpoint_unsynced,
    "an answer before the commit": _answer_early,
    "a job's progress apart from its step": _job_apart,
    "a new folder without a sync of its name": _folder_unsynced,
    "an emptied log without a sync": _log_unsynced,
    "a backup without a sync of its file": _replace_os(new_file, _WithoutFileSync()),
    "a backup without a sync of its folder": _backup_name_unsynced,
    "a backup that has its name at once": _backup_in_place,
    "a copy before the migration without a sync of its file": _replace_os(schema, _WithoutFileSync()),
    "a copy before the migration without a sync of its folder": _replace_os(schema, _WithoutFolderSync()),
}
