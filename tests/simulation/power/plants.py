"""Faults that are planted into the recorded program, to show that the check finds each of them."""

import os
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import trio

from hookgw.store.sqlite import backup, checkpoints, database, maintenance, new_file, reencrypt, schema
from tests.public.config import sync_folder
from tests.public.records import Job
from tests.public.sqlite import OpenFile, SqlitePendingChanges
from tests.public.store import AppendRequest, ParkStep

_TO_PARK = """SELECT seq FROM deliveries WHERE state = 'pending'
    AND registration = (SELECT number FROM names WHERE name = ?) LIMIT 4"""


def _nothing() -> None:
    """Plant nothing."""


def _pragmas(*pragmas: str) -> Callable[[], None]:
    """Have every connection to the data file use other settings."""

    def plant() -> None:
        connect = database.connect_file

        def other(path: Path, *, cache_kib: int, query_only: bool = False) -> sqlite3.Connection:
            connection = connect(path, cache_kib=cache_kib, query_only=query_only)
            for pragma in pragmas:
                connection.execute(f"PRAGMA {pragma}").fetchall()
            return connection

        database.connect_file = other

    return plant


def _checkpoint_unsynced() -> None:
    """Fold the log without a sync."""
    fold = checkpoints.fold

    def unsynced(connection: sqlite3.Connection, file: OpenFile) -> int:
        connection.execute("PRAGMA synchronous = OFF")
        return fold(connection, file)

    checkpoints.fold = unsynced


def _restored_beside_the_log() -> None:
    """Give a backup the name of the data file without a sync of what was moved aside before."""
    done = [0]

    def last_alone(folder: Path) -> None:
        done[0] += 1
        if done[0] > 1:
            sync_folder(folder)

    _replace(maintenance, "sync_folder", last_alone)


class _WithoutFileSync:
    """The module ``os``, in which to synchronize a file has no effect."""

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def fsync(self, descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            os.fsync(descriptor)


def _replacing(where: object, name: str, by: object) -> Callable[[], None]:
    return lambda: _replace(where, name, by)


def _replace(where: object, name: str, by: object) -> None:
    assert hasattr(where, name)
    setattr(where, name, by)


def _answer_early() -> None:
    """Answer before the commit."""

    async def wait_finished(self: AppendRequest[Any]) -> list[bool]:
        await trio.lowlevel.checkpoint()
        return [True] * len(self.news)

    _replace(AppendRequest, "wait_finished", wait_finished)


def _job_apart() -> None:
    """Store the progress of a job in a commit of its own, before the step."""
    step = SqlitePendingChanges.park_step

    async def apart(
        self: SqlitePendingChanges, registration: str, reason: str, cursor: str, *, job: Job, **more: Any
    ) -> ParkStep:
        found = await self._commits.call(lambda t: t.connection.execute(_TO_PARK, (registration,)).fetchall())
        await self._records.put_job(job.advanced(len(found), cursor))
        return await step(self, registration, reason, cursor, **more)

    SqlitePendingChanges.park_step = apart  # type: ignore[method-assign, assignment]


def _backup_in_place() -> None:
    """Write a backup under its name from the beginning."""

    @contextmanager
    def in_place(path: Path) -> Iterator[Path]:
        path.touch(mode=0o600)
        yield path

    _replace(backup, "new_file", in_place)


PLANTS: dict[str, Callable[[], None]] = {
    "nothing": _nothing,
    "synchronous NORMAL": _pragmas("synchronous = NORMAL"),
    "synchronous OFF": _pragmas("synchronous = OFF"),
    "a rollback journal that is not synchronized": _pragmas("journal_mode = DELETE", "synchronous = OFF"),
    "checkpoints without a sync": _checkpoint_unsynced,
    "an answer before the commit": _answer_early,
    "a job's progress apart from its step": _job_apart,
    "a new folder without a sync of its name": _replacing(
        database, "make_folder", lambda folder: folder.mkdir(mode=0o700, exist_ok=True)
    ),
    "an emptied log without a sync": _replacing(checkpoints, "sync_log", lambda connection: None),
    "a backup without a sync of its file": _replacing(new_file, "os", _WithoutFileSync()),
    "a backup without a sync of its folder": _replacing(new_file, "sync_folder", lambda folder: None),
    "a backup that has its name at once": _backup_in_place,
    "a copy before a migration without a sync of its file": _replacing(schema, "os", _WithoutFileSync()),
    "records that are encrypted, in a log that is not synchronized": _replacing(
        reencrypt, "sync_log", lambda connection: None
    ),
    "a restore without a sync of what moved aside": _restored_beside_the_log,
}
