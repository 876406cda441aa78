"""The index of the write-ahead log, on a file system that overwrites nothing.

SQLite maps the index into memory. btrfs puts each changed page into new space. If the disk has none, a write
to memory cannot fail: the process gets SIGBUS, and ends. A file without copy on write keeps its space, also
where it is mapped, with Linux 6.16 and later; a full quota of btrfs refuses the write all the same. The data
file and its log keep copy on write, and so the checksums of btrfs: their writes fail as on any full disk.
"""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_LONG = struct.Struct("l")
# linux/fs.h: FS_IOC_GETFLAGS, FS_IOC_SETFLAGS, FS_NOCOW_FL
_GET_FLAGS = 0x80006601 | _LONG.size << 16
_SET_FLAGS = 0x40006602 | _LONG.size << 16
_NO_COPY_ON_WRITE = 0x800000


def index_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-shm")


@contextmanager
def new_index(path: Path) -> Iterator[None]:
    """Create the index of a data file before SQLite does, without copy on write where there is such a thing.

    Only an empty file can be changed so. One that a kill left behind stays as it is. SQLite removes the index
    with its last connection; one that it never opened, because the block raised before, is removed here.
    """
    index = index_of(path)
    with suppress(FileExistsError):
        descriptor = os.open(index, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            # Most file systems, and all other systems, know no such flags.
            with suppress(OSError):
                (flags,) = _LONG.unpack(fcntl.ioctl(descriptor, _GET_FLAGS, bytes(_LONG.size)))
                fcntl.ioctl(descriptor, _SET_FLAGS, _LONG.pack(flags | _NO_COPY_ON_WRITE))
        finally:
            os.close(descriptor)
    try:
        yield
    except BaseException:
        with suppress(FileNotFoundError):
            if not index.stat().st_size:
                index.unlink()
        raise
