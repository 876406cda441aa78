"""The data file is watched: how long its log is, and whether its path still names it."""

import errno
import os
import shutil
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from structlog.testing import capture_logs
from trio.testing import MockClock

from hookgw.store.sqlite import maintenance
from tests.public.kernel import StorageLost
from tests.public.sqlite import CHECK_EVERY, DAMAGE_AGAIN, LONG_LOG, RESCUE_AGAIN, OpenFile
from tests.public.store import DeliveryQuery, Store
from tests.store.sqlite.support import opened, peek
from tests.store.support import Listener, Watch, refusal_of, to


async def looked_again(clock: MockClock, seconds: float = CHECK_EVERY) -> None:
    """Move the clock until the watch has looked."""
    clock.jump(seconds)
    for _ in range(5):
        await trio.to_thread.run_sync(lambda: None)
        await trio.testing.wait_all_tasks_blocked(0.01)


async def rescued(copy: Path, clock: MockClock) -> list[tuple[object, ...]]:
    """Move the clock until the copy is whole, and return the events in it."""
    while not await trio.Path(copy).exists():
        await looked_again(clock)  # the copy rests between its steps
    return peek(copy, "SELECT id FROM events ORDER BY seq")


def replace(path: Path, content: bytes) -> None:
    other = path.with_name("other")
    other.write_bytes(content)
    other.replace(path)


def content(path: Path) -> bytes:
    return path.read_bytes()


async def test_a_log_that_grows_without_end_is_warned_of_once_and_its_end_logged(
    path: Path, monkeypatch: pytest.MonkeyPatch, mock_clock: MockClock
) -> None:
    sizes = [0, LONG_LOG + 1, LONG_LOG + 2, LONG_LOG - 1, 1000, 1000]
    monkeypatch.setattr(OpenFile, "examine", lambda _: sizes.pop(0) if sizes else 0)
    with capture_logs() as logs:
        async with opened(path):
            for _ in range(6):
                await looked_again(mock_clock)
    said = [entry for entry in logs if "write-ahead log" in entry["event"]]
    assert [(entry["log_level"], entry["bytes"]) for entry in said] == [
        ("warning", LONG_LOG + 1),
        ("info", 1000),
    ]
    assert "another program reads the data file" in said[0]["event"]


async def test_the_size_of_the_log_is_measured(path: Path, mock_clock: MockClock) -> None:
    watch = Watch()
    async with opened(path, watch) as store:
        await store.append(to("e1"))
        await looked_again(mock_clock)
        log = path.with_name("hookgw.db-wal")
        while watch.log_bytes != log.stat().st_size:  # what a start leaves to do may still write
            await looked_again(mock_clock)
        assert watch.log_bytes > 0


async def test_what_cannot_be_copied_yet_is_copied_once_it_can_be(
    path: Path, monkeypatch: pytest.MonkeyPatch, mock_clock: MockClock
) -> None:
    """Until then its log is kept, too: it belongs to a file that may be somewhere else."""
    usage = shutil.disk_usage
    with capture_logs() as logs:
        async with opened(path) as store:
            await store.append(to("e1", "e2"))
            monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(path.parent)._replace(free=0))
            log = path.with_name("hookgw.db-wal")
            log_content = content(log)
            replace(path, b"another file")
            with pytest.raises(StorageLost):
                await store.append(to("e3"))
            await looked_again(mock_clock)
            assert not log.exists()
            assert content(path.with_name("hookgw.db.former-wal")) == log_content
            assert any("do not stop hookgw before" in entry["event"] for entry in logs)
            monkeypatch.undo()
            await looked_again(mock_clock, RESCUE_AGAIN)
            assert await rescued(path.with_name("hookgw.db.rescued"), mock_clock) == [("e1",), ("e2",)]
            await looked_again(mock_clock)
            assert not path.with_name("hookgw.db.former-wal").exists()
    assert content(path) == b"another file"


async def test_what_a_commit_stored_is_accepted_though_the_disk_cannot_say_whether_the_file_is_there(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused, it would be on disk, and no lane would know: its repetition is a duplicate."""
    stat = os.stat

    def failing(file: Any, *args: Any, **options: Any) -> os.stat_result:
        if str(file).endswith("-wal"):  # which is looked at after the commit
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return stat(file, *args, **options)

    listener = Listener()
    async with opened(path) as store:
        store.subscribe(listener)
        monkeypatch.setattr(os, "stat", failing)
        await store.append(to("e1"))
        assert [name for name, _ in listener.calls] == ["appended"]
        assert refusal_of(store) is None
        monkeypatch.undo()
    assert peek(path, "SELECT id FROM events") == [("e1",)]


async def test_a_copy_never_takes_the_name_of_an_earlier_one(path: Path, mock_clock: MockClock) -> None:
    async with opened(path) as store:
        await store.append(to("e1"))
        for name in ("hookgw.db.rescued", "hookgw.db.rescued.1"):
            path.with_name(name).touch()
        replace(path, b"another file")
        assert await rescued(path.with_name("hookgw.db.rescued.2"), mock_clock) == [("e1",)]


async def test_an_inode_is_compared_and_not_the_time(path: Path) -> None:
    """Tools for backups change the time, and that changes nothing."""
    async with opened(path) as store:
        os.utime(path, (1, 1))
        assert await store.append(to("e1")) == [True]


class UnreadableFile:
    """A data file of which a disk gives back other bytes than were written, for as long as it is to."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._times = path.stat()
        self._whole = content(path)

    def read(self, whole: bool) -> None:
        # What a disk gives back changes no time. The first pages have the schema.
        self._path.write_bytes(
            self._whole if whole else self._whole[:8192] + b"\xff" * len(self._whole[8192:])
        )
        os.utime(self._path, ns=(self._times.st_atime_ns, self._times.st_mtime_ns))


@asynccontextmanager
async def damaged(path: Path, clock: MockClock) -> AsyncIterator[tuple[Store, UnreadableFile]]:
    """Open a store whose file the disk cannot read, once the store has noticed and checked it."""
    async with opened(path) as store:
        await store.append(to(*(f"e{number}" for number in range(200))))
    async with opened(path) as store:  # which has none of it in memory
        await looked_again(clock)
        file = UnreadableFile(path)
        file.read(whole=False)
        with pytest.raises(StorageLost, match="is damaged, or the disk cannot read it"):
            await store.list_deliveries(DeliveryQuery(instance="shop"))
        with capture_logs() as logs:
            while not problems_in(logs):
                await looked_again(clock)
        yield store, file


def problems_in(logs: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    return [entry["problems"] for entry in logs if "not used meanwhile" in entry["event"]]


def check_with(integrity: Callable[[sqlite3.Connection], list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a check of the file find what a function returns."""
    monkeypatch.setattr(maintenance, "_integrity", integrity)


async def test_a_file_that_the_disk_reads_again_is_used_again(path: Path, mock_clock: MockClock) -> None:
    async with damaged(path, mock_clock) as (store, file):
        with pytest.raises(StorageLost):
            await store.append(to("refused"))
        file.read(whole=True)
        with capture_logs() as logs:
            while refusal_of(store) is not None:
                await looked_again(mock_clock, DAMAGE_AGAIN)
        assert any("is used again" in entry["event"] for entry in logs)
        assert await store.append(to("later")) == [True]
    assert peek(path, "SELECT count(*) FROM events WHERE id = 'later'") == [(1,)]
    assert peek(path, "SELECT count(*) FROM events") == [(201,)]
    assert peek(path, "PRAGMA integrity_check") == [("ok",)]


async def test_a_damaged_file_is_checked_again_soon_at_first(
    path: Path, monkeypatch: pytest.MonkeyPatch, mock_clock: MockClock
) -> None:
    """A disk that could not be read for a moment is not waited for as long as a broken one."""
    checked: list[float] = []

    def broken(_connection: sqlite3.Connection) -> list[str]:
        checked.append(mock_clock.current_time())
        return ["broken."]

    async with damaged(path, mock_clock) as (_, file):
        check_with(broken, monkeypatch)
        file.read(whole=True)
        began = mock_clock.current_time()
        while mock_clock.current_time() < began + DAMAGE_AGAIN:
            await looked_again(mock_clock)
    assert len(checked) > 2


async def test_the_problems_of_a_damaged_file_are_logged_once(path: Path, mock_clock: MockClock) -> None:
    async with damaged(path, mock_clock) as (store, _):
        with capture_logs() as logs:
            for _ in range(3):
                await looked_again(mock_clock, DAMAGE_AGAIN)
        assert not problems_in(logs)
        with pytest.raises(StorageLost):
            await store.append(to("later"))


async def test_a_file_that_others_wrote_to_is_not_used_until_a_restart(
    path: Path, mock_clock: MockClock
) -> None:
    """It may be whole, as a backup that was copied into it is: what memory has is not of it."""
    async with damaged(path, mock_clock) as (store, file):
        file.read(whole=True)
        os.utime(path)
        with capture_logs() as logs:
            while not problems_in(logs):
                await looked_again(mock_clock, DAMAGE_AGAIN)
        assert problems_in(logs) == [["Another program wrote to it: it is not used until a restart."]]
        with pytest.raises(StorageLost):
            await store.append(to("later"))


async def test_a_stop_does_not_wait_for_the_check(
    path: Path, monkeypatch: pytest.MonkeyPatch, mock_clock: MockClock
) -> None:
    began = threading.Event()

    def endless(connection: sqlite3.Connection) -> list[str]:
        began.set()
        with pytest.raises(sqlite3.OperationalError, match="interrupted"):
            connection.execute(
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
            ).fetchone()
        return ["interrupted."]

    async with damaged(path, mock_clock):
        check_with(endless, monkeypatch)
        while not began.is_set():
            await looked_again(mock_clock, DAMAGE_AGAIN)
