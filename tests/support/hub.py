"""Whether tests run with the hub and light steps: ``pytest --hub=off`` runs them without.

It concerns gateways, servers, transports and lanes within this process. Processes that tests start have a hub.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from hookgw.concurrency import Hub, LightSteps


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
