"""Folders with their names on disk, so that their files outlast a power cut."""

from __future__ import annotations

import errno
import os
from pathlib import Path


def make_folder(folder: Path) -> None:
    """Create a folder, and missing ones above it; return once their names are on disk.

    The folder gets mode 0700.

    Raises:
        OSError: the disk refuses, or something else has that name.
    """
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Without this, a power cut could remove the folder with all that was stored in it since.
    for one in reversed(missing):
        sync_folder(one.parent)


def why_not_made(file: Path, error: OSError) -> str:
    """Return why a file or a socket cannot be made; if its folder is missing, with what to do."""
    folder = file.absolute().parent
    if isinstance(error, FileNotFoundError) and not folder.exists():
        return f"there is no folder {folder}; make it first"
    return error.strerror or str(error)


def sync_folder(folder: Path) -> None:
    """Make sure that the names in a folder are on disk, if its file system can."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Shared folders of VirtualBox, for one, cannot. SQLite does without on these, too.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP):
            raise
    finally:
        os.close(descriptor)
