"""Light steps: coroutines that go on by a call, and their tasks."""

import gc
import traceback
from collections.abc import Awaitable, Callable
from typing import NoReturn

import pytest
import trio
from trio.lowlevel import current_task
from trio.testing import wait_all_tasks_blocked

from tests.public.concurrency import LightSteps, Waiter, in_task, may_leave_task
from tests.support.light_steps import running

pytestmark = pytest.mark.usefixtures("autojump_clock")


async def test_a_coroutine_goes_on_in_light_steps_and_ends_in_its_task() -> None:
    waiter, seen, results = Waiter(), [], []

    async with running() as place:

        async def work() -> str:
            seen.append(place.is_light)
            for _ in range(3):
                await waiter
                seen.append(place.is_light)
            return "done"

        async def task() -> None:
            results.append(await place.steps.go(work()))
            assert not place.is_light

        place.nursery.start_soon(task)
        for _ in range(3):
            await wait_all_tasks_blocked()
            waiter.wake()
        await wait_all_tasks_blocked()
    assert seen == [False, True, True, True]
    assert results == ["done"]


async def test_an_exception_of_a_light_step_is_raised_in_the_task_with_its_own_lines() -> None:
    waiter = Waiter()
    found: list[str] = []

    async with running() as place:

        def fail() -> NoReturn:
            assert place.is_light
            raise ValueError("no number")

        async def work() -> None:
            await waiter
            fail()

        async def task() -> None:
            with pytest.raises(ValueError, match="no number") as caught:
                await place.steps.go(work())
            found.extend(frame.name for frame in traceback.extract_tb(caught.value.__traceback__))

        place.nursery.start_soon(task)
        await wait_all_tasks_blocked()
        waiter.wake()
        await wait_all_tasks_blocked()
    assert found[0] == "task"
    assert found[-2:] == ["work", "fail"]


@pytest.mark.parametrize("is_light", [False, True])
async def test_an_exception_keeps_nothing_in_memory_until_the_next_collection(*, is_light: bool) -> None:
    class Payload:
        pass

    waiter, here = Waiter(), [0]

    async def work() -> None:
        payload = Payload()
        await waiter
        if not is_light:
            await in_task()
        raise ValueError(str(payload))

    async def task() -> None:
        try:
            await place.steps.go(work())
        except ValueError:
            here.append(1)

    async with running() as place:
        gc.collect()
        gc.disable()
        try:
            place.nursery.start_soon(task)
            await wait_all_tasks_blocked()
            waiter.wake()
            await wait_all_tasks_blocked()
            assert not [one for one in gc.get_objects() if isinstance(one, Payload)]
        finally:
            gc.enable()
    assert here == [0, 1]


async def test_a_wake_without_anybody_who_waits_is_forgotten() -> None:
    waiter, seen = Waiter(), []

    async with running() as place:

        async def work() -> None:
            waiter.wake()
            await waiter
            seen.append(1)

        place.go(work())
        await wait_all_tasks_blocked()
        assert seen == []
        waiter.wake()
        waiter.wake()
        await wait_all_tasks_blocked()
    assert seen == [1]


async def test_without_light_steps_a_waiter_is_trios() -> None:
    waiter, seen = Waiter(), []

    async def work() -> None:
        assert not await in_task()
        may_leave_task()
        await waiter
        seen.append(current_task())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(LightSteps().go, work())
        nursery.start_soon(work)
        await wait_all_tasks_blocked()
        waiter.wake()  # one of the two: the place is for one
        await wait_all_tasks_blocked()
        assert len(seen) == 1
        nursery.cancel_scope.cancel()


async def test_a_cancelled_task_leaves_its_waiter() -> None:
    waiter, seen = Waiter(), []

    async def work() -> None:
        await waiter
        seen.append(1)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(work)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    waiter.wake()
    assert seen == []


# Into the task, and out of it.


async def test_in_task_goes_on_in_the_task_until_it_may_be_left() -> None:
    waiter, seen = Waiter(), []

    async with running() as place:

        async def work() -> None:
            await waiter
            seen.append(("light", place.is_light))
            assert await in_task()
            seen.append(("moved", place.is_light))
            assert not await in_task()
            with trio.move_on_after(1):
                await trio.sleep(5)
            await waiter
            seen.append(("stays", place.is_light))
            may_leave_task()
            await waiter
            seen.append(("light again", place.is_light))

        place.go(work())
        for _ in range(3):
            await trio.sleep(2)
            waiter.wake()
        await wait_all_tasks_blocked()
    assert seen == [("light", True), ("moved", False), ("stays", False), ("light again", True)]


async def test_a_checkpoint_in_a_light_step_is_made_by_the_task() -> None:
    waiter, seen = Waiter(), []

    async with running() as place:

        async def work() -> None:
            await waiter
            assert place.is_light
            await trio.lowlevel.checkpoint()
            seen.append(place.is_light)
            await waiter
            seen.append(place.is_light)

        place.go(work())
        for _ in range(2):
            await wait_all_tasks_blocked()
            waiter.wake()
        await wait_all_tasks_blocked()
    assert seen == [False, True]


async def test_a_child_task_of_a_coroutine_waits_by_itself() -> None:
    first, second, seen = Waiter(), Waiter(), []

    async with running() as place:

        async def child() -> None:
            await second
            seen.append(("child", place.is_light))

        async def work() -> None:
            await first
            await in_task()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(child)
                await first
                seen.append(("parent", place.is_light))
            may_leave_task()
            await first
            seen.append(("parent", place.is_light))

        place.go(work())
        for waiter in (first, first, second, first):
            await wait_all_tasks_blocked()
            waiter.wake()
        await wait_all_tasks_blocked()
    assert seen == [("parent", False), ("child", False), ("parent", True)]


async def test_go_within_go_is_one_coroutine() -> None:
    waiter = Waiter()
    seen: list[object] = []

    async with running() as place:

        async def inner() -> str:
            await waiter
            seen.append(place.is_light)
            return "inner"

        async def outer() -> None:
            seen.append(await place.steps.go(inner()))
            await waiter
            seen.append(await place.steps.go(inner()))
            seen.append(place.is_light)

        place.go(outer())
        for _ in range(3):
            await wait_all_tasks_blocked()
            waiter.wake()
        await wait_all_tasks_blocked()
    assert seen == [True, "inner", True, "inner", True]


# A wait that needs a task.


_send, _receive = trio.open_memory_channel[int](0)
_taken = trio.Semaphore(0)
_lock = trio.Lock()


@pytest.mark.parametrize(
    "wait",
    [
        lambda event: event.wait(),
        lambda _: trio.sleep(1),  # noqa: ASYNC105 -- awaited by the test
        lambda _: trio.sleep_forever(),  # noqa: ASYNC105
        lambda _: _send.send(1),
        lambda _: _receive.receive(),
        lambda _: _taken.acquire(),
        lambda _: _lock.acquire(),
    ],
    ids=["event", "sleep", "sleep_forever", "send", "receive", "semaphore", "lock"],
)
async def test_a_wait_that_needs_a_task_fails_and_leaves_nothing_behind(
    wait: Callable[[trio.Event], Awaitable[None]],
) -> None:
    waiter, event, seen = Waiter(), trio.Event(), []

    async def work() -> None:
        await waiter
        with pytest.raises(RuntimeError, match=r"call in_task\(\) before"):
            await wait(event)
        await waiter  # as usual
        seen.append(place.is_light)

    async with _lock, running() as place:
        place.go(work())
        await wait_all_tasks_blocked()
        waiter.wake()
        await wait_all_tasks_blocked()
        # What was waited for wakes nobody: the task that makes the steps waits for another thing by now.
        statistics = event.statistics().tasks_waiting, _taken.statistics().tasks_waiting
        assert (*statistics, _lock.statistics().tasks_waiting) == (0, 0, 0)
        assert _send.statistics().tasks_waiting_send == _send.statistics().tasks_waiting_receive == 0
        event.set()
        await trio.sleep(2)
        waiter.wake()
        await wait_all_tasks_blocked()
    assert seen == [True]


async def test_a_wait_that_cannot_be_undone_fails_in_its_task_too() -> None:
    """It is a bug that may end everything, but nobody waits for ever."""
    waiter = Waiter()

    def abort(_: object) -> NoReturn:
        raise LookupError("cannot be undone")

    async def work() -> None:
        await waiter
        await trio.lowlevel.wait_task_rescheduled(abort)

    with pytest.raises(BaseExceptionGroup) as caught:  # noqa: PT012 -- the block ends with it
        async with running() as place:
            place.go(work())
            await wait_all_tasks_blocked()
            waiter.wake()
    assert caught.group_contains(LookupError)
