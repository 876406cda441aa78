"""A connector on a fake session: run, killed, given the requests of its network; and its events, checked."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import trio

from hookgw import Event, EventLeftOut, HookgwError, IngestRequest, NewEvent
from hookgw.testing import FakeSession
from plugins.gateway_kinds import KINDS
from tests.public.records import BUILT_IN_KINDS, Catalog, SchemaBook

CATALOG = Catalog([*BUILT_IN_KINDS, *KINDS])
SCHEMAS = SchemaBook(CATALOG)


@asynccontextmanager
async def running(connector: Any, session: FakeSession) -> AsyncIterator[None]:
    """Run a connector for the length of the block, and kill it at the end."""
    session.state = None  # of a run before
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connector.run, session)
        yield
        nursery.cancel_scope.cancel()


async def post(
    connector: Any, session: FakeSession, body: bytes, headers: Mapping[str, str], path: str = ""
) -> int:
    """Give a network's request to the connector; return the status with which the gateway answers."""
    lower = {name.lower(): value for name, value in headers.items()}
    request = IngestRequest(method="POST", query={}, headers=lower, body=body, path=path.lstrip("/"))
    try:
        return int((await connector.ingest(session, request)).status)
    except EventLeftOut:
        return 200
    except HookgwError as error:
        return int(error.status)


def assert_valid(new: NewEvent) -> None:
    """Fail if the gateway would refuse an event in strict mode."""
    data_json = Event.encode(new.data) if new.data_json is None else new.data_json
    check(new.kind, msgspec.Raw(data_json))


def check(kind: str, data: Any) -> None:
    """Fail if the gateway would refuse a payload in strict mode."""
    stored = Event(id="e", kind=kind, instance="shop", data_json=msgspec.json.encode(data), time=0.0)
    assert SCHEMAS.problem(stored) is None, (kind, data)
