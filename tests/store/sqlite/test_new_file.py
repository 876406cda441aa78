"""Files that appear whole or not at all."""

import errno
import fcntl
import os
import signal
import stat
from contextlib import nullcontext
from pathlib import Path

import pytest

from hookgw.store.sqlite.new_file import new_file
from tests.store.sqlite.support import child


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.usefixtures("links")
def test_it_gets_its_name_at_the_end(tmp_path: Path) -> None:
    with new_file(tmp_path / "copy") as partial:
        partial.write_text("whole")
        assert "copy" not in names(tmp_path)
    assert names(tmp_path) == ["copy"]
    assert (tmp_path / "copy").read_text() == "whole"
    assert stat.S_IMODE((tmp_path / "copy").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("code", "fails"), [(errno.EINVAL, False), (errno.ENOTSUP, False), (errno.EIO, True)]
)
def test_a_file_system_that_cannot_sync_folders_is_used_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, fails: bool
) -> None:
    """As a shared folder of VirtualBox, which has no sync of folders. A failure of the disk is told."""
    real = os.fsync

    def sync(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(code, os.strerror(code))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", sync)
    refused = pytest.raises(OSError, match="Input/output error") if fails else nullcontext()
    with refused, new_file(tmp_path / "copy"):
        pass
    assert names(tmp_path) == ["copy"]


def test_a_file_system_without_locks_is_used_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As NFS without a lock service: no process there can take the file for an abandoned one."""

    def refuse(_descriptor: int, _operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with new_file(tmp_path / "copy") as partial:
        partial.write_text("whole")
    assert names(tmp_path) == ["copy"]


def test_nothing_remains_of_one_that_failed(tmp_path: Path) -> None:
    def fail(partial: Path) -> None:
        partial.write_text("half")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), new_file(tmp_path / "copy") as partial:
        fail(partial)
    assert names(tmp_path) == []


@pytest.mark.parametrize("kind", ["file", "link", "broken link", "folder"])
def test_nothing_is_replaced(tmp_path: Path, kind: str) -> None:
    other, taken = tmp_path / "other", tmp_path / "copy"
    if kind != "broken link":
        other.write_text("precious")
    if kind == "folder":
        taken.mkdir()
    elif kind == "file":
        taken.write_text("precious")
    else:
        taken.symlink_to(other)
    before = names(tmp_path)
    with pytest.raises(FileExistsError), new_file(taken):
        pytest.fail("unreachable")  # pragma: no cover
    assert names(tmp_path) == before
    assert not other.exists() or other.read_text() == "precious"


@pytest.mark.usefixtures("links")
@pytest.mark.parametrize("is_link", [False, True])
def test_a_name_that_is_taken_meanwhile_is_not_replaced(tmp_path: Path, is_link: bool) -> None:
    other = tmp_path / ("other" if is_link else "copy")

    def take() -> None:
        other.write_text("early")
        if is_link:
            (tmp_path / "copy").symlink_to(other)

    with pytest.raises(FileExistsError), new_file(tmp_path / "copy"):
        take()
    assert names(tmp_path) == sorted({"copy", other.name})
    assert (tmp_path / "copy").read_text() == "early"


@pytest.mark.parametrize("links", ["EPERM"], indirect=True)
@pytest.mark.usefixtures("links")
def test_where_there_are_no_links_a_name_that_the_disk_refuses_stays_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(file: Path, target: Path) -> None:
        raise OSError(errno.EIO, "Input/output error", str(file), None, str(target))

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(OSError, match="Input/output error"), new_file(tmp_path / "copy"):
        pass
    assert names(tmp_path) == []


def test_two_at_once_do_not_take_each_other_for_abandoned(tmp_path: Path) -> None:
    with new_file(tmp_path / "a") as a, new_file(tmp_path / "b") as b:
        a.write_text("a")
        b.write_text("b")
    assert [(tmp_path / name).read_text() for name in names(tmp_path)] == ["a", "b"]


KILLED = """
import os, signal, sys
from pathlib import Path
from hookgw.store.sqlite.new_file import new_file

with new_file(Path(sys.argv[1])) as partial:
    partial.write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_leaves_has_another_name_and_is_removed_later(tmp_path: Path) -> None:
    (tmp_path / ".hookgw-link.partial").symlink_to(tmp_path / "elsewhere")
    killed = child(KILLED, tmp_path / "copy")
    killed.communicate(timeout=60)
    assert killed.returncode == -signal.SIGKILL
    left, link = names(tmp_path)
    assert left.startswith(".hookgw-")
    assert left.endswith(".partial")
    with new_file(tmp_path / "copy") as partial:
        partial.write_text("whole")
    assert names(tmp_path) == [link, "copy"]
    assert (tmp_path / link).readlink() == tmp_path / "elsewhere"


def test_a_partial_file_that_vanished_before_its_lock_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    usual = os.open

    def open_and_lose(path: object, flags: int, mode: int = 0o777) -> int:
        descriptor = usual(path, flags, mode)  # type: ignore[arg-type]
        if flags & os.O_EXCL:
            opened.append(str(path))
            if len(opened) == 1:  # another process cleans up at this moment
                Path(str(path)).unlink()
        return descriptor

    monkeypatch.setattr(os, "open", open_and_lose)
    with new_file(tmp_path / "copy") as partial:
        partial.write_text("whole")
    assert len(opened) == 2
    assert names(tmp_path) == ["copy"]
