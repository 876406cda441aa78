"""What an earlier version left in its lanes by chat, when a fleet of this version starts."""

import zlib
from pathlib import Path
from typing import Any

import pytest
import trio

from hookgw import Event
from hookgw.testing import answer, open_receiver
from tests.gateway.fleet.test_two_nodes import OF_A, OF_B, node, settled
from tests.public.records import LaneRule
from tests.support.postgres import PostgresServer

EVENTS = 60


def of_person(number: int) -> dict[str, Any]:
    """Return an event of one of three people, each of whom has three names."""
    digits = f"551698888000{number % 3}"
    jid = (f"{digits}@s.whatsapp.net", f"{digits}:90@s.whatsapp.net", f"{digits}@c.us")[number // 3 % 3]
    return {"event": "CALL", "id": f"e{number}", "data": {"key": {"remoteJid": jid}}}


@pytest.mark.process
async def test_each_node_moves_what_is_pending_before_it_sends_any(
    postgres: PostgresServer, schema: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also a node that takes a shard over in the middle."""
    monkeypatch.setattr("hookgw.store.steps.STEP", 3)
    async with open_receiver() as receiver:
        receiver.default = answer(503, headers={"retry-after": "1000"})
        with monkeypatch.context() as former:
            former.setattr(
                LaneRule, "generation_prefix", property(lambda self: f"{self.registration}:{self.generation}")
            )
            former.setattr(
                Event, "chat_hash", property(lambda self: zlib.crc32(self.data["key"]["remoteJid"].encode()))
            )
            async with node(postgres, schema, "a", tmp_path) as a:
                await settled(a.gateway)
                for name in (OF_A, OF_B):
                    await a.call("POST", "/instance/create", {"instanceName": name}, status=201)
                    hook = {"url": f"{receiver.url}{name}", "ordering": "chat", "concurrency": 4}
                    await a.call("POST", f"/webhook/set/{name}", hook, status=201)
                    batch = [of_person(number) for number in range(EVENTS)]
                    await a.call("POST", f"/event/emit/{name}", batch, status=202)
        receiver.default = answer()
        seen = len(receiver.requests)
        async with node(postgres, schema, "a", tmp_path) as a, node(postgres, schema, "b", tmp_path) as b:
            await settled(a.gateway, b.gateway)
            for name in (OF_A, OF_B):
                await a.call("POST", f"/webhook/set/{name}", {"url": f"{receiver.url}{name}/"}, status=201)
            with trio.fail_after(60):
                await receiver.wait_for(seen + 2 * EVENTS)
        for name in (OF_A, OF_B):
            arrived = [
                int(str(one.event_id)[1:]) for one in receiver.requests[seen:] if f"/{name}" in one.target
            ]
            assert sorted(arrived) == list(range(EVENTS))
            for person in range(3):
                theirs = [number for number in arrived if number % 3 == person]
                assert theirs == sorted(theirs)
