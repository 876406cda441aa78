"""Events are refused before the disk is full, and deliveries continue."""

import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from structlog.testing import capture_logs
from trio.testing import MockClock

from hookgw import DeliveryState, Unavailable
from hookgw.testing import Receiver, answer, open_kit
from tests.public.core import CHECK_EVERY, DiskSpaceWatch
from tests.public.kernel import StorageUnavailable
from tests.public.store import DiskSpace

KIND = "CALL"
MIN = 2**29
ENOUGH = DiskSpace(free=2**40, reusable=0)
LITTLE = DiskSpace(free=MIN - 1, reusable=0)


class Disk:
    """The part of a store that measures, with a programmed result."""

    def __init__(self, space: DiskSpace = ENOUGH) -> None:
        self.space: DiskSpace | StorageUnavailable = space
        self.looks = 0

    async def disk_space(self) -> DiskSpace:
        self.looks += 1
        await trio.lowlevel.checkpoint()
        if isinstance(self.space, StorageUnavailable):
            raise self.space
        return self.space


@pytest.fixture
async def watch_of(nursery: trio.Nursery) -> AsyncIterator[Callable[..., Any]]:
    async def start(disk: Any, min_free: int = MIN) -> DiskSpaceWatch:
        watch = DiskSpaceWatch(disk, min_free)
        await nursery.start(watch.run)
        return watch

    yield start
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("free", "reusable", "unfolded", "shortage"),
    [
        (MIN, 0, 0, None),
        (MIN - 1, 0, 0, "511 MiB left for events, less than"),
        (MIN - 1, 1, 0, None),
        (MIN // 4, MIN, 0, None),
        # The write-ahead log needs space outside of the file.
        (MIN // 4 - 1, 2**40, 0, "127 MiB left beside the data file, less than a quarter of"),
        (0, 0, 0, "0 bytes left for events, less than"),
        # What the next checkpoint adds to the file is not free.
        (MIN + 10, 0, 10, None),
        (MIN + 10, 0, 11, "511 MiB left for events, less than"),
        (MIN // 4, 2**40, 1, "127 MiB left beside the data file, less than a quarter of"),
    ],
)
async def test_what_is_enough(
    watch_of: Any, free: int, reusable: int, unfolded: int, shortage: str | None
) -> None:
    watch = await watch_of(Disk(DiskSpace(free=free, reusable=reusable, unfolded=unfolded)))
    if shortage is None:
        assert watch.shortage is None
        watch.check()
    else:
        assert watch.shortage == f"The disk has {shortage} storage.min_free (512MiB)."
        with pytest.raises(Unavailable, match=re.escape(watch.shortage)):
            watch.check()


async def test_the_disk_is_looked_at_once_a_second(watch_of: Any, autojump_clock: MockClock) -> None:
    disk = Disk()
    watch = await watch_of(disk)
    assert disk.looks == 1
    disk.space = LITTLE
    await trio.sleep(CHECK_EVERY + 0.1)
    assert disk.looks == 2
    with pytest.raises(Unavailable, match=r"has 511 MiB left"):
        watch.check()
    disk.space = ENOUGH
    await trio.sleep(CHECK_EVERY)
    watch.check()


async def test_and_at_once_after_much_was_written(watch_of: Any, hookgw_clock: MockClock) -> None:
    disk = Disk(DiskSpace(free=MIN + 4_000_000_000, reusable=0))
    watch = await watch_of(disk)
    watch.written(1_000_000_000)
    await trio.testing.wait_all_tasks_blocked()
    assert disk.looks == 1
    watch.written(1)
    await trio.testing.wait_all_tasks_blocked()
    assert disk.looks == 2
    # Near the threshold, too, it is not measured for each event.
    disk.space = DiskSpace(free=MIN + 1, reusable=0)
    watch.written(1_000_000_001)
    await trio.testing.wait_all_tasks_blocked()
    watch.written(MIN // 16)
    await trio.testing.wait_all_tasks_blocked()
    assert disk.looks == 3


async def test_a_disk_that_cannot_be_examined_is_not_looked_at_all_the_time(
    watch_of: Any, hookgw_clock: MockClock
) -> None:
    disk = Disk()
    watch = await watch_of(disk)
    disk.space = StorageUnavailable("The disk is gone.")
    watch.written(2**40)
    for _ in range(50):
        await trio.testing.wait_all_tasks_blocked(0.001)
        watch.written(1_000)
        if disk.looks > 2:
            break
    assert disk.looks == 2
    hookgw_clock.jump(CHECK_EVERY)
    await trio.testing.wait_all_tasks_blocked()
    assert disk.looks == 3


async def test_a_disk_that_cannot_be_examined_is_as_it_was(watch_of: Any, autojump_clock: MockClock) -> None:
    disk = Disk()
    watch = await watch_of(disk)
    disk.space = StorageUnavailable("The disk is gone.")
    with capture_logs() as logs:
        await trio.sleep(3 * CHECK_EVERY + 0.1)
    assert disk.looks == 4
    assert [entry["reason"] for entry in logs] == ["The disk is gone."]
    watch.check()
    assert watch.found == ENOUGH


async def test_events_are_refused_and_deliveries_continue(
    tmp_path: Path, hookgw_receiver: Receiver, hookgw_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    hookgw_receiver.default = answer(503)
    async with open_kit(tmp_path, settings={"storage": {"min_free": "1KiB"}}) as kit:
        gateway = kit.gateway
        await kit.register(hookgw_receiver.url)
        first = await kit.emit(KIND, {})
        disk = Disk(DiskSpace(free=1000, reusable=0))
        monkeypatch.setattr(gateway.store, "disk_space", disk.disk_space)
        await look(hookgw_clock)
        with pytest.raises(
            Unavailable, match=r"1,000 bytes left for events, less than storage.min_free \(1KiB\)"
        ):
            await kit.emit(KIND, {})
        with pytest.raises(Unavailable, match=r"Events are refused; deliveries continue"):
            await gateway.ready()
        metrics = gateway.metrics.render()[0]
        assert b"hookgw_disk_free_bytes 1000.0" in metrics
        assert b"hookgw_disk_reusable_bytes 0.0" in metrics
        hookgw_receiver.default = answer()
        await kit.advance(1)
        await hookgw_receiver.wait_for(2)
        await kit.settled()
        found = (await gateway.history.find("shop", first.id)).summary
        assert found.state is DeliveryState.DELIVERED
        # What an operator needs to change, works.
        await kit.register(hookgw_receiver.url, label="other")
        disk.space = ENOUGH
        await look(hookgw_clock)
        await gateway.ready()
        await kit.emit(KIND, {})


async def test_0_disables_the_watch(tmp_path: Path, hookgw_clock: MockClock) -> None:
    async with open_kit(tmp_path) as kit:
        assert kit.gateway.disk.found is None
        assert b"hookgw_disk_free_bytes" not in kit.gateway.metrics.render()[0]


async def look(clock: MockClock) -> None:
    await trio.testing.wait_all_tasks_blocked()
    clock.jump(CHECK_EVERY)
    await trio.testing.wait_all_tasks_blocked(0.01)
