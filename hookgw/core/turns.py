"""A step of a job, during which nobody changes the instance."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hookgw.core.jobs import Jobs
from hookgw.core.registry import Registry


@asynccontextmanager
async def instance_turn(jobs: Jobs, registry: Registry, instance: str) -> AsyncIterator[None]:
    """Hold a turn and the lock of the instance's changes; wait for neither while holding the other.

    All instances wait in the line for a turn, and a change may take long: a connector stops first.
    """
    while True:
        async with jobs.turn(instance):
            if not registry.is_changing(instance):
                async with registry.changing(instance):
                    yield
                return
        # Without the lock: two jobs that took it in turn, each while the other had its turn, never ended.
        await registry.change_ended(instance)
