"""In front of a real Evolution API, with kills of both: an account of every message.

Its channel EVOLUTION stands for WhatsApp: what is posted to it takes the way of what a phone receives, by its
database and its webhooks. docs/testing.md says how to prepare a checkout.
"""

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio

from tests.networks.evolution_process import KEY, EvolutionProcess
from tests.networks.gateway import Gateway, running_gateway
from tests.support.ports import free_port
from tests.support.postgres import find_binaries, run_postgres

SOURCE = os.environ.get("EVOLUTION_SOURCE", "")
NUMBER = "5511999999999"
CHATS = [f"55119888877{number:02}@s.whatsapp.net" for number in range(10)]
RACE = 60
"""Messages of each phase: about as many as wait for their webhooks at a time."""

pytestmark = [
    pytest.mark.networks,
    pytest.mark.timeout(400),
    pytest.mark.skipif(not SOURCE, reason="EVOLUTION_SOURCE names no checkout of Evolution API"),
    pytest.mark.skipif(find_binaries() is None, reason="Evolution API needs PostgreSQL"),
]


@pytest.fixture
def evolution(tmp_path: Path) -> Iterator[EvolutionProcess]:
    (folder := tmp_path / "evolution").mkdir()
    with run_postgres(listen=free_port()) as postgres:
        process = EvolutionProcess(Path(SOURCE).resolve(), folder, postgres)
        try:
            process.start()
            yield process
        finally:
            process.kill()


class Phone:
    """Writes to the account, as WhatsApp brings it.

    Attributes:
        said: the ids of the messages that Evolution API has taken.
    """

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http
        self._ids = count()
        self.said: list[str] = []

    async def say(self) -> None:
        """Write a message; one that Evolution API did not take is not counted."""
        number = next(self._ids)
        id_ = f"3A{number:018X}"
        body = {
            "numberId": NUMBER,
            "key": {"id": id_, "remoteJid": CHATS[number % len(CHATS)], "fromMe": False},
            "pushName": "Ana",
            "message": {"conversation": f"message {number}"},
            "messageType": "conversation",
        }
        with suppress(httpx.HTTPError):  # it is killed meanwhile
            if (await self._http.post("/webhook/evolution", json=body)).is_success:
                self.said.append(id_)

    async def keep_saying(self, messages: int, pause: float = 0.02) -> None:
        for _ in range(messages):
            await self.say()
            await trio.sleep(pause)


def ids(gateway: Gateway, kind: str) -> Counter[str]:
    """Return how often each message has arrived, by its id."""
    return Counter(data["key"]["id"] for data in gateway.events(kind, "shop"))


async def test_every_message_is_delivered_once_through_kills_of_both(
    tmp_path: Path, evolution: EvolutionProcess
) -> None:
    block = {"base_url": evolution.url, "api_key": KEY, "servers": [evolution.url]}
    async with (
        running_gateway(tmp_path, {"evolution": block}) as gateway,
        httpx.AsyncClient(
            base_url=evolution.url, headers={"apikey": KEY}, trust_env=False, timeout=30
        ) as http,
    ):
        created = {"instanceName": "shop", "integration": "EVOLUTION", "number": NUMBER, "qrcode": False}
        assert (await http.post("/instance/create", json=created)).status_code == 201
        await gateway.connect("shop", "evolution")
        phone = Phone(http)
        in_thread = trio.to_thread.run_sync

        # hookgw is killed: Evolution API repeats its webhooks.
        async with trio.open_nursery() as nursery:
            nursery.start_soon(phone.keep_saying, RACE)
            await trio.sleep(0.4)
            await gateway.kill()
            await trio.sleep(0.4)
            await gateway.start()
        await gateway.wait_for_state("shop", "open")

        # Both are killed: the webhooks that were to be repeated are gone.
        await gateway.kill()
        await phone.keep_saying(RACE)
        await trio.sleep(0.5)
        await in_thread(evolution.kill)
        await in_thread(evolution.start)
        await gateway.start()
        await gateway.wait_for_state("shop", "open")

        # Evolution API is killed while webhooks are under way, and hookgw notices.
        sent = []
        for number in range(5):
            body = {"number": CHATS[0].partition("@")[0], "text": f"answer {number}"}
            sent.append((await gateway.call("POST", "message/sendText/shop", body, status=201))["key"]["id"])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(phone.keep_saying, RACE, 0.001)
            await trio.sleep(0.2)
            await in_thread(evolution.kill)
            nursery.cancel_scope.cancel()
        await gateway.wait_for_state("shop", "close")
        await in_thread(evolution.start)
        await gateway.wait_for_state("shop", "open")
        await phone.keep_saying(RACE)

        stored = await in_thread(evolution.stored)
        received = {key["id"] for key in stored if not key["fromMe"]}
        with trio.move_on_after(60):
            while not received <= ids(gateway, "MESSAGES_UPSERT").keys():
                await gateway.receiver.wait_for(len(gateway.receiver.requests) + 1)
        found = ids(gateway, "MESSAGES_UPSERT")
        account: dict[str, Any] = {
            "taken by Evolution API": len(phone.said),
            "in its database": len(received),
            "delivered": len(found),
            "delivered, and not in its database": len(found.keys() - received),
            "missing": sorted(received - found.keys()),
            "doubled": sorted(id_ for id_, times in found.items() if times > 1),
            "sent": len(sent),
            "delivered as sent": ids(gateway, "SEND_MESSAGE"),
        }
        print(account)
        assert (account["missing"], account["doubled"]) == ([], []), account
        assert account["delivered as sent"] == Counter(sent), account
        # What it has answered with success, and lost itself: it answers before it stores.
        assert len(set(phone.said) - found.keys()) <= len(set(phone.said) - received), account


async def test_the_stand_in_shows_messages_as_the_real_server_does(
    tmp_path: Path, evolution: EvolutionProcess
) -> None:
    """The columns, the filter and the pages that a catch-up relies on."""
    async with httpx.AsyncClient(
        base_url=evolution.url, headers={"apikey": KEY}, trust_env=False, timeout=30
    ) as http:
        created = {"instanceName": "shop", "integration": "EVOLUTION", "number": NUMBER, "qrcode": False}
        await http.post("/instance/create", json=created)
        phone = Phone(http)
        await phone.keep_saying(5)

        async def find(**body: Any) -> Any:
            answer = await http.post("/chat/findMessages/shop", json=body)
            return answer.json()["messages"]

        while (found := await find(where={}))["total"] < 5:  # noqa: ASYNC110 (of another process)
            await trio.sleep(0.1)
        columns = {
            "id",
            "key",
            "pushName",
            "messageType",
            "message",
            "messageTimestamp",
            "instanceId",
            "source",
        }
        assert found["records"][0].keys() == columns | {"contextInfo", "MessageUpdate"}
        page = await find(where={}, page=2, offset=2)
        assert (page["total"], page["pages"], len(page["records"])) == (5, 3, 2)
        span = {"gte": "2000-01-01T00:00:00.000Z", "lte": "2001-01-01T00:00:00.000Z"}
        assert (await find(where={"key": {}, "messageTimestamp": span}))["total"] == 0
        texts = [one["message"]["conversation"] for one in found["records"]]
        assert sorted(texts) == [f"message {number}" for number in range(5)]
