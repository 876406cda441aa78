"""Light steps: a coroutine is cancelled with its task, wherever it is."""

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.public.concurrency import Waiter
from tests.support.light_steps import Firm, running

pytestmark = pytest.mark.usefixtures("autojump_clock")


async def test_a_cancellation_raises_at_the_wait_in_the_task() -> None:
    waiter, seen = Waiter(), []

    async def work() -> None:
        await waiter
        try:
            await waiter
        except trio.Cancelled:
            seen.append(("cancelled", place.is_light))
            raise
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(1)
            seen.append(("cleaned up", place.is_light))

    async def task() -> None:
        with scope:
            await place.steps.go(work())
        seen.append(("ended", scope.cancelled_caught))

    scope = trio.CancelScope()
    async with running() as place:
        place.nursery.start_soon(task)
        await wait_all_tasks_blocked()
        waiter.wake()
        await wait_all_tasks_blocked()
        scope.cancel()
        await trio.sleep(2)
        waiter.wake()
    assert seen == [("cancelled", False), ("cleaned up", False), ("ended", True)]


async def test_a_wait_that_has_ended_is_not_cancelled() -> None:
    """What was given to the waiter would be lost. The next checkpoint raises."""
    waiter, seen = Waiter(), []

    async def work() -> None:
        await waiter
        seen.append(("woken", place.is_light))
        with pytest.raises(trio.Cancelled):
            await trio.lowlevel.checkpoint()
        seen.append(("cancelled", place.is_light))

    async def task() -> None:
        with scope:
            await place.steps.go(work())

    scope = trio.CancelScope()
    async with running() as place:
        place.nursery.start_soon(task)
        await wait_all_tasks_blocked()
        waiter.wake()
        scope.cancel()
        await wait_all_tasks_blocked()
    assert seen == [("woken", False), ("cancelled", False)]


async def test_a_wait_that_cannot_be_cancelled_lasts_until_it_is_woken() -> None:
    firm, seen = Firm(), []

    async def work() -> None:
        await firm
        seen.append(("woken", place.is_light))
        await Waiter()

    async def task() -> None:
        with scope:
            await place.steps.go(work())
        seen.append(("ended", scope.cancelled_caught))

    scope = trio.CancelScope()
    async with running() as place:
        place.nursery.start_soon(task)
        await wait_all_tasks_blocked()
        scope.cancel()
        await wait_all_tasks_blocked()
        assert seen == []
        firm.wake()
        await wait_all_tasks_blocked()
    assert seen == [("woken", False), ("ended", True)]


@pytest.mark.parametrize("waiter", [Waiter(), Firm()])
async def test_a_light_step_that_cancels_its_own_task_does_not_wait(waiter: Waiter) -> None:
    first = Waiter()
    seen: list[bool] = []

    async def work() -> None:
        await first
        scope.cancel()
        seen.append(place.is_light)
        await waiter
        await trio.lowlevel.checkpoint()

    async def task() -> None:
        with scope:
            await place.steps.go(work())
        seen.append(scope.cancelled_caught)

    scope = trio.CancelScope()
    async with running() as place:
        place.nursery.start_soon(task)
        await wait_all_tasks_blocked()
        first.wake()
        await wait_all_tasks_blocked()
        waiter.wake()  # a wait that cannot be cancelled
        await wait_all_tasks_blocked()
    assert seen == [True, True]


async def test_a_cancelled_scope_around_go_ends_it_at_the_first_wait() -> None:
    seen = []

    async def work() -> None:
        seen.append("began")
        await Waiter()

    async with running() as place:
        with trio.CancelScope() as scope:
            scope.cancel()
            await place.steps.go(work())
    assert scope.cancelled_caught
    assert seen == ["began"]


async def test_a_deadline_around_go_is_kept() -> None:
    async def work() -> None:
        await Waiter()

    async with running() as place:
        with trio.move_on_after(5) as scope:
            await place.steps.go(work())
        assert scope.cancelled_caught
        assert trio.current_time() == 5
