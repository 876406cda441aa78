"""Whether tests run with the hub and light steps: ``pytest --hub=off`` runs them without.

It concerns gateways, servers, transports and lanes within this process. Processes that tests start have a
hub.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import copy_context

import pytest
import trio
from trio.lowlevel import current_task

from tests.public.concurrency import Hub, LightSteps, LightTask


class Choice:
    is_on = True


choice = Choice()
"""``tests/conftest.py`` sets it."""


def running_steps() -> LightSteps:
    """Return light steps that are made until the end of the test."""
    steps = LightSteps()
    if choice.is_on:
        steps.are_running = True  # also for what begins before the task does
        trio.lowlevel.spawn_system_task(steps.run)
    return steps


@asynccontextmanager
async def running_hub() -> AsyncIterator[Hub]:
    async with trio.open_nursery() as nursery:
        hub = Hub(is_on=choice.is_on)
        await nursery.start(hub.run)
        yield hub
        nursery.cancel_scope.cancel()


@contextmanager
def light_steps_checked() -> Iterator[None]:
    """Fail if a light step leaves something at the task that makes it: that is another one's.

    A deadline, a nursery or a variable of the context, for which the coroutine should have called
    ``in_task()`` before.
    """
    step = LightTask.step

    def checked(light: LightTask) -> None:
        task = current_task()
        before = trio.current_effective_deadline(), len(task.child_nurseries), _context()
        step(light)
        after = trio.current_effective_deadline(), len(task.child_nurseries), _context()
        if before != after and after[0] != -float("inf"):  # the task itself may have been cancelled
            raise AssertionError(f"{light} left something at the task that makes light steps")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LightTask, "step", checked)
        yield


def _context() -> dict[object, int]:
    return {variable: id(value) for variable, value in copy_context().items()}
