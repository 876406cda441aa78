"""What only the tests of the SQLite engine need: its data file, its writer, processes to kill."""

import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.public.concurrency import Clock
from tests.public.config import MasterKeys
from tests.public.sqlite import Transaction, Writer
from tests.public.store import CommitGroup, Committed, Store, StoreObserver, open_store
from tests.support.stores import connection_of


@asynccontextmanager
async def opened(
    path: Path,
    observer: StoreObserver | None = None,
    *,
    keep_history: bool = True,
    keep_unwanted: bool = True,
    keys: MasterKeys = MasterKeys(),  # noqa: B008 - it is immutable
) -> AsyncIterator[Store]:
    async with open_store(
        path,
        clock=Clock(),
        observer=observer,
        keep_history=keep_history,
        keep_unwanted=keep_unwanted,
        keys=keys,
    ) as store:
        yield store


def peek(path: Path, statement: str, given: Sequence[object] = ()) -> list[tuple[object, ...]]:
    """Return what another connection sees in the data file."""
    connection = sqlite3.connect(path)
    try:
        return connection.execute(statement, given).fetchall()
    finally:
        connection.close()


def limit_pages(store: Store, pages: int) -> None:
    """Make the disk full at so many pages of the data file; 2**30 removes the limit."""
    connection_of(store).execute(f"PRAGMA max_page_count = {pages}")


def hold_commits(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """Make the disk slow: a commit sets the first event and waits for the second."""
    commit, began, disk = Writer.commit, threading.Event(), threading.Event()

    def slow(self: Writer, groups: Sequence[CommitGroup[Transaction]], *, probe: bool = False) -> Committed:
        began.set()
        assert disk.wait(30)
        return commit(self, groups, probe=probe)

    monkeypatch.setattr(Writer, "commit", slow)
    return began, disk


def child(program: str, *arguments: object) -> subprocess.Popen[str]:
    """Start a Python process that runs a program; the test ends it and waits for it."""
    return subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stdin=subprocess.PIPE,
        text=True,
    )
