"""Connections that send too much, too little, or nothing."""

from collections.abc import Callable
from functools import partial
from itertools import count, cycle

import trio

from tests.isolation.attack import attack
from tests.isolation.target import ADDRESSES, NAME, Target, emit, event, ok
from tests.isolation.wire import open_stream, render


async def hold(target: Target, sends: bytes, drip: bytes, *, number: int, pause: float) -> None:
    """Keep a connection that sends some bytes, then one of ``drip`` after each pause; then another one."""
    address = ADDRESSES[number % len(ADDRESSES)]
    while True:
        try:
            stream = await open_stream(target.port, address)
            try:
                target.counts["connections"] += 1
                await stream.send_all(sends)
                for at in range(len(drip)):
                    await trio.sleep(pause)
                    await stream.send_all(drip[at : at + 1])
                await stream.receive_some(1)
            finally:
                stream.socket.close()
        except (OSError, trio.BrokenResourceError) as error:
            target.counts[type(error).__name__] += 1
        await trio.sleep(5)


OPENED_PER_SECOND = 500.0


async def hold_many(target: Target, connections: int, sends: bytes, drip: bytes) -> None:
    """Begin the attack once that many connections are held, each by :func:`hold`."""
    async with trio.open_nursery() as nursery:
        for number in range(connections):
            nursery.start_soon(partial(hold, target, sends, drip, number=number, pause=1.0))
            # Not at once: the attack is the number of connections. Against a flood of new ones, only the
            # machine and what stands in front of it can help.
            await trio.sleep(1 / OPENED_PER_SECOND)
        await target.begin()


@attack("slow bodies", "1,000 connections that announce 16 MiB and send a byte a second")
async def slow_bodies(target: Target) -> None:
    key = await target.tenant()
    head = emit(b"", key, headers={"content-type": "application/json", "content-length": str(16 * 2**20)})
    await hold_many(target, 1000, head + b"[", b" " * 100)


@attack("slow heads", "1,000 connections that send a head a byte a second, without a key")
async def slow_heads(target: Target) -> None:
    await hold_many(target, 1000, b"POST / HTTP/1.1\r\n", b"x" * 100)


@attack("header floods", "heads of 16 KiB with thousands of headers, and heads that never end")
async def header_floods(target: Target) -> None:
    lines = b"".join(b"x%d: 1\r\n" % number for number in range(1500))
    heads = [
        b"GET /healthz HTTP/1.1\r\nhost: x\r\n" + lines + b"\r\n",
        b"GET /healthz HTTP/1.1\r\nhost: x\r\n" + b"a:\r\n" * 4000 + b"\r\n",
        b"GET /" + b"a" * 16_000 + b" HTTP/1.1\r\nhost: x\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nhost: x\r\nx: " + b"a" * 200_000 + b"\r\n\r\n",
    ]
    requests = cycle(heads)
    await target.begin()
    await target.flood(lambda: next(requests), connections=8, pause=0.02)


@attack("idle connections", "5,000 connections from ten addresses that send nothing")
async def idle_connections(target: Target) -> None:
    await hold_many(target, 5000, b"", b"")


@attack("short connections", "opens and closes connections, and resets them in the middle of a request")
async def short_connections(target: Target) -> None:
    async def one(number: int) -> None:
        while True:
            try:
                stream = await open_stream(target.port, ADDRESSES[number % len(ADDRESSES)])
                await stream.send_all(b"POST /event/emit/x HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n{")
                stream.socket.close()
                target.counts["connections"] += 1
            except (OSError, trio.BrokenResourceError) as error:
                target.counts[type(error).__name__] += 1
            await trio.sleep(0.02)

    await target.begin()
    async with trio.open_nursery() as nursery:
        for number in range(16):
            nursery.start_soon(one, number)


@attack("pipelined requests", "hundreds of requests in one segment, and responses that nobody reads")
async def pipelined(target: Target) -> None:
    key = await target.tenant()
    requests = emit(event(), key) * 200

    async def one(number: int) -> None:
        while True:
            try:
                stream = await open_stream(target.port, ADDRESSES[number % len(ADDRESSES)])
                with trio.move_on_after(1):
                    while True:
                        await stream.send_all(requests)
                        target.counts["sent"] += 200
                        await trio.sleep(0.5)
                stream.socket.close()
            except (OSError, trio.BrokenResourceError) as error:
                target.counts[type(error).__name__] += 1
            await trio.sleep(0.1)

    await target.begin()
    async with trio.open_nursery() as nursery:
        for number in range(4):
            nursery.start_soon(one, number)


@attack("wrong keys", "guesses keys from ten addresses, and from the address of nobody else")
async def wrong_keys(target: Target) -> None:
    guesses = count()
    await target.begin()
    await target.flood(
        lambda: render("GET", f"/webhook/find/{NAME}", key=f"guess-{next(guesses)}"),
        connections=10,
        pause=0.02,
    )


_NETWORK = """
import hookgw, trio

class Network:
    name = "network"

    async def run(self, session):
        await session.set_state(hookgw.ConnectionState.OPEN)
        await trio.sleep_forever()

    async def send(self, session, message, *, key):
        raise hookgw.NotSupported("It only receives.")

    async def ingest(self, session, request):
        if request.body == b"hang":
            await trio.sleep_forever()
        if request.body == b"fail":
            raise RuntimeError("a bug")
        await session.emit("CALL", {})
        return hookgw.IngestResponse()

@hookgw.hookimpl
def hookgw_connectors():
    return [Network()]
"""


@attack(
    "requests of networks",
    "calls an ingestUrl on 60 connections: events, a connector that hangs or fails, and wrong tokens",
    plugin=_NETWORK,
)
async def network_requests(target: Target) -> None:
    created = await target.call("POST", "/instance/create", {"instanceName": NAME, "integration": "network"})
    await target.register(await target.receiver(ok))
    await target.call("GET", f"/instance/connect/{NAME}")
    url = created["ingestUrl"]
    await target.begin()

    def calls(path: str, body: bytes) -> Callable[[], bytes]:
        request = render("POST", path, body)
        return lambda: request

    async with trio.open_nursery() as nursery:
        for body, connections in ((b"event", 16), (b"hang", 40), (b"fail", 2)):
            flood = partial(target.flood, calls(url, body), connections=connections)
            nursery.start_soon(partial(flood, pause=0.02, label=body.decode()))
        wrong = calls(f"/ingest/{NAME}/{'x' * 22}", b"event")
        nursery.start_soon(partial(target.flood, wrong, connections=2, pause=0.02, label="wrong"))
