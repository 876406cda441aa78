"""Whether a file or a folder is there, or Python cannot tell."""

from __future__ import annotations

from pathlib import Path


def is_there(path: Path, *, follow_symlinks: bool = True) -> bool:
    """Return whether there is something at a path.

    From Python 3.14 on, ``Path.exists()`` and ``Path.is_file()`` say no if a folder may not be searched, and
    ``os.path.lexists()`` always did. A folder of plugins would be skipped, and a data file taken for missing.

    Raises:
        OSError: nobody can tell.
    """
    try:
        path.stat(follow_symlinks=follow_symlinks)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True
