"""The lock of a data file, and the note in it that says how the file was left.

``flock`` on a file beside the data file, ``<name>.lock``, which stays there. The kernel releases it with the
process, so a process that died is no obstacle. Somebody can remove that file, and a second process would make
another one. So the data file itself has a lock, too, and the gateway's write-ahead log. Both are of a kind
that does not meet SQLite's own: the first is on a byte that SQLite does not lock, and belongs to the open
file and not to the process; SQLite has no locks at all on the second.

The first line of the lock file is the number of the process. The second is the note.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from hookgw.kernel.errors import StartError

_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}
_OPEN, _CLOSED = "open", "closed"
_MOST_BYTES = 256

# SQLite's locks are from 2**30 on.
_OWN_BYTE = 2**30 - 64


class HeldLock:
    """The lock of a data file that this process holds, with the note of the process before."""

    def __init__(self, descriptor: int, former: str) -> None:
        self.descriptor = descriptor
        self._former = former.split()
        # The note stays until there is another one: a start that is refused is refused again.
        self._write(former)

    def note_open(self, data: os.stat_result, log: os.stat_result) -> None:
        """Note which data file and which write-ahead log belong together, for the start after a kill."""
        self._write(f"{_OPEN} {data.st_ino} {log.st_ino}")

    def note_closed(self, data: os.stat_result) -> None:
        """Note that the data file is whole as it is now, without a log."""
        self._write(f"{_CLOSED} {_state(data)}")

    def forget(self) -> None:
        """Forget how the data file was left: it is another one now, or was looked at."""
        self._write("")

    def was_closed(self, data: os.stat_result) -> bool:
        """Return whether hookgw has closed the data file, and nobody has changed it since."""
        return self._former == [_CLOSED, *_state(data).split()]

    def _write(self, note: str) -> None:
        os.ftruncate(self.descriptor, 0)
        # For messages. The lock itself is the kernel's, whatever the file says.
        os.pwrite(self.descriptor, f"{os.getpid()}\n{note}{note and chr(10)}".encode(), 0)


@contextmanager
def hold_lock(database: Path) -> Iterator[HeldLock]:
    """Hold the lock of a data file for the length of a block: one process at a time.

    Close every connection to the data file before the end of the block: the end drops SQLite's locks of this
    process.

    Raises:
        StartError: another process holds it, and the message names the file and the process; or its file
            system has no locks.
        OSError: the lock file cannot be created.
    """
    path = database.with_name(database.name + ".lock")
    with ExitStack() as stack:
        descriptor = _opened(stack, path, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid, _ = _read(descriptor)
            raise _in_use(database, f"process {pid or 'unknown'} (it holds {path})") from None
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            raise StartError(
                f"The data file {database} cannot be locked: {error.strerror}.",
                "Its file system has no locks, as NFS without a lock service. Use a disk of this machine, or "
                "mount that file system with locks.",
            ) from error
        with suppress(FileNotFoundError):
            if not lock_byte(_opened(stack, database, os.O_RDWR)):
                raise _in_use(database, f"whose lock file {path} was removed")
        with suppress(FileNotFoundError), ExitStack() as brief:
            if not lock_whole(_opened(brief, log_of(database), os.O_RDONLY)):
                raise _in_use(database, f"which still holds {log_of(database)}")
        yield HeldLock(descriptor, _read(descriptor)[1])


def has_foreign_log(path: Path) -> bool:
    """Return whether the log beside a data file was written for another file, in whose place this one is now.

    Together they would be damaged: SQLite folds a log into whatever file it finds beside it.
    """
    real = path.resolve()
    with suppress(FileNotFoundError), ExitStack() as brief:
        lock = _opened(brief, real.with_name(f"{real.name}.lock"), os.O_RDONLY)
        note = _read(lock)[1].split()
        if len(note) == 3 and note[0] == _OPEN:
            return note[1] != str(real.stat().st_ino) and note[2] == str(log_of(real).stat().st_ino)
    return False


def refuse_foreign_log(path: Path) -> None:
    if has_foreign_log(path):
        log = log_of(path.resolve())
        raise StartError(
            f"The data file {path} was replaced, and {log} belongs to the former one: together they would be "
            "damaged.",
            f"To go on with {path} as it is, move {log} away. To get back what was stored before, put the "
            "former file in its place again.",
        )


def lock_byte(descriptor: int) -> bool:
    """Lock the byte of a data file that is hookgw's; return whether no other process holds it."""
    command = getattr(fcntl, "F_OFD_SETLK", None)
    if command is None:
        return True
    try:
        # struct flock: type, whence, start, length, process
        fcntl.fcntl(descriptor, command, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, _OWN_BYTE, 1, 0))
    except OSError as error:
        # Some file systems know no such locks. The lock file is what counts.
        return error.errno not in (errno.EAGAIN, errno.EACCES)
    return True


def lock_whole(descriptor: int) -> bool:
    """Lock a file; return whether no other process holds it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        # Where there are no locks, nobody holds one.
        return error.errno not in (errno.EAGAIN, errno.EACCES)
    return True


def log_of(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def _state(data: os.stat_result) -> str:
    return f"{data.st_dev} {data.st_ino} {data.st_size} {data.st_mtime_ns}"


def _opened(stack: ExitStack, path: Path, flags: int) -> int:
    descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600)
    stack.callback(os.close, descriptor)
    return descriptor


def _read(descriptor: int) -> tuple[str, str]:
    lines = os.pread(descriptor, _MOST_BYTES, 0).decode("ascii", "replace").split("\n")
    return lines[0].strip(), lines[1] if len(lines) > 1 else ""


def _in_use(database: Path, by: str) -> StartError:
    return StartError(
        f"The data file {database} is in use by another hookgw, {by}.",
        "Only one process can use it. Stop the other one (give hypercorn one worker), or set storage.path to "
        "another file.",
    )
