"""Run instances of the simulator on a fake session."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import trio

from hookgw import ConnectionState, Connector
from hookgw.testing import FakeSession


def instance(name: str = "shop", /, **options: Any) -> FakeSession:
    return FakeSession(name, options=options)


def times_of(session: FakeSession, kind: str) -> list[float]:
    return [round(event.at, 6) for event in session.events if event.kind == kind]


@asynccontextmanager
async def connected(simulator: Connector, session: FakeSession) -> AsyncIterator[None]:
    """Run an instance for the length of the block, which begins once it is open."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(simulator.run, session)
        await session.wait_until(ConnectionState.OPEN)
        yield
        nursery.cancel_scope.cancel()
    session.state = ConnectionState.CLOSE  # as the gateway does


async def run_for(simulator: Connector, session: FakeSession, seconds: float) -> FakeSession:
    with trio.move_on_after(seconds):
        await simulator.run(session)
    return session
