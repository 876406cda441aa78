"""Figures over time of two nodes: each shows the sum of both, also of one that was killed."""

from pathlib import Path
from typing import Any

import pytest

from tests.gateway.fleet.test_two_nodes import OF_A, OF_B, Node, node
from tests.support.postgres import PostgresServer


async def accepted(asked: Node, path: str = "") -> Any:
    await asked.gateway.figures.fold()
    return (await asked.call("GET", f"/figures/find{path}"))["total"]["accepted"]


async def emit(by: Node, instance: str, count: int) -> None:
    events = [{"event": "CALL", "data": {}} for _ in range(count)]
    await by.call("POST", f"/event/emit/{instance}", events, status=202)


async def test_every_node_shows_the_sum(
    postgres: PostgresServer, schema: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with node(postgres, schema, "a", tmp_path) as a:
        async with node(postgres, schema, "b", tmp_path) as b:
            await a.until("b", 128)
            await b.until("a", 128)
            for name in (OF_A, OF_B):
                await a.call("POST", "/instance/create", {"instanceName": name}, status=201)
            for by, count in ((a, 2), (b, 3)):
                for name in (OF_A, OF_B):
                    await emit(by, name, count)
            for asked in (a, b):
                assert await accepted(asked) == 10
                assert await accepted(asked, f"/{OF_B}") == 5
            await emit(b, OF_A, 4)

            async def is_killed(_: object) -> bool:
                return False

            # It folds nothing any more, not at its end either.
            monkeypatch.setattr(b.gateway.store, "fold_figures", is_killed)
        assert await accepted(a) == 14
        assert await accepted(a, f"/{OF_A}") == 9
