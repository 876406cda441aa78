"""The connector in front of an Evolution API, with the stand-in of tests/networks/evolution."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast
from weakref import WeakKeyDictionary

import httpx
import trio
from trio.testing import wait_all_tasks_blocked

from hookgw import ConnectionState
from hookgw.testing import FakeSession
from plugins.evolution.connector import Evolution as Connector
from tests.first_party.runs import CATALOG as CATALOG
from tests.first_party.runs import post, running
from tests.networks.evolution import KEY, Evolution

OPTIONS = {"base_url": "http://evolution.example", "api_key": KEY}
FORMER = {
    "enabled": True,
    "url": "https://crm.example/hook",
    "headers": {"authorization": "Bearer crm"},
    "byEvents": True,
    "base64": False,
    "events": ["MESSAGES_UPSERT"],
}
Take = Callable[..., Any]
"""Posts a body with the right proof, and returns the status of the answer."""


class Transport(httpx.ASGITransport):
    """Carries requests to a server.

    Attributes:
        errors: raised for the next requests whose ``"POST message/sendText"`` begins so.
        others: carries requests to other servers.
        kill_at: the number of the request at which ``killed`` is cancelled; -1 for none.
        is_processed: whether the server has processed that request.
    """

    killed: trio.CancelScope
    kill_at = -1
    is_processed = False

    def __init__(self, evolution: Evolution) -> None:
        super().__init__(cast("Any", evolution.app))
        self.errors: dict[str, list[httpx.HTTPError]] = {}
        self.others: httpx.AsyncBaseTransport = httpx.MockTransport(lambda _: httpx.Response(404))
        self._requests = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if not str(request.url).startswith(("http://evolution.example/", "http://moved.example/")):
            return await self.others.handle_async_request(request)
        call = f"{request.method} {request.url.path[1:]}"
        for beginning, errors in self.errors.items():
            if call.startswith(beginning) and errors:
                await trio.lowlevel.checkpoint()
                raise errors.pop(0)
        self._requests += 1
        is_last = self._requests == self.kill_at + 1 and self.kill_at >= 0
        if is_last and not self.is_processed:
            self.killed.cancel()
            await trio.lowlevel.checkpoint()
        response = await super().handle_async_request(request)
        if is_last:
            self.killed.cancel()
            await trio.lowlevel.checkpoint()
        return response


transports: WeakKeyDictionary[FakeSession, Transport] = WeakKeyDictionary()


@asynccontextmanager
async def served(connector: Connector, session: FakeSession) -> AsyncIterator[Evolution]:
    """Give a session a server with the instance ``shop``, whose events come to the connector."""
    evolution = Evolution()
    evolution.add("shop")

    async def deliver(url: str, headers: dict[str, str], body: bytes) -> int:
        with session.answering():
            return await post(
                connector, session, body, headers, path=url.removeprefix(session.ingest_url or "")
            )

    evolution.deliver = deliver
    transports[session] = transport = Transport(evolution)
    session.client = httpx.AsyncClient(transport=transport)
    async with session.client, evolution.posting():
        yield evolution


def transport_of(session: FakeSession) -> Transport:
    return transports[session]


@asynccontextmanager
async def connected(
    connector: Connector, session: FakeSession, state: ConnectionState = ConnectionState.OPEN
) -> AsyncIterator[None]:
    """Run the connector for the length of the block, and kill it at the end."""
    async with running(connector, session):
        await session.wait_until(state)
        await wait_all_tasks_blocked()
        yield
