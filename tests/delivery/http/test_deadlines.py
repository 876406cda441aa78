"""One timer for many deadlines."""

import pytest
import trio
import trio.testing

from tests.public.delivery import DEADLINE_GRAIN as GRAIN
from tests.public.delivery import Deadlines


class Resource:
    """Waits until it is closed, and notes when that was."""

    def __init__(self) -> None:
        self.closed_at: float | None = None
        self._closed = trio.Event()

    def interrupt_nowait(self) -> None:
        self.closed_at = trio.current_time()
        self._closed.set()

    async def wait(self, deadlines: Deadlines, deadline: float) -> None:
        deadlines.watch(self, deadline)
        try:
            await self._closed.wait()
        finally:
            deadlines.unwatch(self)


async def test_each_is_closed_at_its_deadline(autojump_clock: trio.testing.MockClock) -> None:
    began = trio.current_time()
    deadlines, resources = Deadlines(), [Resource() for _ in range(4)]
    async with trio.open_nursery() as watching:
        await watching.start(deadlines.run)
        async with trio.open_nursery() as nursery:
            for resource, seconds in zip(resources, (15, 3, 3, 40), strict=True):
                nursery.start_soon(resource.wait, deadlines, began + seconds)
                await trio.testing.wait_all_tasks_blocked()
        watching.cancel_scope.cancel()
    assert [round((resource.closed_at or 0) - began, 3) for resource in resources] == [15, 3, 3, 40]


async def test_deadlines_close_together_are_a_grain_late_at_most(
    autojump_clock: trio.testing.MockClock,
) -> None:
    began = trio.current_time()
    deadlines, resources = Deadlines(), [Resource() for _ in range(20)]
    async with trio.open_nursery() as watching:
        await watching.start(deadlines.run)
        async with trio.open_nursery() as nursery:
            for number, resource in enumerate(resources):
                nursery.start_soon(resource.wait, deadlines, began + 1 + number / 1000)
        watching.cancel_scope.cancel()
    lateness = [
        (resource.closed_at or 0) - began - 1 - number / 1000 for number, resource in enumerate(resources)
    ]
    assert all(-1e-9 <= late <= GRAIN + 1e-9 for late in lateness)


async def test_what_is_over_in_time_is_left_alone(autojump_clock: trio.testing.MockClock) -> None:
    deadlines, resource = Deadlines(), Resource()
    async with trio.open_nursery() as nursery:
        await nursery.start(deadlines.run)
        deadlines.watch(resource, trio.current_time() + 1)
        await trio.sleep(0.5)
        deadlines.unwatch(resource)
        await trio.sleep(10)
        nursery.cancel_scope.cancel()
    assert resource.closed_at is None


async def test_a_deadline_in_the_past_closes_at_once(autojump_clock: trio.testing.MockClock) -> None:
    began = trio.current_time()
    deadlines, resource = Deadlines(), Resource()
    async with trio.open_nursery() as nursery:
        await nursery.start(deadlines.run)
        await resource.wait(deadlines, began - 1)
        nursery.cancel_scope.cancel()
    assert resource.closed_at == began


async def test_somebody_must_watch() -> None:
    deadlines, resource = Deadlines(), Resource()
    with pytest.raises(RuntimeError, match=r"start Deadlines\.run first"):
        deadlines.watch(resource, 0)
    async with trio.open_nursery() as nursery:
        await nursery.start(deadlines.run)
        nursery.cancel_scope.cancel()
    with pytest.raises(RuntimeError, match=r"start Deadlines\.run first"):
        deadlines.watch(resource, 0)
