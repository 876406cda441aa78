"""Calls that wait for another node: they end when it is gone, and not while it lives."""

import math
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio
from trio.testing import MockClock

from hookgw.fleet import peer_calls
from tests.gateway.fleet.test_fleet_node import Database, Members, fleet_node
from tests.gateway.fleet.test_two_nodes import KEY, OF_A, OF_B, Node, remove, two_nodes
from tests.public.fleet import FINISH_WITHIN, HEARTBEAT, PROBE_AFTER, PROBE_WITHIN, PeerCalls
from tests.public.kernel import StorageUnavailable
from tests.public.records import DEAD_AFTER
from tests.support.postgres import PostgresServer

SHARD = 7


class World:
    """A node that looks at another one, which can be reached or not."""

    def __init__(self) -> None:
        self.database = Database()
        self.node = fleet_node(Members(self.database), "a")
        self.other = Members(self.database)
        self.answers_after = 0.0
        self.refuses = False
        self.probes = 0
        self.http = httpx.AsyncClient(transport=httpx.MockTransport(self._answer))
        self.calls = PeerCalls(self.node, self.http, "/base")

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        assert request.url == "http://b:8080/base/healthz"
        self.probes += 1
        if self.refuses:
            raise httpx.ConnectError("refused")
        with trio.move_on_after(request.extensions["timeout"]["read"]) as scope:
            await trio.sleep(self.answers_after)
        if scope.cancelled_caught:
            raise httpx.ReadTimeout("nothing")
        return httpx.Response(200)

    async def beat(self) -> None:
        """Live as b."""
        while True:
            with suppress(StorageUnavailable):
                await self.other.heartbeat()
            await trio.sleep(HEARTBEAT)

    async def wait(self, *, shard: int | None = SHARD, within: float = 600.0) -> float:
        """Make a call to b that it never answers; return the seconds after which the call ends."""
        began = trio.current_time()
        b = next(found for found in self.node.view.nodes if found.name == "b")
        with trio.move_on_after(within), self.calls.waiting(b, shard) as scope:
            await trio.sleep_forever()
        return trio.current_time() - began if scope.cancelled_caught else math.inf


@asynccontextmanager
async def world(autojump_clock: MockClock) -> AsyncIterator[tuple[World, trio.CancelScope]]:
    """Run both nodes; the scope ends b's heartbeats."""
    made = World()
    generation = await made.other.join("b", "http://b:8080")
    made.database.owners[SHARD] = generation
    await made.node.join()
    frozen = trio.CancelScope()

    async def live() -> None:
        with frozen:
            await made.beat()

    async with made.http, trio.open_nursery() as nursery:
        nursery.start_soon(live)
        nursery.start_soon(made.node.send_heartbeats)
        nursery.start_soon(made.calls.run)
        yield made, frozen
        nursery.cancel_scope.cancel()


async def test_a_node_that_lives_may_take_long(autojump_clock: MockClock) -> None:
    async with world(autojump_clock) as (made, _):
        made.answers_after = PROBE_WITHIN - 0.5  # a busy one
        assert await made.wait(within=100.0) == math.inf
        assert 100 / (PROBE_AFTER + PROBE_WITHIN) < made.probes < 100 / PROBE_AFTER
        # It stops, and takes no more connections; it still answers the calls that it has.
        made.refuses = True
        assert await made.wait(within=10.2) == math.inf
        # What is answered soon, it is not asked about.
        made.probes = 0
        assert await made.wait(within=PROBE_AFTER - 0.5) == math.inf
        assert made.probes == 0


async def test_many_calls_ask_a_node_once(autojump_clock: MockClock) -> None:
    async with world(autojump_clock) as (made, _), trio.open_nursery() as nursery:
        for _ in range(50):
            nursery.start_soon(lambda: made.wait(within=PROBE_AFTER + 1.5))
        await trio.sleep(PROBE_AFTER + 1.0)
        assert made.probes == 1


async def test_every_call_to_a_frozen_node_ends_when_others_remove_it(autojump_clock: MockClock) -> None:
    async with world(autojump_clock) as (made, frozen), trio.open_nursery() as nursery:
        frozen.cancel()
        ended: list[float] = []

        async def call(shard: int | None) -> None:
            ended.append(await made.wait(shard=shard))

        nursery.start_soon(call, None)
        nursery.start_soon(call, SHARD)
        await trio.sleep(DEAD_AFTER + HEARTBEAT)
        assert ended == []
        await made.node._members.claim()
        await trio.sleep(HEARTBEAT + 0.01)
        assert len(ended) == 2


async def test_a_node_that_gave_the_instance_may_finish(autojump_clock: MockClock) -> None:
    async with world(autojump_clock) as (made, _):
        made.database.owners[SHARD] = made.node.generation
        assert await made.wait(shard=None, within=60.0) == math.inf
        assert FINISH_WITHIN <= await made.wait() <= FINISH_WITHIN + 2 * HEARTBEAT


async def test_a_hidden_node_is_found_also_without_the_database(autojump_clock: MockClock) -> None:
    async with world(autojump_clock) as (made, _):
        made.answers_after = 1000.0
        for is_away in (False, True):
            made.database.is_away = is_away
            waited = await made.wait()
            assert PROBE_AFTER + PROBE_WITHIN <= waited <= PROBE_AFTER + PROBE_WITHIN + 2 * HEARTBEAT


STREAM = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n3\r\n: \n\r\n"
)
FILE = b"HTTP/1.1 200 OK\r\ncontent-type: image/png\r\ncontent-length: 99\r\n\r\nbegin"


class Mute:
    """A port that takes connections and answers no request as a whole.

    Attributes:
        begins: what it says to a request.
        requests: the first lines of what it was asked.
        asked, ended: that it was asked something, and that this connection has ended.
    """

    def __init__(self) -> None:
        self.begins = b""
        self.requests: list[bytes] = []
        self.url = ""
        self.asked = trio.Event()
        self.ended = trio.Event()

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Serve until cancelled."""
        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        self.url = f"http://127.0.0.1:{listener.socket.getsockname()[1]}"
        task_status.started()
        await trio.serve_listeners(self._serve, [listener])

    async def _serve(self, stream: trio.SocketStream) -> None:
        line = b""
        async with stream:
            # A client that closes a response of which it has not read all resets the connection.
            with suppress(trio.BrokenResourceError):
                while asked := await stream.receive_some():
                    line = asked.split(b"\r\n")[0]
                    self.requests.append(line)
                    if b"healthz" not in line:
                        self.asked.set()
                        await stream.send_all(self.begins)
        if line and b"healthz" not in line:
            self.ended.set()


@asynccontextmanager
async def mute_node(
    postgres: PostgresServer, schema: str, folder: Path
) -> AsyncIterator[tuple[Node, str, Mute]]:
    """Run a node and another one that seems to be frozen, or hidden, and an instance that this one has."""
    mute = Mute()
    async with trio.open_nursery() as nursery:
        await nursery.start(mute.run)
        async with two_nodes(postgres, schema, folder) as (a, b):
            assert a.gateway.fleet is not None
            assert b.gateway.fleet is not None
            theirs = next(name for name in (OF_A, OF_B) if b.gateway.fleet.holds(name))
            await b.call("POST", "/instance/create", {"instanceName": theirs}, status=201)
            postgres.execute(f"UPDATE {schema}.nodes SET url = '{mute.url}' WHERE name = 'b'")
            with trio.fail_after(10):
                while mute.url not in [found.url for found in a.gateway.fleet.view.nodes]:  # noqa: ASYNC110
                    await trio.sleep(0.05)
            yield a, theirs, mute
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("begins", [b"", STREAM, FILE], ids=["no answer", "a stream", "a file"])
async def test_a_call_to_a_node_that_is_removed_ends(
    postgres: PostgresServer, schema: str, tmp_path: Path, begins: bytes
) -> None:
    async with mute_node(postgres, schema, tmp_path) as (a, theirs, mute):
        mute.begins = begins

        async def remove_asked() -> None:
            await mute.asked.wait()
            remove(postgres, schema)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(remove_asked)
            with trio.fail_after(10):
                path = f"{a.url}/webhook/find/{theirs}"
                if begins == FILE:
                    with pytest.raises(httpx.RemoteProtocolError):  # less than it says
                        await a.http.get(path, headers={"apikey": KEY}, timeout=30)
                    return
                answered = await a.http.get(path, headers={"apikey": KEY}, timeout=30)
        if begins == STREAM:
            assert (answered.status_code, answered.content) == (200, b": \n")
        else:
            assert (answered.status_code, answered.headers["retry-after"]) == (503, "1")
            assert "may have been carried out" in answered.text
        assert len([line for line in mute.requests if b"/webhook/find" in line]) == 1


async def test_a_client_that_leaves_before_its_response_begins_leaves_no_connection_behind(
    postgres: PostgresServer, schema: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with mute_node(postgres, schema, tmp_path) as (a, theirs, mute):
        mute.begins = FILE
        address = httpx.URL(a.url)
        assert address.port is not None
        client = await trio.open_tcp_stream(address.host, address.port)
        # One that only ends its side waits for the response.
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

        async def leave(version: int | None = None) -> None:
            if version is None:  # not for a heartbeat
                await client.aclose()
                await trio.sleep_forever()

        # The node has the head of the response, and learns the change before it passes the response on.
        monkeypatch.setattr(a.gateway.refresh, "catch_up", leave)
        hook = b'{"url": "http://127.0.0.1:9/"}'
        head = f"POST /webhook/set/{theirs} HTTP/1.1\r\nhost: a\r\napikey: {KEY}\r\n"
        with trio.fail_after(10):
            await client.send_all(
                f"{head}content-type: application/json\r\ncontent-length: {len(hook)}\r\n\r\n".encode() + hook
            )
            await mute.ended.wait()


async def test_a_question_to_a_node_that_is_removed_ends(
    postgres: PostgresServer, schema: str, tmp_path: Path
) -> None:
    async with mute_node(postgres, schema, tmp_path) as (a, theirs, mute), trio.open_nursery() as nursery:

        async def remove_asked() -> None:
            await mute.asked.wait()
            remove(postgres, schema)

        nursery.start_soon(remove_asked)
        with trio.fail_after(10):  # it may take half a minute
            [(name, [why])] = await a.gateway.views.resend([(theirs, "dlv_1")], without_global=False)
        assert (name, "did not answer" in why) == ("dlv_1", True)


async def test_a_call_to_a_hidden_node_ends(
    postgres: PostgresServer, schema: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_calls, "PROBE_AFTER", 0.05)
    monkeypatch.setattr(peer_calls, "PROBE_WITHIN", 0.1)
    async with mute_node(postgres, schema, tmp_path) as (a, theirs, mute):
        hook = {"url": "http://127.0.0.1:9/"}
        with trio.fail_after(10):
            refused = await a.http.post(
                f"{a.url}/webhook/set/{theirs}", json=hook, headers={"apikey": KEY}, timeout=30
            )
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert "may have been carried out" in refused.text
        assert len([line for line in mute.requests if b"POST" in line]) == 1


async def fail_to_read(version: int | None = None) -> None:
    """Read other nodes' changes from a database that answers nothing but heartbeats."""
    await trio.lowlevel.checkpoint()
    if version is None:
        raise StorageUnavailable("The database db.internal is slow.")


async def test_an_instance_that_a_node_cannot_look_for_is_not_called_unknown(
    postgres: PostgresServer, schema: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with two_nodes(postgres, schema, tmp_path) as (a, _):
        headers = {"apikey": KEY}
        answered = await a.http.get(f"{a.url}/delivery/list/nobody", headers=headers)
        assert answered.status_code == 404
        monkeypatch.setattr(a.gateway.refresh, "catch_up", fail_to_read)
        answered = await a.http.get(f"{a.url}/delivery/list/nobody", headers=headers)
        assert (answered.status_code, "retry-after" in answered.headers) == (503, True)


async def test_a_key_that_a_node_cannot_look_up_is_not_called_wrong(
    postgres: PostgresServer, schema: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with two_nodes(postgres, schema, tmp_path) as (a, _):
        url, made_elsewhere = f"{a.url}/delivery/list/nobody", {"apikey": "made-elsewhere"}
        assert (await a.http.get(url, headers=made_elsewhere)).status_code == 401
        monkeypatch.setattr(a.gateway.refresh, "catch_up", fail_to_read)
        answered = await a.http.get(url, headers=made_elsewhere)
        assert (answered.status_code, "retry-after" in answered.headers) == (503, True)
        assert "db.internal" not in answered.text
        assert (await a.http.get(url)).status_code == 401, "without a key, nothing is looked up"
        assert (
            await a.http.get(f"{a.url}/instance/fetchInstances", headers={"apikey": KEY})
        ).status_code == 200
        limit = a.gateway.settings.auth.failed_attempts
        statuses = [(await a.http.get(url, headers=made_elsewhere)).status_code for _ in range(limit)]
        assert (statuses[0], statuses[-1]) == (503, 429), "guesses are limited all the same"


async def test_what_another_node_has_just_made_is_within_reach_and_can_be_named(
    postgres: PostgresServer, schema: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with two_nodes(postgres, schema, tmp_path) as (a, b):
        asked = {"name": "acme", "tags": {"tenant": "acme"}}
        key = (await a.call("POST", "/key/create", asked, status=201))["key"]
        await b.call("GET", "/instance/fetchInstances", key=key)
        read = b.gateway.refresh.catch_up

        async def read_when_asked(version: int | None = None) -> None:
            if version is None:  # a heartbeat comes too late
                await read()

        monkeypatch.setattr(b.gateway.refresh, "catch_up", read_when_asked)
        names = [name for name in map("new{}".format, range(99)) if a.gateway.node.holds(name)][:4]
        for name, path in (
            (names[0], f"/delivery/list/{names[0]}"),
            (names[1], f"/delivery/list?instances={names[1]}"),
            (names[2], f"/event/list?instances={names[2]}"),
        ):
            create = {"instanceName": name, "tags": {"tenant": "acme"}}
            await a.call("POST", "/instance/create", create, status=201)
            await b.call("GET", path, key=key)
        await a.call("PATCH", f"/instance/tags/{names[0]}", {"tags": {"tenant": "bolt"}})
        await a.call("PATCH", f"/instance/tags/{names[0]}", {"tags": {"tenant": "acme"}})
        for label, path in (
            ("one", f"/delivery/list/{names[0]}?label=one"),
            ("two", f"/event/list/{names[0]}?label=two"),
            ("three", f"/figures/find/{names[0]}?webhook=three"),
        ):
            hook = {"url": "http://127.0.0.1:9/"}
            await a.call("POST", f"/webhook/set/{names[0]}/{label}", hook, status=201)
            await b.call("GET", path, key=key)


async def test_what_a_node_cannot_look_for_is_not_refused_nor_called_unknown(
    postgres: PostgresServer, schema: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with two_nodes(postgres, schema, tmp_path) as (a, _):
        asked = {"name": "acme", "tags": {"tenant": "acme"}}
        key = (await a.call("POST", "/key/create", asked, status=201))["key"]
        await a.call("POST", "/instance/create", {"instanceName": OF_A}, status=201)
        calls: list[tuple[str, str, str, Any, int]] = [
            ("GET", "/delivery/list/made-elsewhere", key, None, 403),
            ("GET", f"/delivery/list/{OF_A}", key, None, 403),
            ("GET", f"/delivery/list/{OF_A}?label=elsewhere", KEY, None, 404),
            ("GET", f"/figures/find/{OF_A}?webhook=elsewhere", KEY, None, 404),
            ("GET", "/delivery/list?instances=made-elsewhere", KEY, None, 404),
            ("GET", "/event/list?instances=made-elsewhere", KEY, None, 404),
            ("POST", "/delivery/replay", KEY, {"instances": ["made-elsewhere"], "since": "2h"}, 404),
            ("POST", "/apply?dryRun=true", KEY, {"instances": {"made-elsewhere": {}}}, 200),
            ("GET", "/apply", KEY, None, 200),
        ]
        for method, path, of, body, status in calls:
            await a.call(method, path, body, key=of, status=status)
        monkeypatch.setattr(a.gateway.refresh, "catch_up", fail_to_read)
        for method, path, of, body, _ in calls:
            await a.call(method, path, body, key=of, status=503)


async def test_an_owner_whose_lease_has_ended_calls_nothing_unknown(
    postgres: PostgresServer, schema: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others may have taken over its instances, and have made more of them."""
    async with two_nodes(postgres, schema, tmp_path) as (a, _):
        known, new = [name for name in map("new{}".format, range(99)) if a.gateway.node.holds(name)][:2]
        await a.call("POST", "/instance/create", {"instanceName": known}, status=201)
        paths = [f"/ingest/{new}/token", f"/ingest/{known}/token", f"/instance/connectionState/{new}"]
        paths += [f"/webhook/find/{new}", f"/webhook/secret/{known}/elsewhere"]
        for path in paths:
            await a.call("GET", path, status=404)
        paths.append(f"/media/{new}/token")
        await a.call("GET", paths[-1], status=403)
        await a.call("GET", found := f"/webhook/find/{known}/elsewhere")
        monkeypatch.setattr(a.gateway.node, "may_act", lambda: False)
        for path in (*paths, found):
            answered = await a.http.get(a.url + path, headers={"apikey": KEY})
            assert answered.status_code == 503, (path, answered.text)
            assert answered.headers["retry-after"] == "1"
