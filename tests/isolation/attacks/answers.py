"""Responses that nobody reads, or a few bytes at a time."""

from collections.abc import Sequence
from itertools import cycle

import trio

from tests.isolation.attack import attack
from tests.isolation.attacks.reads import with_history
from tests.isolation.target import ADDRESSES, NAME, Target, emit, event, ok, status
from tests.isolation.wire import Connection, render


async def read_slowly(
    target: Target, requests: Sequence[bytes], *, connections: int, bytes_a_second: int = 12
) -> None:
    """Send a request on each connection, and read so many bytes of the response a second; then again."""

    async def one(number: int, request: bytes) -> None:
        while True:
            try:
                with trio.socket.socket() as sock:
                    # Before it connects: what the system takes would hide what the gateway keeps.
                    sock.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_RCVBUF, 4096)
                    await sock.bind((ADDRESSES[number % len(ADDRESSES)], 0))
                    await sock.connect(("127.0.0.1", target.port))
                    await trio.SocketStream(sock).send_all(request)
                    target.counts["requests"] += 1
                    first = await sock.recv(12)
                    target.counts[first[9:12].decode() or "closed"] += 1
                    while first:
                        await trio.sleep(12 / bytes_a_second)
                        first = await sock.recv(12)
            except (OSError, trio.BrokenResourceError) as error:
                target.counts[type(error).__name__] += 1
            await trio.sleep(0.5)

    turns = cycle(requests)
    async with trio.open_nursery() as nursery:
        for number in range(connections):
            nursery.start_soon(one, number, next(turns))
            await trio.sleep(0.002)


@attack(
    "lists read slowly", "lists of 1,000 deliveries with the answers of receivers, 25 MB each, read slowly"
)
async def slow_lists(target: Target) -> None:
    # What a receiver answers is kept, and six times as long in JSON.
    key = await with_history(target, 1000, status(200, body=b"\x01" * 4096))
    request = render("GET", f"/delivery/list/{NAME}?limit=1000", key=key)
    await target.begin()
    await read_slowly(target, [request], connections=200)


@attack("responses read slowly", "a delivery with its payload of 1 MiB, on 300 connections, read slowly")
async def slow_finds(target: Target) -> None:
    key = await target.tenant()
    await target.register(await target.receiver(ok))
    payload = event(b'"' + b"x" * (2**20 - 4096) + b'"', event_id="large")
    async with Connection(target.port, "127.0.0.2") as connection:
        answer = await connection.exchange(emit(payload, key))
        assert answer[0] == 202, answer
    request = render("GET", f"/delivery/find/{NAME}/large", key=key)
    await target.begin()
    await read_slowly(target, [request], connections=300)


@attack("fetches unread", "streams of fetched deliveries, 900 kB each, on 300 connections, unread")
async def slow_fetches(target: Target) -> None:
    key = await target.tenant()
    await target.register("pull:")
    unread: list[trio.SocketStream] = []
    payload = event(b'"' + b"x" * 60_000 + b'"')
    async with Connection(target.port, "127.0.0.2") as connection:
        for _ in range(15):
            answer = await connection.exchange(emit(payload, key))
            assert answer[0] == 202, answer
    await target.begin()
    # What one consumer has returned, the next one fetches.
    for number in range(300):
        consumer = f"c{number}"
        sock = trio.socket.socket()
        sock.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_RCVBUF, 4096)
        await sock.bind((ADDRESSES[number % len(ADDRESSES)], 0))
        await sock.connect(("127.0.0.1", target.port))
        stream = trio.SocketStream(sock)  # unread for the rest of the attack
        body = b'{"consumer":"%b","wait":"60s"}' % consumer.encode()
        headers = {"accept": "text/event-stream"}
        await stream.send_all(render("POST", f"/delivery/pull/{NAME}", body, key=key, headers=headers))
        seen = b""
        while b"data: " not in seen and (more := await stream.receive_some(512)):
            seen += more
        target.counts["refused" if b"event: error" in seen else "fetched"] += 1
        returned = {"consumer": consumer, "release": True}
        await target.call("POST", f"/delivery/ack/{NAME}", returned, key=key, right=(200, 409))
        unread.append(stream)
    await trio.sleep_forever()


@attack("open pages read slowly", "asks for /docs and /openapi.json without a key on 2,000 connections")
async def slow_open_pages(target: Target) -> None:
    requests = [render("GET", "/docs"), render("GET", "/openapi.json")]
    await target.begin()
    await read_slowly(target, requests, connections=2000)


@attack("pages unread", "a page of the dashboard for a deeply nested event of 198 KB, 200 times, unread")
async def unread_pages(target: Target) -> None:
    key = await target.tenant()
    await target.register(await target.receiver(ok))
    nested = b"[" + b",".join([b"[" * 190 + b"]" * 190] * 520) + b"]"
    async with Connection(target.port, "127.0.0.2") as connection:
        answer = await connection.exchange(emit(event(nested, event_id="nested"), key))
        assert answer[0] == 202, answer
    page = await target.call("GET", f"/delivery/list/{NAME}?limit=1", key=key)
    delivery = page["deliveries"][0]["id"]
    cookie = await target.log_in(key)
    path = f"/dashboard/deliveries/{NAME}/{delivery}"
    request = render("GET", path, headers={"cookie": cookie})
    await target.begin()
    await read_slowly(target, [request], connections=200)
