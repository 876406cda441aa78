"""Pruning, and the background tasks of plugins."""

from __future__ import annotations

from typing import cast

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from hookgw.config.settings import StorageSettings
from hookgw.gateway.history_pruning import keep_pruning, keep_running
from hookgw.gateway.metrics import Metrics
from hookgw.models.clock import virtual_clock
from hookgw.models.errors import StorageUnavailable
from hookgw.models.units import Duration, Size
from hookgw.store import Store

RETENTION = 3600.0
SETTINGS = StorageSettings(retention=Duration(RETENTION), history_limit=Size(2**20))


class PrunableStore:
    """A store whose steps are scripted: how many rows each removes, or that the disk refuses.

    Each row is a byte of what is used.
    """

    def __init__(self, *steps: int | StorageUnavailable, used: int = 0, needed: int = 0) -> None:
        self.steps = list(steps)
        self.calls: list[tuple[float, float, int]] = []
        self.used = used
        self.needed = needed
        self.measured = 0

    async def used_bytes(self) -> int:
        await trio.lowlevel.checkpoint()
        return self.used

    async def needed_bytes(self) -> int:
        await trio.lowlevel.checkpoint()
        self.measured += 1
        return self.needed

    async def prune(self, before: float, limit: int) -> int:
        await trio.lowlevel.checkpoint()
        self.calls.append((trio.current_time(), before, limit))
        step = self.steps.pop(0) if self.steps else 0
        if isinstance(step, StorageUnavailable):
            raise step
        self.used -= step
        return step


async def prune_for(seconds: float, store: PrunableStore) -> float:
    """Let pruning run; tells what the clock said at the start of the run."""
    clock = virtual_clock()
    start = clock.steady()
    with trio.move_on_after(seconds):
        await keep_pruning(cast("Store", store), clock, SETTINGS)
    return start


async def test_pruning_goes_on_in_small_steps_until_nothing_is_left(autojump_clock: MockClock) -> None:
    store = PrunableStore(200, 200, 17)
    start = await prune_for(119, store)
    times = [round(at, 2) for at, _, _ in store.calls]
    assert times == [60.0, 60.01, 60.02, 60.03]
    assert {(before, limit) for _, before, limit in store.calls} == {(start + 60 - RETENTION, 200)}
    assert store.measured == 0


async def test_pruning_comes_back_every_minute_with_a_later_end(autojump_clock: MockClock) -> None:
    store = PrunableStore()
    start = await prune_for(190, store)
    assert [round(before - start + RETENTION) for _, before, _ in store.calls] == [60, 120, 180]


async def test_pruning_survives_a_disk_that_refuses(autojump_clock: MockClock) -> None:
    store = PrunableStore(500, StorageUnavailable("disk full"), 5)
    await prune_for(130, store)
    assert [round(at) for at, _, _ in store.calls] == [60, 60, 120, 120]


async def test_a_history_over_its_limit_loses_what_is_oldest(autojump_clock: MockClock) -> None:
    store = PrunableStore(0, 200, 200, 200, used=2**20 + 5_000 + 201, needed=5_000)
    start = await prune_for(119, store)
    assert [(round(at, 2), round(before - start, 2)) for at, before, _ in store.calls] == [
        (60.0, 60.0 - RETENTION),
        (60.01, 60.01),
        (60.02, 60.01),
    ]
    assert store.measured == 1


@pytest.mark.parametrize(("used", "measured"), [(2**20, 0), (2**20 + 1, 1), (2**20 + 5_000, 1)])
async def test_a_history_within_its_limit_is_left_alone(
    autojump_clock: MockClock, used: int, measured: int
) -> None:
    store = PrunableStore(0, 200, used=used, needed=5_000)
    await prune_for(119, store)
    assert (len(store.calls), store.measured) == (1, measured)


async def test_a_file_that_does_not_shrink_ends_the_round(autojump_clock: MockClock) -> None:
    store = PrunableStore(used=2**30)
    await prune_for(190, store)
    assert [round(at) for at, _, _ in store.calls] == [60, 60, 120, 120, 180, 180]


async def test_a_background_task_that_fails_is_counted_and_started_again(
    autojump_clock: MockClock,
) -> None:
    metrics, began = Metrics(), []

    async def run() -> None:
        began.append(trio.current_time())
        if len(began) < 3:
            raise OSError("network down")

    start = trio.current_time()
    await keep_running("crm", run, metrics)
    assert [at - start for at in began] == [0, 1, 3]
    text = metrics.render()[0].decode()
    assert 'hook="hookgw_run",plugin="crm"} 2.0' in text


async def test_a_background_task_is_cancelled_with_the_gateway() -> None:
    metrics = Metrics()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(keep_running, "crm", trio.sleep_forever, metrics)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert "crm" not in metrics.render()[0].decode()


@pytest.mark.parametrize("problem", [RuntimeError("closing"), SystemExit(1)])
async def test_a_task_that_fails_while_it_is_cancelled_does_no_harm(problem: BaseException) -> None:
    async def run() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            try:
                await trio.sleep_forever()
            finally:
                raise problem

    async with trio.open_nursery() as nursery:
        nursery.start_soon(keep_running, "crm", run, Metrics())
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
