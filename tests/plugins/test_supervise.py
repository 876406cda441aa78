from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from hookgw.models.errors import PluginFailed
from hookgw.plugins.supervise import keep_running, restart_on_failure, run_once


class Runs:
    """Runs that each fail after a given time; one more returns."""

    def __init__(self, *lengths: float) -> None:
        self.started: list[float] = []
        self.failures: list[str] = []
        self._lengths = lengths

    async def run(self) -> None:
        number = len(self.started)
        self.started.append(trio.current_time())
        if number == len(self._lengths):
            return
        await trio.sleep(self._lengths[number])
        raise ValueError(f"run {number + 1}")

    async def failed(self, error: BaseException) -> None:
        self.failures.append(str(error))


async def test_waits_grow_to_a_limit(autojump_clock: MockClock) -> None:
    runs = Runs(*[0.0] * 7)
    await restart_on_failure(runs.run, runs.failed)
    waits = [later - earlier for earlier, later in zip(runs.started, runs.started[1:], strict=False)]
    assert waits == [1, 2, 5, 15, 60, 60, 60]
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


async def test_system_exit_is_a_failure(autojump_clock: MockClock) -> None:
    async def exit_alone() -> None:
        raise SystemExit(3)

    async def exit_in_a_group() -> None:
        raise BaseExceptionGroup("both", [SystemExit(3), ValueError("x")])

    assert isinstance(await run_once(exit_alone), SystemExit)
    assert isinstance(await run_once(exit_in_a_group), BaseExceptionGroup)


async def test_cancellation_passes_through_a_group_with_failures() -> None:
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


async def test_a_background_task_that_fails_is_counted_and_started_again(autojump_clock: MockClock) -> None:
    failures: list[PluginFailed] = []
    began: list[float] = []

    async def run() -> None:
        began.append(trio.current_time())
        if len(began) < 3:
            raise OSError("network down")

    start = trio.current_time()
    await keep_running("crm", run, failures.append)
    assert [at - start for at in began] == [0, 1, 3]
    assert [(failure.plugin, failure.hook) for failure in failures] == [("crm", "hookgw_run")] * 2
    assert "network down" in str(failures[0])


async def test_a_background_task_is_cancelled_with_the_gateway() -> None:
    failures: list[PluginFailed] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(keep_running, "crm", trio.sleep_forever, failures.append)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert failures == []


@pytest.mark.parametrize("problem", [RuntimeError("closing"), SystemExit(1)])
async def test_a_background_task_that_fails_while_it_is_cancelled_is_not_restarted(
    problem: BaseException,
) -> None:
    failures: list[PluginFailed] = []
    began = 0

    async def run() -> None:
        nonlocal began
        began += 1
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            try:
                await trio.sleep_forever()
            finally:
                raise problem

    async with trio.open_nursery() as nursery:
        nursery.start_soon(keep_running, "crm", run, failures.append)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert (began, failures) == (1, [])
