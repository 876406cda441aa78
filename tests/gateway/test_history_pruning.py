"""Keeping the history within its bounds; the store removes what is too much."""

from pathlib import Path
from typing import cast

import trio
from trio.testing import MockClock

from hookgw import Event
from hookgw.testing import Receiver, open_kit
from tests.public.concurrency import virtual_clock
from tests.public.config import EventsSettings, StorageSettings
from tests.public.core import MOST_OF_INSTANCE
from tests.public.kernel import Duration, Size, StorageUnavailable
from tests.public.operations import prune_history
from tests.public.store import Store

STORAGE = StorageSettings(retention=Duration(3600.0), history_limit=Size(2**20), audit=Duration(1800.0))
EVENTS = EventsSettings(dedupe=Duration(7200.0), dedupe_limit=Size(2**21))


class FakeStore:
    """Records the calls; refuses the first one, if it is told to."""

    def __init__(self, *, refuses: bool = False, growth: float = 1e9) -> None:
        self.refuses = refuses
        self.growth = growth
        self.calls: list[tuple[float, float, int]] = []
        self.ids: list[tuple[float, int]] = []
        self.log_limits: list[int] = []
        self.audits: list[tuple[float, int]] = []

    async def enforce_retention(
        self, *, before: float, limit: int, ids_before: float, ids_limit: int, log_limit: int
    ) -> int:
        await trio.lowlevel.checkpoint()
        self.log_limits.append(log_limit)
        self.calls.append((trio.current_time(), before, limit))
        self.ids.append((ids_before, ids_limit))
        if self.refuses:
            self.refuses = False
            raise StorageUnavailable("disk full")
        return 0

    async def wait_log_growth(self) -> None:
        await trio.sleep(self.growth)

    async def prune_audit(self, *, before: float, most: int) -> int:
        self.audits.append((before, most))
        return 0


async def prune_for(seconds: float, store: FakeStore) -> float:
    """Let it run; return what the clock said at the start."""
    clock = virtual_clock()
    start = clock.steady()
    with trio.move_on_after(seconds):
        await prune_history(cast("Store", store), clock, STORAGE, EVENTS, lambda: True)
    return start


async def test_the_bounds_are_those_of_the_settings_every_minute(autojump_clock: MockClock) -> None:
    store = FakeStore()
    start = await prune_for(190, store)
    assert [(round(at), round(before - start), limit) for at, before, limit in store.calls] == [
        (60, 60 - 3600, 2**20),
        (120, 120 - 3600, 2**20),
        (180, 180 - 3600, 2**20),
    ]
    assert [(round(before - start), limit) for before, limit in store.ids] == [
        (minute - 7200, 2**21) for minute in (60, 120, 180)
    ]
    assert store.log_limits == [EVENTS.log_limit] * 3
    assert [(round(before - start), most) for before, most in store.audits] == [
        (minute - 1800, MOST_OF_INSTANCE) for minute in (60, 120, 180)
    ]


async def test_a_log_that_grows_is_looked_at_at_once(autojump_clock: MockClock) -> None:
    store = FakeStore(growth=20)
    await prune_for(50, store)
    assert [round(at) for at, _, _ in store.calls] == [20, 40]


async def test_a_disk_that_refuses_is_tried_again_a_minute_later(autojump_clock: MockClock) -> None:
    store = FakeStore(refuses=True)
    await prune_for(130, store)
    assert [round(at) for at, _, _ in store.calls] == [60, 120]


async def test_an_id_is_known_longer_than_its_delivery_is_kept(
    tmp_path: Path, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    settings = {"storage": {"retention": "1h"}, "events": {"dedupe": "1d"}}
    async with open_kit(tmp_path, settings=settings) as kit:

        async def emit(event_id: str) -> list[bool]:
            event = Event(id=event_id, kind="CALL", instance="shop", data_json=b"{}", time=1.0)
            return (await kit.gateway.events.accept([event])).fresh

        await kit.register(hookgw_receiver.url)
        assert await emit("e1") == [True]
        await kit.settled()
        assert await kit.gateway.store.find_delivery("shop", "e1") is not None
        await kit.advance(2 * 3600)
        while await kit.gateway.store.find_delivery("shop", "e1") is not None:
            await kit.advance(60)
        assert await emit("e1") == [False]
        hookgw_clock.jump(24 * 3600)
        while await emit("e1") == [False]:
            await kit.advance(60)
        await kit.settled()
    assert hookgw_receiver.ids == ["e1", "e1"]
