"""The data file at start: made, locked, damaged, not writable; and the disk's errors at run time."""

import errno
import fcntl
import os
import re
import sqlite3
import stat
import tempfile
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import trio
from structlog.testing import capture_logs

from hookgw.store.sqlite import database
from tests.public.kernel import StartError, StorageUnavailable
from tests.public.sqlite import (
    VERSION,
    Transaction,
    fold,
    is_disk_error,
    measure_disk_space,
    open_database,
    start_errors,
)
from tests.public.store import REMEMBERED, Append, DeliveryQuery, Store
from tests.store.sqlite.support import child, limit_pages, opened, peek
from tests.store.support import Watch, delivered, event, ids_of, refusal_of, seqs_of, to
from tests.support.stores import background_of, commits_of

HOLD = """
import sys
from pathlib import Path
from hookgw.store.sqlite.database import hold_lock
with hold_lock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""
OPEN_AS_NOBODY = """
import os, sys
from pathlib import Path
from hookgw.kernel.errors import StartError
from hookgw.store.sqlite.database import open_database
if os.geteuid() == 0:
    os.setuid(65534)
try:
    with open_database(Path(sys.argv[1])):
        print("opened")
except StartError as error:
    print(error)
"""


async def test_a_missing_directory_and_file_are_made_for_the_owner_alone(path: Path) -> None:
    async with opened(path):
        for name in ("hookgw.db", "hookgw.db-wal", "hookgw.db.lock"):
            assert stat.S_IMODE((path.parent / name).stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


async def test_closing_folds_the_log_into_the_file(path: Path) -> None:
    async with opened(path) as store:
        await store.append(to("e1"))
    assert sorted(found.name for found in path.parent.iterdir()) == ["hookgw.db", "hookgw.db.lock"]
    assert peek(path, "SELECT id FROM events") == [("e1",)]


def test_commits_are_durable_by_settings(path: Path) -> None:
    with open_database(path) as connections:
        assert connections.writer.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connections.writer.execute("PRAGMA synchronous").fetchone() == (2,)
        for reading in (connections.lanes, connections.background, *connections.lists):
            assert reading.execute("PRAGMA query_only").fetchone() == (1,)


def test_a_file_held_by_another_process_is_refused_and_the_holder_named(path: Path) -> None:
    path.parent.mkdir()
    holder = child(HOLD, path)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    message = f"{path} is in use by another hookgw, process {holder.pid} .*hookgw.db.lock"
    with pytest.raises(StartError, match=message), open_database(path):
        pass
    holder.kill()
    holder.communicate()
    lock = path.parent / "hookgw.db.lock"
    assert lock.read_text().startswith(f"{holder.pid}\n")
    lock.write_text("a long line that a process left behind\n")
    with open_database(path):
        assert lock.read_text().startswith(f"{os.getpid()}\nopen ")


def test_the_lock_is_of_the_file_and_not_of_its_name(path: Path, tmp_path: Path) -> None:
    with open_database(path):
        other = tmp_path / "other.db"
        other.symlink_to(path)
        with pytest.raises(StartError, match="in use"), open_database(other):
            pass


def test_a_lock_file_without_a_number(path: Path) -> None:
    path.parent.mkdir()
    with open_database(path):
        path.with_name("hookgw.db.lock").write_text("")
        with pytest.raises(StartError, match="process unknown"), open_database(path):
            pass


def test_a_file_system_without_locks_is_refused_as_such(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As NFS without a lock service: it was told to check rights and space."""

    def refuse(_descriptor: int, _operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(StartError, match="cannot be locked") as refused, open_database(path):
        pass
    assert "file system has no locks" in str(refused.value)
    assert "space" not in str(refused.value)


async def test_a_file_that_was_cut_off_is_refused(path: Path) -> None:
    async with opened(path) as store:
        await store.append(to(*(f"e{number}" for number in range(500))))
    cut_in_half(path)
    with pytest.raises(StartError, match=rf"{path} cannot be used: .*malformed") as caught:
        async with opened(path):
            pass
    assert "backup" in str(caught.value)


@pytest.mark.parametrize(
    "content", [b"not a database, but long enough to be taken for one" * 40, b"x" * 4096]
)
def test_a_file_that_is_no_database_is_refused_and_left_as_it_is(path: Path, content: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(StartError, match=r"hookgw\.db cannot be used: .*It is damaged or not a data file"):
        open_database(path).__enter__()
    assert path.read_bytes() == content
    assert sorted(file.name for file in path.parent.iterdir()) == [path.name, f"{path.name}.lock"]


def test_a_file_that_is_empty_is_a_new_one(path: Path) -> None:
    path.parent.mkdir()
    path.touch()
    with open_database(path) as connections:
        assert connections.writer.execute("SELECT count(*) FROM events").fetchone() == (0,)


def test_a_place_where_no_file_can_be(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StartError, match=r"cannot be opened: .*Make its directory writable"):
        open_database(tmp_path / "file" / "hookgw.db").__enter__()


def test_a_folder_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    for folder in (tmp_path, Path("/")):
        message = f"storage.path: {folder} is a folder. Name a file in it, such as {folder / 'hookgw.db'}."
        with pytest.raises(StartError, match=re.escape(message)):
            open_database(folder).__enter__()
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755


def test_a_device_and_a_pipe_are_refused_and_left_as_they_are(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o644)
    for path in (tmp_path / "pipe", Path("/dev/null")):
        with pytest.raises(StartError, match=f"storage.path: {path} is not a regular file"):
            open_database(path).__enter__()
    assert stat.S_IMODE((tmp_path / "pipe").stat().st_mode) == 0o644


def test_links_in_a_circle_are_refused(tmp_path: Path) -> None:
    (tmp_path / "hookgw.db").symlink_to("hookgw.db")
    with pytest.raises(StartError, match="cannot be opened: Too many levels of symbolic links"):
        open_database(tmp_path / "hookgw.db").__enter__()


def test_a_disk_without_space_for_the_lock(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_space(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", no_space)
    with pytest.raises(StartError) as refused:
        open_database(path).__enter__()
    assert f"cannot be opened: No space left on device ({path}). " in str(refused.value)
    assert "check that the disk has space" in str(refused.value)


def test_a_disk_without_space_for_the_index_of_the_log(path: Path) -> None:
    """SQLite calls it an I/O error, and rights of the file were the first thing to look at."""
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode, error.sqlite_errorname = sqlite3.SQLITE_IOERR_SHMSIZE, "SQLITE_IOERR_SHMSIZE"
    with pytest.raises(StartError) as refused, start_errors(path):
        raise error
    assert refused.value.messages == (
        f"The data file {path} cannot be used: disk I/O error (SQLITE_IOERR_SHMSIZE).",
        "Its disk, or the quota of hookgw's user, is full: free some space.",
    )


def test_a_directory_that_cannot_be_written() -> None:
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o555)
        said, _ = child(OPEN_AS_NOBODY, Path(name) / "hookgw.db").communicate(timeout=60)
        Path(name).chmod(0o755)
    assert said.startswith(f"The data file {name}/hookgw.db cannot be opened: Permission denied")


def test_a_file_that_cannot_be_written() -> None:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "hookgw.db"
        with open_database(path):
            pass
        path.chmod(0o444)
        Path(name).chmod(0o755)
        said, _ = child(OPEN_AS_NOBODY, path).communicate(timeout=60)
    assert said.startswith(f"The data file {path} cannot be opened: Permission denied")


def test_a_python_with_an_old_sqlite_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "OLDEST_SQLITE", (99, 1, 0))
    with pytest.raises(StartError, match=r"hookgw needs 99\.1\.0 or newer"):
        open_database(path).__enter__()


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files that a start has checked."""
    found: list[Path] = []
    check = database.check_integrity

    def noting(connection: sqlite3.Connection, path: Path) -> None:
        found.append(path)
        check(connection, path)

    monkeypatch.setattr(database, "check_integrity", noting)
    return found


async def test_a_file_that_hookgw_has_closed_is_not_checked_at_start(path: Path, checked: list[Path]) -> None:
    async with opened(path) as store:
        await store.append(to("e1"))
    checked.clear()
    async with opened(path):
        pass
    assert checked == []


def written_by_another_program(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA user_version = {VERSION}")


def copied(path: Path) -> None:
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content)


@pytest.mark.parametrize("happens", [written_by_another_program, copied])
async def test_a_file_that_hookgw_has_not_closed_is_checked_at_start(
    path: Path, checked: list[Path], happens: Callable[[Path], None]
) -> None:
    async with opened(path) as store:
        await store.append(to("e1"))
    checked.clear()
    happens(path)
    async with opened(path):
        assert checked == [path]


async def test_a_check_that_takes_too_long_does_not_hold_up_the_start(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(path) as store:
        await store.append(to(*(f"e{number}" for number in range(2000))))
    copied(path)
    connected = database.connect_file

    class Slow:
        """A connection on a disk that is slow: its check ends when it is interrupted."""

        def __init__(self, connection: sqlite3.Connection) -> None:
            self._connection, self._interrupted = connection, threading.Event()

        def __getattr__(self, name: str) -> object:
            return getattr(self._connection, name)

        def interrupt(self) -> None:
            self._interrupted.set()

        def execute(self, statement: str) -> sqlite3.Cursor:
            if "quick_check" in statement:
                assert self._interrupted.wait(30)
                error = sqlite3.OperationalError("interrupted")
                error.sqlite_errorcode = sqlite3.SQLITE_INTERRUPT
                raise error
            return self._connection.execute(statement)

    monkeypatch.setattr(database, "CHECK_SECONDS", 0.001)
    with closing(connected(path, cache_kib=64)) as connection, capture_logs() as logs:
        database.check_integrity(Slow(connection), path)  # type: ignore[arg-type]
    assert "no damage was found in the time" in logs[0]["event"]


def test_a_check_waits_for_the_thread_that_the_system_refuses(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, refused = threading.Timer.start, [1, 2]

    def refuse_twice(timer: threading.Timer) -> None:
        if refused:
            refused.pop()
            raise RuntimeError("can't start new thread")
        start(timer)

    monkeypatch.setattr(threading.Timer, "start", refuse_twice)
    monkeypatch.setattr(database, "START_AGAIN", 0.0)
    with capture_logs() as logs, open_database(path):
        pass
    assert [one["event"] for one in logs] == ["the system refuses a thread; it is tried again"]
    assert refused == []


def test_a_file_that_another_program_holds_is_not_called_unwritable(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_database(path):
        pass
    connect = sqlite3.connect
    monkeypatch.setattr(
        sqlite3, "connect", lambda *args, **options: connect(*args, **options | {"timeout": 0})
    )
    with closing(connect(path, isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StartError, match="Another program holds the data file"):
            open_database(path).__enter__()


@pytest.mark.parametrize("is_backup", [False, True])
def test_a_file_system_on_which_connections_share_no_memory_is_told(path: Path, is_backup: bool) -> None:
    """As mergerfs with cache.files=off. A file system of that kind cannot be had everywhere."""
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode, error.sqlite_errorname = sqlite3.SQLITE_IOERR_SHMMAP, "SQLITE_IOERR_SHMMAP"
    with (
        pytest.raises(StartError, match="Move it to another file system") as refused,
        start_errors(path, is_backup=is_backup),
    ):
        raise error
    assert "has space" not in str(refused.value)


# At run time


async def test_a_read_that_the_disk_refuses_stops_events_for_a_while(
    path: Path, mock_clock: trio.testing.MockClock
) -> None:
    def fails(_: object) -> None:
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode, error.sqlite_errorname = sqlite3.SQLITE_IOERR_READ, "SQLITE_IOERR_READ"
        raise error

    async with opened(path) as store:
        await store.append(to("e1"))
        with pytest.raises(StorageUnavailable):
            await background_of(store).run(fails)
        for refused in (store.check, lambda: store.append(to("e2"))):
            with pytest.raises(StorageUnavailable, match=r"SQLITE_IOERR_READ.*no events are accepted"):
                await refused()
        mock_clock.jump(REMEMBERED)
        assert await store.append(to("e2")) == [True]


async def test_a_full_disk_refuses_and_recovers(path: Path, mock_clock: trio.testing.MockClock) -> None:
    watch = Watch()
    async with opened(path, watch) as store:
        await store.append(to("e1", "e2"))
        first, _ = await seqs_of(store)
        limit_pages(store, 1)
        payload = '"' + "x" * 50_000 + '"'
        large = [Append(event(f"big{n}", data=payload), (("reg_2", "reg_2:0"),)) for n in range(3)]
        with pytest.raises(StorageUnavailable, match=rf"{path} cannot be used now: .*full \(SQLITE_FULL\)"):
            await store.append(large)
        assert refusal_of(store) is not None
        store.settle_nowait(delivered(first))
        for refused in (store.check, lambda: store.append(to("e3")), lambda: store.put_value("a", 1)):
            with pytest.raises(StorageUnavailable, match="SQLITE_FULL"):
                await refused()
        assert await ids_of(store) == ["e1", "e2"]
        limit_pages(store, 2**30)
        mock_clock.jump(5)
        await store.flush()
        assert await ids_of(store) == ["e2"]
        assert await store.append(large) == [True] * 3
        assert await ids_of(store, "reg_2:0") == ["big0", "big1", "big2"]
        assert [text.split(":")[0] for text in watch.heard] == ["failed", "recovered"]
        assert refusal_of(store) is None


def test_space_that_the_next_checkpoint_takes_is_not_free(path: Path) -> None:
    with open_database(path) as connections:
        fold(connections.writer, connections.file)
        assert measure_disk_space(connections.background, path).unfolded == 0
        connections.writer.execute("INSERT INTO bodies VALUES (1, zeroblob(1000000))")
        before = measure_disk_space(connections.background, path)
        size = path.stat().st_size
        fold(connections.writer, connections.file)
        after = measure_disk_space(connections.background, path)
        assert after.unfolded == 0
        assert after.used == before.used == path.stat().st_size
        assert before.unfolded == before.used - size >= 990_000


async def test_a_function_that_fills_the_disk_is_refused_like_any_write(path: Path) -> None:
    async with opened(path) as store:
        limit_pages(store, 1)
        with pytest.raises(StorageUnavailable, match="SQLITE_FULL"):
            await store.put_value("large", "x" * 100_000)
        assert refusal_of(store) is not None
        limit_pages(store, 2**30)
        await store.flush()
        await store.put_value("large", "x" * 100_000)


async def test_a_page_that_is_damaged_is_told_when_it_is_read(path: Path) -> None:
    async with opened(path) as store:
        await store.append(to(*(f"e{number}" for number in range(200))))
    damage(path)
    with pytest.raises((StartError, ExceptionGroup)) as caught:
        async with opened(path) as store:
            await store.list_deliveries(DeliveryQuery(instance="shop"))
    told = caught.value.exceptions[0] if isinstance(caught.value, ExceptionGroup) else caught.value
    assert isinstance(told, StartError | StorageUnavailable)
    assert str(path) in str(told)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (sqlite3.SQLITE_FULL, True),
        (sqlite3.SQLITE_IOERR_WRITE, True),
        (sqlite3.SQLITE_READONLY, True),
        (sqlite3.SQLITE_BUSY, True),
        (sqlite3.SQLITE_ERROR, False),
        (sqlite3.SQLITE_MISUSE, False),
    ],
)
def test_which_errors_are_the_disk_s(code: int, expected: bool) -> None:
    error = sqlite3.OperationalError("x")
    error.sqlite_errorcode = code
    assert is_disk_error(error) is expected


@pytest.mark.parametrize(
    "error", [sqlite3.IntegrityError("x"), sqlite3.OperationalError("without a code"), OSError("x")]
)
def test_which_errors_are_not(error: Exception) -> None:
    assert not is_disk_error(error)


async def test_a_bug_in_a_query_is_no_disk_error(store: Store) -> None:
    def query(transaction: Transaction) -> None:
        transaction.connection.execute("SELECT * FROM nowhere")

    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        await commits_of(store).call(query)
    await store.check()


def cut_in_half(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def damage(path: Path) -> None:
    """Overwrite every page but those of the schema."""
    with path.open("r+b") as file:
        for page in range(2, path.stat().st_size // 4096):
            file.seek(page * 4096)
            file.write(b"\xff" * 4096)
