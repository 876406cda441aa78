"""What a node knows of webhooks that fail, when their shard comes to it and leaves it."""

from pathlib import Path

import pytest
import trio

from hookgw.testing import answer, open_receiver
from hookgw.webhooks import auto_disable
from tests.gateway.fleet.test_two_nodes import OF_A, OF_B, Node, node, settled
from tests.support.postgres import PostgresServer
from tests.support.waits import until


def listed(node: Node) -> list[str]:
    """Return the instances of the webhooks that this node finds failing, for its metrics."""
    return sorted(registration.instance for registration, _ in node.gateway.auto_disable.failing())


async def until_listed(node: Node, count: int) -> None:
    """Wait until a node finds so many of its webhooks failing."""
    await until(lambda: len(listed(node)) == count)


async def test_they_are_listed_at_once_where_the_shard_comes_to(
    postgres: PostgresServer, schema: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auto_disable, "STORED_AFTER", 0.0)
    async with open_receiver() as receiver, node(postgres, schema, "a", tmp_path) as a:
        receiver.default = answer(500)
        async with node(postgres, schema, "b", tmp_path) as b:
            await settled(a.gateway, b.gateway)
            for name in (OF_A, OF_B):
                hook = {"url": receiver.url, "retry": {"schedule": ["1h"]}}
                await a.call("POST", "/instance/create", {"instanceName": name}, status=201)
                await a.call("POST", f"/webhook/set/{name}", hook, status=201)
                await a.call("POST", f"/event/emit/{name}", {"event": "CALL", "data": {}}, status=202)
            await until_listed(a, 1)
            await until_listed(b, 1)
            [stays], [moves] = listed(a), listed(b)
            [(_, since)] = b.gateway.auto_disable.failing()
            overview = await a.gateway.views.overview(None, 10)
            assert sorted(problem.instance for problem in overview.problems) == sorted([OF_A, OF_B])
        await settled(a.gateway)
        assert listed(a) == sorted([OF_A, OF_B])
        with trio.fail_after(10):  # what came over is there once its lane has read its last attempt
            while not all(  # noqa: ASYNC110 -- the attempt is in a database
                "500" in one.why for one in (await a.gateway.views.overview(None, 10)).problems
            ):
                await trio.sleep(0.02)
        assert since in [since for _, since in a.gateway.auto_disable.failing()]
        assert len(receiver.requests) == 2  # the next attempts are an hour away
        async with node(postgres, schema, "b", tmp_path) as b:
            await settled(a.gateway, b.gateway)
            assert (listed(a), listed(b)) == ([stays], [moves])
            # Here it works again. When it comes back it does not fail, and has its full time.
            receiver.default = answer(204)
            await b.gateway.registrations.resume(moves)
            await until_listed(b, 0)
        await settled(a.gateway)
        assert listed(a) == [stays]
