"""Two nodes with their HTTP APIs on one real PostgreSQL, in one process."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
import structlog
import trio

from hookgw import Gateway, PluginGateway, hookimpl
from hookgw.testing import answer, hang, open_receiver
from tests.public.app import open_gateway
from tests.public.config import Settings
from tests.public.kernel import StartError, StorageUnavailable
from tests.public.plugins import Hooks, load_plugins
from tests.public.records import JobKind, JobState, shard_of
from tests.public.web import serve
from tests.support.application import create_app
from tests.support.exceptions import leaves
from tests.support.ports import free_port
from tests.support.postgres import PostgresServer
from tests.support.waits import until

KEY = "the-global-key-of-the-tests"
# The first node gives the upper half of its shards to the second.
OF_A, OF_B = "shop", "lane0"


def test_the_names_belong_to_different_nodes() -> None:
    assert (shard_of(OF_A) < 128, shard_of(OF_B) < 128) == (False, True)


def remove(postgres: PostgresServer, schema: str) -> None:
    """Remove b, as others do that find it dead."""
    postgres.execute(
        f"""DELETE FROM {schema}.members USING {schema}.nodes
        WHERE nodes.generation = members.generation AND name = 'b'"""
    )
    postgres.execute(f"DELETE FROM {schema}.nodes WHERE name = 'b'")
    postgres.execute(
        f"""UPDATE {schema}.shards SET generation = NULL
        WHERE generation NOT IN (SELECT generation FROM {schema}.members)"""
    )


@dataclass
class Node:
    """A node that runs in this process.

    Attributes:
        scope: cancelled, its API stops.
        stopped: set once it has.
    """

    gateway: Gateway
    url: str
    http: httpx.AsyncClient
    scope: trio.CancelScope
    stopped: trio.Event = field(default_factory=trio.Event)

    async def call(
        self, method: str, path: str, body: Any = None, *, key: str = KEY, status: int = 200
    ) -> Any:
        """Make a call; the status must be the one expected."""
        answered = await self.http.request(method, self.url + path, json=body, headers={"apikey": key})
        assert answered.status_code == status, answered.text
        return json.loads(answered.content) if answered.content else None


async def settled(*gateways: Gateway) -> None:
    """Wait until these nodes are the fleet: each works on its share, and knows who works on all others.

    The database has a shard as a node's before that node has begun to work on it.
    """
    fleets = [one.fleet for one in gateways if one.fleet is not None]
    assert len(fleets) == len(gateways)
    await until(
        lambda: all(
            fleet.is_whole
            and len(fleet.view.nodes) == len(fleets)
            and all(fleet.view.held_by(one.generation) == one.shards for one in fleets)
            and gateway.outbound.pools.host_connections == 64 // len(fleets)
            for gateway, fleet in zip(gateways, fleets, strict=True)
        )
    )


def settings_of(postgres: PostgresServer, schema: str, name: str, port: int | None, **more: Any) -> Settings:
    fleet: dict[str, Any] = {"node": name}
    if port is not None:
        fleet |= {"url": f"http://127.0.0.1:{port}", "secret": "a secret of the tests"}
    server = {"bind": [f"127.0.0.1:{port or free_port()}"], **more.pop("server", {})}
    return msgspec.convert(
        {
            "server": server,
            "auth": {"global_key": KEY},
            "storage": {"engine": "postgresql", "url": postgres.url(), "schema": schema},
            "delivery": {"allow_networks": ["127.0.0.0/8"]},
            "plugins": {"folders": [], "block_warning": 0},
            "fleet": fleet,
            **more,
        },
        Settings,
        dec_hook=lambda kind, value: kind(value),  # durations
    )


@asynccontextmanager
async def node(
    postgres: PostgresServer, schema: str, name: str, folder: Path, **more: Any
) -> AsyncIterator[Node]:
    """Run a node for the length of a block; it stops as in production."""
    settings = settings_of(postgres, schema, name, free_port(), **more)
    async with (
        open_gateway(settings, base=folder) as gateway,
        httpx.AsyncClient(trust_env=False, verify=False) as http,
        trio.open_nursery() as nursery,
    ):
        scope, stopped, app = trio.CancelScope(), trio.Event(), create_app(gateway)
        assert app.fast_paths, "the forwarding is no hook of a plugin's"

        async def run(*, task_status: trio.TaskStatus[list[str]]) -> None:  # noqa: ASYNC128 -- serve() calls it
            # Its own: a test that ends it goes on.
            with scope:
                await serve(app, settings.server, hub=gateway.hub, task_status=task_status)
            stopped.set()

        [url] = await nursery.start(run)
        yield Node(gateway, url, http, scope, stopped)
        scope.cancel()


@asynccontextmanager
async def two_nodes(
    postgres: PostgresServer, schema: str, folder: Path, **more: Any
) -> AsyncIterator[tuple[Node, Node]]:
    """Run two nodes, ``a`` and ``b``, each of which works on half of the shards."""
    async with (
        node(postgres, schema, "a", folder, **more) as a,
        node(postgres, schema, "b", folder, **more) as b,
    ):
        await settled(a.gateway, b.gateway)
        yield a, b


def counted_at(node: Node, key: str) -> float:
    """Return when a node counted a call with this key last."""
    holder = node.gateway.keys.holder_of(key)
    assert holder is not None
    assert holder.bucket is not None
    return holder.bucket.updated_at


async def status_of(node: Node, target: str, key: str) -> int:
    """Send a request byte for byte, and return the status of the response."""
    url = httpx.URL(node.url)
    async with await trio.open_tcp_stream(url.host, url.port or 80) as stream:
        head = f"GET {target} HTTP/1.1\r\nhost: x\r\napikey: {key}\r\nconnection: close\r\n\r\n"
        await stream.send_all(head.encode())
        received = b"".join([part async for part in stream])
    return int(received.split(b" ", 2)[1])


async def test_calls_on_any_node(  # noqa: C901 -- one call after the other
    postgres: PostgresServer, schema: str, tmp_path: Path
) -> None:
    async with open_receiver() as receiver, two_nodes(postgres, schema, tmp_path) as (a, b):
        assert a.gateway.fleet is not None
        for other in (a, b):
            assert other.gateway.fleet is not None
            assert sum(other.gateway.fleet.holds(name) for name in (OF_A, OF_B)) == 1
        # What one node has made, the other one takes events for at once.
        new = next(name for name in map(str, range(99)) if a.gateway.fleet and a.gateway.fleet.holds(name))
        await a.call("POST", "/instance/create", {"instanceName": new}, status=201)
        await b.call("POST", f"/event/emit/{new}", {"event": "CALL", "data": {}}, status=202)
        await b.call("POST", f"/event/emit/{new}/call", {"event": "CALL", "data": {}}, status=202)
        made = {}
        for name in (OF_A, OF_B):
            # On the other node, whichever that is. The key that it makes opens both nodes.
            for number, asked in enumerate((a, b)):
                one = f"{name}{number}"
                created = await asked.call("POST", "/instance/create", {"instanceName": one}, status=201)
                made[one] = created["hash"]
        for name, key in made.items():
            for asked in (a, b):
                await asked.call("GET", f"/instance/connectionState/{name}", key=key)
            # A forwarded call counts where it came in, and not again where it is answered.
            owner, other = (a, b) if a.gateway.fleet.holds(name) else (b, a)
            counted = counted_at(owner, key), counted_at(other, key)
            await other.call("GET", f"/instance/connectionState/{name}", key=key)
            assert counted_at(owner, key) == counted[0]
            assert counted_at(other, key) > counted[1]
            # Signed is what leaves: no client of HTTP may write a target otherwise.
            for target in (
                f'/instance/connectionState/{name}?x="a"',
                f"/instance/./connectionState/{name}?{{}}",
            ):
                counted = counted_at(owner, key), counted_at(other, key)
                assert await status_of(other, target, key) in (200, 404)
                assert counted_at(owner, key) == counted[0]
            await a.call("POST", f"/webhook/set/{name}", {"url": receiver.url}, key=key, status=201)
            assert (await b.call("GET", f"/webhook/find/{name}", key=key))["url"] == receiver.url
            for asked in (a, b):
                await asked.call("POST", f"/event/emit/{name}", {"event": "CALL", "data": {}}, status=202)
            with trio.fail_after(10):
                await receiver.wait_for(len(receiver.requests))
        with trio.fail_after(10):
            await receiver.wait_for(2 * len(made))
        for other in (a, b):
            assert other.gateway.fleet is not None
            assert other.gateway.fleet.is_whole
            assert (await other.call("GET", "/readyz"))["shards"] == {"a": 128, "b": 128}
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(other.gateway.fleet, "has_begun", lambda: False)  # as at the start
                answer = await other.call("GET", "/readyz", status=503)
            assert "first shards" in answer["response"]["message"][0]
        metrics = await a.http.get(a.url + "/metrics", headers={"apikey": KEY})
        assert 'hookgw_node_shards{node="a"} 128.0' in metrics.text
        elsewhere = msgspec.structs.replace(
            a.gateway.jobs.new(JobKind.REPLAY, "another"), state=JobState.DONE
        )
        await a.gateway.store.put_job(elsewhere)
        for asked in (a, b):
            assert elsewhere.id in [job["id"] for job in await asked.call("GET", "/job/list")]
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(asked.gateway.jobs, "everywhere", None)  # not all jobs are read for one
                assert (await asked.call("GET", f"/job/find/{elsewhere.id}"))["state"] == "done"
                await asked.call("GET", "/job/find/job_unknown", status=404)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(asked.gateway.store, "load_jobs", None)  # what has ended is read once
                assert elsewhere.id in [job["id"] for job in await asked.call("GET", "/job/list")]
        # Refusals pass through, and what an owner says of a body.
        name, key = next(iter(made.items()))
        for asked in (a, b):
            await asked.call("POST", f"/webhook/set/{name}", {"url": 1}, key=key, status=400)
            await asked.call("GET", f"/webhook/find/{name}", key="wrong", status=401)
            await asked.call("POST", "/instance/create", {"instanceName": name}, status=403)
            await asked.call("POST", "/instance/create", {}, status=400)
            assert len(await asked.call("GET", f"/delivery/list/{name}")) > 0
        # A revoked global key is dead on the other node.
        extra = (await a.call("POST", "/key/create", {"name": "extra"}, status=201))["key"]
        await b.call("GET", "/node/list", key=extra)
        await a.call("DELETE", "/key/delete/extra")
        with trio.fail_after(20):
            while True:
                answered = await b.http.get(b.url + "/node/list", headers={"apikey": extra})
                if answered.status_code == 401:
                    break
                await trio.sleep(0.05)
        await b.call("DELETE", f"/instance/delete/{name}")
        await a.call("POST", f"/event/emit/{name}", {"event": "CALL", "data": {}}, status=404)


async def test_a_list_has_what_another_node_has_just_changed(
    postgres: PostgresServer, schema: str, tmp_path: Path
) -> None:
    """A load balancer sends the list to another node than the change before it."""
    async with two_nodes(postgres, schema, tmp_path) as (a, b):
        assert a.gateway.fleet is not None
        of_a = [name for name in map(str, range(99)) if a.gateway.fleet.holds(name)]
        for name in of_a[:3]:
            one, tagged = f"/instance/fetchInstances?instanceName={name}", f"?tag=number={name}"
            await a.call("POST", "/instance/create", {"instanceName": name}, status=201)
            assert [found["name"] for found in await b.call("GET", one)] == [name]
            await a.call("PATCH", f"/instance/tags/{name}", {"tags": {"number": name}})
            await a.call("POST", f"/webhook/set/{name}", {"url": "pull:"}, status=201)
            assert len((await b.call("GET", f"/webhook/list{tagged}"))["registrations"]) == 1
            event = {"event": "MESSAGES_UPSERT", "data": {"key": {"id": "1", "remoteJid": "5511@c.us"}}}
            await a.call("POST", f"/event/emit/{name}", event, status=202)
            assert len((await b.call("GET", f"/delivery/list{tagged}"))["deliveries"]) == 1
            await a.call("PATCH", f"/instance/tags/{name}", {"tags": {"number": name, "kind": "new"}})
            ended = await b.call("POST", "/delivery/cancel", {"tags": {"kind": "new"}})
            assert ended["cancelled"] == 1, name
            await a.call("DELETE", f"/webhook/delete/{name}")
            assert (await b.call("GET", f"/webhook/list{tagged}"))["registrations"] == []
            await a.call("POST", "/key/create", {"name": name}, status=201)
            assert name in [key["name"] for key in await b.call("GET", "/key/list")]
            await a.call("DELETE", f"/instance/delete/{name}")
            assert await b.call("GET", one) == []


async def pending(asked: Node, instance: str, event: str, label: str | None = None) -> str:
    """Return the id of a pending delivery of an event, once a node knows it, and the label of its webhook."""
    with trio.fail_after(45):
        while True:
            listed = await asked.call("GET", f"/delivery/list/{instance}?state=pending")
            for one in listed["deliveries"]:
                if one["eventId"] == event and label in (None, one["label"]):
                    return str(one["id"])
            await trio.sleep(0.05)


async def test_a_delivery_is_cancelled_by_the_node_that_has_its_lane(
    postgres: PostgresServer, schema: str, tmp_path: Path
) -> None:
    async with open_receiver() as own, open_receiver() as operators:
        own.default = operators.default = hang()
        webhooks = [{"label": "audit", "url": operators.url, "ordering": "url", "concurrency": 1}]
        async with two_nodes(postgres, schema, tmp_path, global_webhooks=webhooks) as (a, b):
            for name in (OF_A, OF_B):
                await a.call("POST", "/instance/create", {"instanceName": name}, status=201)
                await a.call("POST", f"/webhook/set/{name}", {"url": own.url}, status=201)
                for number in range(2):
                    event = {"event": "CALL", "data": {}, "id": f"{name}{number}"}
                    await a.call("POST", f"/event/emit/{name}", event, status=202)
            with trio.fail_after(20):
                await own.wait_for(2)
                await operators.wait_for(1)
            # Heads of both instances' lanes, from either node; of the configuration's webhook there is one
            # lane, on one node, which has one of the instances at most.
            for number, (asked, name) in enumerate(((a, OF_A), (a, OF_B), (b, OF_A), (b, OF_B))):
                with trio.fail_after(20):
                    await own.wait_for(min(2 + number, 4))  # the lane has gone on to this one
                mine = await pending(asked, name, f"{name}{number // 2}", label="default")
                done = await asked.call("POST", f"/delivery/cancel/{name}/{mine}")
                assert (done["state"], done["reason"][:9]) == ("dead", "Cancelled")
                again = await asked.call("POST", f"/delivery/cancel/{name}/{mine}", status=409)
                assert "a dead letter already" in again["response"]["message"][0]
            assert sorted(filter(None, own.ids)) == sorted(
                f"{name}{n}" for name in (OF_A, OF_B) for n in (0, 1)
            )
            for number in range(4):
                with trio.fail_after(10):
                    await operators.wait_for(number + 1)
                head = str(operators.ids[-1])
                assert len(operators.ids) == number + 1
                theirs = await pending((a, b)[number % 2], head[:-1], head)
                asked = (b, a)[number % 2]
                assert (await asked.call("POST", f"/delivery/cancel/{head[:-1]}/{theirs}"))["state"] == "dead"
            assert len(set(operators.ids)) == 4


async def test_a_replay_over_several_instances_has_a_part_on_each_owner(
    postgres: PostgresServer, schema: str, tmp_path: Path
) -> None:
    async with open_receiver() as receiver, two_nodes(postgres, schema, tmp_path) as (a, b):
        receiver.default = answer(422)
        for name in (OF_A, OF_B):
            await a.call("POST", "/instance/create", {"instanceName": name}, status=201)
            await a.call("POST", f"/webhook/set/{name}", {"url": f"{receiver.url}{name}"}, status=201)
            await a.call("POST", f"/event/emit/{name}", {"event": "CALL", "data": {}}, status=202)
        counting = {"since": "1h", "dryRun": True}
        with trio.fail_after(20):
            while (await b.call("POST", "/delivery/replay", counting))["matching"] < 2:  # noqa: ASYNC110
                await trio.sleep(0.05)
        receiver.default = answer()
        receiver.requests.clear()
        for number, asked in enumerate((a, b), 1):
            body = {"since": "1h", "instances": ["*"], "state": "all"}
            replayed = await asked.call("POST", "/delivery/replay", body, status=202)
            with trio.fail_after(20):
                while "job" in replayed and replayed.get("state") != "done":
                    replayed |= await asked.call("GET", f"/job/find/{replayed['job']}")
                await receiver.wait_for(2 * number)
                while (await a.call("GET", "/delivery/list?state=pending"))["deliveries"]:  # noqa: ASYNC110
                    await trio.sleep(0.05)
        assert sorted(request.target for request in receiver.requests) == sorted(2 * [f"/{OF_A}", f"/{OF_B}"])
        carried_out = {
            (holder.gateway.node.label, part.instance)
            for holder in (a, b)
            for part in holder.gateway.jobs.all()
            if part.parent
        }
        assert carried_out == {
            (holder.gateway.node.label, name)
            for holder in (a, b)
            for name in (OF_A, OF_B)
            if holder.gateway.node.holds(name)
        }


async def test_a_document_is_applied_by_the_nodes_that_have_its_instances(
    postgres: PostgresServer, schema: str, tmp_path: Path
) -> None:
    async with two_nodes(postgres, schema, tmp_path) as (a, b):
        names = [OF_A, OF_B, *(f"loja{number}" for number in range(10))]
        hooks = {"crm": {"url": "https://crm.example/hook", "headers": {"x-token": "s3cret"}}}
        document: dict[str, Any] = {
            "name": "acme",
            "instances": {name: {"tags": {"tenant": "a"}, "webhooks": hooks} for name in names},
            "keys": {"acme": {"tags": {"tenant": "a"}, "rights": ["read"], "value": "v" * 40}},
        }
        applied = await a.call("POST", "/apply", document)
        assert applied["failed"] == 0
        assert {one["state"] for one in applied["changes"]} == {"done"}
        assert {one.gateway.node.holds(OF_A) for one in (a, b)} == {True, False}
        for asked in (b, a):
            again = await asked.call("POST", "/apply?prune=true", document)
            assert (again["changes"], again["unchanged"]) == ([], 25)
        entries = (await b.call("GET", f"/audit/list/{OF_B}"))["entries"]
        assert {entry["actor"]["name"] for entry in entries} == {"configuration"}, "whoever has asked"
        pruned = await b.call("POST", "/apply?prune=true", {"name": "acme"})
        assert (len(pruned["changes"]), pruned["failed"]) == (13, 0)
        assert (await a.call("GET", "/apply"))["document"] == {"instances": {}}


async def test_a_node_that_leaves_and_one_that_was_removed(
    postgres: PostgresServer, schema: str, tmp_path: Path
) -> None:
    async with open_receiver() as receiver, node(postgres, schema, "a", tmp_path) as a:
        async with node(postgres, schema, "b", tmp_path) as b:
            await settled(a.gateway, b.gateway)
            for name in (OF_A, OF_B):
                await a.call("POST", "/instance/create", {"instanceName": name}, status=201)
                await a.call("POST", f"/webhook/set/{name}", {"url": receiver.url}, status=201)
            remove(postgres, schema)
            # It was removed, and is a member again.
            held = f"SELECT 1 FROM {schema}.shards JOIN {schema}.nodes USING (generation) WHERE name = 'b'"
            await until(lambda: postgres.execute(held))
            await settled(a.gateway, b.gateway)
            for number, asked in enumerate((a, b)):
                for name in (OF_A, OF_B):
                    event = {"event": "CALL", "data": {"number": number}}
                    await asked.call("POST", f"/event/emit/{name}", event, status=202)
            with trio.fail_after(10):
                await receiver.wait_for(4)
        # At once: nobody waits for heartbeats.
        await settled(a.gateway)
        assert len(await a.call("GET", "/node/list")) == 1
        for name in (OF_A, OF_B):
            await a.call("POST", f"/event/emit/{name}", {"event": "CALL", "data": {}}, status=202)
        with trio.fail_after(10):
            await receiver.wait_for(6)


async def test_a_call_for_an_instance_that_moves_gets_503(
    postgres: PostgresServer, schema: str, tmp_path: Path
) -> None:
    async with two_nodes(postgres, schema, tmp_path) as (a, b):
        # b cannot be reached: its API has stopped, and it still sends heartbeats.
        b.scope.cancel()
        await b.stopped.wait()
        names = [f"n{number}" for number in range(20)]
        assert b.gateway.fleet is not None
        theirs = next(name for name in names if b.gateway.fleet.holds(name))
        refused = await a.http.get(f"{a.url}/webhook/find/{theirs}", headers={"apikey": KEY})
        assert refused.status_code == 503
        assert refused.headers["retry-after"] == "1"
        assert "cannot be reached" in refused.text


async def test_a_node_without_a_url_stays_alone(
    postgres: PostgresServer, schema: str, tmp_path: Path
) -> None:
    async with open_gateway(settings_of(postgres, schema, "a", None), base=tmp_path):
        with pytest.raises(ExceptionGroup) as caught:
            async with open_gateway(settings_of(postgres, schema, "b", free_port()), base=tmp_path):
                pytest.fail("a second node started")
        [error] = leaves(caught.value)
        assert isinstance(error, StartError)
        assert "fleet.url" in str(error)


async def test_what_runs_on_one_node_moves_with_its_shard(
    postgres: PostgresServer, schema: str, tmp_path: Path
) -> None:
    """It ends on the one before it begins on the other, which finds what the first has stored.

    So it does if the first node cannot reach the database, and so does not hear that others take over.
    """
    # The first node gives the upper half to the second.
    plugin = next(name for name in map(str, range(99)) if shard_of(name) >= 128)
    log: list[tuple[str, str, Any]] = []

    class Counting:
        def __init__(self, node: str) -> None:
            self._node = node

        @hookimpl
        async def hookgw_run_on_one_node(self, gateway: PluginGateway) -> None:
            runs = (await gateway.records.load()).get("runs", 0)
            await gateway.records.put({"runs": runs + 1})
            log.append((self._node, "begins", runs))
            try:
                await trio.sleep_forever()
            finally:
                log.append((self._node, "ends", runs))

    @asynccontextmanager
    async def counting(name: str) -> AsyncIterator[Gateway]:
        settings = settings_of(postgres, schema, name, free_port())
        loaded = load_plugins(settings.plugins, base=tmp_path, extra={plugin: Counting(name)})
        async with (
            open_gateway(settings, base=tmp_path, hooks=Hooks(loaded)) as gateway,
            trio.open_nursery() as nursery,
        ):
            await nursery.start(serve, create_app(gateway), settings.server, None, lambda _: None)
            yield gateway
            nursery.cancel_scope.cancel()

    async def away() -> None:
        raise StorageUnavailable("The database is away.")

    async with counting("a"):
        await until(lambda: len(log) >= 1)
        async with counting("b") as b:
            await until(lambda: len(log) >= 3)
            with pytest.MonkeyPatch.context() as patch:
                assert b.fleet is not None
                patch.setattr(b.fleet.shared.members, "heartbeat", away)
                await until(lambda: len(log) >= 5)
            await until(lambda: len(log) >= 7)
        await until(lambda: len(log) >= 9)
    assert log == [
        ("a", "begins", 0),
        ("a", "ends", 0),
        ("b", "begins", 1),
        ("b", "ends", 1),
        ("a", "begins", 2),
        ("a", "ends", 2),
        ("b", "begins", 3),
        ("b", "ends", 3),
        ("a", "begins", 4),
        ("a", "ends", 4),
    ]


async def test_a_consumer_that_has_gone_leases_nothing_through_another_node(
    postgres: PostgresServer, schema: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hookgw.deliveries.pull.LOOK_EVERY", 0.1)
    async with two_nodes(postgres, schema, tmp_path) as (a, b):
        await a.call("POST", "/instance/create", {"instanceName": OF_A}, status=201)
        await a.call("POST", f"/webhook/set/{OF_A}", {"url": "pull:"}, status=201)
        (owner, other) = (a, b) if a.gateway.node.holds(OF_A) else (b, a)

        async with trio.open_nursery() as nursery:
            fetch = {"consumer": "old", "wait": "60s"}
            nursery.start_soon(other.call, "POST", f"/delivery/pull/{OF_A}", fetch)
            await until(lambda: owner.gateway.pulls.waiting(OF_A) == 1)
            nursery.cancel_scope.cancel()
        await until(lambda: owner.gateway.pulls.waiting(OF_A) == 0)
        event = {"event": "CALL", "data": {}, "id": "e1"}
        await a.call("POST", f"/event/emit/{OF_A}", event, status=202)
        # It waits: where the other node has accepted the event, its owner hears of it a moment later.
        found = await a.call("POST", f"/delivery/pull/{OF_A}", {"consumer": "new", "wait": "9s"})
        assert [one["headers"]["webhook-id"] for one in found["deliveries"]] == ["e1"]


async def test_a_receiver_fetches_from_any_node(
    postgres: PostgresServer, schema: str, tmp_path: Path
) -> None:
    async with two_nodes(postgres, schema, tmp_path) as (a, b):
        for name in (OF_A, OF_B):
            await a.call("POST", "/instance/create", {"instanceName": name}, status=201)
            await a.call("POST", f"/webhook/set/{name}", {"url": "pull:"}, status=201)
        for number, (asked, emits, name) in enumerate(
            ((a, b, OF_A), (a, b, OF_B), (b, a, OF_A), (b, a, OF_B))
        ):
            found: list[Any] = []
            with trio.fail_after(20):
                async with trio.open_nursery() as nursery:

                    @nursery.start_soon
                    async def fetch(asked: Node = asked, name: str = name, found: list[Any] = found) -> None:
                        found.append(await asked.call("POST", f"/delivery/pull/{name}", {"wait": "9s"}))

                    event = {"event": "CALL", "data": {}, "id": f"e{number}"}
                    await emits.call("POST", f"/event/emit/{name}", event, status=202)
            [one] = found[0]["deliveries"]
            assert one["headers"]["webhook-id"] == f"e{number}"
            done = await emits.call("POST", f"/delivery/ack/{name}", {"cursor": one["cursor"]})
            assert done == {"acknowledged": 1, "failed": 0}


async def test_a_slow_receiver_holds_up_its_own_shard_alone(
    postgres: PostgresServer, schema: str, tmp_path: Path
) -> None:
    """A node that stopped gave no shard with an attempt in flight before the slowest attempt had ended."""
    quick, slow = [name for name in map(str, range(99)) if shard_of(name) < 128][:2]
    may_stop = trio.Event()

    async def run_a(*, task_status: trio.TaskStatus[Node]) -> None:
        async with node(postgres, schema, "a", tmp_path, server={"shutdown_grace": 100.0}) as a:
            task_status.started(a)
            await may_stop.wait()

    async with open_receiver() as brief, trio.open_nursery() as nursery:
        a = await nursery.start(run_a)
        async with node(postgres, schema, "b", tmp_path) as b, open_receiver() as hanging:
            await settled(a.gateway, b.gateway)
            hanging.default, brief.default = hang(), answer(wait=1)
            for name, receiver in ((slow, hanging), (quick, brief)):
                await a.call("POST", f"/webhook/set/{name}", {"url": receiver.url}, status=201)
                event = {"event": "MESSAGES_UPSERT", "data": {}}
                await a.call("POST", f"/event/emit/{name}", event, status=202)
                await receiver.wait_for(1)
            may_stop.set()
            fleet = b.gateway.fleet
            assert fleet is not None
            await until(lambda: len(fleet.shards) == 255)
            assert shard_of(quick) in fleet.shards
            assert shard_of(slow) not in fleet.shards


@pytest.mark.parametrize("is_lost", [False, True], ids=["a node joins", "the node has lost its place"])
async def test_a_plugin_that_does_not_end_keeps_no_shards(
    postgres: PostgresServer, schema: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_lost: bool
) -> None:
    """What waits for a thread, as the manual advises, cannot be cancelled."""
    monkeypatch.setattr("hookgw.app.plugin_tasks.LEAVE_WITHIN", 0.1)
    plugin = next(name for name in map(str, range(99)) if shard_of(name) >= 128)
    began, may_end = trio.Event(), trio.Event()

    class Waiting:
        @hookimpl
        async def hookgw_run_on_one_node(self) -> None:
            began.set()
            with trio.CancelScope(shield=True):
                await may_end.wait()

    settings = settings_of(postgres, schema, "b" if is_lost else "a", free_port())
    loaded = load_plugins(settings.plugins, base=tmp_path, extra={plugin: Waiting()})
    with structlog.testing.capture_logs() as logged:
        async with open_gateway(settings, base=tmp_path, hooks=Hooks(loaded)) as first:
            await began.wait()
            try:
                if is_lost:
                    remove(postgres, schema)
                    await until(lambda: first.fleet is not None and first.fleet.generation > 1)
                    await settled(first)
                else:
                    async with node(postgres, schema, "c", tmp_path) as other:
                        await settled(first, other.gateway)
            finally:
                may_end.set()
    waited = [
        line for line in logged if line["event"] == "a plugin did not end: its task may run on two nodes"
    ]
    assert {line["plugin"] for line in waited} == {plugin}
