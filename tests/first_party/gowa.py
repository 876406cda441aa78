"""An instance of the GOWA connector on the stand-in for a GOWA server, in memory."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import httpx
import msgspec
import trio

from hookgw import ConnectionState
from hookgw.testing import FakeSession
from plugins.gowa.connector import Gowa
from plugins.gowa.events import Account, translate
from tests.first_party.runs import CATALOG, check, post, running
from tests.networks.gowa.server import FakeGowa

BASE_URL = "https://gowa.example"
OPTIONS = {"base_url": BASE_URL, "user": "hookgw", "password": "gowa-password"}
ANA, BOB = "5511988887777@s.whatsapp.net", "5511977776666@s.whatsapp.net"
GROUP, LID = "120363040000000000@g.us", "251556368777322@lid"


@dataclass
class Setup:
    """An instance, its connector and the server.

    Attributes:
        answers: the statuses of the webhooks that were posted to hookgw.
    """

    connector: Gowa
    session: FakeSession
    gowa: FakeGowa
    answers: list[int] = field(default_factory=list)

    async def post(self, url: str, headers: dict[str, str], body: bytes) -> int:
        """Give a webhook to the connector, as the gateway does."""
        assert url == self.session.ingest_url
        status = await post(self.connector, self.session, body, headers)
        self.answers.append(status)
        return status

    def running(self) -> AbstractAsyncContextManager[None]:
        return running(self.connector, self.session)

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[None]:
        """Run the connector with an account that is logged in."""
        async with self.running():
            await self.session.wait_for("QRCODE_UPDATED")
            self.gowa.scan("shop")
            await self.session.wait_until(ConnectionState.OPEN)
            yield

    async def events_of(self, event: str, payload: Any, **beside: Any) -> list[tuple[str, Any]]:
        """Let the server report something; return the kinds and the data of the events."""
        before = len(self.session.events)
        self.gowa.report("shop", event, payload, **beside)
        await self.gowa.all_delivered()
        return [(one.kind, one.data) for one in self.session.events[before:]]

    def check_events(self) -> None:
        """Check that every event is valid in strict mode."""
        for event in self.session.events:
            check(event.kind, event.data)


@asynccontextmanager
async def setup(**more: Any) -> AsyncIterator[Setup]:
    """Make an instance and a server."""
    async with trio.open_nursery() as nursery:
        connector = Gowa()

        async def take(url: str, headers: dict[str, str], body: bytes) -> int:
            return await made.post(url, headers, body)

        gowa = FakeGowa(take, nursery)
        transport = httpx.ASGITransport(cast("Any", gowa.app))
        async with httpx.AsyncClient(transport=transport) as http:
            session = FakeSession(options=more.pop("options", OPTIONS), http=http, catalog=CATALOG, **more)
            made = Setup(connector, session, gowa)
            yield made
            nursery.cancel_scope.cancel()


def link(reference: str, *, mimetype: str = "", file_name: str = "") -> str:
    return f"https://hookgw.example/{reference}?{mimetype}&{file_name}"


def data_of(event: str, payload: Any, **beside: Any) -> list[tuple[str, Any]]:
    """Translate a report, check that the results are valid, and return kinds and data."""
    envelope = {"event": event, "payload": payload, "device_id": "5511999999999@s.whatsapp.net", **beside}
    body = msgspec.json.encode(envelope)
    found = []
    for one in translate(envelope, Account(media_url=link, report="r"), body):
        data = one.data if one.data_json is None else msgspec.json.decode(one.data_json)
        check(one.kind, data)
        found.append((one.kind, data))
    return found
