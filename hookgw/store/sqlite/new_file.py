"""A file that appears whole or not at all, and never replaces another one."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hookgw.config.folders import sync_folder
from hookgw.store.sqlite.file_lock import lock_whole
from hookgw.store.sqlite.leftovers import PREFIX, SUFFIX, remove_abandoned

# exFAT, FAT and many network file systems have no hard links, and mergerfs has none between two disks.
_NO_LINKS = {errno.EPERM, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EXDEV}


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """Write a file under another name for the length of a block, then give it its own.

    The file gets its name once all of it is on disk. If the block raises, nothing remains of it. If the
    process is killed meanwhile, a hidden ``.hookgw-….partial`` remains beside it until the next call in the
    same folder.

    Yields:
        An empty file with mode 0600 in the same folder, to write to. Close it before the end of the block.

    Raises:
        FileExistsError: the name is taken, by a file or by a link, also a broken one. Nothing was changed.
        OSError: the disk refuses.
    """
    # Known early, before much is copied. give_name() makes sure.
    if os.path.lexists(path):
        raise FileExistsError(17, "File exists", str(path))
    remove_abandoned(path.parent)
    partial, descriptor = _create(path.parent)
    try:
        yield partial
        os.fsync(descriptor)
        give_name(partial, path)
    finally:
        with suppress(FileNotFoundError):
            partial.unlink()
        os.close(descriptor)
    sync_folder(path.parent)


def give_name(file: Path, name: Path) -> None:
    """Rename a file, and never replace another one, nor follow a link in its place.

    Raises:
        FileExistsError: the name is taken. Nothing was changed.
        OSError: the disk refuses.
    """
    if _link(file, name):
        file.unlink()
        return
    # Taken first, then replaced. Only a kill in between leaves an empty file.
    os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    try:
        file.replace(name)
    except BaseException:
        name.unlink()
        raise


def keep_under(file: Path, name: Path) -> None:
    """Give a file a second name; where it cannot have one, copy it.

    Raises:
        FileNotFoundError: there is no such file.
        OSError: the disk refuses.
    """
    if not _link(file, name):
        with new_file(name) as partial:
            shutil.copyfile(file, partial)


def _link(file: Path, name: Path) -> bool:
    """Give a file a second name; return ``False`` if its file system has none."""
    try:
        name.hardlink_to(file)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        return False
    return True


def _create(folder: Path) -> tuple[Path, int]:
    while True:
        partial = folder / f"{PREFIX}{secrets.token_hex(8)}{SUFFIX}"
        descriptor = os.open(
            partial, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
        )
        # Another process may take it for an abandoned one, in the moment before it is locked.
        if lock_whole(descriptor) and os.fstat(descriptor).st_nlink:
            return partial, descriptor
        os.close(descriptor)
