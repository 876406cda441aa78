"""A run of a connector, for unit tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from hookgw.records.connectors import ConnectionState, Connector
from hookgw.testing.session import FakeSession


@asynccontextmanager
async def running(
    connector: Connector, session: FakeSession, until: ConnectionState = ConnectionState.OPEN
) -> AsyncIterator[None]:
    """Run a connector for the length of the block, and kill it at the end.

    The block begins once the connector has reported a state. Another run with the same session continues as
    after a restart of hookgw.

    Args:
        connector: the connector.
        session: of the instance.
        until: the state.
    """
    session.state = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connector.run, session)
        await session.wait_until(until)
        yield
        nursery.cancel_scope.cancel()
