"""Figures over time of two nodes: each shows the sum of both, also of one that was killed."""

from pathlib import Path
from typing import Any

import pytest
import trio

from tests.gateway.fleet.test_two_nodes import OF_A, OF_B, Node, node, settled
from tests.support.postgres import PostgresServer


async def accepted(asked: Node, path: str = "") -> Any:
    await asked.gateway.figures.fold()
    return (await asked.call("GET", f"/figures/find{path}"))["total"]["accepted"]


async def oldest(asked: Node, path: str) -> Any:
    await asked.gateway.figures.fold()
    return (await asked.call("GET", f"/figures/find{path}"))["total"]["oldestPending"]


async def emit(by: Node, instance: str, count: int) -> None:
    events = [{"event": "CALL", "data": {}} for _ in range(count)]
    await by.call("POST", f"/event/emit/{instance}", events, status=202)


async def test_every_node_shows_the_sum(
    postgres: PostgresServer, schema: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with node(postgres, schema, "a", tmp_path) as a:
        async with node(postgres, schema, "b", tmp_path) as b:
            await settled(a.gateway, b.gateway)
            for name in (OF_A, OF_B):
                await a.call("POST", "/instance/create", {"instanceName": name}, status=201)
            for by, count in ((a, 2), (b, 3)):
                for name in (OF_A, OF_B):
                    await emit(by, name, count)
            for asked in (a, b):
                assert await accepted(asked) == 10
                assert await accepted(asked, f"/{OF_B}") == 5
            await emit(b, OF_A, 4)

            # Whoever folds sees what waits at another node.
            refused = {"url": "http://127.0.0.1:9/", "retry": {"schedule": ["1h"]}}
            await b.call("POST", f"/webhook/set/{OF_B}", refused, status=201)
            await emit(b, OF_B, 1)
            with trio.fail_after(45):
                while await oldest(a, f"/{OF_B}") is None:  # noqa: ASYNC110 (another process of the fleet)
                    await trio.sleep(0.05)
            assert await oldest(a, f"/{OF_A}") is None

            async def is_killed(*_: object) -> bool:
                return False

            # It folds nothing any more, not at its end either.
            monkeypatch.setattr(b.gateway.store, "fold_figures", is_killed)
        assert await accepted(a) == 15
        assert await accepted(a, f"/{OF_A}") == 9
