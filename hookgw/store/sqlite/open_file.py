"""Which file is open, whether it is still the one that its path names, and whether it can be trusted.

A path is not a file. Somebody can delete, move or replace the data file, or what lies beside it, while hookgw
has it open: SQLite goes on with the open file, which nobody finds any more. So each commit looks at the path
before it is answered, and :class:`~hookgw.store.sqlite.file_watch.FileWatch` does once a second. Once the
path named another file, nothing is written until a restart, even if the old file is put back: other programs
may have used it meanwhile, with another write-ahead log. Once a page was found damaged, nothing is written
until the file watch has read all of the file and found no problem: SQLite says the same of a page that the
disk could not read, even once.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from hookgw.kernel.errors import StorageLost, StorageUnavailable
from hookgw.kernel.sentences import Sentence
from hookgw.store.sqlite.file_lock import log_of
from hookgw.store.sqlite.log_index import index_of

# To report a bug of ours as a full disk would hide it behind a message about space.
_BUG = {sqlite3.SQLITE_ERROR, sqlite3.SQLITE_MISUSE, sqlite3.SQLITE_RANGE, sqlite3.SQLITE_SCHEMA}
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_LOCKED = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
# The last is that of a network file system, if another machine deleted the file.
_GONE = {errno.ENOENT, errno.ENOTDIR, errno.ESTALE}

RESTORE = Sentence(
    "storage.restore",
    "Stop hookgw, and run hookgw storage check. If it finds no problem, the disk could not be read for a "
    "while: start hookgw again. Otherwise put a backup in its place: hookgw restore FILE --force.",
)


class _Identity(NamedTuple):
    """What distinguishes a file from any other one, whatever its name is."""

    device: int
    inode: int


class OpenFile:
    """The data file that is open, with its write-ahead log, the log's index and the lock.

    Its connections have been used, so that the files beside it exist.

    Attributes:
        real: the path without links; the other files are beside it.
        lost: why nothing may be written; ``None`` if nothing is wrong.
        was_moved: whether that is because the path names another file. Then it lasts until a restart.
    """

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self.real = path.resolve()
        self.lost: StorageLost | None = None
        self.was_moved = False
        self._beside = [log_of(self.real), index_of(self.real)]
        self._known = {str(file): _identity(file) for file in (path, *self._beside)}
        self._known[str(self.real.with_name(f"{self.real.name}.lock"))] = _of(os.fstat(lock))
        # The data file and its log.
        self._at_commit = tuple(self._known.items())[:2]
        self._folded = _version(path)

    def check_commit(self, *, is_done: bool) -> None:
        """Raise ``StorageLost`` if the path does not name the file that a commit goes to.

        It takes a few microseconds. After the commit, the log is looked at, too.
        """
        try:
            for file, (device, inode) in self._at_commit if is_done else self._at_commit[:1]:
                status = os.stat(file)  # noqa: PTH116 -- for each commit
                if status.st_ino != inode or status.st_dev != device:
                    raise self._moved(file)
        except OSError as error:
            if error.errno in _GONE:
                raise self._moved(file) from error
            raise StorageUnavailable.of(
                "storage.file_unknown",
                "The data file {path} cannot be examined: {reason}.",
                path=self.path,
                reason=error.strerror,
            ) from error

    def check_usable(self) -> None:
        if self.lost is not None:
            raise StorageLost(*self.lost.messages, retry_after=self.lost.retry_after)

    def examine(self) -> int:
        """Compare all files with those that are open; set ``lost`` if one differs. Return the log's bytes."""
        log_bytes = 0
        for file, known in self._known.items():
            try:
                status = os.stat(file)  # noqa: PTH116
            except OSError as error:
                if error.errno in _GONE:
                    self._moved(file)
                continue
            if _of(status) != known:
                self._moved(file)
            elif file == str(self._beside[0]):
                log_bytes = status.st_size
        return log_bytes

    def put_log_aside(self, *, keep: bool) -> None:
        """Take our log away from beside another data file, which would be damaged by it.

        If no copy has its content yet, keep it as ``<name>.former-wal``.
        """
        with suppress(FileNotFoundError):
            if _identity(self.path) == self._known[str(self.path)]:
                return
            log, index = self._beside
            with suppress(FileNotFoundError):
                if _identity(index) == self._known[str(index)]:
                    index.unlink()
            if _identity(log) == self._known[str(log)]:
                log.rename(self.former_log) if keep else log.unlink()

    def note_folded(self) -> None:
        """Remember the file as it is. Only the folding of the log writes to it."""
        with suppress(OSError):  # the file is then another one than was remembered, which is on the safe side
            self._folded = _version(self.path)

    def was_written_by_others(self) -> bool:
        """Return whether another program wrote to the file: what memory has is not of it then.

        Raises:
            OSError: the file cannot be examined.
        """
        return _version(self.path) != self._folded

    @property
    def former_log(self) -> Path:
        return self.real.with_name(f"{self.real.name}.former-wal")

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Raise errors of the disk as :class:`~hookgw.kernel.errors.StorageUnavailable`.

        Damage is a ``StorageLost``, and remembered. Other errors of SQLite are bugs or bad values, and pass
        unchanged.
        """
        try:
            yield
        except sqlite3.Error as error:
            self.note(error)
            if not is_disk_error(error):
                raise
            self.check_usable()
            if is_locked(error):
                raise StorageUnavailable.of(
                    "storage.locked",
                    "Another program holds the write lock of the data file {path} ({code}). It must end "
                    "its transaction.",
                    path=self.path,
                    code=error.sqlite_errorname,
                ) from error
            raise StorageUnavailable.of(
                "storage.file_unusable",
                "The data file {path} cannot be used now: {error} ({code}).",
                path=self.path,
                error=error,
                code=error.sqlite_errorname,
            ) from error

    def note(self, error: sqlite3.Error) -> None:
        """Remember an error that says that the file is damaged."""
        if self.lost is None and is_damage(error):
            self.lost = StorageLost(
                Sentence(
                    "storage.file_damaged",
                    "The data file {path} is damaged, or the disk cannot read it: {error} ({code}). Nothing "
                    "is stored.",
                    path=self.path,
                    error=error,
                    code=error.sqlite_errorname,
                ),
                Sentence(
                    "storage.checked_again",
                    "hookgw checks the whole file again and again, and continues by itself if it finds no "
                    "problem. If this lasts:",
                ),
                RESTORE,
            )

    def _moved(self, file: str) -> StorageLost:
        if self.lost is None:
            self.was_moved = True
            self.lost = StorageLost(
                Sentence(
                    "storage.file_replaced",
                    "{file} was deleted, moved or replaced while hookgw used it. Nothing is stored until "
                    "a restart.",
                    file=file,
                ),
                Sentence("storage.see_log", "The log says where a copy of what was stored is."),
            )
        return StorageLost(*self.lost.messages)


def is_disk_error(error: BaseException) -> bool:
    """Return whether an error is one of the disk (full, read-only, locked, damaged), not a bug."""
    # The subclasses of DatabaseError say what the caller did wrong: IntegrityError, ProgrammingError, …
    if type(error) not in (sqlite3.OperationalError, sqlite3.DatabaseError):
        return False
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF not in _BUG


def is_damage(error: BaseException) -> bool:
    """Return whether an error says that the content of a file is not what SQLite wrote."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGED


def is_locked(error: BaseException) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _LOCKED


def keep_until_exit(resources: ExitStack) -> None:
    """Leave connections open for as long as the process lives.

    The last connection that is closed folds the log into the file, and deletes the log by its name, which may
    be that of another one by now. There is no way to tell SQLite so before Python 3.12.
    """
    # Nothing frees what the frame of a daemon thread has, not even the end of the interpreter.
    threading.Thread(target=_hold, args=(resources,), name="lost data file", daemon=True).start()


def _hold(_resources: ExitStack) -> None:
    threading.Event().wait()


def _version(file: Path) -> tuple[int, int]:
    """Return what differs once somebody has written to a file."""
    status = file.stat()
    return status.st_mtime_ns, status.st_size


def _identity(file: Path) -> _Identity:
    return _of(file.stat())


def _of(status: os.stat_result) -> _Identity:
    return _Identity(status.st_dev, status.st_ino)
