"""The write-ahead log is folded beside the commits, and begins anew."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import trio
import trio.testing
from structlog.testing import capture_logs

from hookgw.store.sqlite import checkpoints as checkpoints_module
from tests.public.sqlite import (
    FOLD_PAGES,
    INTERVAL,
    MOST_INTERVALS,
    WAL_PAGES,
    Checkpoints,
    DatabaseConnections,
    fold,
    open_database,
)
from tests.store.sqlite.support import opened, peek
from tests.store.support import ids_of, to


@pytest.fixture
def connections(path: Path) -> Iterator[DatabaseConnections]:
    with open_database(path) as connections:
        yield connections


class Folds:
    """Counts the checkpoints, and says what each found."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *pages: int | sqlite3.Error) -> None:
        self.pages = list(pages)
        self.by: list[object] = []
        monkeypatch.setattr(checkpoints_module, "fold", self)

    def __call__(self, connection: object, _file: object) -> int:
        self.by.append(connection)
        pages = self.pages.pop(0) if self.pages else 0
        if isinstance(pages, sqlite3.Error):
            raise pages
        return pages


async def settled() -> None:
    """Wait until what is under way in threads has ended."""
    for _ in range(3):
        await trio.to_thread.run_sync(lambda: None)
        await trio.testing.wait_all_tasks_blocked(0.01)


async def test_no_commit_folds_the_log(connections: DatabaseConnections) -> None:
    for connection in (connections.writer, connections.checkpoints):  # the others cannot write
        assert connection.execute("PRAGMA wal_autocheckpoint").fetchone() == (0,)


async def test_commits_of_one_interval_share_a_checkpoint(
    connections: DatabaseConnections, monkeypatch: pytest.MonkeyPatch, mock_clock: trio.testing.MockClock
) -> None:
    folds = Folds(monkeypatch, FOLD_PAGES, 2 * FOLD_PAGES)
    checkpoints = Checkpoints(connections, trio.CapacityLimiter(1), threading.Lock())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(checkpoints.run)
        await settled()
        assert folds.by == []
        checkpoints.committed()
        await settled()
        assert folds.by == [connections.checkpoints]
        checkpoints.committed()
        checkpoints.committed()
        await settled()
        assert len(folds.by) == 1
        mock_clock.jump(INTERVAL)
        await settled()
        assert len(folds.by) == 2
        mock_clock.jump(10 * INTERVAL)
        await settled()
        assert len(folds.by) == 2
        nursery.cancel_scope.cancel()


async def test_checkpoints_are_rarer_while_little_is_written(
    connections: DatabaseConnections, monkeypatch: pytest.MonkeyPatch, mock_clock: trio.testing.MockClock
) -> None:
    # After the second checkpoint the log starts over.
    folds = Folds(monkeypatch, 1, 1 + FOLD_PAGES * MOST_INTERVALS, FOLD_PAGES, 0)
    checkpoints = Checkpoints(connections, trio.CapacityLimiter(1), threading.Lock())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(checkpoints.run)
        for intervals in (MOST_INTERVALS, 1, 1):
            checkpoints.committed()
            await settled()
            before = len(folds.by)
            checkpoints.committed()
            mock_clock.jump((intervals - 0.1) * INTERVAL)
            await settled()
            assert len(folds.by) == before
            mock_clock.jump(0.2 * INTERVAL)
            await settled()
            assert len(folds.by) == before + 1
        nursery.cancel_scope.cancel()


async def test_the_writer_folds_the_rest_of_a_long_log_between_two_commits(
    connections: DatabaseConnections, monkeypatch: pytest.MonkeyPatch
) -> None:
    folds = Folds(monkeypatch, WAL_PAGES)
    writing = trio.CapacityLimiter(1)
    checkpoints = Checkpoints(connections, writing, threading.Lock())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(checkpoints.run)
        async with writing:  # a commit is under way
            checkpoints.committed()
            await settled()
            assert folds.by == [connections.checkpoints]
        await settled()
        assert folds.by == [connections.checkpoints, connections.writer]
        nursery.cancel_scope.cancel()


async def test_a_log_that_is_short_is_no_business_of_the_writer(
    connections: DatabaseConnections, monkeypatch: pytest.MonkeyPatch
) -> None:
    folds = Folds(monkeypatch, WAL_PAGES - 1)
    checkpoints = Checkpoints(connections, trio.CapacityLimiter(1), threading.Lock())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(checkpoints.run)
        checkpoints.committed()
        await settled()
        assert folds.by == [connections.checkpoints]
        nursery.cancel_scope.cancel()


async def test_folding_goes_on_beside_an_open_transaction(connections: DatabaseConnections) -> None:
    writer = connections.writer
    writer.execute("INSERT INTO probe VALUES (1, 1)")
    writer.execute("BEGIN IMMEDIATE")
    writer.execute("UPDATE probe SET writes = 2")
    pages = fold(connections.checkpoints, connections.file)
    assert pages > 0
    writer.execute("COMMIT")
    assert fold(connections.checkpoints, connections.file) > pages


async def test_a_log_that_is_folded_begins_anew(connections: DatabaseConnections) -> None:
    for connection in (connections.checkpoints, connections.writer):
        connections.writer.execute("REPLACE INTO bodies VALUES (1, zeroblob(100000))")
        before = fold(connection, connections.file)
        connections.writer.execute("REPLACE INTO probe VALUES (1, 2)")
        assert fold(connections.checkpoints, connections.file) < before


async def test_a_log_that_begins_anew_keeps_its_file(connections: DatabaseConnections, path: Path) -> None:
    """A commit that makes the file longer takes the disk twice as long."""
    log = path.with_name(path.name + "-wal")
    connections.writer.execute(f"REPLACE INTO bodies VALUES (1, zeroblob({2 * WAL_PAGES * 4096}))")
    grown = log.stat().st_size
    fold(connections.writer, connections.file)
    connections.writer.execute("REPLACE INTO probe VALUES (1, 2)")
    assert fold(connections.checkpoints, connections.file) < 10
    assert log.stat().st_size == grown


def test_a_disk_that_refuses_folds_nothing(connections: DatabaseConnections, tmp_path: Path) -> None:
    file = tmp_path / "noise.db"
    file.write_bytes(b"this is no database" * 1000)
    with closing(sqlite3.connect(file)) as connection, pytest.raises(sqlite3.DatabaseError):
        fold(connection, connections.file)
    assert connections.file.lost is not None


async def test_a_disk_that_refuses_to_fold_the_log_is_told_once_and_its_end_too(
    connections: DatabaseConnections, monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    refused, locked = sqlite3.OperationalError("disk I/O error"), sqlite3.OperationalError("locked")
    refused.sqlite_errorcode, refused.sqlite_errorname = sqlite3.SQLITE_IOERR_WRITE, "SQLITE_IOERR_WRITE"
    locked.sqlite_errorcode, locked.sqlite_errorname = sqlite3.SQLITE_BUSY, "SQLITE_BUSY"
    folds = Folds(monkeypatch, locked, refused, locked, refused, 10, 10)
    checkpoints = Checkpoints(connections, trio.CapacityLimiter(1), threading.Lock())
    with capture_logs() as logs:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(checkpoints.run)
            while folds.pages:
                checkpoints.committed()
                await trio.sleep(INTERVAL)
            await trio.sleep(1)
            nursery.cancel_scope.cancel()
    assert [entry["log_level"] for entry in logs] == ["warning", "info"]
    assert "refuses to fold the write-ahead log" in logs[0]["event"]
    assert logs[0]["reason"] == "disk I/O error (SQLITE_IOERR_WRITE)"


def test_a_bug_is_raised(connections: DatabaseConnections) -> None:
    connection = sqlite3.connect(":memory:")
    connection.close()
    with pytest.raises(sqlite3.ProgrammingError):
        fold(connection, connections.file)


async def test_the_log_stays_bounded_under_constant_writes(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints_module, "WAL_PAGES", 100)
    monkeypatch.setattr(checkpoints_module, "INTERVAL", 0)
    log = path.with_name(path.name + "-wal")
    written = longest = 0
    async with opened(path) as store:
        while written < 20 * 2**20:
            names = [f"e{written}_{number}" for number in range(20)]
            await store.append(to(*names))
            written += 20 * 4096
            longest = max(longest, log.stat().st_size)
        await store.flush()
        assert len(await ids_of(store)) == written // 4096
    assert longest < 10 * 2**20
    assert not log.exists()
    assert peek(path, "SELECT count(*) FROM deliveries") == [(written // 4096,)]
