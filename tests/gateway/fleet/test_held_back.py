"""What an older transaction in the database holds back is shown everywhere, and by the node of its lane."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import trio

from hookgw.store.postgresql import held as module
from hookgw.testing import open_receiver
from tests.gateway.fleet.test_two_nodes import KEY, OF_A, OF_B, Node, node, settled, two_nodes
from tests.support.postgres import PostgresServer

KIND = "CALL"


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EVERY", 0.05)
    monkeypatch.setattr(module, "LEAST_AGE", 0.0)


@pytest.fixture
def older(postgres: PostgresServer) -> Iterator[psycopg.Connection]:
    """A connection of somebody else."""
    with psycopg.connect(postgres.url(), application_name="nightly") as connection:
        yield connection


async def emit(one: Node, instance: str) -> None:
    await one.call("POST", f"/event/emit/{instance}", {"event": KIND, "data": {}}, status=202)


async def lanes(one: Node, are: Callable[[list[dict[str, Any]]], bool]) -> list[dict[str, Any]]:
    with trio.fail_after(30):
        while not are(found := await one.call("GET", "/lane/list")):  # noqa: ASYNC110 -- a client
            await trio.sleep(0.05)
    return list(found)


async def checks(one: Node, name: str, path: str) -> list[dict[str, Any]]:
    return [check for check in (await one.call("GET", path))["checks"] if check["check"] == name]


def held_of(found: list[dict[str, Any]]) -> list[tuple[str, int]]:
    return sorted((one["instance"], one["held"]) for one in found)


async def until_held(one: Node, count: int) -> None:
    with trio.fail_after(30):
        while True:
            text = (await one.http.get(f"{one.url}/metrics", headers={"apikey": KEY})).text
            if f"\nhookgw_deliveries_held {count}.0\n" in text:
                return
            await trio.sleep(0.05)


async def test_a_lane_is_shown_with_what_it_may_not_read_yet_and_the_overview_names_the_transaction(
    postgres: PostgresServer, schema: str, tmp_path: Path, older: psycopg.Connection
) -> None:
    async with open_receiver() as receiver, node(postgres, schema, "a", tmp_path) as a:
        await settled(a.gateway)
        await a.call("POST", "/instance/create", {"instanceName": OF_A}, status=201)
        webhook = {"enabled": True, "url": receiver.url, "events": [KIND]}
        await a.call("POST", f"/webhook/set/{OF_A}", {"webhook": webhook}, status=201)
        await until_held(a, 0)
        older.execute("SELECT pg_current_xact_id()")
        await emit(a, OF_A)

        [lane] = await lanes(a, lambda found: any(one["held"] for one in found))
        assert (lane["instance"], lane["state"], lane["backlog"], lane["held"]) == (OF_A, "idle", 0, 1)
        await until_held(a, 1)
        overview = await a.gateway.views.overview(None, 20)
        [problem] = overview.problems
        assert problem.node == "a"
        assert problem.why.startswith(
            "1 stored delivery waits for the end of an older transaction in the database server. It is the "
            f"transaction of process {older.info.backend_pid} (nightly) of the user hookgw in the database "
            "postgres, since "
        )
        assert problem.since is not None
        assert abs(problem.since - a.gateway.clock.wall()) < 60
        assert not receiver.requests
        [lane] = await checks(a, "lane", f"/diagnosis/{OF_A}")
        assert lane["state"] == "failed"
        assert lane["found"].startswith(
            "0 pending. 1 stored delivery waits for the end of an older transaction"
        )
        assert lane["advice"] == "See which one: hookgw doctor"
        fine, held = await checks(a, "storage", "/diagnosis")
        assert (fine["state"], held["state"], held["found"]) == ("ok", "failed", problem.why)
        assert "pg_terminate_backend(" in held["found"]
        assert "advice" not in held  # it would say the same with a name in the number's place

        older.rollback()
        await receiver.wait_for(1)
        await lanes(a, lambda found: not any(one["held"] for one in found))
        await until_held(a, 0)
        assert (await a.gateway.views.overview(None, 20)).problems == []


async def test_in_a_fleet_the_node_of_a_lane_reports_what_is_held_back_whoever_appended_it(
    postgres: PostgresServer, schema: str, tmp_path: Path, older: psycopg.Connection
) -> None:
    async with open_receiver() as receiver, two_nodes(postgres, schema, tmp_path) as (a, b):
        for name in (OF_A, OF_B):
            await a.call("POST", "/instance/create", {"instanceName": name}, status=201)
            webhook = {"enabled": True, "url": receiver.url, "events": [KIND]}
            await a.call("POST", f"/webhook/set/{name}", {"webhook": webhook}, status=201)
        older.execute("SELECT pg_current_xact_id()")
        for name in (OF_A, OF_B):
            await emit(a, name)
        wanted = sorted([(OF_A, 1), (OF_B, 1)])
        found = await lanes(b, lambda found: held_of(found) == wanted)
        places = {one["instance"]: one["node"] for one in found}
        assert sorted(places.values()) == ["a", "b"]
        await until_held(a, 1)
        await until_held(b, 1)
        waits = "1 stored delivery waits "
        for one, other in ((a, "b"), (b, "a")):
            texts = [check["found"] for check in await checks(one, "storage", "/diagnosis")]
            assert sum(text.startswith(f"On the node {other}: {waits}") for text in texts) == 1
            assert sum(text.startswith(waits) for text in texts) == 1
        older.rollback()
        await receiver.wait_for(2)
        found = await lanes(a, lambda found: not any(one["held"] for one in found))
        assert {one["instance"]: one["node"] for one in found} == places
