"""Tenants that take the room of others: on disk and in memory."""

import trio

from tests.bench.parts import DATA
from tests.isolation.attack import attack
from tests.isolation.target import Target, batch, emit, event, hang, ok
from tests.isolation.wire import Connection, open_stream

MEGABYTE = 2**20


@attack(
    "full outbox",
    "fills the outbox, of 20,000 deliveries here, behind a receiver that hangs",
    settings={"limits": {"deliveries": 20_000}},
)
async def full_outbox(target: Target) -> None:
    key = await target.tenant()
    await target.register(await target.receiver(hang))
    request = emit(batch([event()] * 500), key)
    await target.begin()
    await target.flood(lambda: request, connections=2, pause=0.02)


@attack(
    "full outbox in bytes",
    "fills the outbox, of 128 MiB here, with payloads of 256 KiB",
    settings={"limits": {"bytes": "128MiB"}},
)
async def full_bytes(target: Target) -> None:
    key = await target.tenant()
    await target.register(await target.receiver(hang))
    request = emit(event(b'"' + b"x" * 2**18 + b'"'), key)
    await target.begin()
    await target.flood(lambda: request, connections=2, pause=0.02)


@attack("memory of lanes", "ordering none, concurrency 64, events of 1 MiB, and receivers that hang")
async def lane_memory(target: Target) -> None:
    key = await target.tenant()
    for number in range(8):
        await target.register(
            await target.receiver(hang), label=f"l{number}", ordering="none", concurrency=64, timeout="5m"
        )
    request = emit(event(b'"' + b"x" * (MEGABYTE - 4096) + b'"'), key)
    await target.begin()
    # 64 events for 8 registrations are 512 MiB under way. More of them would only fill the disk.
    async with Connection(target.port, "127.0.0.2") as connection:
        for _ in range(64):
            status, _ = await connection.exchange(request)
            target.counts[str(status)] += 1
            await trio.sleep(0.05)
    await trio.sleep_forever()


@attack("memory of bodies", "bodies of 16 MiB on 60 connections, sent to their last byte but one")
async def body_memory(target: Target) -> None:
    key = await target.tenant()
    await target.begin()
    body = emit(batch([event(b'"' + b"x" * (MEGABYTE - 4096) + b'"')] * 15), key)
    async with trio.open_nursery() as nursery:
        for number in range(60):
            nursery.start_soon(_hold, target, body, f"127.0.0.{2 + number % 8}")


async def _hold(target: Target, request: bytes, address: str) -> None:
    while True:
        try:
            stream = await open_stream(target.port, address)
            target.counts["connections"] += 1
            with trio.move_on_after(5):
                await stream.send_all(request[:-1])
                target.counts["sent"] += 1
                answer = await stream.receive_some(64)
                target.counts[answer[9:12].decode() or "closed"] += 1
            stream.socket.close()
        except OSError as error:
            target.counts[type(error).__name__] += 1
        except trio.BrokenResourceError:
            target.counts["broken"] += 1
        await trio.sleep(0.1)


@attack(
    "one tenant takes all it can", "emits on 16 connections as fast as it is answered, to a good receiver"
)
async def greedy(target: Target) -> None:
    key = await target.tenant()
    await target.register(await target.receiver(ok))
    request = emit(event(), key)
    await target.begin()
    await target.flood(lambda: request, connections=16, pause=0.02)


@attack(
    "flood of events",
    "emits on 64 connections, each as soon as the last event is answered, to a good receiver",
)
async def flood(target: Target) -> None:
    key = await target.tenant()
    await target.register(await target.receiver(ok))
    request = emit(event(DATA, "MESSAGES_UPSERT"), key)
    await target.begin()
    await target.flood(lambda: request, connections=64)
