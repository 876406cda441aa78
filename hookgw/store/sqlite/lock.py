"""The exclusive lock on a data file: one process at a time."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hookgw.models.errors import StartError


@contextmanager
def hold_lock(database: Path) -> Iterator[None]:
    """Hold the lock of a data file for the length of a block.

    The lock is ``flock`` on a file beside the data file, ``<name>.lock``, which stays there. The
    kernel gives it up with the process that held it, so one that died leaves no obstacle.

    Raises:
        StartError: another process holds it; the message names the file and the process.
        OSError: the lock file cannot be made.
    """
    path = database.with_name(database.name + ".lock")
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _take(descriptor, database, path)
        yield
    finally:
        os.close(descriptor)


def _take(descriptor: int, database: Path, path: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip() or "unknown"
        raise StartError(
            f"The data file {database} is in use by another hookgw, process {holder} (it holds {path}).",
            "Stop that process, or set storage.path to another file.",
        ) from None
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
