"""What tests wait for: times that hookgw uses by default, and tasks."""

import time
from collections.abc import Callable, Sized

import trio

from tests.public.config import DeliverySettings

FIRST_WAIT = float(DeliverySettings().schedule[0])
"""Seconds after which a failed delivery is tried again."""

PATIENCE = 120.0
"""Real seconds after which a wait gives up: a busy machine may take most of them."""


async def until(is_so: Callable[[], int | Sized | None]) -> None:
    """Wait for what nobody tells: it is in a thread, in another task or in a database.

    Raises:
        TimeoutError: it has not come about after :data:`PATIENCE`.
    """
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        if time.monotonic() > deadline:
            raise TimeoutError(f"it has not come about after {PATIENCE:g} s")
        await trio.sleep(0.02)


async def asleep(name: str) -> None:
    """Wait until each task that runs a function sleeps in ``trio.sleep``; threads get real time meanwhile.

    A mock clock that moves before a task has come back to its sleep makes the task late, or lets it miss a
    turn.

    Args:
        name: the function as Trio names its task, such as ``hookgw.instances.quiet.QuietWatch.run``.

    Raises:
        TimeoutError: one was still busy after :data:`PATIENCE`, or there is none.
    """
    deadline = time.monotonic() + PATIENCE
    while True:
        await trio.to_thread.run_sync(time.sleep, 0.001)
        await trio.testing.wait_all_tasks_blocked()
        tasks = [task for task in _all_tasks() if task.name == name]
        if tasks and all("sleep" in _awaits(task) for task in tasks):
            return
        if time.monotonic() > deadline:
            raise TimeoutError(f"{len(tasks)} tasks {name}, and not all asleep")


def _all_tasks() -> list[trio.lowlevel.Task]:
    root = trio.lowlevel.current_root_task()
    found = [root] if root else []
    for task in found:
        found += [child for nursery in task.child_nurseries for child in nursery.child_tasks]
    return found


def _awaits(task: trio.lowlevel.Task) -> list[str]:
    """Return the names of the functions in which a task waits, the innermost last."""
    return [frame.f_code.co_name for frame, _ in task.iter_await_frames()]
