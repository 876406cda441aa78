"""Requests that cost more time to read than to send."""

import gzip
from itertools import cycle

from tests.bench.parts import DATA
from tests.isolation.attack import attack
from tests.isolation.target import Refused, Target, batch, emit, event, ok
from tests.isolation.wire import render

MEGABYTE = 2**20
DENSE = b"[" + b"[]," * ((MEGABYTE - 4096) // 3) + b"[]]"
"""Just below the largest payload, and all of it values."""


def message(jid: bytes) -> bytes:
    """A message with that chat id."""
    return b'{"key":{"remoteJid":"%b","fromMe":false,"id":"X"},"message":{},"messageTimestamp":1}' % jid


async def filtered(target: Target, stars: int) -> str:
    """Make a tenant with as many patterns in ``message_filters`` as the gateway takes; return the key."""
    key = await target.tenant()
    url = await target.receiver(ok)
    for count, each in ((1000, stars), (100, 3)):
        patterns = [f"{'*a' * (each - 1)}*{number}" for number in range(count)]
        try:
            await target.register(url, plugins={"message_filters": {"deny": patterns}})
        except Refused:
            continue
        target.counts[f"patterns: {count} with {each} stars"] = 1
        return key
    raise AssertionError("no patterns were accepted")


@attack("patterns", "1,000 wildcard patterns, and chat ids of 900 kB")
async def patterns(target: Target) -> None:
    key = await filtered(target, 100)
    await target.begin()
    request = emit(event(message(b"a" * 900_000), "MESSAGES_UPSERT"), key)
    await target.flood(lambda: request, connections=2, pause=0.05)


@attack(
    "short chat ids", "as many patterns, and batches of 1,000 chat ids of 250 characters that almost match"
)
async def short_ids(target: Target) -> None:
    key = await filtered(target, 20)
    await target.begin()
    request = emit(batch([event(message(b"a" * 250), "MESSAGES_UPSERT")] * 1000), key)
    await target.flood(lambda: request, connections=1, pause=0.5)


@attack("schemas", "payloads of 1 MiB that violate their schema in every field")
async def schemas(target: Target) -> None:
    key = await target.tenant()
    part = b"[" + b"[]," * 87_000 + b"[]]"
    data = b'{"key":%b,"message":%b,"messageTimestamp":"x","status":%b,"pushName":7}' % (part, part, part)
    objects = b"[" + b"{}," * 340_000 + b"{}]"
    requests = cycle([emit(event(one, "MESSAGES_UPSERT"), key) for one in (data, DENSE, objects)])
    await target.begin()
    await target.flood(lambda: next(requests), connections=2, pause=0.05)


@attack("brackets", "bodies of 1 to 15 MiB in which every second byte is a value")
async def brackets(target: Target) -> None:
    key = await target.tenant()
    bodies = [
        event(DENSE),
        batch([event(DENSE)] * 14),
        b"[" + b"[]," * (5 * MEGABYTE) + b"[]]",
        b'[{"event":"CALL","data":' + b"[" * 4_000_000,
        event(b'{"a":[' + b"1," * 500_000 + b"1]}"),
    ]
    requests = cycle([emit(body, key) for body in bodies])
    await target.begin()
    await target.flood(lambda: next(requests), connections=2, pause=0.05)


@attack("batches", "batches of 15 MiB: 10,000 events each")
async def batches(target: Target) -> None:
    key = await target.tenant()
    padded = event(DATA[:-1] + b',"x":"' + b"x" * (1450 - len(DATA)) + b'"}', "MESSAGES_UPSERT")
    request = emit(batch([padded] * 10_000), key)
    await target.begin()
    await target.flood(lambda: request, connections=2, pause=0.1)


@attack("large batches", "batches of 15 MiB: 15 events of 1 MiB each, to a receiver that takes them")
async def large_batches(target: Target) -> None:
    key = await target.tenant()
    await target.register(await target.receiver(ok))
    request = emit(batch([event(b'"' + b"x" * (MEGABYTE - 4096) + b'"')] * 15), key)
    await target.begin()
    await target.flood(lambda: request, connections=1, pause=0.5)


@attack("registrations", "registrations of 1 MiB: options, headers and kinds without end")
async def registrations(target: Target) -> None:
    key = await target.tenant()
    bodies = [
        b'{"url":"http://127.0.0.1/","plugins":{"message_filters":{"allow":%b}}}'
        % DENSE[: -len(b"[]]")].rstrip(b","),
        b'{"url":"http://127.0.0.1/","plugins":{"x":%b}}' % DENSE,
        b'{"url":"http://127.0.0.1/","headers":{%b}}'
        % b",".join(b'"x-%d":"%d"' % (number, number) for number in range(60_000)),
        b'{"url":"http://127.0.0.1/","events":[%b]}' % b",".join([b'"MESAGES_UPSERT"'] * 60_000),
        b'{"url":"http://%b/"}' % (b"a." * 500_000),
    ]
    requests = cycle([render("POST", "/webhook/set/attacker", body, key=key) for body in bodies])
    await target.begin()
    await target.flood(lambda: next(requests), connections=2, pause=0.05)


@attack("gzip bombs", "requests of 16 KiB that decompress to 16 MiB, to 1 GiB, or not at all")
async def bombs(target: Target) -> None:
    key = await target.tenant()
    bodies = [
        gzip.compress(b'"' + bytes(16 * MEGABYTE)),
        gzip.compress(gzip.compress(bytes(64 * MEGABYTE))),
        gzip.compress(batch([event(DENSE)] * 14)),
        gzip.compress(event())[:-4],
        event(),
    ]
    requests = cycle([emit(body, key, headers={"content-encoding": "gzip"}) for body in bodies])
    await target.begin()
    await target.flood(lambda: next(requests), connections=2, pause=0.05)
