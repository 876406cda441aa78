"""Light steps: the line, its end, and programs at random."""

import threading

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.lowlevel import current_task
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.public.concurrency import (
    MOST_STEPS,
    PASSES,
    LightSteps,
    Waiter,
    in_task,
    let_others_go_on,
    may_leave_task,
)
from tests.support.light_steps import Firm, running

pytestmark = pytest.mark.usefixtures("autojump_clock")


async def test_the_line_is_in_order_and_what_steps_wake_comes_behind_it() -> None:
    first, second, third, seen = Waiter(), Waiter(), Waiter(), []

    async def work(name: str, mine: Waiter, other: Waiter | None = None) -> None:
        await mine
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
        await waiter
        while not is_over:
            seen.append("busy")
            await let_others_go_on()

    async def other(mine: Waiter) -> None:
        nonlocal is_over
        for _ in range(5):
            seen.append("other")
            await mine
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
        await waiter
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
        await waiter
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


async def test_what_follows_from_a_step_is_made_at_once_up_to_a_limit() -> None:
    waiters, seen = [Waiter() for _ in range(PASSES + 1)], []

    async def work(number: int) -> None:
        await waiters[number]
        seen.append(number)
        if number < PASSES:
            waiters[number + 1].wake()

    async with running() as place:
        for number in range(len(waiters)):
            place.go(work(number))
        await wait_all_tasks_blocked()
        place.steps.make_after(waiters[0].wake)
        assert seen == [*range(PASSES)]
        await wait_all_tasks_blocked()
        assert seen == [*range(PASSES + 1)]


async def test_a_function_that_fails_leaves_its_steps_to_the_task() -> None:
    waiter, seen = Waiter(), []

    async def work() -> None:
        await waiter
        seen.append(place.is_light)

    def wake() -> None:
        waiter.wake()
        raise LookupError

    async with running() as place:
        place.go(work())
        await wait_all_tasks_blocked()
        with pytest.raises(LookupError):
            place.steps.make_after(wake)
        await wait_all_tasks_blocked()
    assert seen == [True]


async def test_a_step_made_at_once_may_cancel_the_task_that_makes_steps() -> None:
    waiter, behind, seen = Waiter(), Waiter(), []

    async def work() -> None:
        await waiter
        place.scope.cancel()
        behind.wake()

    async def other() -> None:
        await behind
        seen.append(place.is_light)

    async with running() as place:
        place.go(work())
        place.go(other())
        await wait_all_tasks_blocked()
        place.steps.make_after(waiter.wake)
        await wait_all_tasks_blocked()
    assert seen == [False]


# The end.


async def test_after_the_end_all_go_on_in_their_tasks() -> None:
    waiting, in_line, later, seen = Waiter(), Waiter(), Waiter(), []

    async def work(name: str, waiter: Waiter) -> None:
        await waiter
        seen.append((name, place.is_light))
        await let_others_go_on()
        await waiter
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
            await Waiter()
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
                    await waiter
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


async def _play(  # noqa: C901 -- a program and its moves
    programs: list[list[str]], moves: list[tuple[str, int]], *, runs: bool
) -> list[list[str]]:
    seen: list[list[str]] = [[] for _ in programs]
    scopes = [trio.CancelScope() for _ in programs]
    waiters: list[tuple[Waiter, Waiter]] = [(Waiter(), Firm()) for _ in programs]
    task: object = None

    async def work(number: int) -> None:
        notes, (waiter, firm) = seen[number], waiters[number]
        try:
            for step in programs[number]:
                if step == "wait":
                    await waiter
                elif step == "firm":
                    await firm
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
