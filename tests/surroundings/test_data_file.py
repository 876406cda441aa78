"""What happens to the data file while hookgw uses it: files really moved, replaced, damaged and locked."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.store.sqlite.support import peek
from tests.support.gateway_process import serving
from tests.surroundings.accounts import keeping_account

pytestmark = [pytest.mark.process, pytest.mark.timeout(120)]

BESIDE = ("-wal", "-shm", ".lock")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir(mode=0o700)
    return folder


def beside(data: Path) -> list[Path]:
    return [data.with_name(data.name + suffix) for suffix in BESIDE]


def state_of(folder: Path) -> dict[str, bytes]:
    """What another program would find: the data file and what SQLite reads with it."""
    return {file.name: file.read_bytes() for file in folder.glob("hookgw.db*") if file.suffix != ".lock"}


def delete_all(data: Path) -> None:
    for file in (data, *beside(data)):
        file.unlink()


def move_all(data: Path) -> None:
    (data.parent / "elsewhere").mkdir()
    for file in (data, *beside(data)):
        file.rename(data.parent / "elsewhere" / file.name)


def delete_data(data: Path) -> None:
    data.unlink()


def delete_log(data: Path) -> None:
    data.with_name(data.name + "-wal").unlink()


def delete_index(data: Path) -> None:
    data.with_name(data.name + "-shm").unlink()


def replace_lock(data: Path) -> None:
    lock = data.with_name(data.name + ".lock")
    lock.unlink()
    lock.touch(0o600)


# 1. A path taken for the open file


@pytest.mark.parametrize(
    "happens", [delete_all, move_all, delete_data, delete_log, delete_index, replace_lock]
)
def test_a_file_that_is_deleted_or_moved_stops_events_and_what_was_accepted_is_rescued(
    folder: Path, happens: Callable[[Path], None]
) -> None:
    with keeping_account(folder) as account:
        happens(account.data)
        said = account.unready()
        assert "deleted, moved or replaced while hookgw used it" in said
        assert "until a restart" in said
        refused = account.emit()
        assert refused.status_code == 503
        assert "deleted, moved or replaced" in refused.text
        assert account.server.http.get("/healthz").status_code == 200
        account.logged("what was stored was copied")
        assert account.server.process.stop() == 0
    account.check_nothing_lost(folder / "hookgw.db.rescued")
    restored = account.command("restore", folder / "hookgw.db.rescued", "--force")
    assert restored.returncode == 0, restored.stderr
    account.check_nothing_lost()


def test_not_one_202_comes_after_the_file_was_replaced(folder: Path) -> None:
    with keeping_account(folder) as account:
        made = account.command("backup", folder / "backup.db")
        assert made.returncode == 0, made.stderr
        account.emit_many(20)
        (folder / "backup.db").rename(account.data)
        assert account.emit().status_code == 503
        account.logged("what was stored was copied")
        assert account.server.process.stop() == 0
    account.check_nothing_lost(folder / "hookgw.db.rescued")


def test_a_backup_that_is_moved_over_the_file_is_whole_after_hookgw_ends(folder: Path) -> None:
    with keeping_account(folder) as account:
        assert account.command("backup", folder / "backup.db").returncode == 0
        in_backup = (folder / "backup.db").read_bytes()
        account.emit_many(20)
        (folder / "backup.db").rename(account.data)
        account.unready()
        account.logged("what was stored was copied")
        # From here on, other programs can use the backup.
        assert not account.data.with_name("hookgw.db-wal").exists()
        assert account.server.process.stop() == 0
    assert account.data.read_bytes() == in_backup
    assert account.stored() == account.accepted[:30]
    with serving(folder) as server:
        assert server.http.get("/readyz").status_code == 200
    assert peek(account.data, "PRAGMA integrity_check") == [("ok",)]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_file_that_is_put_back_is_not_touched_until_a_restart(folder: Path, number: signal.Signals) -> None:
    with keeping_account(folder) as account:
        away = folder / "away"
        away.mkdir()
        files = [account.data, *beside(account.data)]
        for file in files:
            file.rename(away / file.name)
        account.unready()
        account.logged("what was stored was copied")
        for file in files:
            (away / file.name).rename(file)
        before = state_of(folder)
        assert account.emit().status_code == 503
        assert account.readyz().status_code == 503
        account.server.process.stop(number)
        assert state_of(folder) == before
    with serving(folder) as server:
        assert server.http.get("/readyz").status_code == 200
    account.check_nothing_lost()


def test_another_program_s_log_beside_the_file_is_not_deleted_at_the_end(folder: Path) -> None:
    """The old file is put back, and a shell of sqlite3 has it open: SQLite would delete its log by name."""
    with keeping_account(folder) as account:
        files = [account.data, *beside(account.data)]
        away = folder / "away"
        away.mkdir()
        for file in files:
            file.rename(away / file.name)
        account.unready()
        account.logged("what was stored was copied")
        (away / account.data.name).rename(account.data)
        with closing(sqlite3.connect(account.data, isolation_level=None)) as shell:
            shell.execute("INSERT INTO shelves VALUES ('mine', 'a', 'b')")
            log = account.data.with_name("hookgw.db-wal")
            before = log.read_bytes()
            assert account.server.process.stop() == 0
            assert log.read_bytes() == before
            assert shell.execute("SELECT count(*) FROM shelves WHERE shelf = 'mine'").fetchone() == (1,)


def test_a_second_hookgw_is_refused_although_the_lock_file_was_removed(folder: Path) -> None:
    with keeping_account(folder) as account:
        os.kill(account.server.process.popen.pid, signal.SIGSTOP)  # it cannot notice meanwhile
        account.data.with_name("hookgw.db.lock").unlink()
        second = account.command("serve")
        assert second.returncode != 0
        assert "in use by another hookgw" in second.stderr
        os.kill(account.server.process.popen.pid, signal.SIGCONT)
        account.unready()
    account.check_nothing_lost()


def test_a_second_hookgw_is_refused_beside_the_log_of_the_first(folder: Path) -> None:
    """The lock and the data file are new ones, but the log is in use: together they would be damaged."""
    with keeping_account(folder) as account:
        assert account.command("backup", folder / "backup.db").returncode == 0
        os.kill(account.server.process.popen.pid, signal.SIGSTOP)
        account.data.with_name("hookgw.db.lock").unlink()
        (folder / "backup.db").rename(account.data)
        in_backup = account.data.read_bytes()
        second = account.command("serve")
        assert second.returncode != 0
        assert "still holds" in second.stderr
        assert account.data.read_bytes() == in_backup
        os.kill(account.server.process.popen.pid, signal.SIGCONT)


def test_the_log_of_a_killed_hookgw_does_not_get_into_a_backup_that_is_moved_there(folder: Path) -> None:
    with keeping_account(folder) as account:
        assert account.command("backup", folder / "backup.db").returncode == 0
        account.emit_many(20)
        account.server.process.stop(signal.SIGKILL)
    account.data.rename(folder / "former.db")
    (folder / "backup.db").rename(account.data)
    before = state_of(folder)
    for _ in range(2):
        refused = account.command("serve")
        assert refused.returncode != 0
        assert "belongs to the former one" in refused.stderr
        assert state_of(folder) == before
    (folder / "former.db").replace(account.data)
    with serving(folder) as server:
        assert server.http.get("/readyz").status_code == 200
    account.check_nothing_lost()


def test_a_file_that_waits_behind_a_link_is_watched_too(folder: Path) -> None:
    real = folder / "disk"
    real.mkdir(mode=0o700)
    (folder / "hookgw.db").symlink_to(real / "data.db")
    with keeping_account(folder) as account:
        (folder / "hookgw.db").unlink()
        account.unready()
        assert account.emit().status_code == 503
        account.logged("what was stored was copied")
    account.check_nothing_lost(real / "data.db.rescued")
