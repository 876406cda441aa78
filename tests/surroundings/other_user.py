"""Another user of this machine: limits and permissions do not bind root."""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

FIRST = 54_000
"""A user that no machine has; the tests that run at the same time have others."""


def other_uid() -> int:
    """Return the id of a user without a passwd entry. Skip the test if this one may not become it."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None or shutil.which("prlimit") is None:
        pytest.skip("This needs root, setpriv and prlimit (util-linux), to run a process as another user.")
    python = Path(sys.executable).resolve()
    if not all(path.stat().st_mode & 0o001 for path in (python, *python.parents)):
        pytest.skip(f"Other users may not run {python}.")
    return FIRST + os.getpid() % 1_000


def as_user(uid: int, *groups: int) -> Sequence[str]:
    """Return the command that runs another one as a user, in its own group and in others."""
    more = f"--groups={','.join(map(str, groups))}" if groups else "--clear-groups"
    return ["setpriv", f"--reuid={uid}", f"--regid={uid}", more]


@contextmanager
def folder_of(uid: int, gid: int | None = None, mode: int = 0o700) -> Iterator[Path]:
    """Yield a new folder that belongs to a user, below folders that everybody can enter."""
    folder = Path(tempfile.mkdtemp(prefix="hookgw-test-", dir="/tmp"))
    try:
        os.chown(folder, uid, uid if gid is None else gid)
        folder.chmod(mode)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
