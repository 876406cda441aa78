"""What killed work leaves beside a data file, and copies of it that are kept until somebody deletes them."""

from __future__ import annotations

import fcntl
import os
import re
from contextlib import suppress
from pathlib import Path

import structlog

logger = structlog.get_logger("hookgw.store")

UNFINISHED = ".partial"
"""How the name of a copy ends until its migration is on disk."""

# Of backups; see new_file.py.
PREFIX, SUFFIX = ".hookgw-", ".partial"


def spare_of(path: Path, work: str) -> Path:
    """Return the name of the file that ``compact`` or ``restore`` writes before it replaces the data file."""
    return path.with_name(f".{path.name}.{work}")


def leftovers(path: Path) -> list[Path]:
    """Return the files of killed work on a data file: of no use for anybody.

    Only who holds the lock of the data file knows that the work was killed and is not under way.
    """
    return [*_spares(path), *unfinished_copies(path)]


def unfinished_copies(path: Path) -> list[Path]:
    """Return the copies of a data file for migrations that were killed."""
    return _matching(path, rf"\.schema-\d+{re.escape(UNFINISHED)}(-journal)?")


def unfinished(path: Path) -> list[tuple[Path, str]]:
    """Return the files that are to become the data file, each with the command that writes it."""
    both = ((copy_of(path), "storage copy"), (spare_of(path, "restore"), "restore"))
    return [(spare, command) for spare, command in both if spare.exists()]


def copy_of(path: Path) -> Path:
    """Return the name of a data file until all has been copied to it."""
    return path.with_name(f"{path.name}.copy")


def kept_copies(path: Path) -> list[Path]:
    """Return the copies of a data file that hookgw has made, and keeps until somebody deletes them."""
    number = r"(\.\d+)?"
    return _matching(path, rf"\.(schema-\d+|before-restore|rescued){number}|\.former-wal|\.copy")


def remove_leftovers(path: Path) -> None:
    """Remove what killed work has left, but for migrations. The caller holds the lock of the data file."""
    for file in _spares(path):
        with suppress(OSError):
            size = file.stat().st_size
            file.unlink()
            logger.info("a file that killed work had left was removed", file=str(file), bytes=size)
    remove_abandoned(path.parent)


def remove_abandoned(folder: Path) -> None:
    """Remove what killed backups have left in a folder. Those that live hold a lock on their file."""
    for partial in folder.glob(f"{PREFIX}*{SUFFIX}"):
        with suppress(OSError):  # it is gone, another user's, locked, or a link
            descriptor = os.open(partial, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                partial.unlink()
            finally:
                os.close(descriptor)


def _spares(path: Path) -> list[Path]:
    return [file for work in ("compact", "restore") if os.path.lexists(file := spare_of(path, work))]


def _matching(path: Path, pattern: str) -> list[Path]:
    name = re.compile(re.escape(path.name) + f"({pattern})")
    return sorted(file for file in path.parent.iterdir() if name.fullmatch(file.name))
