import math
from collections.abc import Generator

import pytest
import trio
from trio.testing import MockClock

from tests.public.core import APART, LONGEST_REST, ROUNDS, SLICE, LongWork, run_in_slices

LONG = 1.01 * SLICE


class Clock:
    """A clock that only work moves."""

    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        return self.time


class Work:
    """Makes computations that note their steps."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.work = LongWork(self.clock)
        self.log: list[str] = []

    def steps(self, name: str, count: int, duration: float = LONG) -> Generator[None, None, str]:
        try:
            for _ in range(count):
                self.log.append(name)
                self.clock.time += duration
                yield
        finally:
            self.log.append(f"end of {name}")
        return f"result of {name}"

    async def run(self, holder: str, name: str, count: int, duration: float = LONG) -> None:
        assert await self.work.run(holder, self.steps(name, count, duration)) == f"result of {name}"


async def test_work_returns_its_result_or_raises() -> None:
    def failing() -> Generator[None, None, None]:
        yield
        raise ValueError("no")

    long = LongWork()
    assert await Work().work.run("shop", Work().steps("a", 3)) == "result of a"
    with pytest.raises(ValueError, match="no"):
        await long.run("shop", failing())
    assert await long.run("shop", Work().steps("b", 3)) == "result of b"


async def test_short_work_has_no_checkpoint() -> None:
    work = Work()
    with trio.CancelScope() as scope:
        scope.cancel()
        await work.run("shop", "a", 3, SLICE / 10)
    assert not scope.cancelled_caught
    assert work.log == ["a", "a", "a", "end of a"]


async def test_other_tasks_run_between_two_slices() -> None:
    work = Work()

    async def other() -> None:
        for _ in range(20 * ROUNDS):
            work.log.append("-")
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(work.run, "shop", "a", 10)
        nursery.start_soon(other)
    # Trio runs the tasks of a round in any order.
    between = "".join(work.log).partition("end")[0].split("a")[1:-1]
    assert len(between) == 9
    assert all(ROUNDS - 1 <= len(rounds) <= ROUNDS + 1 for rounds in between)


async def test_much_short_work_is_interrupted_too() -> None:
    # 1,000 requests at once, each of which is short, are as bad as one long one.
    work = Work()
    async with trio.open_nursery() as nursery:
        for number in range(30):
            nursery.start_soon(work.run, f"i{number}", ".", 1, SLICE / 3)
        for _ in range(30 * ROUNDS):
            work.log.append("tick")
            await trio.lowlevel.checkpoint()
    between = "".join(entry for entry in work.log if not entry.startswith("end")).split("tick")
    assert max(map(len, between)) <= 4


async def test_instances_alternate_however_much_work_one_has() -> None:
    work = Work()
    async with trio.open_nursery() as nursery:
        for number in range(5):
            nursery.start_soon(work.run, "noisy", f"n{number}", 10)
        while not work.log:
            await trio.lowlevel.checkpoint()
        nursery.start_soon(work.run, "quiet", "q", 3)
    first = work.log.index("q")
    last = work.log.index("end of q")
    # Between two slices of the quiet instance is one of the noisy one.
    assert [entry[0] for entry in work.log[first:last]] == ["q", "n", "q", "n", "q", "n"]


class SlowSteps:
    """Work that takes time on the test's own clock, beside another instance that is active for a while."""

    def __init__(self, clock: MockClock, active_for: float = math.inf) -> None:
        self.work = LongWork(trio.current_time)
        self._clock = clock
        self._active_until = trio.current_time() + active_for

    def steps(self, count: int) -> Generator[None, None, None]:
        for _ in range(count):
            self._clock.jump(4 * SLICE)
            yield

    async def others(self, holder: str) -> None:
        while trio.current_time() < self._active_until:
            self.work.active(holder)
            await trio.sleep(0.04)


@pytest.mark.parametrize(("other", "duration"), [("quiet", 10 + 10), ("noisy", 10), ("nobody", 10)])
async def test_others_have_as_much_time_as_the_work_takes(
    autojump_clock: MockClock, other: str, duration: int
) -> None:
    slow = SlowSteps(autojump_clock, 0 if other == "nobody" else math.inf)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(slow.others, other)
        await trio.testing.wait_all_tasks_blocked()
        began = trio.current_time()
        slow.work.active("noisy")
        await slow.work.run("noisy", slow.steps(10))
        assert trio.current_time() - began == pytest.approx(duration * 4 * SLICE)
        nursery.cancel_scope.cancel()


async def append_twice(slow: SlowSteps, holder: str) -> float:
    """Return the seconds between two large appends that take 0.4 s each."""
    async with slow.work.large_append(holder):
        await trio.sleep(0.4)
    ended = trio.current_time()
    async with slow.work.large_append(holder):
        return trio.current_time() - ended


@pytest.mark.parametrize(("active_for", "pause"), [(math.inf, APART * 0.4), (0, 0), (3, 4.0)])
async def test_large_appends_are_kept_apart_while_others_are_active(
    autojump_clock: MockClock, active_for: float, pause: float
) -> None:
    slow = SlowSteps(autojump_clock, active_for)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(slow.others, "quiet")
        await trio.testing.wait_all_tasks_blocked()
        assert await append_twice(slow, "noisy") == pytest.approx(pause, abs=0.25)
        nursery.cancel_scope.cancel()


async def test_a_slow_disk_keeps_large_appends_no_longer_apart(autojump_clock: MockClock) -> None:
    slow = SlowSteps(autojump_clock)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(slow.others, "quiet")
        await trio.testing.wait_all_tasks_blocked()
        async with slow.work.large_append("noisy"):
            await trio.sleep(60)
        ended = trio.current_time()
        async with slow.work.large_append("noisy"):
            assert trio.current_time() - ended == pytest.approx(LONGEST_REST)
        nursery.cancel_scope.cancel()


async def test_large_appends_of_an_instance_follow_each_other_and_those_of_others_do_not_wait(
    autojump_clock: MockClock,
) -> None:
    slow, ended = SlowSteps(autojump_clock), []

    async def append(holder: str) -> None:
        async with slow.work.large_append(holder):
            await trio.sleep(0.4)
        ended.append((holder, trio.current_time()))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(slow.others, "quiet")
        await trio.testing.wait_all_tasks_blocked()
        for holder in ("noisy", "noisy", "busy"):
            nursery.start_soon(append, holder)
        await trio.sleep(0.5)
        assert sorted(holder for holder, _ in ended) == ["busy", "noisy"]
        await trio.sleep(20 * 0.4)
        assert [holder for holder, _ in ended[2:]] == ["noisy"]
        nursery.cancel_scope.cancel()


async def test_cancelled_work_ends_and_the_turn_goes_on() -> None:
    work = Work()
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(work.run, "a", "a", 1000)
            nursery.start_soon(work.run, "b", "b", 1000)
            nursery.start_soon(work.run, "b", "c", 1000)
            for _ in range(10 * ROUNDS):
                await trio.lowlevel.checkpoint()
            scope.cancel()
    assert {"end of a", "end of b"} <= set(work.log)
    assert work.log.count("a") < 20
    await work.run("shop", "d", 3)


async def test_one_waiting_task_of_several_is_cancelled() -> None:
    work = Work()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(work.run, "a", "a", 5)
        await trio.lowlevel.checkpoint()
        with trio.CancelScope() as scope:
            nursery.start_soon(work.run, "b", "b", 2)
            async with trio.open_nursery() as inner:
                inner.start_soon(work.run, "c", "c", 2)
                await trio.lowlevel.checkpoint()
                scope.cancel()
    assert "end of b" in work.log
    assert work.log.count("c") <= 1


async def test_the_work_of_a_loop_shares_one_turn() -> None:
    work = Work()
    assert await run_in_slices("shop", work.steps("a", 3)) == "result of a"
    assert await run_in_slices("shop", work.steps("b", 3)) == "result of b"
