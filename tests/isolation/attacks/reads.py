"""Reads that have much to look through."""

from contextlib import AsyncExitStack
from itertools import cycle

import trio

from tests.isolation.attack import attack
from tests.isolation.target import NAME, Behaviour, Target, batch, emit, event, ok
from tests.isolation.wire import Connection, render


async def with_history(target: Target, events: int, behaviour: Behaviour = ok) -> str:
    """Make a tenant with that many finished deliveries to such a receiver; return the key."""
    key = await target.tenant()
    await target.register(await target.receiver(behaviour), ordering="none", concurrency=16)
    request = emit(batch([event()] * 1000), key)
    async with Connection(target.port, "127.0.0.2") as connection:
        for _ in range(events // 1000):
            assert (await connection.exchange(request))[0] == 202
    while True:
        page = await target.call("GET", f"/delivery/list/{NAME}?state=pending&limit=1", key=key)
        if not page["deliveries"]:
            return key
        await trio.sleep(0.1)


@attack("lists", "lists of 10,000 deliveries (--full: 200,000) by state, kind and time that find nothing")
async def lists(target: Target) -> None:
    key = await with_history(target, 200_000 if target.full else 10_000)
    queries = [
        "state=dropped",
        "kind=MESSAGES_UPSERT",
        "state=delivered&limit=1000",
        "since=2999-01-01T00:00:00Z",
    ]
    requests = cycle([render("GET", f"/delivery/list/{NAME}?{query}", key=key) for query in queries])
    await target.begin()
    await target.flood(lambda: next(requests), connections=8, pause=0.05)


@attack("bursts", "sends 250 requests in the same moment, again and again")
async def bursts(target: Target) -> None:
    key = await target.tenant()
    await target.register(await target.receiver(ok))
    request = render("GET", f"/webhook/find/{NAME}", key=key)
    async with AsyncExitStack() as stack:
        connections = [
            await stack.enter_async_context(Connection(target.port, "127.0.0.2")) for _ in range(250)
        ]

        async def ask(connection: Connection) -> None:
            status, _ = await connection.exchange(request)
            target.counts[str(status)] += 1

        await target.begin()
        while True:
            async with trio.open_nursery() as nursery:
                for connection in connections:
                    nursery.start_soon(ask, connection)
            await trio.sleep(0.1)


@attack("open pages", "asks for /openapi.json, /docs and paths that do not exist, without a key")
async def open_pages(target: Target) -> None:
    paths = ["/openapi.json", "/docs", "/readyz", "/nothing", "/event/kinds"]
    requests = cycle([render("GET", path) for path in paths])
    await target.begin()
    await target.flood(lambda: next(requests), connections=8, pause=0.02)


@attack("finds", "finds one delivery with its attempts and its payload of 1 MiB, again and again")
async def finds(target: Target) -> None:
    key = await target.tenant()
    await target.register(await target.receiver(ok))
    payload = event(b"[" + b"1," * 49_000 + b'"' + b"x" * 900_000 + b'"]', event_id="large")
    async with Connection(target.port, "127.0.0.2") as connection:
        status, answer = await connection.exchange(emit(payload, key))
        assert status == 202, answer
    request = render("GET", f"/delivery/find/{NAME}/large", key=key)
    await target.begin()
    await target.flood(lambda: request, connections=4, pause=0.05)
