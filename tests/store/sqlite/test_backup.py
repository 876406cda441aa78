"""Backups of a data file in use: consistent, whole, and beside the commits."""

import shutil
import signal
import sqlite3
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest
import trio

from hookgw import Conflict
from hookgw.store.sqlite import backup
from tests.public.config import MasterKeys
from tests.public.kernel import StartError, StorageUnavailable
from tests.public.records import Instance
from tests.public.sqlite import back_up_file
from tests.public.store import Store
from tests.store.sqlite.support import child, opened, peek
from tests.store.support import delivered, ids_of, seqs_of, settle, to
from tests.support.stores import commits_of


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backup, "PAGES", 4)
    monkeypatch.setattr(backup, "SYNC_PAGES", 8)
    monkeypatch.setattr(backup, "LEAST_REST", 0)


async def fill(store: Store, count: int = 200) -> None:
    await store.append(to(*(f"e{number}" for number in range(count)), data='"' + "x" * 1000 + '"'))


def ignore(done: int, total: int) -> None:
    pass


def remains(folder: Path) -> list[str]:
    """Return the names of copies, whole or not."""
    return sorted(file.name for file in folder.iterdir() if "copy" in file.name or "hookgw-" in file.name)


async def restored(copy: Path) -> list[str]:
    """Return the events that are pending in a copy, opened as a data file."""
    assert peek(copy, "PRAGMA integrity_check") == [("ok",)]
    async with opened(copy) as store:
        return await ids_of(store)


async def test_a_copy_has_everything(path: Path, store: Store, tmp_path: Path) -> None:
    await fill(store)
    seen: list[tuple[int, int]] = []
    copy = tmp_path / "copy.db"
    size = await store.back_up(copy, lambda done, total: seen.append((done, total)))
    assert copy.stat().st_size == size
    assert copy.stat().st_mode & 0o777 == 0o600
    assert seen == sorted(seen)
    assert len(seen) > 10
    assert seen[-1] == (size // 4096, size // 4096)
    assert await restored(copy) == [f"e{number}" for number in range(200)]
    assert remains(tmp_path) == ["copy.db", "copy.db.lock"]


async def test_a_copy_beside_commits_ends_and_has_what_was_committed_before_its_end(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps are followed by commits that change pages which were copied already."""
    monkeypatch.setattr(backup, "PAGES", 16)
    monkeypatch.setattr(backup, "LEAST_REST", 0.01)
    await fill(store, 400)
    written = 0
    steps: list[int] = []

    def write(done: int, total: int) -> None:
        steps.append(done)
        begin.set()

    begin = trio.Event()

    async def writer() -> None:
        nonlocal written, begin
        while True:
            await begin.wait()
            begin = trio.Event()
            await store.append(to(f"w{written}"))
            (seq, *_) = await seqs_of(store)
            await settle(store, delivered(seq))
            written += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer)
        with trio.fail_after(60):
            await store.back_up(tmp_path / "copy.db", write)
        nursery.cancel_scope.cancel()
    assert steps == sorted(steps)
    assert written > 2
    found = await restored(tmp_path / "copy.db")
    present = await ids_of(store)
    # Everything that was settled in it is the beginning, and everything that was appended the end.
    assert found == [f"e{n}" for n in range(400)][400 - len([one for one in found if one[0] == "e"]) :] + [
        f"w{n}" for n in range(len([one for one in found if one[0] == "w"]))
    ]
    assert abs(len(found) - len(present)) <= 1


async def test_the_log_does_not_grow_with_the_copy(path: Path, store: Store, tmp_path: Path) -> None:
    await fill(store)
    sizes: list[int] = []
    wal = path.with_name(f"{path.name}-wal")
    await store.back_up(tmp_path / "copy.db", lambda *_: sizes.append(wal.stat().st_size))
    assert len(set(sizes)) == 1


async def test_a_commit_that_is_rolled_back_is_not_in_the_copy(store: Store, tmp_path: Path) -> None:
    await fill(store)
    commits, failed = commits_of(store), 0

    def fail(transaction: object) -> None:
        connection: sqlite3.Connection = transaction.connection  # type: ignore[attr-defined]
        # With a cache of one page, changes reach the log before the commit.
        connection.execute("PRAGMA cache_size = 1")
        connection.execute("UPDATE events SET data = 'spoiled'")
        raise ZeroDivisionError

    async with trio.open_nursery() as nursery:
        begin = trio.Event()

        async def spoil() -> None:
            nonlocal failed
            await begin.wait()
            with pytest.raises(ZeroDivisionError):
                await commits.call(fail)
            failed += 1

        nursery.start_soon(spoil)
        await store.back_up(tmp_path / "copy.db", lambda *_: begin.set())
    assert failed == 1
    assert peek(tmp_path / "copy.db", "SELECT count(*) FROM events WHERE data = 'spoiled'") == [(0,)]
    assert len(await restored(tmp_path / "copy.db")) == 200


async def test_two_at_once(store: Store, tmp_path: Path) -> None:
    await fill(store)
    async with trio.open_nursery() as nursery:
        for name in "ab":
            nursery.start_soon(store.back_up, tmp_path / name, ignore)
    for name in "ab":
        assert len(await restored(tmp_path / name)) == 200


@pytest.mark.parametrize("kind", ["file", "link", "broken link"])
async def test_nothing_is_replaced(store: Store, tmp_path: Path, kind: str) -> None:
    copy, other = tmp_path / "copy.db", tmp_path / "other"
    other.write_text("precious")
    if kind == "file":
        copy.write_text("precious")
    else:
        copy.symlink_to(other if kind == "link" else tmp_path / "nowhere")
    with pytest.raises(Conflict, match=r"There is a file .*copy.db already"):
        await store.back_up(copy, ignore)
    assert other.read_text() == "precious"
    assert not (tmp_path / "nowhere").exists()


async def test_a_cancelled_copy_leaves_nothing_and_commits_go_on(store: Store, tmp_path: Path) -> None:
    await fill(store)
    with trio.CancelScope() as scope:
        await store.back_up(tmp_path / "copy.db", lambda *_: scope.cancel())
    assert scope.cancelled_caught
    assert remains(tmp_path) == []
    assert await store.append(to("after")) == [True]
    await store.back_up(tmp_path / "copy.db", ignore)
    assert len(await restored(tmp_path / "copy.db")) == 201


async def test_a_copy_never_needs_what_is_free(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small file on a full disk needs no 0 MiB."""
    nothing = SimpleNamespace(free=0)
    monkeypatch.setattr(shutil, "disk_usage", lambda _folder: nothing)
    with pytest.raises(StorageUnavailable, match=r"has 0 MiB free, and the copy needs 1 MiB"):
        await store.back_up(tmp_path / "copy.db", ignore)


async def test_a_disk_without_room(store: Store, tmp_path: Path) -> None:
    await fill(store)
    with pytest.raises(StorageUnavailable, match=r"has .* MiB free, and the copy needs .*storage.min_free"):
        await store.back_up(tmp_path / "copy.db", ignore, min_free=2**60)
    assert remains(tmp_path) == []


async def test_a_disk_that_runs_full_meanwhile(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(store)
    usual = sqlite3.connect

    def small(*given: object, **more: object) -> sqlite3.Connection:
        connection = usual(*given, **more)  # type: ignore[call-overload]
        connection.execute("PRAGMA max_page_count = 10")
        return connection  # type: ignore[no-any-return]

    monkeypatch.setattr(sqlite3, "connect", small)
    with pytest.raises(StorageUnavailable, match=r"copy.db cannot be made: .*full"):
        await store.back_up(tmp_path / "copy.db", ignore)
    assert remains(tmp_path) == []
    assert await store.append(to("after")) == [True]
    assert commits_of(store).failing is None


async def test_a_missing_folder(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "nowhere"
    with pytest.raises(
        StorageUnavailable, match=rf"copy.db cannot be written: there is no folder {folder}; make it first\."
    ):
        await store.back_up(folder / "copy.db", ignore)


async def test_a_copy_is_as_encrypted_as_the_file(path: Path, tmp_path: Path) -> None:
    keys = MasterKeys(bytes(32))
    async with opened(path, keys=keys) as store:
        await store.put_instance(Instance(name="shop", id="id-1", options={"password": "hunter2"}))
        await store.back_up(tmp_path / "copy.db", ignore)
    assert b"hunter2" not in (tmp_path / "copy.db").read_bytes()
    async with opened(tmp_path / "copy.db", keys=keys) as store:
        assert (await store.load_instances())["shop"].options == {"password": "hunter2"}


# From another process


async def test_a_copy_from_beside_is_the_file_at_the_beginning(
    path: Path, store: Store, tmp_path: Path
) -> None:
    await fill(store)
    seen: list[int] = []

    def progress(done: int, total: int) -> None:
        if not seen:
            trio.from_thread.run(store.append, to("later"))
        seen.append(done)

    await trio.to_thread.run_sync(lambda: back_up_file(path, tmp_path / "copy.db", progress, min_free=0))
    assert seen == sorted(seen)
    assert len(await restored(tmp_path / "copy.db")) == 200
    assert len(await ids_of(store)) == 201


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("x" * 300, "cannot be opened: File name too long"),
        ("text.db", "cannot be used: file is not a database"),
    ],
)
def test_a_data_file_that_cannot_be_read_is_named(tmp_path: Path, name: str, sentence: str) -> None:
    (tmp_path / "text.db").write_text("Not a database. " * 100)
    with pytest.raises(StartError, match=f"The data file {tmp_path / name} {sentence}"):
        back_up_file(tmp_path / name, tmp_path / "copy.db", ignore, min_free=0)
    assert remains(tmp_path) == []


async def test_a_copy_from_beside_does_not_let_the_log_outgrow_the_file(
    path: Path, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backup, "MOST_LOG", 0)
    await fill(store)

    def progress(_done: int, _total: int) -> None:
        # As fast as a copy to a slow disk is slow.
        trio.from_thread.run(fill_more, store)

    written = 0

    async def fill_more(store: Store) -> None:
        nonlocal written
        written += 1
        await store.append(to(*(f"f{written}-{n}" for n in range(100)), data='"' + "x" * 1000 + '"'))

    with pytest.raises(StorageUnavailable, match=r"has grown to .* Use a faster disk, or POST"):
        await trio.to_thread.run_sync(lambda: back_up_file(path, tmp_path / "copy.db", progress, min_free=0))
    assert remains(tmp_path) == []
    assert await store.append(to("after")) == [True]


KILLED = """
import os, signal, sys
from pathlib import Path
from hookgw.store.sqlite import backup

backup.PAGES = 2

def die(done, total):
    if done > 4:
        os.kill(os.getpid(), signal.SIGKILL)

backup.back_up_file(Path(sys.argv[1]), Path(sys.argv[2]), die, min_free=0)
"""


async def test_a_killed_copy_leaves_no_file_of_its_name_and_the_gateway_goes_on(
    path: Path, store: Store, tmp_path: Path
) -> None:
    await fill(store)
    copy = tmp_path / "copy.db"
    killed = child(KILLED, path, copy)
    await trio.to_thread.run_sync(killed.communicate)
    assert killed.returncode == -signal.SIGKILL
    (left,) = remains(tmp_path)
    assert left.startswith(".hookgw-")
    assert await store.append(to("after")) == [True]
    await store.back_up(copy, ignore)
    assert remains(tmp_path) == ["copy.db"]
    assert len(await restored(copy)) == 201


def test_a_copy_of_nothing(tmp_path: Path) -> None:
    with pytest.raises(StorageUnavailable, match="There is no data file"):
        back_up_file(tmp_path / "data.db", tmp_path / "copy.db", ignore, min_free=0)
    assert list(tmp_path.iterdir()) == []


def test_a_copy_of_another_program_s_file(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "data.db")) as connection, connection:
        connection.execute("CREATE TABLE theirs (x)")
    with pytest.raises(StorageUnavailable, match=r"data.db is not a data file of hookgw"):
        back_up_file(tmp_path / "data.db", tmp_path / "copy.db", ignore, min_free=0)
    assert [file.name for file in tmp_path.iterdir()] == ["data.db"]
