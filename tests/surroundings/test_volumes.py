"""Volumes as Kubernetes and OpenShift mount them: any user id, groups of volumes, read-only mounts."""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.surroundings.other_user import as_user, folder_of, other_uid
from tests.surroundings.surrounded import surrounded

pytestmark = pytest.mark.process

NOBODYS = 61_234
"""A group without an entry, as a volume has it."""

ROOT = 0
NO_HOME = ["env", "-u", "HOME", "-u", "USER", "-u", "LOGNAME"]
CHECK = """
import sys
from pathlib import Path
from hookgw.config.file_permissions import everything_in, first_trouble
print(first_trouble(everything_in(Path(sys.argv[1]))))
"""


def trouble(folder: Path, prefix: Sequence[str]) -> str:
    """Return what the check says of a folder in a process of another user."""
    command = [*prefix, sys.executable, "-c", CHECK, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.strip()


def test_a_volume_that_belongs_to_the_groups_of_the_process_is_accepted() -> None:
    uid = other_uid()
    with folder_of(ROOT, NOBODYS, 0o2775) as volume:
        prefix = [*as_user(uid, NOBODYS), *NO_HOME]
        assert trouble(volume, prefix) == "None"
        with surrounded(volume, prefix=prefix, storage={"path": str(volume / "hookgw.db")}) as gateway:
            gateway.wait_ready()
            assert gateway.stop() == 0
        backup = (volume / "hookgw.db").rename(volume / "backup.db")
        done = subprocess.run(
            [*prefix, sys.executable, "-m", "hookgw", "restore", str(backup)],
            cwd=volume,
            env={"HOOKGW_STORAGE__PATH": str(volume / "hookgw.db")},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")


def test_a_volume_of_another_group_is_refused_with_a_way_that_works() -> None:
    uid = other_uid()
    with folder_of(ROOT, NOBODYS, 0o2775) as volume:
        said = trouble(volume, as_user(uid))
    assert said.startswith(
        f"{volume} can be written to by the group {NOBODYS}. This process may not run chmod"
    )
    assert "fsGroup" in said


def test_root_gets_the_command() -> None:
    other_uid()
    with folder_of(ROOT, NOBODYS, 0o2775) as volume:
        said = trouble(volume, [])
    assert said.endswith(f"Run: chmod g-w {volume}")


@pytest.mark.parametrize("mode", [0o1777, 0o777])
def test_a_read_only_mount_is_never_shared(mode: int) -> None:
    uid = other_uid()
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-m", "true"], check=False).returncode:
        pytest.skip("This needs mount namespaces (unshare -m), which this machine does not allow.")
    with folder_of(uid) as folder:
        plugins = folder / "plugins"
        plugins.mkdir()
        (plugins / "mine.py").write_text("import hookgw\n", encoding="utf-8")
        plugins.chmod(mode)
        mount = f'mount --bind {plugins} {plugins} && mount -o remount,ro,bind {plugins} && exec "$@"'
        mounted = ["unshare", "-m", "sh", "-c", mount, "sh", *as_user(uid), *NO_HOME]
        assert trouble(plugins, as_user(uid)) != "None"
        assert trouble(plugins, mounted) == "None"
        with surrounded(folder, prefix=mounted, plugins={"folders": [str(plugins)]}) as gateway:
            gateway.wait_ready()
            assert gateway.stop() == 0


def test_commands_work_without_a_home_and_a_passwd_entry() -> None:
    uid = other_uid()
    with folder_of(uid) as folder, surrounded(folder, prefix=[*as_user(uid), *NO_HOME]) as gateway:
        gateway.wait_ready()
        url = str(gateway.http.base_url)
        for command in (["health"], ["instance", "list"]):
            done = subprocess.run(
                [*as_user(uid), *NO_HOME, sys.executable, "-m", "hookgw", *command],
                cwd=folder,
                env={"HOOKGW_URL": url, "HOOKGW_KEY": gateway.http.headers["apikey"]},
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            assert (done.returncode, done.stderr) == (0, ""), command


def test_a_full_shared_memory_ends_nothing() -> None:
    uid = other_uid()
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-m", "true"], check=False).returncode:
        pytest.skip("This needs mount namespaces (unshare -m), which this machine does not allow.")
    mount = 'mount -t tmpfs -o size=4k tmpfs /dev/shm && head -c 4096 /dev/zero > /dev/shm/full && exec "$@"'
    full = ["unshare", "-m", "sh", "-c", mount, "sh", *as_user(uid)]
    with folder_of(uid) as folder, surrounded(folder, prefix=full) as gateway:
        gateway.wait_ready()
        gateway.register("shop", "http://127.0.0.1:9/")
        gateway.emit("shop")
        assert gateway.http.get("/delivery/list/shop").json()["deliveries"]
        assert gateway.stop() == 0
