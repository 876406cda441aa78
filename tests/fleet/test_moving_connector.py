"""An account that is connected moves among nodes: by a restart of each node, and by a kill.

The network counts how often the account is connected at a time, and sends numbered messages.
"""

import random
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
import trio

from hookgw.testing import Received, open_receiver
from tests.fleet import faults
from tests.fleet.nodes import open_fleet
from tests.fleet.test_single_faults import slow
from tests.support.postgres import PostgresServer

pytestmark = [pytest.mark.crash, pytest.mark.timeout(240)]

PLUGIN = """
import hookgw
import trio

class Numbers:
    name = "numbers"

    async def run(self, session):
        state = await session.load_state() or {"number": -1}
        async with await trio.open_tcp_stream("127.0.0.1", %d) as stream:
            await stream.send_all(b"%%d\\n" %% state["number"])
            await session.set_state(hookgw.ConnectionState.OPEN)
            rest = b""
            async for piece in stream:
                *lines, rest = (rest + piece).split(b"\\n")
                for line in lines:
                    event = hookgw.NewEvent(kind="CALL", data={"number": int(line)})
                    await session.emit_all([event], state={"number": int(line)})
        raise OSError("the network is gone")

    async def send(self, session, message, *, key):
        raise hookgw.NotSupported("It only receives.")

@hookgw.hookimpl
def hookgw_connectors():
    return [Numbers()]
"""


class Network:
    """Sends numbered messages to an account that is connected, from the one behind the last that it has.

    Attributes:
        connections: at this moment.
        most: at any moment.
        count: how often somebody has connected.
        newest: the number of the newest message.
    """

    def __init__(self) -> None:
        self.connections = self.most = self.count = 0
        self.newest = -1
        self.port = 0

    async def serve(self, stream: trio.SocketStream) -> None:
        self.connections += 1
        self.count += 1
        self.most = max(self.most, self.connections)
        async with trio.open_nursery() as nursery:

            async def until_closed() -> None:
                with suppress(trio.BrokenResourceError):
                    await stream.receive_some(1)
                nursery.cancel_scope.cancel()

            with suppress(trio.BrokenResourceError):  # the node was killed
                number = int(await stream.receive_some(100)) + 1
                nursery.start_soon(until_closed)
                while True:
                    while number <= self.newest:
                        await stream.send_all(b"%d\n" % number)
                        number += 1
                    await trio.sleep(0.01)
            nursery.cancel_scope.cancel()
        self.connections -= 1


@asynccontextmanager
async def open_network() -> AsyncIterator[Network]:
    network = Network()
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    network.port = listener.socket.getsockname()[1]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, network.serve, [listener])
        yield network
        nursery.cancel_scope.cancel()


@slow
async def test_an_account_is_connected_once_and_its_state_goes_on(
    postgres: PostgresServer, schema: str, tmp_path: Path
) -> None:
    async with open_network() as network, open_receiver() as receiver:
        plugins = tmp_path / "plugins"
        plugins.mkdir()
        (plugins / "numbers.py").write_text(PLUGIN % network.port)
        async with open_fleet(postgres, schema, tmp_path, random.Random(1), plugins=plugins) as fleet:
            body = {"instanceName": "account", "integration": "numbers"}
            await fleet.call("POST", "/instance/create", body)
            await fleet.call("POST", "/webhook/set/account", {"url": receiver.url, "events": ["CALL"]})
            await fleet.call("GET", "/instance/connect/account")

            async def send() -> None:
                while True:
                    network.newest += 1
                    await trio.sleep(0.02)

            async with trio.open_nursery() as load:
                load.start_soon(send)
                for node in fleet.nodes:
                    await faults.stop(node)
                    await fleet.until_shared()
                    await until_connected(network)
                moves = network.count
                assert moves >= 2
                for node in fleet.nodes:
                    await faults.kill(node, 4.0)
                    await fleet.until_shared()
                    await until_connected(network)
                assert network.count > moves
                load.cancel_scope.cancel()
            with trio.fail_after(60):
                while (numbers := arrived(receiver.requests)) and max(numbers) < network.newest:  # noqa: ASYNC110
                    await trio.sleep(0.1)
    assert network.most == 1
    assert list(numbers) == list(range(network.newest + 1))
    # No event is stored twice: what came again is a delivery that was in flight at a kill.
    assert max(len(ids) for ids in numbers.values()) == 1


async def until_connected(network: Network) -> None:
    with trio.fail_after(30):
        while network.connections == 0:  # noqa: ASYNC110
            await trio.sleep(0.05)
    await trio.sleep(0.5)


def arrived(requests: Sequence[Received]) -> dict[int, Counter[str | None]]:
    """Return the ids of the events of each number, in the order of their first arrival."""
    found: dict[int, Counter[str | None]] = {}
    for request in requests:
        number = request.json["data"]["number"]
        found.setdefault(number, Counter())[request.event_id] += 1
    return found
