from functools import partial

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.public.kernel import PluginFailed
from tests.public.plugins import Boundary, HookImplementation, restart_on_failure


class Runs:
    """Runs that each fail after a given time; one more returns."""

    def __init__(self, *lengths: float) -> None:
        self.started: list[float] = []
        self.failures: list[str] = []
        self.waits: list[float] = []
        self._lengths = lengths

    async def run(self) -> None:
        number = len(self.started)
        self.started.append(trio.current_time())
        if number == len(self._lengths):
            return
        await trio.sleep(self._lengths[number])
        raise PluginFailed("crm", "hookgw_run", f"run {number + 1}")

    async def failed(self, failure: PluginFailed, wait: float) -> None:
        self.failures.append(failure.reason)
        self.waits.append(wait)


async def test_waits_grow_to_a_limit(autojump_clock: MockClock) -> None:
    runs = Runs(*[0.0] * 7)
    await restart_on_failure(runs.run, runs.failed)
    waits = [later - earlier for earlier, later in zip(runs.started, runs.started[1:], strict=False)]
    assert waits == runs.waits == [1, 2, 5, 15, 60, 60, 60]
    assert runs.failures == [f"run {n}" for n in range(1, 8)]


async def test_a_long_run_resets_the_waits(autojump_clock: MockClock) -> None:
    runs = Runs(0, 60.0, 60.5, 0)
    await restart_on_failure(runs.run, runs.failed)
    ends = [started + length for started, length in zip(runs.started, (0, 60.0, 60.5, 0), strict=False)]
    waits = [started - end for end, started in zip(ends, runs.started[1:], strict=False)]
    assert waits == [1, 2, 1, 2]


async def test_a_function_that_returns_is_not_run_again(autojump_clock: MockClock) -> None:
    runs = Runs()
    await restart_on_failure(runs.run, runs.failed)
    assert (len(runs.started), runs.failures) == (1, [])


async def test_a_background_task_is_cancelled_with_the_gateway() -> None:
    runs = Runs()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(restart_on_failure, trio.sleep_forever, runs.failed)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert runs.failures == []


@pytest.mark.parametrize("problem", [RuntimeError("closing"), SystemExit(1)])
async def test_a_task_that_fails_while_it_is_cancelled_is_not_restarted(problem: BaseException) -> None:
    runs = Runs()
    reported: list[PluginFailed] = []
    began = 0

    async def run(gateway: object) -> None:
        nonlocal began
        began += 1
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            try:
                await trio.sleep_forever()
            finally:
                raise problem

    function = HookImplementation(plugin="crm", hook="hookgw_run", call=run)
    async with trio.open_nursery() as nursery:
        boundary = Boundary(reported.append)
        nursery.start_soon(restart_on_failure, partial(boundary.run, function, object()), runs.failed)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert (began, runs.failures) == (1, [])
    assert [failure.reason for failure in reported] == [f"{type(problem).__name__}: {problem}"]
