"""What tenants share beside the ways of events: sessions, live pages, reads, the log, files to send."""

from itertools import count, cycle

import msgspec
import trio

from tests.isolation.attack import attack
from tests.isolation.attacks.networks import connect, wait_open
from tests.isolation.attacks.processor import MEGABYTE
from tests.isolation.attacks.reads import with_history
from tests.isolation.homeserver import ROOM, serve_homeserver
from tests.isolation.target import NAME, Refused, Target, batch, emit, event, ok
from tests.isolation.wire import Connection, render


@attack("sign-ins", "logs in to the dashboard on 8 connections, again and again, each time a session")
async def sign_ins(target: Target) -> None:
    key = await target.tenant()

    async def one() -> None:
        while True:
            try:
                await target.log_in(key)
                target.counts["sessions"] += 1
            except Refused:
                target.counts["refused"] += 1
            await trio.sleep(0.01)

    await target.begin()
    async with trio.open_nursery() as nursery:
        for _ in range(8):
            nursery.start_soon(one)


@attack(
    "live pages", "keeps 40 live pages of the dashboard open, each with a part of its own, with 4 KiB answers"
)
async def live_pages(target: Target) -> None:
    key = await with_history(target, 1000)
    cookies = [await target.log_in(key) for _ in range(10)]
    await target.begin()

    async def one(number: int) -> None:
        path = f"/dashboard/live/deliveries?instance={NAME}&limit=1000&state=&kind=&text={number}"
        request = render("GET", path, headers={"cookie": cookies[number % 10]})
        while True:
            try:
                stream = await trio.open_tcp_stream("127.0.0.1", target.port)
                async with stream:
                    await stream.send_all(request)
                    first = await stream.receive_some(12)
                    target.counts[first[9:12].decode() or "closed"] += 1
                    while await stream.receive_some(65_536):
                        pass
            except (OSError, trio.BrokenResourceError):
                target.counts["broken"] += 1
            await trio.sleep(0.5)

    async with trio.open_nursery() as nursery:
        for number in range(40):
            nursery.start_soon(one, number)


@attack("repeated ids", "the same Idempotency-Key with other data of 1 MiB, on 8 connections")
async def repeated_ids(target: Target) -> None:
    key = await target.tenant()
    await target.register(await target.receiver(ok))
    values = b"[" + b"1.5," * 49_000 + b'"' + b"x" * 700_000 + b'"]'
    async with Connection(target.port, "127.0.0.2") as connection:
        for spelling in (b"", b" "):
            answer = await connection.exchange(
                emit(event(values + spelling), key, headers={"idempotency-key": "the-same"})
            )
            target.counts[f"first {answer[0]}"] += 1
    request = emit(event(b" " + values), key, headers={"idempotency-key": "the-same"})
    await target.begin()
    await target.flood(lambda: request, connections=8, pause=0.01)


@attack("reads of one tenant", "lists, chats, contacts and tallies on 16 connections", victim="reads")
async def many_reads(target: Target) -> None:
    key = await with_history(target, 10_000)
    requests = [
        render("GET", f"/delivery/list/{NAME}?state=dropped", key=key),
        render("GET", f"/delivery/list/{NAME}?kind=CALL&limit=1000", key=key),
        render("POST", f"/chat/findChats/{NAME}", b"{}", key=key),
        render("POST", f"/chat/findContacts/{NAME}", b"{}", key=key),
        render("GET", f"/audit/list/{NAME}?limit=1000", key=key),
    ]
    turns = cycle(requests)
    await target.begin()
    await target.flood(lambda: next(turns), connections=16, pause=0.01)


@attack("log lines", "payloads that violate their schema, on 16 connections")
async def log_lines(target: Target) -> None:
    key = await target.tenant()
    request = emit(batch([event(b'{"key":7,"%b":1}' % (b"x" * 2000), "MESSAGES_UPSERT")] * 100), key)
    await target.begin()
    await target.flood(lambda: request, connections=16, pause=0.005)


@attack(
    "files to send",
    "100 sends at a time of a file of 15 MiB, by its URL, to a homeserver that hangs",
    victim="sends",
)
async def files_to_send(target: Target) -> None:
    async def answer(stream: trio.SocketStream, method: str, path: str, body: bytes) -> bool:
        if method == "POST" and "/upload" in path:
            target.counts["uploads"] += 1
            await trio.sleep_forever()
        return False

    async def file(stream: trio.abc.Stream) -> None:
        content = bytes(15 * MEGABYTE)
        head = f"HTTP/1.1 200 OK\r\ncontent-type: image/png\r\ncontent-length: {len(content)}\r\n\r\n"
        target.counts["files asked"] += 1
        await stream.send_all(head.encode() + content)

    url = await target.receiver(file)
    key = await connect(target, await serve_homeserver(target.nursery, answer))
    await wait_open(target)
    body = msgspec.json.encode({"number": ROOM, "mediatype": "image", "media": url})
    request = render("POST", f"/message/sendMedia/{NAME}", body, key=key)
    await target.begin()
    await target.flood(lambda: request, connections=100, pause=0.05, ramp=0.01)


@attack("anonymous forms", "posts login forms without a key, and requests to ingestUrls that nobody has")
async def anonymous_forms(target: Target) -> None:
    form = {"content-type": "application/x-www-form-urlencoded", "cookie": "hookgw_visit_x=1"}
    requests = [
        render("POST", "/dashboard/login", b"a=" + b"%41" * 300_000, headers=form),
        render("POST", "/dashboard/login", b"&".join(b"a%d=1" % n for n in range(60_000)), headers=form),
        render("POST", f"/ingest/{NAME}/{'x' * 22}", b"x" * 1_000_000),
        render("GET", f"/media/{NAME}/{'x' * 200}"),
        render("GET", "/dashboard/login?next=" + "/a" * 5000),
    ]
    numbers = count()
    await target.begin()
    await target.flood(lambda: requests[next(numbers) % len(requests)], connections=16, pause=0.01)
