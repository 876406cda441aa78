"""Homeservers, ingestUrls and names that a tenant chose, for instances with a connector."""

import gzip
from collections.abc import Callable, Sequence
from itertools import count

import msgspec
import trio

from tests.isolation.attack import NAME_SERVER, attack
from tests.isolation.homeserver import ROOM, Answer, rendered, serve_homeserver
from tests.isolation.target import ADDRESSES, NAME, Target, emit, event
from tests.isolation.wire import Connection, render

LARGEST_ANSWER = 16 * 2**20
"""What a connector reads of an answer."""


async def connect(target: Target, homeserver: str, name: str = NAME) -> str:
    """Make a tenant with an account on a homeserver, connect it, and return its key."""
    options = {"integration": "matrix", "homeserver": homeserver, "access_token": "t"}
    created = await target.call("POST", "/instance/create", {"instanceName": name, **options})
    await target.call("GET", f"/instance/connect/{name}")
    key = created["hash"]
    assert isinstance(key, str)
    return key


async def wait_open(target: Target, name: str = NAME) -> None:
    """Wait until an instance is connected."""
    while True:
        answer = await target.call("GET", f"/instance/connectionState/{name}")
        if answer["instance"]["state"] == "open":
            return
        await trio.sleep(0.1)


def text_to(name: str, key: str) -> bytes:
    """Return a request that sends a text."""
    body = msgspec.json.encode({"number": ROOM, "text": "x"})
    return render("POST", f"/message/sendText/{name}", body, key=key)


@attack("hanging homeserver", "250 sends at a time to a homeserver that hangs", victim="sends")
async def hanging_homeserver(target: Target) -> None:
    async def answer(stream: trio.SocketStream, method: str, path: str, body: bytes) -> bool:
        del stream, body
        if method == "PUT" and "/send/" in path:
            await trio.sleep_forever()
        return False

    key = await connect(target, await serve_homeserver(target.nursery, answer))
    await wait_open(target)
    request = text_to(NAME, key)
    await target.begin()
    # What is held is the attack, not the work of 250 requests that come in the same millisecond.
    await target.flood(lambda: request, connections=250, pause=0.05, ramp=0.006)


@attack("long polls", "200 instances whose homeservers keep their long polls", victim="sends")
async def long_polls(target: Target) -> None:
    all_poll = trio.Event()

    async def answer(stream: trio.SocketStream, method: str, path: str, body: bytes) -> bool:
        del stream, method, body
        target.counts["polls"] += "/sync?" in path and "since=" in path
        if target.counts["polls"] == 200:
            all_poll.set()
        return False

    homeserver = await serve_homeserver(target.nursery, answer)

    for number in range(200):
        # Each waits until its account is connected, or some seconds.
        target.nursery.start_soon(connect, target.another(), homeserver, f"attacker{number}")
    with trio.move_on_after(20):
        await all_poll.wait()
    await target.begin()
    await trio.sleep_forever()


@attack("endless answers", "250 sends at a time, each answered with 15.9 MiB that never end", victim="sends")
async def endless_answers(target: Target) -> None:
    head = f"HTTP/1.1 200 OK\r\ncontent-length: {LARGEST_ANSWER - 1}\r\n\r\n".encode()
    most = head + bytes(LARGEST_ANSWER - 2**16)

    async def answer(stream: trio.SocketStream, method: str, path: str, body: bytes) -> bool:
        del body
        if method != "PUT" or "/send/" not in path:
            return False
        target.counts["answers begun"] += 1
        await stream.send_all(most)
        target.counts["answers held"] += 1
        await trio.sleep_forever()
        return True

    key = await connect(target, await serve_homeserver(target.nursery, answer))
    await wait_open(target)
    request = text_to(NAME, key)
    await target.begin()
    # What is held is the attack, not the work of 250 requests that come in the same millisecond.
    await target.flood(lambda: request, connections=250, pause=0.05, ramp=0.006)


def syncs(answers: Callable[[int], bytes], target: Target) -> Answer:
    """Return what answers each sync but the first with a response that is made from the sync's number."""
    numbers = count(1)

    async def answer(stream: trio.SocketStream, method: str, path: str, body: bytes) -> bool:
        del body
        if method != "GET" or "/sync?" not in path or "since=" not in path:
            return False
        # The victim is measured first, and the attacker connects before the attack.
        await target.begun.wait()
        target.counts["syncs answered"] += 1
        await stream.send_all(answers(next(numbers)))
        return True

    return answer


async def follow(target: Target, answers: Sequence[bytes]) -> None:
    """Attack with a homeserver that answers each sync with the next of these responses."""
    answer = syncs(lambda number: answers[number % len(answers)], target)
    await connect(target, await serve_homeserver(target.nursery, answer))
    await target.begin()
    await trio.sleep_forever()


def many_values(number: int) -> bytes:
    """Return a homeserver's answer: 4 KB of gzip with 990,000 values and half a surrogate."""
    values = b",".join([b'"a"'] * 990_000)
    return rendered(b'{"next_batch":"n%d","x":[%b],"y":"\\ud800"}' % (number, values), compressed=True)


@attack(
    "values of homeservers", "answers to a sync with 990,000 values and half a surrogate, in 4 KB of gzip"
)
async def values_of_homeservers(target: Target) -> None:
    await follow(target, [many_values(1), many_values(2)])


def many_events(number: int) -> bytes:
    """Return a homeserver's answer with 60,000 events of one room."""
    event = (
        b'{"type":"m.room.message","event_id":"$%d-%d","sender":"@a:test","origin_server_ts":1800000000000,'
        b'"content":{"msgtype":"m.text","body":"hello"}}'
    )
    events = b",".join(event % (number, index) for index in range(60_000))
    room = b'{"timeline":{"limited":false,"prev_batch":"p","events":[%b]}}' % events
    body = b'{"next_batch":"n%d","rooms":{"join":{"%b":%b}}}' % (number, ROOM.encode(), room)
    return rendered(body, compressed=True)


@attack("events of homeservers", "answers to a sync with 60,000 events of one room")
async def events_of_homeservers(target: Target) -> None:
    await follow(target, [many_events(1), many_events(2)])


@attack("bodies to an ingestUrl", "bodies of 1 to 15 MiB with a correct proof, on 8 connections: many values")
async def ingest_bodies(target: Target) -> None:
    options = {"integration": "webhook", "kind": "CALL", "header": "x-token", "value": "the-right-token"}
    created = await target.call("POST", "/instance/create", {"instanceName": NAME, **options})
    await target.call("GET", f"/instance/connect/{NAME}")
    url = created["ingestUrl"]
    few = b'{"x":[' + b"1," * 500_000 + b'1],"y":"\\ud800"}'
    many = b'{"x":[' + b"1," * 7_000_000 + b'1],"y":"\\ud800"}'
    halves = b'{"x":"' + b"\\ud800" * 160_000 + b'"}'
    proof = {"x-token": "the-right-token"}
    bodies = [few, halves, few, many]
    requests = [render("POST", url, body, headers=proof) for body in bodies]
    zipped = {"content-encoding": "gzip", **proof}
    requests += [render("POST", url, gzip.compress(body), headers=zipped) for body in bodies]
    turns = count()
    await target.begin()
    await target.flood(lambda: requests[next(turns) % len(requests)], connections=8, pause=0.02)


@attack(
    "silent names",
    "16 registrations that get another name with each event, whose name servers do not answer",
    victim="names",
    before=NAME_SERVER,
)
async def silent_names(target: Target) -> None:
    key = await target.tenant()
    numbers = count()

    async def one(place: int) -> None:
        async with Connection(target.port, ADDRESSES[place % len(ADDRESSES)]) as connection:
            while True:
                url = f"http://a{next(numbers)}.silent.test/"
                body = msgspec.json.encode({"url": url, "enabled": True})
                for request in (
                    render("POST", f"/webhook/set/{NAME}/l{place}", body, key=key),
                    emit(event(), key),
                ):
                    status, _ = await connection.exchange(request)
                    target.counts[str(status)] += 1

    await target.begin()
    async with trio.open_nursery() as nursery:
        for place in range(16):
            nursery.start_soon(one, place)
