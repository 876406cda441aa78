"""Receivers that answer badly, slowly, or not at all."""

import hashlib
import secrets
import ssl
from collections.abc import Sequence
from itertools import count, cycle
from typing import Any

import trio
import trustme
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from tests.isolation.attack import FEW_DESCRIPTORS, attack
from tests.isolation.target import (
    ADDRESSES,
    Behaviour,
    Target,
    batch,
    bomb,
    drip,
    emit,
    event,
    hang,
    ok,
    status,
)
from tests.isolation.wire import Connection

PER_TENANT = 16
"""The most registrations of an instance."""


async def register_all(target: Target, urls: Sequence[str], **fields: Any) -> list[bytes]:
    """Register each URL, with as many tenants as that takes; return a request that emits for each tenant."""
    requests = []
    for first in range(0, len(urls), PER_TENANT):
        name = f"attacker{first}"
        key = await target.tenant(name)
        for number, url in enumerate(urls[first : first + PER_TENANT]):
            await target.register(url, name=name, label=f"l{number}", **fields)
        requests.append(emit(event(), key, name=name))
    return requests


async def many(target: Target, behaviour: Behaviour, count: int) -> list[bytes]:
    """:func:`register_all` for that many receivers, each with a port of its own."""
    return await register_all(target, [await target.receiver(behaviour) for _ in range(count)])


async def trickle(target: Target, requests: Sequence[bytes]) -> None:
    """Emit one small event a second for each tenant, but ten in all at least."""
    turns = cycle(requests)
    await target.flood(lambda: next(turns), connections=1, pause=1 / max(len(requests), 10))


@attack(
    "descriptors of one tenant",
    "16 receivers that hang, each with 64 attempts at a time, and 512 descriptors for all",
    before=FEW_DESCRIPTORS,
)
async def one_tenant(target: Target) -> None:
    key = await target.tenant()
    for number in range(PER_TENANT):
        url = await target.receiver(hang)
        await target.register(url, label=f"l{number}", ordering="none", concurrency=64)
    request = emit(batch([event()] * 20), key)
    await target.begin()
    await target.flood(lambda: request, connections=1, pause=0.5)


@attack(
    "descriptors",
    "600 receivers of 38 tenants together, all hang, and 512 descriptors for all",
    before=FEW_DESCRIPTORS,
)
async def descriptors(target: Target) -> None:
    requests = await many(target, hang, 600)
    await target.begin()
    await trickle(target, requests)


@attack("dripping receivers", "100 receivers that send a byte at a time")
async def dripping(target: Target) -> None:
    requests = await many(target, drip, 100)
    await target.begin()
    await trickle(target, requests)


@attack("bombs of receivers", "20 receivers that answer with 50 MiB in 50 KiB of gzip")
async def bombs(target: Target) -> None:
    requests = await many(target, bomb, 20)
    await target.begin()
    await trickle(target, requests)


@attack("failing receivers", "100 receivers that answer 500, 503, 429 with retry-after 0, and redirects")
async def failing(target: Target) -> None:
    answers = [
        status(500),
        status(503),
        status(429, {"retry-after": "0"}),
        status(302, {"location": "http://127.0.0.1:1/"}),
    ]
    urls = [await target.receiver(answers[number % 4]) for number in range(100)]
    requests = await register_all(target, urls, retry={"schedule": ["1s"] * 100})
    await target.begin()
    await trickle(target, requests)


@attack("one host for all", "500 registrations at one host that hangs")
async def one_host(target: Target) -> None:
    url = await target.receiver(hang)
    requests = await register_all(target, [f"{url}{number}" for number in range(500)])
    await target.begin()
    await trickle(target, requests)


@attack("returning lanes", "1,000 lanes (--full: 10,000) at a host that is down, and comes back at once")
async def returning(target: Target) -> None:
    # A port that is free, until the receiver returns.
    with trio.socket.socket() as holder:
        await holder.bind(("127.0.0.1", 0))
        port = holder.getsockname()[1]
    count = 10_000 if target.full else 1000
    requests = await register_all(target, [f"http://127.0.0.1:{port}/{number}" for number in range(count)])
    async with Connection(target.port, ADDRESSES[0]) as connection:
        for request in requests:
            assert (await connection.exchange(request))[0] == 202
    await target.begin()
    await trio.sleep(1)
    await target.receiver(ok, port=port)
    await trio.sleep_forever()


@attack("certificates", "64 TLS receivers: an unknown authority, a wrong host, mutual TLS, and no TLS at all")
async def certificates(target: Target) -> None:
    contexts = []
    for name in ("127.0.0.1", "other.example", "127.0.0.1"):
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        trustme.CA().issue_cert(name).configure_cert(context)
        contexts.append(context)
    contexts[2].verify_mode = ssl.CERT_REQUIRED
    urls = [await target.receiver(hang, context=[*contexts, None][number % 4]) for number in range(64)]
    requests = await register_all(target, [url.replace("http:", "https:") for url in urls])
    await target.begin()
    await trickle(target, requests)


def vector(content: bytes, length: int = 2) -> bytes:
    """Return bytes with their length before them, as TLS has it."""
    return len(content).to_bytes(length, "big") + content


def handshake_message(kind: int, content: bytes) -> bytes:
    """Return the records of a message of a handshake."""
    whole = bytes([kind]) + vector(content, 3)
    parts = [whole[at : at + 2**14] for at in range(0, len(whole), 2**14)]
    return b"".join(b"\x16\x03\x03" + vector(part) for part in parts)


def own_numbers(hello: bytes, certificate: trustme.LeafCert, bits: int) -> bytes:
    """Return the answer to a ClientHello with a key exchange of TLS 1.2 of so many bits.

    No client checks that the number is a prime.
    """
    random, modulus = (
        secrets.token_bytes(32),
        (secrets.randbits(bits) | 1 << (bits - 1) | 1).to_bytes(bits // 8, "big"),
    )
    parameters = vector(modulus) + vector(b"\x02") + vector(modulus[:-1])
    key: Any = load_pem_private_key(certificate.private_key_pem.bytes(), None)
    signature = key.sign(hello[11:43] + random + parameters, padding.PKCS1v15(), hashes.SHA256())
    der = [ssl.PEM_cert_to_DER_cert(pem.bytes().decode()) for pem in certificate.cert_chain_pems]
    # DHE-RSA-AES256-GCM-SHA384, without compression; clients want to hear that renegotiation is secure.
    answer = handshake_message(
        2, b"\x03\x03" + random + b"\x00\x00\x9f\x00" + vector(b"\xff\x01\x00\x01\x00")
    )
    answer += handshake_message(11, vector(b"".join(vector(one, 3) for one in der), 3))
    return (
        answer
        + handshake_message(12, parameters + b"\x04\x01" + vector(signature))
        + handshake_message(14, b"")
    )


def another_group(hello: bytes) -> bytes:
    """Return the answer to a ClientHello that asks for one with the group ffdhe8192 (RFC 8446, 4.1.4)."""
    random = hashlib.sha256(b"HelloRetryRequest").digest()
    session = hello[43 : 44 + hello[43]]
    extensions = b"\x00\x2b\x00\x02\x03\x04" + b"\x00\x33\x00\x02\x01\x04"
    return handshake_message(2, b"\x03\x03" + random + session + b"\x13\x02\x00" + vector(extensions))


@attack(
    "key exchanges",
    "16 TLS receivers whose key exchange has numbers of 10,000 bits (TLS 1.2), or 8,192 (TLS 1.3)",
)
async def key_exchanges(target: Target) -> None:
    authority = trustme.CA(key_type=trustme.KeyType.RSA)
    certificate = authority.issue_cert("127.0.0.1", key_type=trustme.KeyType.RSA)

    numbers = count()

    async def serve(stream: trio.SocketStream) -> None:
        try:
            hello = await stream.receive_some(65_536)
            answer = another_group(hello) if next(numbers) % 2 else own_numbers(hello, certificate, 10_000)
            await stream.send_all(answer)
            target.counts[f"answered by {len(await stream.receive_some(65_536))} bytes"] += 1
        except (trio.BrokenResourceError, IndexError):
            target.counts["refused"] += 1
        finally:
            stream.socket.close()

    key = await target.tenant()
    tls = {"ca": authority.cert_pem.bytes().decode()}
    for number in range(PER_TENANT):
        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        assert isinstance(listener, trio.SocketListener)
        target.nursery.start_soon(trio.serve_listeners, serve, [listener])
        url = f"https://127.0.0.1:{listener.socket.getsockname()[1]}/"
        await target.register(url, label=f"l{number}", tls=tls, ordering="none", concurrency=16)
    request = emit(batch([event()] * 4), key)
    await target.begin()
    await target.flood(lambda: request, connections=1, pause=0.1)
