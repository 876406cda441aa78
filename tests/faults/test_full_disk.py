"""A file system that is really full: a small one, mostly in memory, that only the gateway's process sees.

The process runs in a mount namespace of its own (and a user namespace, where it is not root's), so the
tests need no right that others lack. Where the system allows no namespaces they are skipped.
"""

import itertools
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio

from hookgw.testing import Receiver, answer, open_receiver
from tests.crash.target import Target
from tests.store.sqlite.support import peek
from tests.support.gateway_process import KEY, write_config
from tests.support.waits import until

SIZE = "6m"
PATIENCE = 60.0
LOOK_AGAIN = 0.02
DELIVERY = {
    "allow_networks": ["127.0.0.0/8"],
    "unreachable_first_wait": "50ms",
    "unreachable_max_wait": "200ms",
}
_TMPFS = f'mount -t tmpfs -o size={SIZE},mode=700 tmpfs "$0" && exec "$@"'
# It overwrites nothing: each change of a page takes new space, also of a file that is mapped into memory.
_BTRFS = (
    'test -e "$0.image" || { truncate -s 120M "$0.image" && mkfs.btrfs -q "$0.image" >&2; }; '
    'mount -o loop "$0.image" "$0" && exec "$@"'
)

pytestmark = pytest.mark.timeout(PATIENCE + 10)


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """The folder that becomes the small disk."""
    folder = tmp_path / "disk"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def launcher(disk: Path) -> list[str]:
    """A command that runs the one after it where the folder is a small disk."""
    return launcher_with(_TMPFS, disk)


@pytest.fixture(params=[_TMPFS, _BTRFS], ids=["tmpfs", "btrfs"])
def each_launcher(request: pytest.FixtureRequest, disk: Path) -> list[str]:
    """The same, for each kind of file system; the second one needs root and ``mkfs.btrfs``."""
    return launcher_with(request.param, disk)


def launcher_with(mount: str, disk: Path) -> list[str]:
    if shutil.which("unshare") is None:
        pytest.skip("there is no unshare here to make a mount namespace with")
    for namespaces in (["--mount", "--map-root-user"], ["--mount"]):
        command = ["unshare", *namespaces, "sh", "-c", mount, str(disk)]
        tried = subprocess.run([*command, "true"], capture_output=True, text=True, check=False)
        if tried.returncode == 0:
            return command
    pytest.skip(f"no file system can be mounted here, not even in a namespace: {tried.stderr.strip()}")


class Gateway:
    """A gateway on a small disk, and what is asked of it over HTTP.

    Attributes:
        accepted: the ids of the events that got their 202, in order.
    """

    def __init__(self, target: Target, http: httpx.AsyncClient, disk: Path) -> None:
        self.target = target
        self.accepted: list[str] = []
        self._http = http
        self._numbers = itertools.count()
        self._disk = disk
        self._held = -1

    @property
    def folder(self) -> Path:
        """The disk as its process sees it, seen from here, also when the process is gone."""
        return Path(f"/proc/self/fd/{self._held}")

    @contextmanager
    def looked_into(self) -> Iterator[None]:
        """Keep the disk within reach."""
        self._held = os.open(f"/proc/{self.target.pid}/root{self._disk}", os.O_RDONLY)
        try:
            yield
        finally:
            os.close(self._held)

    async def call(self, method: str, path: str, body: Any = None) -> httpx.Response:
        return await self._http.request(method, self.target.url + path, json=body)

    async def emit(self, event_id: str, size: int = 0) -> httpx.Response:
        body = {"event": "CALL", "id": event_id, "data": {"filling": "x" * size}}
        answered = await self.call("POST", "/event/emit/shop", body)
        if answered.status_code == 202:
            assert answered.json()["accepted"] == 1
            self.accepted.append(event_id)
        return answered

    async def emit_until_refused(self) -> tuple[str, httpx.Response]:
        """Emit large events until one is refused. Return its id and the answer."""
        for _ in range(1000):
            event_id = f"filling{next(self._numbers)}"
            answered = await self.emit(event_id, size=20_000)
            if answered.status_code != 202:
                return event_id, answered
        raise AssertionError("the disk is never full")

    async def emit_until_unready(self) -> tuple[str, httpx.Response]:
        """Emit large events until one is refused and readyz answers 503. Return its id and that answer.

        One refusal does not make hookgw unready for good. SQLite refuses a write that does not fit at the
        end of the write-ahead log, but smaller writes may still fit, and the next checkpoint can fold the
        log, which then starts over inside the space that it already has. Each event and each readyz that
        succeeds takes some of that space, so the loop ends.
        """
        while True:
            refused, answered = await self.emit_until_refused()
            assert answered.status_code == 503
            ready = await self.call("GET", "/readyz")
            if ready.status_code != 200:
                return refused, ready

    async def ready_again(self) -> None:
        while (await self.call("GET", "/readyz")).status_code != 200:  # noqa: ASYNC110
            await trio.sleep(LOOK_AGAIN)

    async def delivered(self) -> list[str]:
        found = (await self.call("GET", "/delivery/list/shop?limit=1000&state=delivered")).json()
        return [delivery["eventId"] for delivery in reversed(found["deliveries"])]


@asynccontextmanager
async def on_small_disk(
    disk: Path, launcher: list[str], receiver: Receiver, *, min_free: str = "0"
) -> AsyncIterator[Gateway]:
    """A gateway with ten events pending, as the receiver is down."""
    folder = disk.parent
    config = write_config(
        folder,
        delivery=DELIVERY,
        storage={
            "path": str(disk / "hookgw.db"),
            "min_free": min_free,
            "backup_folder": str(disk / "backups"),
        },
    )
    headers = {"apikey": KEY}
    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            target = Target(nursery, config, launcher)
            await target.spawn()
            await target.ready()
            async with httpx.AsyncClient(headers=headers, trust_env=False, timeout=30) as http:
                gateway = Gateway(target, http, disk)
                receiver.default = answer(503)
                assert (await gateway.call("POST", "/webhook/set/shop", {"url": receiver.url})).is_success
                for number in range(10):
                    assert (await gateway.emit(f"early{number}")).status_code == 202
                with gateway.looked_into():
                    yield gateway
            nursery.cancel_scope.cancel()


@contextmanager
def ballast(gateway: Gateway) -> Iterator[None]:
    """The disk is full, to the last byte, until the end of the block."""
    file = gateway.folder / "ballast"
    with file.open("wb", buffering=0) as heavy:
        for size in (65536, 4096, 1):
            try:
                while heavy.write(b"\0" * size):
                    pass
            except OSError:
                continue
        # What was changed before has its space, until it is written.
        subprocess.run(["sync", "--file-system", f"/proc/{os.getpid()}/fd/{heavy.fileno()}"], check=True)
    try:
        yield
    finally:
        file.unlink()


def copied(gateway: Gateway, folder: Path) -> Path:
    """The data file as it lies on the small disk, on one that has space."""
    for file in gateway.folder.glob("hookgw.db*"):
        shutil.copy(file, folder / file.name)
    return folder / "hookgw.db"


async def test_a_full_disk_refuses_producers_and_nothing_else_until_it_has_space(
    tmp_path: Path, disk: Path, each_launcher: list[str]
) -> None:
    async with open_receiver() as receiver, on_small_disk(disk, each_launcher, receiver) as gateway:
        with ballast(gateway):
            refused, said = await gateway.emit_until_refused()
            assert said.status_code == 503
            assert int(said.headers["retry-after"]) >= 1
            assert "full" in said.text
            seen = len(receiver.requests)
            receiver.default = answer()
            before = list(gateway.accepted)
            await until(lambda: len(set(receiver.ids[seen:])) == len(before))
            assert receiver.ids[seen:] == before
            late, ready = await gateway.emit_until_unready()
            assert ready.status_code == 503
            assert "full" in ready.text
            assert (await gateway.call("GET", "/healthz")).status_code == 200
        await gateway.ready_again()
        for event_id in (refused, late):
            assert (await gateway.emit(event_id)).status_code == 202
        await until(lambda: len(receiver.requests) == seen + len(gateway.accepted))
        while await gateway.delivered() != gateway.accepted:  # noqa: ASYNC110
            await trio.sleep(LOOK_AGAIN)
        assert receiver.ids[seen:] == gateway.accepted
        assert await gateway.target.terminate() == 0
        data = copied(gateway, tmp_path)
        assert peek(data, "PRAGMA integrity_check") == [("ok",)]


async def test_a_kill_while_the_disk_is_full_leaves_all_that_was_accepted(
    tmp_path: Path, disk: Path, launcher: list[str]
) -> None:
    async with open_receiver() as receiver, on_small_disk(disk, launcher, receiver) as gateway:
        with ballast(gateway):
            await gateway.emit_until_refused()
            await gateway.target.kill()
            data = copied(gateway, tmp_path)
        assert peek(data, "PRAGMA integrity_check") == [("ok",)]
        assert [name for (name,) in peek(data, "SELECT id FROM events ORDER BY seq")] == gateway.accepted
        pending = "SELECT count(*) FROM deliveries WHERE state = 'pending'"
        assert peek(data, pending) == [(len(gateway.accepted),)]


async def test_events_are_refused_before_the_disk_is_full(disk: Path, launcher: list[str]) -> None:
    async with (
        open_receiver() as receiver,
        on_small_disk(disk, launcher, receiver, min_free="2MiB") as gateway,
    ):
        _, said = await gateway.emit_until_refused()
        assert said.status_code == 503
        assert int(said.headers["retry-after"]) >= 1
        assert "storage.min_free (2MiB)" in said.text
        space = os.statvfs(gateway.folder)
        # The watch is one look behind: it looks again after every part of what may be written.
        assert space.f_bavail * space.f_frsize > 2**20
        ready = await gateway.call("GET", "/readyz")
        assert ready.status_code == 503
        assert "Events are refused; deliveries continue." in ready.text
        seen = len(receiver.requests)
        receiver.default = answer()
        await until(lambda: receiver.ids[seen:] == gateway.accepted)
        while await gateway.delivered() != gateway.accepted:  # noqa: ASYNC110
            await trio.sleep(LOOK_AGAIN)
        # Still on the same disk: what was delivered is kept, and only its retention makes room.
        assert (await gateway.call("GET", "/readyz")).status_code == 503
        assert await gateway.target.terminate() == 0


async def test_a_backup_without_room_leaves_nothing_and_disturbs_nobody(
    disk: Path, launcher: list[str]
) -> None:
    async with open_receiver() as receiver, on_small_disk(disk, launcher, receiver) as gateway:
        backups = gateway.folder / "backups"
        assert (await gateway.call("POST", "/storage/backup", {"name": "first"})).status_code == 201
        with ballast(gateway):
            refused = await gateway.call("POST", "/storage/backup", {"name": "second"})
            assert refused.status_code == 503
            assert "second" in refused.text or "MiB free" in refused.text
            receiver.default = answer()
            await until(lambda: len({one.event_id for one in receiver.requests}) == 10)
        assert [file.name for file in backups.iterdir()] == ["first"]
        await gateway.ready_again()
        assert (await gateway.call("POST", "/storage/backup", {"name": "second"})).status_code == 201
