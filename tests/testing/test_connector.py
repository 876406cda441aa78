from __future__ import annotations

from typing import Any, cast

import httpx
import pytest
import trio

from hookgw.models.connectors import ConnectionState, QRCode, Session
from hookgw.models.errors import NetworkRefused
from hookgw.models.messages import TextMessage
from hookgw.testing import FakeConnector, SentMessage


class Sink:
    """A session that records the connector's calls."""

    def __init__(self, instance: str) -> None:
        self.instance = instance
        self.options: dict[str, Any] = {}
        self.http = httpx.AsyncClient(transport=httpx.AsyncBaseTransport())
        self.done: list[tuple[Any, ...]] = []

    async def emit(self, kind: str, data: Any, *, event_id: str | None = None) -> None:
        self.done.append((kind, data, event_id))

    async def show_qr_code(self, qr_code: QRCode) -> None:
        self.done.append((qr_code,))

    async def set_state(self, state: ConnectionState, reason: int = 200, **more: Any) -> None:
        self.done.append((state, reason, more))


async def test_it_opens_and_has_a_session() -> None:
    connector, sink = FakeConnector(), Sink("shop")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connector.run, cast("Session", sink))
        await trio.testing.wait_all_tasks_blocked()
        await connector.session("shop").emit("MESSAGES_UPSERT", {"a": 1})
        connector.log_out("shop")
    assert [step[0] for step in sink.done] == [
        ConnectionState.CONNECTING,
        ConnectionState.OPEN,
        "MESSAGES_UPSERT",
    ]
    assert sink.done[1][2]["wuid"] == "shop@fake"
    assert connector.runs == 1
    with pytest.raises(KeyError):
        connector.session("shop")


async def test_a_script_that_raises_fails_the_run() -> None:
    async def broken(session: Session) -> None:
        raise ConnectionError(f"{session.instance} lost")

    connector = FakeConnector(script=broken)
    for _ in range(2):
        with pytest.raises(ConnectionError, match="shop lost"):
            await connector.run(cast("Session", Sink("shop")))
    assert connector.runs == 2


async def test_it_records_sent_messages() -> None:
    connector, sink = FakeConnector("net"), Sink("shop")
    message = await connector.send(cast("Session", sink), TextMessage(number="123", text="hello"), key="k")
    assert message["key"] == {"remoteJid": "123@fake", "fromMe": True, "id": "FAKE1"}
    assert message["message"] == {"conversation": "hello"}
    assert connector.sent == [SentMessage("shop", TextMessage(number="123", text="hello"), "k")]


async def test_it_refuses_while_refusal_is_set() -> None:
    connector = FakeConnector()
    connector.refusal = "The number is blocked."
    with pytest.raises(NetworkRefused, match="The number is blocked"):
        await connector.send(cast("Session", Sink("shop")), TextMessage(number="123", text="hello"), key="k")
    assert connector.sent == []


def test_it_is_a_plugin() -> None:
    connector = FakeConnector("net")
    assert connector.hookgw_connectors() == [connector]
    assert connector.name == "net"
