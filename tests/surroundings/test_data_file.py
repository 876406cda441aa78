"""What happens to the data file while hookgw uses it: files really moved, replaced, damaged and locked."""

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.store.sqlite.support import peek
from tests.support.gateway_process import serving, write_config
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


def test_a_folder_that_is_moved_and_put_back_has_everything_after_a_restart(folder: Path) -> None:
    data = folder / "disk" / "hookgw.db"
    with keeping_account(folder, storage={"path": str(data)}) as account:
        data.parent.rename(folder / "elsewhere")
        account.unready()
        assert account.emit().status_code == 503
        account.logged("do not stop hookgw before")  # there is no folder for a copy
        (folder / "elsewhere").rename(data.parent)
        before = state_of(data.parent)
        assert account.emit().status_code == 503
        assert account.server.process.stop() == 0
        assert state_of(data.parent) == before
    account.check_nothing_lost(data)


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
    for arguments in (["serve"], ["storage", "compact"], ["serve"]):
        refused = account.command(*arguments)
        assert refused.returncode != 0
        assert "belongs to the former one" in refused.stderr
        # To read is enough to damage it.
        for command in (["storage", "check"], ["storage", "stats"], ["backup", "another.db"]):
            refused = account.command(*command)
            assert refused.returncode != 0
            assert "belongs to the former one" in refused.stderr
        assert state_of(folder) == before
    (folder / "former.db").replace(account.data)
    with serving(folder) as server:
        assert server.http.get("/readyz").status_code == 200
    account.check_nothing_lost()


def test_a_restore_over_a_replaced_file_damages_neither(folder: Path) -> None:
    with keeping_account(folder) as account:
        for name in ("backup.db", "other.db"):
            assert account.command("backup", folder / name).returncode == 0
        account.emit_many(20)
        account.server.process.stop(signal.SIGKILL)
    (folder / "other.db").replace(account.data)
    in_other = account.data.read_bytes()
    restored = account.command("restore", folder / "backup.db", "--force")
    assert restored.returncode == 0, restored.stderr
    assert (folder / "hookgw.db.before-restore").read_bytes() == in_other
    assert not (folder / "hookgw.db.before-restore-wal").exists()
    assert account.stored() == account.accepted[:30]


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


# 2. Another program has the file open


@pytest.mark.parametrize("command", ["compact", "restore"])
def test_a_file_that_a_shell_of_sqlite3_has_open_is_not_replaced(folder: Path, command: str) -> None:
    with keeping_account(folder) as account:
        assert account.command("backup", folder / "backup.db").returncode == 0
        assert account.server.process.stop() == 0
    arguments = ["storage", "compact"] if command == "compact" else ["restore", "backup.db", "--force"]
    with closing(sqlite3.connect(account.data, isolation_level=None)) as shell:
        shell.execute("SELECT count(*) FROM events").fetchone()  # and then it is idle
        inode = account.data.stat().st_ino
        refused = account.command(*arguments)
        assert refused.returncode != 0
        assert "Another program has the data file" in refused.stderr
        assert account.data.stat().st_ino == inode
        shell.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    assert not list(folder.glob(".hookgw.db.*"))
    account.check_nothing_lost()
    done = account.command(*arguments)
    assert done.returncode == 0, done.stderr
    account.check_nothing_lost()


# 3. A failed read is nobody's problem


def damage(data: Path) -> None:
    """Overwrite pages in the middle of the file, but not those that a start reads."""
    with data.open("r+b") as file:
        size = data.stat().st_size
        file.seek(size // 3)
        file.write(os.urandom(size // 3))


def test_a_file_that_was_damaged_while_hookgw_did_not_run_is_refused_at_start(folder: Path) -> None:
    with keeping_account(folder, 300) as account:
        assert account.server.process.stop() == 0
    damage(account.data)
    refused = account.command("serve")
    assert refused.returncode != 0
    assert "damaged" in refused.stderr
    assert "hookgw restore FILE --force" in refused.stderr


def test_an_old_log_beside_a_copied_backup_is_refused_at_start(folder: Path) -> None:
    with keeping_account(folder, 300) as account:
        assert account.command("backup", folder / "backup.db").returncode == 0
        account.emit_many(300)
        account.server.process.stop(signal.SIGKILL)
    # As cp does it: into the same file, so that only the content tells.
    account.data.write_bytes((folder / "backup.db").read_bytes()[: 40 * 4096])
    refused = account.command("serve")
    assert refused.returncode != 0
    assert "hookgw restore FILE --force" in refused.stderr
    restored = account.command("restore", folder / "backup.db", "--force")
    assert restored.returncode == 0, restored.stderr
    assert account.stored() == account.accepted[:300]


def test_damage_under_a_running_hookgw_stops_events_and_readiness_and_names_the_remedy(folder: Path) -> None:
    with keeping_account(folder, 300) as account:
        assert account.command("backup", folder / "backup.db").returncode == 0
        # All of it is in the file then, and nothing in the log.
        assert account.server.process.stop() == 0
    with serving(folder) as server:
        account.server = server
        damage(account.data)
        # Lists read what lanes need, too.
        for offset in range(0, 300, 100):
            server.http.get(f"/delivery/list/shop?limit=100&offset={offset}")
        said = account.unready()
        assert "is damaged" in said
        # SQLite says the same if the disk cannot read a page, and a backup would lose events then.
        assert "or the disk cannot read it" in said
        assert "checks the whole file again and again" in said
        assert "run hookgw storage check. If it finds no problem, the disk could not be read" in said
        assert "hookgw restore FILE --force" in said
        assert account.emit().status_code == 503
        account.logged("the storage refuses writes")
        server.process.stop()
    restored = account.command("restore", folder / "backup.db", "--force")
    assert restored.returncode == 0, restored.stderr
    account.check_nothing_lost()


# 4. Leftovers of killed work


def test_serve_removes_what_killed_work_has_left_and_stats_shows_it(folder: Path) -> None:
    with keeping_account(folder) as account:
        assert account.server.process.stop() == 0
    left = [folder / name for name in (".hookgw.db.compact", ".hookgw.db.restore", ".hookgw-1.partial")]
    for file in left:
        file.write_bytes(b"\0" * 100_000)
    (folder / "hookgw.db.schema-4").write_bytes(b"\0" * 5000)
    shown = account.command("storage", "stats")
    assert "left by killed work" in shown.stdout
    with serving(folder) as server:
        assert server.http.get("/readyz").status_code == 200
    assert not any(file.exists() for file in left)
    assert (folder / "hookgw.db.schema-4").exists()  # nobody but its owner knows that it is needed no more


# 5. A full disk, or a lock of the operator


def test_a_write_lock_of_an_operator_is_a_line_at_its_beginning_and_one_at_its_end(folder: Path) -> None:
    with keeping_account(folder) as account:
        with closing(sqlite3.connect(account.data, isolation_level=None)) as shell:
            shell.execute("BEGIN IMMEDIATE")
            refused = account.emit()
            assert refused.status_code == 503
            assert "Another program holds the write lock" in refused.text
            assert account.emit().status_code == 503
            shell.execute("ROLLBACK")
        account.logged("the storage takes writes again")
        lines = [line for line in account.server.process.errors if "the storage" in line]
        assert len(lines) == 2
        account.emit_many(1)
        assert account.server.process.stop() == 0
    account.check_nothing_lost()


def test_the_size_of_the_log_is_a_metric(folder: Path) -> None:
    with keeping_account(folder) as account:
        text = account.server.http.get("/metrics").text
        line = next(line for line in text.splitlines() if line.startswith("hookgw_write_ahead_log_bytes "))
        assert float(line.split()[1]) > 0


# 6. A start, and commands, while another program or the disk is in the way


def test_a_start_while_another_program_holds_the_file_says_so(folder: Path) -> None:
    with keeping_account(folder) as account:
        assert account.server.process.stop() == 0
    with closing(sqlite3.connect(account.data, isolation_level=None)) as shell:
        shell.execute("PRAGMA locking_mode = EXCLUSIVE")
        shell.execute("BEGIN IMMEDIATE")
        refused = account.command("serve")
        assert refused.returncode != 0
        assert "Another program holds the data file" in refused.stderr
        assert "writable" not in refused.stderr
    account.check_nothing_lost()


READ_ONLY = """mount -t tmpfs -o size=64m,mode=700 tmpfs "$1" && cp "$2"/hookgw.db* "$1" &&
rm -f "$1"/*-shm && mount -o remount,ro "$1" && shift 2 && exec "$@"
"""


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_check_and_backup_work_on_a_disk_that_is_read_only(
    folder: Path, tmp_path: Path, end: signal.Signals
) -> None:
    """Also with the log of a hookgw that was killed, whose content is then part of the backup."""
    disk = tmp_path / "disk"
    disk.mkdir(mode=0o700)
    with keeping_account(folder) as account:
        account.server.process.stop(end)
    write_config(folder, storage={"path": str(disk / "hookgw.db")})
    launcher = ["unshare", "--mount", "--map-root-user", "sh", "-c", READ_ONLY, "sh", f"{disk}", f"{folder}"]

    def command(*arguments: str | Path) -> CompletedProcess[str]:
        hookgw = [sys.executable, "-m", "hookgw", *map(str, arguments)]
        configured = ["--config", str(folder / "config.yaml")]
        return subprocess.run(
            [*launcher, *hookgw, *configured], capture_output=True, text=True, check=False, timeout=60
        )

    checked = command("storage", "check")
    if "unshare" in checked.stderr or "mount" in checked.stderr:
        pytest.skip(f"no file system can be mounted here: {checked.stderr.strip()}")
    assert checked.returncode == 0, checked.stderr
    made = command("backup", tmp_path / "backup.db", "--check")
    assert made.returncode == 0, made.stderr
    account.check_nothing_lost(tmp_path / "backup.db")
