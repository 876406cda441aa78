"""On whose behalf names are looked up: each instance on its own, and the operator's names on nobody's."""

import socket
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

import hookgw
from hookgw import ConnectionState, Session, TextMessage
from hookgw.testing import Receiver, kit, open_kit
from tests.public.delivery import Found


class Holders:
    """A resolver that notes who asks for which name."""

    def __init__(self) -> None:
        self.asked: set[tuple[str, str]] = set()

    async def resolve(self, host: str, port: int, *, holder: str = "", **_: Any) -> Found:
        self.asked.add((host, holder))
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]


class Asking:
    """A connector that makes each kind of request."""

    name = "asking"

    @hookgw.hookimpl
    def hookgw_connectors(self) -> list[Any]:
        return [self]

    async def run(self, session: Session) -> None:
        await session.set_state(ConnectionState.OPEN)
        await trio.sleep_forever()

    async def send(self, session: Session, message: TextMessage, *, key: str) -> dict[str, Any]:
        url = f"example:{message.text}/"
        await session.http.get(f"http://network.{url}")
        async with session.http.stream("GET", f"http://stream.{url}") as response:
            await response.aread()
        await session.fetch(f"http://file.{url}", limit=100)
        return {}


@pytest.fixture
def holders(monkeypatch: pytest.MonkeyPatch) -> Holders:
    found = Holders()
    monkeypatch.setattr(kit, "resolve_locally", found.resolve)
    return found


async def test_lanes_and_requests_of_connectors(
    holders: Holders, tmp_path: Path, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    port = hookgw_receiver.port
    settings = {
        "global_webhooks": [{"url": f"http://all.example:{port}/", "label": "all"}],
        "operations": {"url": f"http://operator.example:{port}/"},
    }
    async with open_kit(tmp_path, plugins={"asking": Asking()}, settings=settings) as gateway:
        await gateway.register(f"http://shop.example:{port}/", instance="shop")
        await gateway.emit("CALL", {}, instance="shop")
        await gateway.settled()
        await gateway.gateway.instances.create("net", integration="asking")
        await gateway.gateway.instances.connect("net")
        await gateway.gateway.messages.send("net", TextMessage(number="1", text=str(port)))
        await gateway.gateway.http.get(f"http://plugin.example:{port}/")
        await gateway.settled()
    assert {
        ("shop.example", "shop"),
        ("all.example", "*"),
        ("network.example", "net"),
        ("stream.example", "net"),
        ("file.example", "net"),
        ("plugin.example", ""),
    } <= holders.asked
    assert {holder for host, holder in holders.asked if host == "all.example"} == {"*"}
