"""What fails is started again, ever later."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from hookgw.plugins.supervise import restart_on_failure, run_once


class Runs:
    """A row of runs: how long each takes, and whether it fails."""

    def __init__(self, *lengths: float, then: Callable[[], Awaitable[None]] | None = None) -> None:
        self.began: list[float] = []
        self.failures: list[str] = []
        self._lengths = lengths
        self._then = then

    async def run(self) -> None:
        number = len(self.began)
        self.began.append(trio.current_time())
        if number == len(self._lengths):
            return
        await trio.sleep(self._lengths[number])
        raise ValueError(f"run {number + 1}")

    async def failed(self, error: BaseException) -> None:
        self.failures.append(str(error))


async def test_waits_grow_and_then_stay(autojump_clock: MockClock) -> None:
    runs = Runs(*[0.0] * 7)
    await restart_on_failure(runs.run, runs.failed)
    waits = [later - earlier for earlier, later in zip(runs.began, runs.began[1:], strict=False)]
    assert waits == [1, 2, 5, 15, 60, 60, 60]
    assert runs.failures == [f"run {n}" for n in range(1, 8)]


async def test_a_long_run_begins_the_row_of_waits_anew(autojump_clock: MockClock) -> None:
    runs = Runs(0, 60.0, 60.5, 0)
    await restart_on_failure(runs.run, runs.failed)
    ends = [began + length for began, length in zip(runs.began, (0, 60.0, 60.5, 0), strict=False)]
    waits = [began - end for end, began in zip(ends, runs.began[1:], strict=False)]
    assert waits == [1, 2, 1, 2]


async def test_what_returns_is_not_run_again(autojump_clock: MockClock) -> None:
    runs = Runs()
    await restart_on_failure(runs.run, runs.failed)
    assert (len(runs.began), runs.failures) == (1, [])


async def test_even_an_exit_is_a_failure(autojump_clock: MockClock) -> None:
    async def leave() -> None:
        raise SystemExit(3)

    async def leave_together() -> None:
        raise BaseExceptionGroup("both", [SystemExit(3), ValueError("x")])

    assert isinstance(await run_once(leave), SystemExit)
    assert isinstance(await run_once(leave_together), BaseExceptionGroup)


async def test_cancellation_passes_even_beside_a_failure() -> None:
    """A nursery that is cancelled while one of its tasks fails raises both in one group."""

    async def fail_at_the_end() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError("while cleaning up")

    async def run() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fail_at_the_end)
            nursery.start_soon(trio.sleep_forever)

    async def failed(error: BaseException) -> None:
        pytest.fail(f"called with {error!r}")

    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(restart_on_failure, run, failed)
            await wait_all_tasks_blocked()
            scope.cancel()
    assert scope.cancelled_caught
