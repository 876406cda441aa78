"""Keeping the history within its bounds; the store removes what is too much."""

from __future__ import annotations

from typing import cast

import trio
from trio.testing import MockClock

from hookgw.config.settings import StorageSettings
from hookgw.gateway.history_pruning import prune_history
from hookgw.models.clock import virtual_clock
from hookgw.models.errors import StorageUnavailable
from hookgw.models.units import Duration, Size
from hookgw.store import Store

SETTINGS = StorageSettings(retention=Duration(3600.0), history_limit=Size(2**20))


class FakeStore:
    """Records the calls; refuses the first one, if it is told to."""

    def __init__(self, *, refuses: bool = False) -> None:
        self.refuses = refuses
        self.calls: list[tuple[float, float, int]] = []

    async def enforce_retention(self, *, before: float, limit: int) -> int:
        await trio.lowlevel.checkpoint()
        self.calls.append((trio.current_time(), before, limit))
        if self.refuses:
            self.refuses = False
            raise StorageUnavailable("disk full")
        return 0


async def prune_for(seconds: float, store: FakeStore) -> float:
    """Let it run; return what the clock said at the start."""
    clock = virtual_clock()
    start = clock.steady()
    with trio.move_on_after(seconds):
        await prune_history(cast("Store", store), clock, SETTINGS)
    return start


async def test_the_bounds_are_those_of_the_settings_every_minute(autojump_clock: MockClock) -> None:
    store = FakeStore()
    start = await prune_for(190, store)
    assert [(round(at), round(before - start), limit) for at, before, limit in store.calls] == [
        (60, 60 - 3600, 2**20),
        (120, 120 - 3600, 2**20),
        (180, 180 - 3600, 2**20),
    ]


async def test_a_disk_that_refuses_is_tried_again_a_minute_later(autojump_clock: MockClock) -> None:
    store = FakeStore(refuses=True)
    await prune_for(130, store)
    assert [round(at) for at, _, _ in store.calls] == [60, 120]
