"""Quiet instances on two nodes: events that one node accepts count on the other, and so does a failover."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.gateway.fleet.test_two_nodes import Node, node, settled
from tests.support.postgres import PostgresServer


async def until(asked: Node, holds: Callable[[list[str]], bool]) -> None:
    """Wait until the overview that a node shows has the right problems."""
    with trio.fail_after(30):
        while True:
            found = await asked.gateway.views.overview(None, 20)
            if holds([one.why for one in found.problems]):
                return
            await trio.sleep(0.1)


async def test_events_on_another_node_are_heard_and_a_failover_goes_on(
    postgres: PostgresServer, schema: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hookgw.instances.quiet.LOOK_EVERY", 0.1)
    words = "Connected, but no event comes."
    async with node(postgres, schema, "a", tmp_path) as a:
        async with node(postgres, schema, "b", tmp_path) as b:
            await settled(a.gateway, b.gateway)
            fleet: Any = b.gateway.fleet
            name = next(name for name in map(str, range(99)) if fleet.holds(name))
            created = {"instanceName": name, "quietAfter": "3s"}
            await a.call("POST", "/instance/create", created, status=201)
            opened = {"event": "CONNECTION_UPDATE", "data": {"state": "open"}}
            await a.call("POST", f"/event/emit/{name}", opened, status=202)
            await until(a, lambda found: found == [words])
            await a.call("POST", f"/event/emit/{name}", {"event": "CALL", "data": {}}, status=202)
            await until(a, lambda found: found == [])
            await until(a, lambda found: found == [words])
        await settled(a.gateway)
        await until(a, lambda found: found == [words])
        await a.call("POST", f"/event/emit/{name}", {"event": "CALL", "data": {}}, status=202)
        await until(a, lambda found: found == [])
