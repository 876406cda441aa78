"""A backfill of a node in a fleet: the next node goes on with it, and nothing is passed over at its begin."""

from pathlib import Path
from typing import Any

import pytest
import trio

from hookgw import Event
from hookgw.store import steps
from hookgw.testing import open_receiver
from tests.gateway.fleet.test_two_nodes import OF_A, OF_B, node, settled
from tests.public.records import Job
from tests.public.store import JobStep
from tests.support.postgres import PostgresServer


async def test_the_next_node_goes_on_with_it(
    postgres: PostgresServer, schema: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "REPLAY_STEP", 2)
    async with open_receiver() as receiver, node(postgres, schema, "a", tmp_path) as a:
        async with node(postgres, schema, "b", tmp_path) as b:
            await settled(a.gateway, b.gateway)
            assert b.gateway.fleet is not None
            name = next(one for one in (OF_A, OF_B) if b.gateway.fleet.holds(one))
            store, reached = b.gateway.store, trio.Event()
            step = store.backfill_step

            async def once(*given: Any, **more: Any) -> JobStep:
                if reached.is_set():
                    await trio.sleep_forever()
                found = await step(*given, **more)
                reached.set()
                return found

            monkeypatch.setattr(store, "backfill_step", once)
            await b.call("POST", "/instance/create", {"instanceName": name}, status=201)
            events = [{"event": "CALL", "data": {"n": n}, "id": f"e{n}"} for n in range(6)]
            await a.call("POST", f"/event/emit/{name}", events, status=202)
            await a.call("POST", f"/webhook/set/{name}", {"url": receiver.url}, status=201)
            started = await a.call("POST", f"/webhook/backfill/{name}", {"since": "1h"}, status=202)
            assert reached.is_set()
            newer = {"event": "CALL", "data": {}, "id": "newer"}
            await b.call("POST", f"/event/emit/{name}", newer, status=202)
        with trio.fail_after(60):
            await receiver.wait_for(7)
        assert list(dict.fromkeys(receiver.ids)) == [*(f"e{n}" for n in range(6)), "newer"]
        with trio.fail_after(30):
            while (job := await a.call("GET", f"/job/find/{started['job']}"))["state"] == "running":  # noqa: ASYNC110
                await trio.sleep(0.1)
        assert (job["state"], job["done"]) == ("done", 6)


async def test_what_its_own_commit_stores_of_events_is_sent_too(
    postgres: PostgresServer, schema: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An event that comes after the call may be stored in the same transaction as the enabled webhook."""
    async with open_receiver() as receiver, node(postgres, schema, "a", tmp_path) as a:
        await settled(a.gateway)
        await a.call("POST", f"/webhook/set/{OF_A}", {"url": receiver.url, "enabled": False}, status=201)
        store = a.gateway.store
        begin = store.begin_backfill

        async def emit() -> None:
            event = Event(id="beside", kind="CALL", instance=OF_A, time=1.0, data_json=b"{}")
            await a.gateway.events.accept([event])

        async def begin_beside_an_event(*given: Any, **more: Any) -> Job:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(emit)
                return await begin(*given, **more)

        monkeypatch.setattr(store, "begin_backfill", begin_beside_an_event)
        await a.call("PATCH", f"/webhook/set/{OF_A}", {"enabled": True, "backfill": True})
        await a.call("POST", f"/event/emit/{OF_A}", {"event": "CALL", "data": {}, "id": "newer"}, status=202)
        with trio.fail_after(60):
            await receiver.wait_for(2)
        assert receiver.ids == ["beside", "newer"]
