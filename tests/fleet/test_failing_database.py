"""The database moves to a standby, and its disk is full. Each test has a server of its own."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest
import trio

from tests.fleet.faults import CRASH
from tests.fleet.nodes import url_at
from tests.fleet.test_single_faults import loaded, slow
from tests.support.ports import free_port
from tests.support.postgres import run_postgres, server_user

pytestmark = [pytest.mark.crash, pytest.mark.timeout(240)]


@slow
async def test_the_database_fails_over_to_a_standby(tmp_path: Path) -> None:
    with (
        run_postgres(fsync=True, listen=free_port()) as primary,
        primary.with_standby(free_port()) as standby,
    ):
        # Both servers, as an operator writes them; not through links, so that the nodes see two hosts.
        url = url_at(primary.port, standby.port)
        async with loaded(primary, "hookgw", tmp_path, url=url) as (_, load):

            async def fail_over() -> None:
                await trio.to_thread.run_sync(partial(primary.stop, CRASH))
                await trio.to_thread.run_sync(standby.execute, "SELECT pg_promote()")

            await load.during("failover", fail_over)
            await trio.sleep(1)
            assert standby.execute("SELECT count(*) > 0 FROM hookgw.events") == [(True,)]


@slow
async def test_the_disk_of_the_database_is_full(tmp_path: Path) -> None:
    with run_postgres(fsync=True, listen=free_port()) as server, small_disk() as disk:
        server.execute(f"CREATE TABLESPACE small LOCATION '{disk}'")
        # Nodes choose the tablespace of the database, whatever their role presets.
        server.execute("ALTER DATABASE postgres SET TABLESPACE small", "template1")
        async with loaded(server, "hookgw", tmp_path) as (_, load):

            async def fill_up() -> None:
                await trio.to_thread.run_sync(fill, disk)
                # Some pages have room still: it takes a while until nothing more fits.
                with trio.fail_after(30):
                    while not any(producer.refusals for producer in load.producers):  # noqa: ASYNC110
                        await trio.sleep(0.1)
                await trio.sleep(3)
                (disk / "full").unlink()

            await load.during("full disk", fill_up)


@contextmanager
def small_disk() -> Iterator[Path]:
    """Mount a disk of 64 MiB in memory, if this machine allows it."""
    folder = Path(subprocess.check_output(["mktemp", "-d", "/tmp/hookgw-disk-XXXXXX"], text=True).strip())
    mount = ["mount", "-t", "tmpfs", "-o", "size=64m,mode=777", "tmpfs", str(folder)]
    if os.geteuid() or subprocess.run(mount, check=False, capture_output=True).returncode:
        folder.rmdir()
        pytest.skip("this machine mounts no disk")
    try:
        place = folder / "data"
        place.mkdir(mode=0o700)
        if user := server_user():
            os.chown(place, user.pw_uid, user.pw_gid)
        yield place
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
        folder.rmdir()


def fill(disk: Path) -> None:
    """Write until there is no room."""
    with (disk / "full").open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(65536))
