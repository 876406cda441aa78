"""A fleet of real processes on one real database, producers on all nodes, and receivers."""

import random
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import trio

from hookgw.testing import Answer, open_receiver
from tests.crash.load import FAIL, OK, Witness
from tests.crash.target import DELIVERY, Target
from tests.fleet.links import Link, open_link
from tests.support.gateway_process import KEY, write_config
from tests.support.ports import free_port
from tests.support.postgres import PostgresServer

SECRET = "the-secret-of-the-fleet-of-the-tests"
GRACE = 5.0
"""``server.shutdown_grace`` of the nodes, in seconds."""


class Node:
    """One node: a process that is started again and again under its name.

    Args:
        nursery: runs its processes.
        folder: of the test.
        name: in the fleet.
        port: where it listens.
        database: the way to the database.
        peers: the way of the other nodes to this one.
        storage: its settings; by default the URL is that of ``database``.
        launcher: a command that runs the one that follows it.
        plugins: a folder of plugins.

    Attributes:
        url: where it listens.
        is_up: whether clients are sent to it.
    """

    def __init__(
        self,
        nursery: trio.Nursery,
        folder: Path,
        name: str,
        port: int,
        database: Link,
        peers: Link,
        storage: Mapping[str, Any],
        launcher: Sequence[str] = (),
        plugins: Path | None = None,
    ) -> None:
        folder = folder / name
        folder.mkdir()
        self.name = name
        self.url = f"http://127.0.0.1:{port}"
        self.is_up = False
        self.folder = folder
        self.database = database
        self.peers = peers
        settings: dict[str, Any] = {
            "server": {"bind": [f"127.0.0.1:{port}"], "shutdown_grace": f"{GRACE:g}s"},
            "storage": {"engine": "postgresql", "url": url_at(database.port), **storage},
            "fleet": {"node": name, "url": f"http://127.0.0.1:{peers.port}", "secret": SECRET},
            "delivery": DELIVERY,
            "plugins": {"folders": [str(plugins)] if plugins else []},
        }
        self._target = Target(nursery, write_config(folder, **settings), launcher)

    async def start(self) -> None:
        """Start it, and wait until it is ready."""
        await self._target.spawn()
        await self._target.ready()
        self.is_up = True

    async def is_ready(self, http: httpx.AsyncClient) -> bool:
        """Return whether its ``/readyz`` says so."""
        try:
            return (await http.get(self.url + "/readyz", timeout=5)).status_code == 200
        except httpx.HTTPError:
            return False

    async def kill(self) -> None:
        """``kill -9``."""
        self.is_up = False
        await self._target.kill()

    async def stop(self) -> int:
        """SIGTERM; returns the exit code."""
        self.is_up = False
        return await self._target.terminate()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process."""
        self._target.signal(number)

    @property
    def log(self) -> str:
        return (self.folder / "gateway.log").read_text(encoding="utf-8")


class Fleet:
    """Several nodes, and a client of them all."""

    def __init__(self, nodes: list[Node], http: httpx.AsyncClient, chance: random.Random) -> None:
        self.nodes = nodes
        self.http = http
        self._chance = chance

    def any_url(self) -> str:
        """Return a node that a load balancer would choose: any that is up."""
        return self._chance.choice([node for node in self.nodes if node.is_up] or self.nodes).url

    async def call(self, method: str, path: str, body: Any = None, *, node: Node | None = None) -> Any:
        """Make a call, again as long as the answer is 503; return the decoded answer of a success."""
        with trio.fail_after(60):
            while True:
                url = node.url if node else self.any_url()
                answered = await self.http.request(method, url + path, json=body)
                if answered.status_code != 503:
                    assert answered.is_success, answered.text
                    return answered.json()
                await trio.sleep(0.1)

    async def until_shared(self) -> None:
        """Wait until every node that is up has its share."""
        with trio.fail_after(60):
            while True:
                listed = await self.call("GET", "/node/list")
                up = sorted(node.name for node in self.nodes if node.is_up)
                shards = [node["shards"] for node in listed]
                if sorted(node["node"] for node in listed) == up and max(shards) - min(shards) <= 1:
                    return
                await trio.sleep(0.1)


def url_at(*ports: int) -> str:
    """Return the URL of the tests' database, on one or more servers."""
    return f"postgresql://hookgw@{','.join(f'127.0.0.1:{port}' for port in ports)}/postgres"


@asynccontextmanager
async def open_fleet(
    postgres: PostgresServer,
    schema: str,
    folder: Path,
    chance: random.Random,
    *,
    launchers: Sequence[Sequence[str]] = ((), (), ()),
    plugins: Path | None = None,
    pooler: int | None = None,
    **storage: Any,
) -> AsyncIterator[Fleet]:
    """Run nodes for the length of a block; they start together.

    Args:
        postgres, schema: the database, which listens on a port, and the schema in it.
        folder: of the test.
        chance: chooses the nodes that clients are sent to.
        launchers: one for each node; see :class:`Node`.
        plugins: see :class:`Node`.
        pooler: the port of a pooler, through which nodes reach the database.
        storage: settings of the storage.
    """
    async with AsyncExitStack() as stack:
        nursery = await stack.enter_async_context(trio.open_nursery())
        client = httpx.AsyncClient(headers={"apikey": KEY}, trust_env=False, verify=False, timeout=30)
        http = await stack.enter_async_context(client)
        nodes = []
        for name, launcher in zip("abcdef", launchers, strict=False):
            port = free_port()
            database = await stack.enter_async_context(open_link(lambda: pooler or postgres.port))
            peers = await stack.enter_async_context(open_link(partial(int, port)))
            given = {"schema": schema, **storage}
            nodes.append(Node(nursery, folder, name, port, database, peers, given, launcher, plugins))
        fleet = Fleet(nodes, http, chance)
        async with trio.open_nursery() as starting:
            for node in nodes:
                starting.start_soon(node.start)
        await fleet.until_shared()
        try:
            yield fleet
        finally:
            with trio.CancelScope(shield=True):
                for node in nodes:
                    await node.kill()
            nursery.cancel_scope.cancel()


def _behave(failing: float, chance: random.Random) -> Answer:
    return FAIL if chance.random() < failing else OK


@asynccontextmanager
async def open_witnesses(
    count: int, failing: Callable[[int], float], chance: random.Random
) -> AsyncIterator[list[Witness]]:
    """Run receivers for the length of a block; each fails so often."""
    try:
        async with AsyncExitStack() as stack:
            yield [
                Witness(
                    await stack.enter_async_context(open_receiver()),
                    partial(_behave, failing(number), chance),
                )
                for number in range(count)
            ]
    except BaseExceptionGroup as group:
        # Each receiver has a nursery, and pytest shows only so many groups in groups.
        found: BaseException = group
        while isinstance(found, BaseExceptionGroup):
            found = found.exceptions[0]
        raise found from None
