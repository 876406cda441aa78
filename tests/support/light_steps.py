"""Light steps under test, and the task that makes them."""

from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import trio
from trio.lowlevel import current_task

from tests.public.concurrency import LightSteps, Waiter


class Firm(Waiter):
    is_cancellable = False


class Place:
    """Light steps, and the task that makes them."""

    def __init__(self) -> None:
        self.steps = LightSteps()
        self.scope = trio.CancelScope()
        self.maker: object = None
        self.nursery: trio.Nursery

    async def make(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        self.maker = current_task()
        with self.scope:
            await self.steps.run(task_status=task_status)

    @property
    def is_light(self) -> bool:
        """Whether the caller runs in a light step."""
        return current_task() is self.maker

    def go(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Start a task that runs a coroutine."""
        self.nursery.start_soon(self.steps.go, coroutine)


@asynccontextmanager
async def running() -> AsyncIterator[Place]:
    place = Place()
    async with trio.open_nursery() as nursery:
        place.nursery = nursery
        await nursery.start(place.make)
        yield place
        place.scope.cancel()
