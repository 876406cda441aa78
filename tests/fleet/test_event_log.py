"""The log of events on real nodes: a list that goes on while the node that has its instance is killed."""

import random
from pathlib import Path
from typing import Any

import pytest

from tests.fleet.nodes import Node, open_fleet
from tests.public.records import shard_of
from tests.support.postgres import PostgresServer

pytestmark = [pytest.mark.crash, pytest.mark.timeout(240)]


async def test_a_cursor_goes_on_after_the_kill_of_the_node_that_gave_it(
    postgres: PostgresServer, schema: str, tmp_path: Path
) -> None:
    """Of one instance and of both, with nothing left out or twice; what comes later is behind it."""
    async with open_fleet(postgres, schema, tmp_path, random.Random(1), launchers=((), ())) as fleet:
        # One instance for each half of the shards: one node or the other has it.
        names = [
            next(f"{half}{n}" for n in range(99) if shard_of(f"{half}{n}") // 128 == half) for half in (0, 1)
        ]
        for name in names:
            await fleet.call("POST", "/instance/create", {"instanceName": name})

        async def emit(number: int) -> None:
            event = {"event": "CALL", "data": {"n": number}, "id": f"e{number}"}
            await fleet.call("POST", f"/event/emit/{names[number % 2]}", event)

        async def read(path: str, node: Node, cursor: str | None = None) -> tuple[list[str], str | None]:
            behind = "" if cursor is None else f"&cursor={cursor}"
            page = await fleet.call("GET", f"{path}?kind=CALL&order=oldest&limit=3{behind}", node=node)
            return [event["id"] for event in page["events"]], page["cursor"]

        for number in range(10):
            await emit(number)
        lost, left = fleet.nodes
        paths: dict[str, Any] = {"/event/list": range(11)}
        paths |= {f"/event/list/{name}": range(place, 11, 2) for place, name in enumerate(names)}
        pages = {path: await read(path, lost) for path in paths}
        await lost.kill()
        await emit(10)  # once the other node has its instances
        for path, numbers in paths.items():
            found, cursor = pages[path]
            while cursor is not None:
                more, cursor = await read(path, left, cursor)
                found += more
            assert found == [f"e{number}" for number in numbers]
