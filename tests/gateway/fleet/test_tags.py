"""Tags in a fleet: replicated like other fields of instances; limits count what all nodes hold."""

from pathlib import Path

import pytest
import trio

from hookgw.testing import answer, open_receiver
from tests.gateway.fleet.test_two_nodes import OF_A, OF_B, Node, node, settled, two_nodes
from tests.public.lanes import TagRates
from tests.support.postgres import PostgresServer

ACME = {"tenant": "acme"}
LIMITS = {"tags": {"tenant": {"deliveries": 12, "rate": "1000/s"}}}


async def holds(nodes: tuple[Node, ...], value: str, count: int) -> None:
    """Wait until each node knows how much is pending of a tenant."""
    with trio.fail_after(45):
        for one in nodes:
            while True:
                if one.gateway.backlog.of_tag("tenant", value)[0] == count:
                    break
                await trio.sleep(0.05)


async def knows(node: Node, count: int) -> None:
    """Wait until a node knows so many instances of the tenant."""
    with trio.fail_after(45):
        while True:
            if len(await node.call("GET", "/instance/fetchInstances?tag=tenant=acme")) == count:
                return
            await trio.sleep(0.05)


async def emit(node: Node, instance: str, event_id: str, status: int = 202) -> None:
    body = {"event": "CALL", "data": {}, "id": event_id}
    await node.call("POST", f"/event/emit/{instance}", body, status=status)


async def test_a_tenants_instances_on_two_nodes_share_its_limit(
    postgres: PostgresServer, schema: str, tmp_path: Path
) -> None:
    async with open_receiver() as receiver, two_nodes(postgres, schema, tmp_path, limits=LIMITS) as (a, b):
        receiver.default = answer(503)
        for one, instance in ((a, OF_B), (b, OF_A)):  # each on the node of the other
            webhook = {"url": receiver.url}
            body = {"instanceName": instance, "tags": ACME, "webhook": webhook}
            await one.call("POST", "/instance/create", body, status=201)
        for one in (a, b):
            await knows(one, 2)
        for number in range(5):
            await emit(a, OF_A, f"a{number}")
            await emit(b, OF_B, f"b{number}")
        await holds((a, b), "acme", 10)
        await emit(a, OF_A, "refused", status=429)
        await emit(b, OF_B, "refused", status=429)
        # What moves to another tenant leaves room, on both nodes.
        await b.call("PATCH", f"/instance/tags/{OF_A}", {"tags": {"tenant": "bolt"}})
        await holds((a, b), "acme", 5)
        await holds((a, b), "bolt", 5)
        await emit(a, OF_A, "more")
        await emit(b, OF_B, "more")
        await a.call("DELETE", f"/instance/delete/{OF_B}")
        await holds((a, b), "acme", 0)
        for one in (a, b):
            found = await one.call("GET", "/instance/fetchInstances?tag=tenant=bolt")
            assert [instance["name"] for instance in found] == [OF_A]


async def test_the_rate_of_a_tag_is_divided_among_the_nodes_that_live(
    postgres: PostgresServer, schema: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limits that are divided are those that the lanes of a node ask: of its instances' tags."""
    divided: dict[int, tuple[TagRates, list[int]]] = {}
    divide = TagRates.divide

    def note(rates: TagRates, nodes: int) -> None:
        divide(rates, nodes)
        divided.setdefault(id(rates), (rates, []))[1].append(nodes)

    async def have_seen(*wanted: int) -> None:
        with trio.fail_after(45):
            while True:
                if sorted(by[-1] for _, by in divided.values()) == sorted(wanted):
                    return
                await trio.sleep(0.05)

    monkeypatch.setattr(TagRates, "divide", note)
    async with node(postgres, schema, "a", tmp_path, limits=LIMITS) as a:
        async with node(postgres, schema, "b", tmp_path, limits=LIMITS) as b:
            await settled(a.gateway, b.gateway)
            await have_seen(2, 2)
            await a.call("POST", "/instance/create", {"instanceName": OF_A, "tags": ACME}, status=201)
            for one in (a, b):
                await knows(one, 1)
            assert all(len(rates.of(OF_A)) == 1 for rates, _ in divided.values())
        await have_seen(1, 2)
