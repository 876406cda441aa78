"""Checking, measuring, compacting and restoring a data file."""

# ruff: noqa: ASYNC240 - the work under test is that of commands, which block

import errno
import os
import pwd
import shutil
import signal
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from hookgw import Conflict
from hookgw.store.sqlite import copy_rows as file_rows
from hookgw.store.sqlite import maintenance
from hookgw.store.stored_registrations import read_stored
from tests.public.config import MasterKeys, StorageSettings
from tests.public.kernel import StartError, StorageUnavailable
from tests.public.sqlite import check_file, compact_file, measure_file, restore_file
from tests.public.store import EventQuery
from tests.store.sqlite.previous_version import unpack
from tests.store.sqlite.support import child, opened, peek
from tests.store.support import delivered, failed, ids_of, seqs_of, settle, to


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A data file in a folder of its own, and it is private."""
    (tmp_path / "data").mkdir(mode=0o700)
    return tmp_path / "data" / "hookgw.db"


async def fill(path: Path, count: int = 20) -> None:
    async with opened(path) as store:
        await store.append(to(*(f"e{n}" for n in range(count)), data='"' + "x" * 2000 + '"'))
        first, second, *_ = await seqs_of(store)
        await settle(store, delivered(first), failed(second))


async def pending_in(path: Path) -> list[str]:
    async with opened(path) as store:
        return await ids_of(store)


def damage(path: Path) -> None:
    """Spoil a page in the middle."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 4096] = b"\xff" * 4096
    path.write_bytes(content)


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


# Check and stats


async def test_a_whole_file(path: Path) -> None:
    await fill(path)
    report = check_file(path)
    assert (report.events, report.deliveries, report.pending, report.problems) == (20, 20, 19, [])
    assert report.bytes == path.stat().st_size


async def test_a_file_in_use_can_be_checked_and_measured(path: Path) -> None:
    async with opened(path) as store:
        await store.append(to("e1"))
        assert check_file(path).pending == 1
        assert {part.name: part.rows for part in measure_file(path)}["outbox"] == 1


async def test_a_damaged_file(path: Path) -> None:
    await fill(path)
    damage(path)
    assert check_file(path).problems


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("DELETE FROM events WHERE seq = 1", "1 deliveries have no event."),
        ("DELETE FROM deliveries WHERE seq = 2", "1 rows of attempts have no delivery."),
        ("DELETE FROM deliveries WHERE seq = 2", "1 rows of bodies have no delivery."),
        ("DELETE FROM names WHERE name = 'reg_1:0'", "20 rows of deliveries have a lane without a name."),
        ("DELETE FROM names WHERE name = 'MESSAGES_UPSERT'", "20 rows of events have a kind without a name."),
    ],
)
async def test_rows_that_refer_to_nothing(path: Path, statement: str, said: str) -> None:
    await fill(path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement)
    assert said in check_file(path).problems


async def test_what_takes_space(path: Path) -> None:
    await fill(path)
    parts = {part.name: part for part in measure_file(path)}
    assert (parts["outbox"].rows, parts["history"].rows, parts["stored bodies"].rows) == (19, 1, 1)
    assert parts["outbox"].bytes > 19 * 2000
    assert parts["file"].bytes == path.stat().st_size
    assert sum(part.bytes for name, part in parts.items() if name not in ("file", "write-ahead log")) == (
        pytest.approx(path.stat().st_size, rel=0.2)
    )


@pytest.mark.parametrize("work", [check_file, measure_file, compact_file])
def test_a_file_that_is_missing_or_another_program_s(path: Path, work: object) -> None:
    with pytest.raises(StorageUnavailable, match="There is no data file"):
        work(path)  # type: ignore[operator]
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE theirs (x)")
    with pytest.raises(StartError, match="is not a data file of hookgw"):
        work(path)  # type: ignore[operator]
    assert names(path.parent) == ["hookgw.db"]


@pytest.mark.parametrize(("version", "said"), [(99, "newer hookgw"), (1, "too old")])
async def test_another_schema(path: Path, version: int, said: str) -> None:
    await fill(path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"PRAGMA user_version = {version}")
    with pytest.raises(StartError, match=said):
        check_file(path)


def test_an_older_file_can_be_measured(tmp_path: Path) -> None:
    path = unpack("plain", tmp_path)
    assert {part.name: part.rows for part in measure_file(path)}["audit"] == 0
    assert check_file(path).problems == []


# Compact


async def test_a_compacted_file_has_the_same_content_and_no_free_pages(path: Path) -> None:
    await fill(path, 200)
    async with opened(path) as store:
        for lane in await store.pending_lanes():
            await settle(store, *map(delivered, await seqs_of(store, lane.lane)))
        await store.enforce_retention(before=9e9, limit=2**40)
        await store.append(to("kept"))
    shown: list[tuple[int, int]] = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(maintenance, "PROGRESS_STEPS", 100)
        compacted = compact_file(path, lambda done, total: shown.append((done, total)))
    assert {total for _, total in shown} == {compacted.after}
    assert shown == sorted(shown)
    assert compacted.after < compacted.before / 2
    assert compacted.after == path.stat().st_size
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert check_file(path).problems == []
    assert await pending_in(path) == ["kept"]
    assert names(path.parent) == ["hookgw.db", "hookgw.db.lock"]


async def test_a_file_in_use_is_neither_compacted_nor_replaced(path: Path, tmp_path: Path) -> None:
    await fill(path)
    copy = tmp_path / "copy.db"
    copy.write_bytes(path.read_bytes())
    async with opened(path):
        with pytest.raises(StartError, match="in use by another hookgw"):
            compact_file(path)
        with pytest.raises(StartError, match="in use by another hookgw"):
            restore_file(copy, path, force=True)


async def test_a_reader_prevents_compacting(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await fill(path)
    reader = sqlite3.connect(path, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM events").fetchone()
    async with opened(path) as store:
        await store.append(to("later"))
    # SQLite waits five seconds for a reader.
    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, timeout=0))
    try:
        with pytest.raises(StartError, match="Another program reads"):
            compact_file(path)
    finally:
        reader.close()


async def test_compacting_needs_room(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await fill(path)
    usage = shutil.disk_usage(path.parent)._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(StorageUnavailable, match="the copy needs"):
        compact_file(path)
    assert len(await pending_in(path)) == 19


@pytest.mark.parametrize("owner", [None, "hookgw"])
async def test_root_leaves_no_file_that_hookgw_cannot_open(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: str | None
) -> None:
    await fill(path)
    copy = tmp_path / "copy.db"
    copy.write_bytes(path.read_bytes())
    monkeypatch.setattr(os, "geteuid", lambda: 12345)

    def find(user: int) -> pwd.struct_passwd:
        if owner is None:
            raise KeyError(user)
        return pwd.struct_passwd((owner, "", user, user, "", "", ""))

    monkeypatch.setattr(pwd, "getpwuid", find)
    name = owner or f"#{path.stat().st_uid}"
    with pytest.raises(StartError, match=f"hookgw.db belongs to {name}. .* sudo -u '{name}'"):
        compact_file(path)
    with pytest.raises(StartError, match=f"hookgw.db belongs to {name}. "):
        restore_file(copy, path, force=True)
    path.unlink()
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    if path.parent.stat().st_uid == 0:
        os.chown(path.parent, 54_321, -1)
    with pytest.raises(StartError, match="data belongs to "):
        restore_file(copy, path, force=False)


# Restore


async def test_a_restored_file_is_the_backup(path: Path, tmp_path: Path) -> None:
    await fill(path)
    copy = tmp_path / "copy.db"
    path.rename(copy)
    seen: list[int] = []
    assert restore_file(copy, path, force=False, on_progress=lambda done, _: seen.append(done)) is None
    assert seen
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(await pending_in(path)) == 19
    assert copy.exists()
    assert names(path.parent) == ["hookgw.db", "hookgw.db.lock"]


async def test_a_restored_log_refuses_cursors_of_before(path: Path, tmp_path: Path) -> None:
    query = EventQuery(instance="shop", limit=1)
    await fill(path)
    copy = tmp_path / "copy.db"
    async with opened(path) as store:
        cursor = (await store.list_events(query)).cursor
    shutil.copy(path, copy)
    restore_file(copy, path, force=True)
    async with opened(path) as store:
        with pytest.raises(Conflict, match="from before a backup was restored"):
            await store.list_events(EventQuery(instance="shop", cursor=cursor))
        cursor = (await store.list_events(query)).cursor
    async with opened(path) as store:
        assert (await store.list_events(EventQuery(instance="shop", cursor=cursor))).events


async def test_an_existing_file_is_moved_aside_only_with_force(path: Path, tmp_path: Path) -> None:
    await fill(path)
    copy = tmp_path / "copy.db"
    copy.write_bytes(path.read_bytes())
    async with opened(path) as store:
        await store.append(to("newer"))
    with pytest.raises(Conflict, match="With --force, it is moved aside"):
        restore_file(copy, path, force=False)
    for suffix in ("", ".1"):
        aside = restore_file(copy, path, force=True)
        assert aside == path.with_name(f"hookgw.db.before-restore{suffix}")
    assert len(await pending_in(path)) == 19
    assert len(await pending_in(path.with_name("hookgw.db.before-restore"))) == 20


KILLED = """
import os, signal, sys, trio
from pathlib import Path
from tests.store.sqlite.support import opened
from tests.store.support import to

async def main():
    async with opened(Path(sys.argv[1])) as store:
        await store.append(to("in-the-log"))
        os.kill(os.getpid(), signal.SIGKILL)

trio.run(main)
"""


@pytest.mark.usefixtures("links")
async def test_the_log_of_a_killed_process_goes_aside_with_its_file(path: Path, tmp_path: Path) -> None:
    await fill(path)
    copy = tmp_path / "copy.db"
    copy.write_bytes(path.read_bytes())
    killed = child(KILLED, path)
    killed.communicate(timeout=60)
    assert killed.returncode == -signal.SIGKILL
    assert path.with_name("hookgw.db-wal").stat().st_size
    aside = restore_file(copy, path, force=True)
    assert aside is not None
    assert len(await pending_in(path)) == 19
    assert (await pending_in(aside))[-1] == "in-the-log"


@pytest.mark.usefixtures("links")
async def test_the_log_of_a_damaged_file_goes_aside_too(path: Path, tmp_path: Path) -> None:
    await fill(path)
    copy = tmp_path / "copy.db"
    copy.write_bytes(path.read_bytes())
    path.write_bytes(b"no database" * 1000)
    path.with_name("hookgw.db-wal").write_bytes(b"some log")
    aside = restore_file(copy, path, force=True)
    assert aside is not None
    assert aside.with_name(f"{aside.name}-wal").read_bytes() == b"some log"
    assert len(await pending_in(path)) == 19


async def test_a_file_in_the_middle_of_a_checkpoint_is_whole_before_it_moves(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, copy = path.with_name("hookgw.db-wal"), tmp_path / "copy.db"
    async with opened(path) as store:
        await store.append(to("in-the-log"))
        content, logged = path.read_bytes(), log.read_bytes()
    copy.write_bytes(path.read_bytes())
    # A power cut has left the first page in the log alone.
    path.write_bytes(bytes(4096) + content[4096:])
    log.write_bytes(logged)
    rename = Path.rename

    def refuse(file: Path, target: Path) -> Path:
        if target.name == "hookgw.db.before-restore":
            raise OSError(28, "No space left on device", str(target))
        return rename(file, target)

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(StartError, match="No space left"):
        restore_file(copy, path, force=True)
    assert await pending_in(path) == ["in-the-log"]
    monkeypatch.undo()
    aside = restore_file(copy, path, force=True)
    assert aside is not None
    assert await pending_in(aside) == ["in-the-log"]
    assert not aside.with_name(f"{aside.name}-wal").exists()


async def test_a_copy_of_a_file_in_use_is_restored_with_its_log(path: Path, tmp_path: Path) -> None:
    """Not a backup of hookgw's, but what an operator may have."""
    async with opened(path) as store:
        await store.append(to("in-the-log"))
        copy = tmp_path / "copy.db"
        copy.write_bytes(path.read_bytes())
        copy.with_name("copy.db-wal").write_bytes(path.with_name("hookgw.db-wal").read_bytes())
    path.unlink()
    restore_file(copy, path, force=False)
    assert await pending_in(path) == ["in-the-log"]


async def test_no_hookgw_starts_where_a_killed_restore_has_left_no_data_file(
    path: Path, tmp_path: Path
) -> None:
    await fill(path)
    backup = path.rename(tmp_path / "backup.db")
    path.with_name(".hookgw.db.restore").touch()
    with pytest.raises(StartError, match=r"hookgw restore is writing .*, or was killed"):
        await pending_in(path)
    assert not path.exists()
    restore_file(backup, path, force=False)
    assert len(await pending_in(path)) == 19


async def test_nor_where_the_disk_has_stopped_a_restore(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(path)
    copy = tmp_path / "copy.db"
    copy.write_bytes(path.read_bytes())

    def refuse(folder: Path) -> None:
        raise OSError(errno.EIO, "Input/output error", str(folder))

    monkeypatch.setattr(maintenance, "sync_folder", refuse)
    with pytest.raises(StartError, match="Input/output error"):
        restore_file(copy, path, force=True)
    monkeypatch.undo()
    with pytest.raises(StartError, match=r"hookgw restore is writing .*, or was killed"):
        await pending_in(path)
    restore_file(copy, path, force=False)
    assert len(await pending_in(path)) == 19


async def test_a_compaction_that_the_disk_stops_leaves_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(path)

    def refuse(folder: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(folder))

    monkeypatch.setattr(maintenance, "sync_folder", refuse)
    with pytest.raises(StartError, match="No space left"):
        compact_file(path)
    assert not path.with_name(".hookgw.db.compact").exists()
    assert len(await pending_in(path)) == 19


def open_source(path: Path) -> None:
    with file_rows.open_source(path):
        pass


@pytest.mark.parametrize(
    "work",
    [
        *(check_file, measure_file, compact_file, open_source),
        lambda path: restore_file(path, path.with_name("to.db"), force=True),
        lambda path: read_stored(StorageSettings(path=str(path)), MasterKeys()),
    ],
)
def test_a_file_that_cannot_be_examined_is_not_called_missing(
    path: Path, work: Callable[[Path], object]
) -> None:
    """The long name stands for a file in a locked folder, which root can examine."""
    with pytest.raises(StartError, match=r"cannot be opened: File name too long"):
        work(path.with_name("x" * 300))


async def test_a_damaged_backup_changes_nothing(path: Path, tmp_path: Path) -> None:
    await fill(path)
    copy = tmp_path / "copy.db"
    copy.write_bytes(path.read_bytes())
    damage(copy)
    with pytest.raises(StartError, match=r"damaged|malformed"):
        restore_file(copy, path, force=True)
    assert len(await pending_in(path)) == 19
    assert names(path.parent) == ["hookgw.db", "hookgw.db.lock"]


async def test_what_is_no_backup_changes_nothing(path: Path, tmp_path: Path) -> None:
    await fill(path)
    copy = tmp_path / "copy.db"
    with pytest.raises(StorageUnavailable, match="There is no file"):
        restore_file(copy, path, force=True)
    copy.write_text("no database, " * 1000)
    with pytest.raises(StartError, match=r"^The backup .* is not a database .*Use another\.$"):
        restore_file(copy, path, force=True)
    with pytest.raises(Conflict, match="the data file itself"):
        restore_file(path, path, force=True)
    copy.write_bytes(path.read_bytes())
    with closing(sqlite3.connect(copy)) as connection, connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(StartError, match="newer hookgw"):
        restore_file(copy, path, force=True)
    assert len(await pending_in(path)) == 19


async def test_a_backup_of_an_older_version_is_migrated_by_the_next_start(path: Path, tmp_path: Path) -> None:
    restore_file(unpack("plain", tmp_path), path, force=False)
    async with opened(path) as store:
        assert await store.load_registrations()
    assert peek(path, "PRAGMA integrity_check") == [("ok",)]
