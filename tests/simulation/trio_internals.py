"""What tests take from Trio's inside, all of it here: no public name of Trio has it.

- **The order of tasks.** A seed must give the same run each time, and Trio shuffles the tasks that can run at
  the same moment. pytest-trio sets the same two names for its tests with Hypothesis.
- **Whether a socket is ready.** Time may move only when no task can run, so the clock asks Trio's own epoll,
  which is readable while something is ready that a task waits for.
- **Instruments.** There are none. Trio looks for them several times in each step, and faster in a plain dict.
- **A look at sockets that finds nothing**, as the first one does when a process was stopped and goes on.
"""

import random
import select
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import trio
import trio._core._run


@contextmanager
def order_of_tasks(chance: random.Random) -> Iterator[None]:
    """Within the block, let a generator decide which of the tasks that can run is first."""
    with (
        mock.patch.object(trio._core._run, "_ALLOW_DETERMINISTIC_SCHEDULING", new=True),
        mock.patch.object(trio._core._run, "_r", chance),
    ):
        yield


def watch_sockets() -> select.poll:
    """Return what is ready while a socket is that a task of this run waits for. Asking it takes nothing."""
    runner = trio._core._run.GLOBAL_RUN_CONTEXT.runner
    runner.instruments = {}  # type: ignore[assignment]
    sockets = select.poll()
    sockets.register(runner.io_manager._epoll.fileno(), select.POLLIN)
    return sockets


class _Blind:
    """An epoll whose next look finds nothing."""

    def __init__(self, manager: Any) -> None:
        self._manager = manager
        self._epoll = manager._epoll

    def __getattr__(self, name: str) -> Any:
        return getattr(self._epoll, name)

    def poll(self, *_: object) -> list[tuple[int, int]]:
        self._manager._epoll = self._epoll
        return []


def see_nothing_once() -> None:
    """Let the next look of this run at its sockets find nothing, so that deadlines come first.

    So it is after SIGCONT: it interrupts epoll_wait(2), and Python, whose own timeout is over, does not ask
    again (PEP 475).
    """
    manager: Any = trio._core._run.GLOBAL_RUN_CONTEXT.runner.io_manager
    manager._epoll = _Blind(manager)
