"""The connector in front of an Evolution API, against the stand-in of tests/networks/evolution."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import ModuleType
from typing import Any

import httpx
import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock, wait_all_tasks_blocked

from hookgw import ConnectionState, IngestRequest, Invalid, ProofRefused, TextMessage
from hookgw.models.event_kinds import BUILT_IN_KINDS
from hookgw.models.events import Catalog
from hookgw.models.instances import InstanceSettings
from hookgw.testing import FakeSession
from plugins.evolution.connection import CHECK_INTERVAL
from plugins.evolution.connector import Evolution as Connector
from plugins.evolution.webhook import EVENTS, PROOF
from plugins.gateway_kinds import KINDS
from tests.networks.evolution import KEY, WUID, Evolution

OPTIONS = {"base_url": "http://evolution.example", "api_key": KEY}
FORMER = {
    "enabled": True,
    "url": "https://crm.example/hook",
    "headers": {"authorization": "Bearer crm"},
    "byEvents": True,
    "base64": False,
    "events": ["MESSAGES_UPSERT"],
}
CATALOG = Catalog([*BUILT_IN_KINDS, *KINDS])


@pytest.fixture
def connector() -> Connector:
    return Connector()


@pytest.fixture
async def evolution(connector: Connector, session: FakeSession) -> AsyncIterator[Evolution]:
    """The server, whose events come to the connector."""
    evolution = Evolution()
    evolution.add("shop")

    async def deliver(url: str, headers: dict[str, str], body: bytes) -> int:
        return await post(connector, session, body, headers, path=url.removeprefix(session.ingest_url or ""))

    evolution.deliver = deliver
    session._http = httpx.AsyncClient(transport=httpx.ASGITransport(evolution.app))
    async with session._http, evolution.posting():
        yield evolution


@pytest.fixture
def session() -> FakeSession:
    return FakeSession(options=OPTIONS, catalog=CATALOG)


async def post(
    connector: Connector, session: FakeSession, body: bytes, headers: dict[str, str], path: str = ""
) -> int:
    """Post a webhook, and return the status of the answer, as the gateway would."""
    lower = {name.lower(): value for name, value in headers.items()}
    request = IngestRequest(method="POST", query={}, headers=lower, body=body, path=path.lstrip("/"))
    try:
        return (await connector.ingest(session, request)).status
    except ProofRefused:
        return 401
    except Exception as error:
        return int(getattr(error, "status", 500))


@asynccontextmanager
async def connected(
    connector: Connector, session: FakeSession, state: ConnectionState = ConnectionState.OPEN
) -> AsyncIterator[None]:
    """Run the connector for the length of the block, and kill it at the end."""
    session.state = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connector.run, session)
        await session.wait_until(state)
        await wait_all_tasks_blocked()
        yield
        nursery.cancel_scope.cancel()


async def test_it_sets_the_webhook_and_takes_the_events(
    connector: Connector, session: FakeSession, evolution: Evolution, autojump_clock: MockClock
) -> None:
    async with connected(connector, session):
        [webhook] = evolution.calls_of("POST webhook/set/shop")
        assert webhook == {
            "webhook": {
                "enabled": True,
                "url": session.ingest_url,
                "headers": {PROOF: session.stored["secret"]},
                "byEvents": False,
                "base64": False,
                "events": list(EVENTS),
            }
        }
        posted = evolution.receive("shop", "hello")
        assert posted is not None
        await posted.is_done.wait()
    assert posted.statuses == [200]
    event = session.events[-1]
    assert (event.kind, event.data, event.sender) == ("MESSAGES_UPSERT", posted.body["data"], WUID)
    assert session.states[-1] == (ConnectionState.OPEN, 200, {"wuid": WUID, "profileName": "Loja"})
