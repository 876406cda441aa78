"""An instance of the WAHA connector on the stand-in for a WAHA server, in memory."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import httpx
import msgspec
import trio

from hookgw import ConnectionState, NewEvent, Recent
from hookgw.testing import FakeSession
from plugins.waha.connector import Waha
from plugins.waha.events import Account, translate
from tests.first_party.runs import CATALOG, check, post, running
from tests.networks.waha.server import FakeWaha

BASE_URL = "https://waha.example"
OPTIONS = {"base_url": BASE_URL, "api_key": "waha-key", "session": "default"}
ANA, GROUP = "5511988887777@c.us", "120363040000000000@g.us"
ANA_JID, ME_JID = "5511988887777@s.whatsapp.net", "5511999999999@s.whatsapp.net"
BOB, BOB_JID = "5511977776666@c.us", "5511977776666@s.whatsapp.net"
ID = f"false_{ANA}_3EB0C0BD05DCA97A7C09CB"


@dataclass
class Setup:
    """An instance, its connector and the server.

    Attributes:
        answers: the statuses of the webhooks that were posted to hookgw.
        elsewhere: the webhooks that were posted to other URLs.
        statuses: of the session, as they were reported.
    """

    connector: Waha
    session: FakeSession
    waha: FakeWaha
    answers: list[int] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)
    statuses: list[str] = field(default_factory=list)

    async def post(self, url: str, headers: dict[str, str], body: bytes) -> int:
        """Give a webhook to the connector, as the gateway does."""
        if url != self.session.ingest_url:
            self.elsewhere.append(url)
            return 200
        with self.session.answering():
            status = await post(self.connector, self.session, body, headers)
        self.answers.append(status)
        report = msgspec.json.decode(body)
        if report["event"] == "session.status":
            self.statuses.append(report["payload"].get("status"))
        return status

    def running(self) -> AbstractAsyncContextManager[None]:
        return running(self.connector, self.session)

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[None]:
        """Run the connector with an account that is logged in already."""
        async with self.running():
            await self.pair()
            yield

    async def pair(self) -> None:
        """Scan the code, if the account is not logged in, and wait for the connection."""
        while "default" not in self.waha.sessions or self.waha.sessions["default"].status == "STOPPED":
            await self.waha.changed.wait()
        if not self.waha.sessions["default"].is_paired:
            self.waha.scan("default")
        await self.session.wait_until(ConnectionState.OPEN)
        await self.waha.all_delivered()

    def webhooks(self) -> list[dict[str, Any]]:
        """Return the webhooks in the session's configuration."""
        found: list[dict[str, Any]] = self.waha.sessions["default"].config.get("webhooks") or []
        return found

    def check_events(self) -> None:
        """Check that every event is valid in strict mode."""
        for event in self.session.events:
            check(event.kind, event.data)


@asynccontextmanager
async def setup(*, engine: str = "NOWEB", **more: Any) -> AsyncIterator[Setup]:
    """Make an instance and a server."""
    async with trio.open_nursery() as nursery:
        connector = Waha()

        async def take(url: str, headers: dict[str, str], body: bytes) -> int:
            return await made.post(url, headers, body)

        waha = FakeWaha(take, nursery, engine=engine)
        transport = httpx.ASGITransport(cast("Any", waha.app))
        async with httpx.AsyncClient(transport=transport) as http:
            session = FakeSession(options=more.pop("options", OPTIONS), http=http, catalog=CATALOG, **more)
            made = Setup(connector, session, waha)
            yield made
            nursery.cancel_scope.cancel()


def account(**more: Any) -> Account:
    fields: dict[str, Any] = {"jid": ME_JID, "media_url": link, "report": "evt_1"}
    return Account(**{**fields, "sent": Recent(10), "done": Recent(10), **more})


def link(reference: str, *, mimetype: str = "", file_name: str = "") -> str:
    return f"https://hookgw.example/{reference}?{mimetype}&{file_name}"


def event_of(event: str, payload: Any, who: Account | None = None, **more: Any) -> NewEvent | None:
    """Translate an event, and check that the result is valid."""
    envelope = {"event": event, "payload": payload, "id": "evt_1", "session": "default", **more}
    found = translate(envelope, who or account(), msgspec.json.encode(envelope))
    if found is not None and found.data_json is None:
        check(found.kind, found.data)
    return found


def assert_passed_on(event: str, payload: Any, who: Account | None = None) -> None:
    """Check that a report is a NETWORK_EVENT."""
    found = event_of(event, payload, who)
    assert found is not None
    assert found.kind == "NETWORK_EVENT"
    assert msgspec.json.decode(found.data_json or b"") == {
        "network": "waha",
        "name": event,
        "value": payload,
    }


def data_of(event: str, payload: Any, who: Account | None = None) -> Any:
    found = event_of(event, payload, who)
    assert found is not None
    return found.data


def message(**more: Any) -> dict[str, Any]:
    return {"id": ID, "timestamp": 1773027345, "from": ANA, "fromMe": False, "body": "hi", **more}
