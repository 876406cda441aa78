from pathlib import Path

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.public.concurrency import virtual_clock
from tests.public.core import Metrics
from tests.public.operations import Activity, Counts
from tests.public.store import open_store


async def advance(clock: MockClock, seconds: int) -> None:
    """Let time pass in small steps. Autojump would take waiting for the disk for idleness."""
    for _ in range(seconds):
        clock.jump(1)
        await wait_all_tasks_blocked()


async def test_what_happened_lately(tmp_path: Path, mock_clock: MockClock) -> None:
    clock = virtual_clock()
    async with open_store(tmp_path / "a.db", clock=clock) as store:
        metrics = Metrics()
        activity = Activity(metrics, store, clock)
        await activity.load()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(activity.run)
            metrics.accepted("MESSAGES_UPSERT", 5)
            metrics.delivered(0.1)
            assert activity.last_minute() == activity.since(3600) == Counts(5, 1, 0)
            await advance(mock_clock, 121)
            assert activity.last_minute() == Counts()
            assert activity.since(3600) == Counts(5, 1, 0)
            metrics.dead(2)
            metrics.accepted("CONNECTION_UPDATE")
            assert activity.last_minute() == Counts(1, 0, 2)
            assert activity.since(60) == Counts(1, 0, 2)
            await advance(mock_clock, 60)
            nursery.cancel_scope.cancel()
        # A restart keeps the figures of the day, and counts on.
        again = Activity(Metrics(), store, clock)
        await again.load()
        assert again.since(86_400) == Counts(6, 1, 2)
        mock_clock.jump(86_400)
        assert again.since(86_400) == Counts()


async def test_figures_of_another_version_are_dropped(tmp_path: Path, mock_clock: MockClock) -> None:
    clock = virtual_clock()
    async with open_store(tmp_path / "a.db", clock=clock) as store:
        await store.put_value("activity", {"what": "is this"})
        activity = Activity(Metrics(), store, clock)
        await activity.load()
        assert activity.since(3600) == Counts()
