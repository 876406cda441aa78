"""Looks once a second whether the data file is still the one that is open, and how long its log has grown.

What was stored is in files that may have no name any more. So once they were moved or replaced, it is copied
to ``<name>.rescued``, a file that ``hookgw restore`` takes.

Damage may be none: a page that the disk could not read for a moment looks like it. So a file that was found
damaged is checked as ``hookgw storage check`` does it, and used again if nothing is wrong with it. That risks
nothing that a restart does not: nothing was written meanwhile.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

import structlog
import trio

from hookgw.concurrency.threads import SYSTEM_THREADS, Threads
from hookgw.kernel.collaborator import Collaborator
from hookgw.kernel.errors import Conflict, StartError, StorageUnavailable
from hookgw.store.commits.group_commit import GroupCommit
from hookgw.store.records import StoreObserver
from hookgw.store.sqlite.backup import OnlineBackup
from hookgw.store.sqlite.maintenance import check_file
from hookgw.store.sqlite.open_file import OpenFile
from hookgw.store.sqlite.transaction import Transaction

_T = TypeVar("_T")
logger = structlog.get_logger("hookgw.store")

CHECK_EVERY = 1.0
"""Seconds between two looks. Commits look, too."""

LONG_LOG = 256 * 2**20
"""The bytes from which the write-ahead log is too long, and below half of which it is not."""

RESCUE_AGAIN = 60.0
"""Seconds until a copy that the disk has refused is tried again."""

DAMAGE_SOON = 1.0
DAMAGE_AGAIN = 60.0
"""Seconds until a damaged file is checked again, doubled from the first up to the last. A disk that could not
be read for a moment is not to cost a minute."""

DAMAGE_REST = 10
"""After a long check, the rest is this many times as long: deliveries use the disk."""


class FileWatch(Collaborator):
    """Watches the data file for as long as :meth:`run` runs."""

    _file: OpenFile
    _commits: GroupCommit[Transaction]
    _backup: OnlineBackup
    _observer: StoreObserver
    _threads: Threads = SYSTEM_THREADS

    def __post_init__(self) -> None:
        self._limiter = trio.CapacityLimiter(1)
        self._is_long = False
        self._is_rescued = False
        self._rescue_at = 0.0
        self._check_at = 0.0
        self._check_again = DAMAGE_SOON
        self._checking: sqlite3.Connection | None = None
        self._problems: list[str] = []

    async def run(self) -> None:
        while True:
            await self.look()
            await trio.sleep(CHECK_EVERY)

    async def look(self) -> None:
        size = await self._run(self._file.examine)
        self._observer.log_measured(size)
        self._note_length(size)
        if self._file.lost is None:
            return
        # Whoever found it, the commits hear of it, and the log with them.
        self._commits.try_soon()
        if self._file.was_moved:
            await self._rescue()
        elif trio.current_time() >= self._check_at:
            await self._check_damage()

    async def _check_damage(self) -> None:
        began = trio.current_time()
        if began > self._check_at + DAMAGE_AGAIN:
            self._check_again = DAMAGE_SOON
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._interrupt_check)
            problems = await self._run(self._find_problems)
            nursery.cancel_scope.cancel()
        seconds = trio.current_time() - began
        self._check_at = trio.current_time() + max(self._check_again, DAMAGE_REST * seconds)
        self._check_again = min(2 * self._check_again, DAMAGE_AGAIN)
        if problems and problems != self._problems:
            logger.error("the data file is not used meanwhile", problems=problems, file=str(self._file.path))
        self._problems = problems
        if not problems and not self._file.was_moved:
            self._file.lost = None
            logger.warning(
                "the disk reads all of the data file again, and a check found no problem: it is used again",
                file=str(self._file.path),
                seconds=round(seconds, 1),
            )

    def _find_problems(self) -> list[str]:
        try:
            if self._file.was_written_by_others():
                return ["Another program wrote to it: it is not used until a restart."]
            return check_file(self._file.path, self._note_checking).problems
        except (OSError, StartError, StorageUnavailable) as error:
            return [str(error)]

    def _note_checking(self, connection: sqlite3.Connection) -> None:
        self._checking = connection

    async def _interrupt_check(self) -> None:
        """Let a stop of hookgw not wait for the check of a large file."""
        try:
            await trio.sleep_forever()
        finally:
            if self._checking is not None:
                with suppress(sqlite3.ProgrammingError):  # it is closed already
                    self._checking.interrupt()

    def _note_length(self, size: int) -> None:
        if not self._is_long and size > LONG_LOG:
            self._is_long = True
            logger.warning(
                "the write-ahead log grows. Unless a line says that the disk refuses to fold it, another "
                "program reads the data file in a transaction that does not end, such as a shell of sqlite3 "
                "or a tool for backups: end it",
                bytes=size,
                file=str(self._file.path),
            )
        elif self._is_long and size < LONG_LOG // 2:
            self._is_long = False
            logger.info("the write-ahead log starts over again", bytes=size)

    async def _rescue(self) -> None:
        try:
            await self._run(partial(self._file.put_log_aside, keep=not self._is_rescued))
        except OSError as error:
            logger.warning("the log of the former data file cannot be put aside", reason=str(error))
        if self._is_rescued or trio.current_time() < self._rescue_at:
            return
        logger.error(
            "the data file is another one, nothing is stored until a restart", reason=str(self._file.lost)
        )
        copy = await self._run(partial(_free_name, self._file.real))
        try:
            await self._backup.back_up(copy, lambda _done, _all: None)
        except (StorageUnavailable, Conflict) as error:
            self._rescue_at = trio.current_time() + RESCUE_AGAIN
            logger.error(  # noqa: TRY400 -- the message says enough
                "what was stored is only in this process, and cannot be copied; make it possible, and do not "
                "stop hookgw before",
                reason=str(error),
            )
            return
        self._is_rescued = True
        logger.error(
            "what was stored was copied; to go on with it, stop hookgw and run hookgw restore FILE --force",
            file=str(copy),
        )
        # The copy has all of it.
        await self._run(partial(self._file.former_log.unlink, missing_ok=True))

    async def _run(self, call: Callable[[], _T]) -> _T:
        return await self._threads.run(call, limiter=self._limiter)


def _free_name(path: Path) -> Path:
    copy, number = path.with_name(f"{path.name}.rescued"), 1
    while os.path.lexists(copy):
        copy, number = path.with_name(f"{path.name}.rescued.{number}"), number + 1
    return copy
