"""Light steps: coroutines that go on by a call, their tasks, their cancellation, and the line."""

import gc
import threading
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, NoReturn

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.lowlevel import current_task
from trio.testing import MockClock, wait_all_tasks_blocked

from hookgw.concurrency import LightSteps, Waiter, in_task, let_others_go_on, may_leave_task
from hookgw.concurrency.light import MOST_STEPS

pytestmark = pytest.mark.usefixtures("autojump_clock")


class Firm(Waiter):
    is_cancellable = False


class Place:
    """Light steps, and the task that makes them."""

    def __init__(self) -> None:
        self.steps = LightSteps()
        self.scope = trio.CancelScope()
        self.maker: object = None
        self.nursery: trio.Nursery

    async def make(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        self.maker = current_task()
        with self.scope:
            await self.steps.run(task_status=task_status)

    @property
    def is_light(self) -> bool:
        """Whether the caller runs in a light step."""
        return current_task() is self.maker

    def go(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Start a task that runs a coroutine."""
        self.nursery.start_soon(self.steps.go, coroutine)


@asynccontextmanager
async def running() -> AsyncIterator[Place]:
    place = Place()
    async with trio.open_nursery() as nursery:
        place.nursery = nursery
        await nursery.start(place.make)
        yield place
        place.scope.cancel()


async def test_a_coroutine_goes_on_in_light_steps_and_ends_in_its_task() -> None:
    waiter, seen, results = Waiter(), [], []

    async with running() as place:

        async def work() -> str:
            seen.append(place.is_light)
            for _ in range(3):
                await waiter.wait()
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
    waiter, found = Waiter(), []

    async with running() as place:

        def fail() -> NoReturn:
            assert place.is_light
            raise ValueError("no number")

        async def work() -> None:
            await waiter.wait()
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
        await waiter.wait()
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
            await waiter.wait()
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
        await waiter.wait()
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
        await waiter.wait()
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
            await waiter.wait()
            seen.append(("light", place.is_light))
            assert await in_task()
            seen.append(("moved", place.is_light))
            assert not await in_task()
            with trio.move_on_after(1):
                await trio.sleep(5)
            await waiter.wait()
            seen.append(("stays", place.is_light))
            may_leave_task()
            await waiter.wait()
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
            await waiter.wait()
            assert place.is_light
            await trio.lowlevel.checkpoint()
            seen.append(place.is_light)
            await waiter.wait()
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
            await second.wait()
            seen.append(("child", place.is_light))

        async def work() -> None:
            await first.wait()
            await in_task()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(child)
                await first.wait()
                seen.append(("parent", place.is_light))
            may_leave_task()
            await first.wait()
            seen.append(("parent", place.is_light))

        place.go(work())
        for waiter in (first, first, second, first):
            await wait_all_tasks_blocked()
            waiter.wake()
        await wait_all_tasks_blocked()
    assert seen == [("parent", False), ("child", False), ("parent", True)]


async def test_go_within_go_is_one_coroutine() -> None:
    waiter, seen = Waiter(), []

    async with running() as place:

        async def inner() -> str:
            await waiter.wait()
            seen.append(place.is_light)
            return "inner"

        async def outer() -> None:
            seen.append(await place.steps.go(inner()))
            await waiter.wait()
            seen.append(await place.steps.go(inner()))
            seen.append(place.is_light)

        place.go(outer())
        for _ in range(3):
            await wait_all_tasks_blocked()
            waiter.wake()
        await wait_all_tasks_blocked()
    assert seen == [True, "inner", True, "inner", True]


# A wait that needs a task.


async def _wait_for_event(event: trio.Event) -> None:
    await event.wait()


async def _sleep(_: trio.Event) -> None:
    await trio.sleep(1)


async def _sleep_forever(_: trio.Event) -> None:
    await trio.sleep_forever()


_send, _receive = trio.open_memory_channel[int](0)


async def _send_to_channel(_: trio.Event) -> None:
    await _send.send(1)


async def _receive_from_channel(_: trio.Event) -> None:
    await _receive.receive()


_taken = trio.Semaphore(0)
_lock = trio.Lock()


async def _wait_for_semaphore(_: trio.Event) -> None:
    await _taken.acquire()


async def _wait_for_lock(_: trio.Event) -> None:
    await _lock.acquire()


@pytest.mark.parametrize(
    "wait",
    [
        _wait_for_event,
        _sleep,
        _sleep_forever,
        _send_to_channel,
        _receive_from_channel,
        _wait_for_semaphore,
        _wait_for_lock,
    ],
)
async def test_a_wait_that_needs_a_task_fails_and_leaves_nothing_behind(
    wait: Callable[[trio.Event], Awaitable[None]],
) -> None:
    waiter, event, seen = Waiter(), trio.Event(), []

    async def work() -> None:
        await waiter.wait()
        with pytest.raises(RuntimeError, match=r"call in_task\(\) before"):
            await wait(event)
        await waiter.wait()  # as usual
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
        await waiter.wait()
        await trio.lowlevel.wait_task_rescheduled(abort)

    with pytest.raises(BaseExceptionGroup) as caught:
        async with running() as place:
            place.go(work())
            await wait_all_tasks_blocked()
            waiter.wake()
    assert caught.group_contains(LookupError)


# Cancellation.


async def test_a_cancellation_raises_at_the_wait_in_the_task() -> None:
    waiter, seen = Waiter(), []

    async def work() -> None:
        await waiter.wait()
        try:
            await waiter.wait()
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
        await waiter.wait()
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
        await firm.wait()
        seen.append(("woken", place.is_light))
        await Waiter().wait()

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
    first, seen = Waiter(), []

    async def work() -> None:
        await first.wait()
        scope.cancel()
        seen.append(place.is_light)
        await waiter.wait()
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
        await Waiter().wait()

    async with running() as place:
        with trio.CancelScope() as scope:
            scope.cancel()
            await place.steps.go(work())
    assert scope.cancelled_caught
    assert seen == ["began"]


async def test_a_deadline_around_go_is_kept() -> None:
    async with running() as place:
        with trio.move_on_after(5) as scope:
            await place.steps.go(Waiter().wait())
        assert scope.cancelled_caught
        assert trio.current_time() == 5


# The line.


async def test_the_line_is_in_order_and_what_steps_wake_comes_behind_it() -> None:
    first, second, third, seen = Waiter(), Waiter(), Waiter(), []

    async def work(name: str, mine: Waiter, other: Waiter | None = None) -> None:
        await mine.wait()
        seen.append(name)
        if other is not None:
            other.wake()

    async with running() as place:
        place.go(work("first", first, third))
        place.go(work("second", second))
        place.go(work("third", third))
        await wait_all_tasks_blocked()
        first.wake()
        second.wake()
        await wait_all_tasks_blocked()
    assert seen == ["first", "second", "third"]


@pytest.mark.parametrize("is_light", [False, True])
async def test_one_that_never_waits_long_does_not_hold_up_the_others(*, is_light: bool) -> None:
    waiter, seen, is_over = Waiter(), [], False

    async def busy() -> None:
        await waiter.wait()
        while not is_over:
            seen.append("busy")
            await let_others_go_on()

    async def other(mine: Waiter) -> None:
        nonlocal is_over
        for _ in range(5):
            seen.append("other")
            await mine.wait()
        is_over = True

    mine = Waiter()
    async with running() as place:
        if is_light:
            place.go(busy())
            place.go(other(mine))
        else:
            place.nursery.start_soon(busy)
            place.nursery.start_soon(other, mine)
        await wait_all_tasks_blocked()
        waiter.wake()
        while not is_over:
            await trio.lowlevel.checkpoint()
            mine.wake()
        await wait_all_tasks_blocked()
    turns = "".join(name[0] for name in seen)
    assert turns.count("o") == 5
    assert "b" * 8 not in turns[: turns.rindex("o")]


async def test_many_in_line_leave_turns_to_other_tasks() -> None:
    waiters, made, seen = [Waiter() for _ in range(3 * MOST_STEPS)], 0, []

    async def work(waiter: Waiter) -> None:
        nonlocal made
        await waiter.wait()
        made += 1

    async def other() -> None:
        while made < len(waiters):
            seen.append(made)
            await trio.lowlevel.checkpoint()

    async with running() as place:
        for waiter in waiters:
            place.go(work(waiter))
        await wait_all_tasks_blocked()
        for waiter in waiters:
            waiter.wake()
        await other()
    assert len(seen) >= 2
    assert set(seen) & {MOST_STEPS, 2 * MOST_STEPS}


async def test_make_after_makes_the_steps_of_what_it_wakes_at_once() -> None:
    waiters, seen = [Waiter() for _ in range(MOST_STEPS + 1)], []

    async def work(waiter: Waiter) -> None:
        await waiter.wait()
        seen.append(place.is_light)

    def wake() -> None:
        for waiter in waiters:
            waiter.wake()

    async with running() as place:
        for waiter in waiters:
            place.go(work(waiter))
        await wait_all_tasks_blocked()
        place.steps.make_after(wake)
        assert len(seen) == MOST_STEPS
        await wait_all_tasks_blocked()
        assert len(seen) == MOST_STEPS + 1


@pytest.mark.parametrize("fails", [False, True])
async def test_a_step_of_make_after_may_cancel_the_task_that_makes_steps(*, fails: bool) -> None:
    waiter, behind, seen = Waiter(), Waiter(), []

    async def work() -> None:
        await waiter.wait()
        place.scope.cancel()
        behind.wake()

    async def other() -> None:
        await behind.wait()
        seen.append(place.is_light)

    def wake() -> None:
        waiter.wake()
        if fails:
            raise LookupError

    async with running() as place:
        place.go(work())
        place.go(other())
        await wait_all_tasks_blocked()
        try:
            place.steps.make_after(wake)
        except LookupError:
            assert fails
        await wait_all_tasks_blocked()
    assert seen == [False]


# The end.


async def test_after_the_end_all_go_on_in_their_tasks() -> None:
    waiting, in_line, later, seen = Waiter(), Waiter(), Waiter(), []

    async def work(name: str, waiter: Waiter) -> None:
        await waiter.wait()
        seen.append((name, place.is_light))
        await let_others_go_on()
        await waiter.wait()
        seen.append((name, place.is_light))

    async with running() as place:
        place.go(work("waits", waiting))
        place.go(work("in line", in_line))
        await wait_all_tasks_blocked()
        place.scope.cancel()
        in_line.wake()  # before the end
        await wait_all_tasks_blocked()
        assert seen == [("in line", False)]
        waiting.wake()
        await wait_all_tasks_blocked()
        assert seen == [("in line", False), ("waits", False)]
        place.go(work("new", later))
        await wait_all_tasks_blocked()
        for waiter in (waiting, in_line, later):
            waiter.wake()
        await wait_all_tasks_blocked()
        assert sorted(seen[2:]) == [("in line", False), ("new", False), ("waits", False)]
        place.nursery.cancel_scope.cancel()


async def test_after_the_end_a_wait_can_be_cancelled() -> None:
    seen = []

    async def work() -> None:
        try:
            await Waiter().wait()
        except trio.Cancelled:
            seen.append(place.is_light)
            raise

    async with running() as place:
        place.go(work())
        await wait_all_tasks_blocked()
        place.scope.cancel()
        await wait_all_tasks_blocked()
        assert seen == []
        place.nursery.cancel_scope.cancel()
    assert seen == [False]


def test_two_event_loops_in_two_threads_do_not_meet() -> None:
    meeting = threading.Barrier(2, timeout=30)
    ends: list[tuple[int, int]] = []

    async def main(name: int) -> None:
        waiter, steps = Waiter(), 0
        async with running() as place:

            async def work() -> None:
                nonlocal steps
                while steps < 50:
                    await waiter.wait()
                    assert place.is_light
                    meeting.wait()  # both are in the middle of a light step
                    steps += 1

            place.go(work())
            while steps < 50:
                await wait_all_tasks_blocked()
                waiter.wake()
        ends.append((name, steps))

    threads = [threading.Thread(target=trio.run, args=(main, name)) for name in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(ends) == [(1, 50), (2, 50)]


# At random: the same program, in light steps and in Trio's tasks alone, sees the same.

PROGRAM = st.lists(st.sampled_from(("wait", "firm", "in_task", "leave", "checkpoint", "later")), max_size=8)
MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("wake"), st.integers(0, 2)),
        st.tuples(st.just("cancel"), st.integers(0, 2)),
        st.tuples(st.just("both"), st.integers(0, 2)),
        st.tuples(st.just("rest"), st.just(0)),
    ),
    max_size=20,
)


async def _play(programs: list[list[str]], moves: list[tuple[str, int]], *, runs: bool) -> list[list[str]]:
    seen: list[list[str]] = [[] for _ in programs]
    scopes = [trio.CancelScope() for _ in programs]
    waiters: list[tuple[Waiter, Waiter]] = [(Waiter(), Firm()) for _ in programs]
    task: object = None

    async def work(number: int) -> None:
        notes, (waiter, firm) = seen[number], waiters[number]
        try:
            for step in programs[number]:
                if step == "wait":
                    await waiter.wait()
                elif step == "firm":
                    await firm.wait()
                elif step == "in_task":
                    await in_task()
                    assert current_task() is not task
                elif step == "leave":
                    may_leave_task()
                elif step == "checkpoint":
                    await trio.lowlevel.checkpoint()
                else:
                    await let_others_go_on()
                notes.append(step)
        except trio.Cancelled:
            notes.append("cancelled")
            raise
        finally:
            await in_task()
            with trio.CancelScope(shield=True):
                await trio.sleep(0.001)
            notes.append("end")

    async def run(number: int) -> None:
        with scopes[number]:
            await steps.go(work(number))

    steps = LightSteps()

    async def make(*, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        nonlocal task
        task = current_task()
        await steps.run(task_status=task_status)

    async with trio.open_nursery() as makers:
        if runs:
            await makers.start(make)
        async with trio.open_nursery() as nursery:
            for number in range(len(programs)):
                nursery.start_soon(run, number)
            await wait_all_tasks_blocked()
            for move, number in moves:
                if move in ("wake", "both"):
                    for waiter in waiters[number]:
                        waiter.wake()
                if move in ("cancel", "both"):
                    scopes[number].cancel()
                await wait_all_tasks_blocked()
            for scope in scopes:
                scope.cancel()
            for _ in range(10):
                await wait_all_tasks_blocked()
                for _, firm in waiters:
                    firm.wake()
        makers.cancel_scope.cancel()
    return seen


@given(st.lists(PROGRAM, min_size=3, max_size=3), MOVES)
def test_any_program_sees_the_same_as_in_tasks_alone(
    programs: list[list[str]], moves: list[tuple[str, int]]
) -> None:
    async def main() -> None:
        light = await _play(programs, moves, runs=True)
        assert light == await _play(programs, moves, runs=False)

    trio.run(main, clock=MockClock(autojump_threshold=0))
