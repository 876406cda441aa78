"""The watchdog, over a loop that a plugin really blocks."""

import ctypes
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from itertools import pairwise, takewhile
from types import FrameType, ModuleType
from typing import Any

import structlog
import trio

from tests.public.core import Metrics
from tests.public.operations import Blocker, LoopWatchdog, find_blocker
from tests.public.plugins import Boundary, HookImplementation
from tests.support.waits import until

PLUGIN = """
import helper_library

def hookgw_filter(wait):
    wait()  # line 5

def hookgw_encode(wait):
    helper_library.call(wait)  # line 8

async def task(wait):
    wait()  # line 11
"""


def module(name: str, text: str) -> Any:
    made = ModuleType(name)
    exec(compile(text, f"{name}.py", "exec"), vars(made))
    return made


class Log:
    """The watchdog's lines. Each block lasts until it is among them."""

    def __init__(self, lines: list[Any]) -> None:
        self.lines = lines

    def block(self) -> None:
        """Block the calling thread until the watchdog has reported this once more."""
        seen, pause = len(self.reports()), threading.Event()
        while len(self.reports()) == seen:
            pause.wait(0.005)

    def reports(self, **fields: str) -> list[Any]:
        """Return the reports about :meth:`block` with these fields. A busy machine blocks the loop, too."""
        return [
            line
            for line in list(self.lines)
            if fields.items() <= line.items()
            and any(frame.endswith(" in block") for frame in line.get("frames", ()))
        ]


@asynccontextmanager
async def watched(metrics: Metrics, modules: dict[str, str], threshold: float = 0.05) -> AsyncIterator[Log]:
    with structlog.testing.capture_logs() as lines:
        async with trio.open_nursery() as nursery:
            await nursery.start(LoopWatchdog(threshold, modules, metrics).run)
            yield Log(lines)
            nursery.cancel_scope.cancel()
        # Before its end it may log that the loop runs again: that must not be in the lines of the next test.
        for thread in threads():
            await trio.to_thread.run_sync(thread.join, 5)


def threads() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "hookgw watchdog"]


async def counted(metrics: Metrics, plugin: str) -> None:
    sample = f'hookgw_loop_blocked_total{{plugin="{plugin}"}}'.encode()
    await until(lambda: sample in metrics.render()[0])


async def test_the_plugin_hook_and_line_that_block_the_loop_are_reported() -> None:
    sys.modules["helper_library"] = module("helper_library", "def call(wait):\n    wait()\n")
    plugin, metrics = module("_folder.slow", PLUGIN), Metrics()
    async with watched(metrics, {"_folder.slow": "slow"}) as log:
        for hook, line in (("hookgw_filter", 5), ("hookgw_encode", 8)):
            function = HookImplementation(plugin="slow", hook=hook, call=getattr(plugin, hook))
            log.lines.clear()
            await Boundary().run(function, log.block)
            await counted(metrics, "slow")
            report = log.reports(plugin="slow", hook=hook)[0]
            assert report["line"] == f"_folder.slow.py:{line} in {hook}"
            assert report["seconds"] >= 0
            # A busy machine may block the loop once more meanwhile.
            await until(lambda: any(one["event"] == "the event loop runs again" for one in log.lines))
    assert b"hookgw_loop_lag_seconds_count" in metrics.render()[0]


async def test_a_task_that_a_plugin_started_is_found_by_its_module() -> None:
    sys.modules["helper_library"] = module("helper_library", "")
    plugin, metrics = module("_folder.slow.tasks", PLUGIN), Metrics()
    async with watched(metrics, {"_folder.slow": "slow"}) as log, trio.open_nursery() as nursery:
        nursery.start_soon(plugin.task, log.block)
        await counted(metrics, "slow")
        assert log.reports(plugin="slow", hook="")[0]["line"] == "_folder.slow.tasks.py:11 in task"


async def test_hookgw_itself_is_named_by_its_line() -> None:
    metrics = Metrics()
    async with watched(metrics, {}) as log:
        log.block()
        await counted(metrics, "")
        report = log.reports(plugin="", hook="")[0]
        # The innermost line: of this file, or of the standard library that it waits in.
        assert report["line"] == report["frames"][0]


async def test_a_long_block_is_reported_again_and_counted_once() -> None:
    metrics = Metrics()
    async with watched(metrics, {}) as log:
        log.block()
        log.block()
        await counted(metrics, "")
        assert b'hookgw_loop_blocked_total{plugin=""} 1.0' in metrics.render()[0]


async def test_what_nothing_could_report_meanwhile_is_reported_once() -> None:
    async with watched(Metrics(), {}) as log:
        log.block()
        first = log.lines.index(log.reports()[0])
        # As on a machine that is frozen: neither the loop nor the watchdog runs. The call keeps the
        # interpreter's lock.
        ctypes.PyDLL(None).usleep(500_000)
        log.block()
        await until(lambda: any("frames" not in line for line in log.lines[first:]))
        lasted = [line["seconds"] for line in takewhile(lambda line: "frames" in line, log.lines[first:])]
        assert all(later >= 2 * earlier - 0.1 for earlier, later in pairwise(lasted)), lasted


async def test_a_loop_that_runs_is_not_reported() -> None:
    metrics = Metrics()
    async with watched(metrics, {}, threshold=60.0) as log:
        await until(lambda: b"hookgw_loop_lag_seconds_count 3.0" in metrics.render()[0])
        assert log.lines == []


async def test_the_thread_ends_with_the_gateway() -> None:
    async with watched(Metrics(), {}):
        (thread,) = threads()
    assert not thread.is_alive()


def test_a_plugin_that_is_no_module_is_named_with_a_line_of_its_file() -> None:
    seen: list[Blocker] = []

    def look(frame: FrameType) -> None:
        seen.append(find_blocker(frame, {}))

    def hook(call: Callable[[FrameType], None]) -> None:
        call(sys._getframe())

    Boundary().call(HookImplementation(plugin="mine", hook="hookgw_configure", call=partial(hook, look)))
    assert (seen[0].plugin, seen[0].hook) == ("mine", "hookgw_configure")
    assert seen[0].line.endswith(" in hook")
    assert find_blocker(None, {}) == Blocker("", "", "", [])


def test_a_report_can_be_rendered_for_a_terminal() -> None:
    blocker = Blocker("slow", "hookgw_filter", "slow.py:5 in block", ["slow.py:5 in block"])
    line = structlog.dev.ConsoleRenderer(colors=False)(None, "warning", {"event": "x", **blocker._asdict()})
    assert "slow.py:5 in block" in line
