"""Notices when the event loop does not run, and reports the code that blocks it.

A plain hook that sleeps or computes stops everything: deliveries, requests, health checks. No code in the
loop can report that while it lasts. So a thread asks the loop for a sign of life ten times a second, and
looks at the stack of the loop's thread when none comes.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from types import FrameType
from typing import NamedTuple

import structlog
import trio

from hookgw.concurrency.light import frames_of
from hookgw.concurrency.threads import start_thread
from hookgw.core.metrics import Metrics
from hookgw.plugins.boundary import called_function

logger = structlog.get_logger("hookgw.watchdog")

LOOK_EVERY = 0.1
"""Seconds between two requests for a sign of life."""
_SHOWN_FRAMES = 10


class Blocker(NamedTuple):
    """The code that runs in the loop's thread.

    Attributes:
        plugin: empty if hookgw's own code runs.
        hook: the hook, or other function of the plugin that hookgw called; empty if hookgw did not call it,
            as for a task that the plugin started.
        line: the plugin's innermost line, otherwise the innermost one, as ``file:line in function``.
        frames: the innermost lines. Not "stack", which structlog's renderer for terminals takes for a text.
    """

    plugin: str
    hook: str
    line: str
    frames: list[str]


class LoopWatchdog:
    """Watches the event loop.

    Args:
        threshold: the seconds without a sign of life after which a report is logged and counted.
        modules: the names of plugins by the names of their modules.
    """

    def __init__(self, threshold: float, modules: Mapping[str, str], metrics: Metrics) -> None:
        self._threshold = threshold
        self._modules = modules
        self._metrics = metrics
        self._alive = threading.Event()
        self._stopped = threading.Event()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        # A daemon: a loop that never runs again must not keep the process from its end.
        thread = threading.Thread(
            target=self._watch,
            args=(trio.lowlevel.current_trio_token(), threading.get_ident()),
            name="hookgw watchdog",
            daemon=True,
        )
        await start_thread(thread)
        task_status.started()
        try:
            await trio.sleep_forever()
        finally:
            self._stopped.set()

    def _watch(self, token: trio.lowlevel.TrioToken, loop: int) -> None:
        while not self._stopped.wait(LOOK_EVERY):
            self._alive.clear()
            asked = time.monotonic()
            try:
                token.run_sync_soon(self._answer, asked)
                self._wait(token, loop, asked)
            except trio.RunFinishedError:
                return

    def _answer(self, asked: float) -> None:
        self._metrics.loop_answered(time.monotonic() - asked)
        self._alive.set()

    def _wait(self, token: trio.lowlevel.TrioToken, loop: int, asked: float) -> None:
        """Wait for a sign of life, with a report after the threshold, and whenever the wait has doubled."""
        wait, blocker = self._threshold, None
        while not self._alive.wait(max(0.0, asked + wait - time.monotonic())):
            if self._stopped.is_set():
                return
            is_first, lasted = blocker is None, time.monotonic() - asked
            frame = sys._current_frames().get(loop)  # noqa: SLF001 -- documented, for uses like this
            blocker = find_blocker(frame, self._modules)
            if is_first:
                token.run_sync_soon(self._metrics.loop_blocked, blocker.plugin)
            logger.warning(
                "the event loop is blocked: nothing else runs",
                seconds=round(lasted, 1),
                **blocker._asdict(),
            )
            # Not of the former wait: after a night in which the machine slept, that has passed many times.
            wait = 2 * lasted
        if blocker is not None:
            logger.warning(
                "the event loop runs again",
                seconds=round(time.monotonic() - asked, 1),
                plugin=blocker.plugin,
                hook=blocker.hook,
            )


def find_blocker(frame: FrameType | None, modules: Mapping[str, str]) -> Blocker:
    """Return the blocker in a stack, from its innermost frame and the plugins' names by module."""
    return _find_in(_stack_of(frame), modules)


def unended_plugins(modules: Mapping[str, str], within: trio.Nursery | None = None) -> list[Blocker]:
    """Return the code of plugins for which tasks wait: those of a nursery, or of the whole run."""
    found: list[Blocker] = []
    tasks: list[trio.lowlevel.Task | None] = [trio.lowlevel.current_root_task()]
    if within is not None:
        tasks = [*within.child_tasks]
    while tasks:
        task = tasks.pop()
        if task is None:
            continue
        tasks += (child for nursery in task.child_nurseries for child in nursery.child_tasks)
        found.append(_find_in(reversed(frames_of(task)), modules))
    return [one for one in found if one.plugin]


def _stack_of(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _find_in(frames: Iterable[FrameType], modules: Mapping[str, str]) -> Blocker:
    inside: list[FrameType] = []  # the frames inside of the innermost call of a plugin
    function = None
    for frame in frames:
        if (function := called_function(frame)) is not None:
            break
        inside.append(frame)
    stack = [_shown(each) for each in inside[:_SHOWN_FRAMES]]
    for each in inside:
        owner = _owner(str(each.f_globals.get("__name__")), modules)
        if owner is not None and (function is None or owner == function.plugin):
            return Blocker(owner, function.hook if function else "", _shown(each), stack)
    if function is None:
        return Blocker("", "", stack[0] if stack else "", stack)
    # A plugin that is no module: the innermost line in the file of the function that was called.
    theirs = [
        each for each in inside if not str(each.f_globals.get("__name__")).startswith("hookgw.plugins.")
    ]
    lines = [_shown(each) for each in theirs if each.f_code.co_filename == theirs[-1].f_code.co_filename]
    return Blocker(function.plugin, function.hook, lines[0] if lines else "", stack)


def _shown(frame: FrameType) -> str:
    return f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"


def _owner(module: str, modules: Mapping[str, str]) -> str | None:
    """Return the plugin that a module belongs to: its own, or that of a package around it."""
    while module not in modules:
        module, dot, _ = module.rpartition(".")
        if not dot:
            return None
    return modules[module]
