"""What hookgw is measured against."""

import os
import socket
import time
from collections.abc import Sequence
from pathlib import Path

import httpx
import trio

from tests.bench.results import percentile

_REQUEST = (
    "POST /{path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
    "user-agent: hookgw/0\r\nwebhook-id: msg_0123456789abcdef0123456789abcdef\r\n"
    "webhook-timestamp: 1700000000\r\n"
    "webhook-signature: v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=\r\n"
    "x-event-type: MESSAGES_UPSERT\r\nx-instance-name: bench0\r\nx-attempt: 1\r\n"
    "content-length: {length}\r\n\r\n"
)


async def httpx_loop(urls: Sequence[str], body: bytes, seconds: float) -> float:
    """Requests a second of ``httpx.AsyncClient.post``, one task a URL, for that long."""
    done = 0

    async def post(client: httpx.AsyncClient, url: str) -> None:
        nonlocal done
        while True:
            await client.post(url, content=body)
            done += 1

    began = time.perf_counter()
    async with httpx.AsyncClient(trust_env=False, timeout=None) as client:
        with trio.move_on_after(seconds):
            async with trio.open_nursery() as nursery:
                for url in urls:
                    nursery.start_soon(post, client, url)
        elapsed = time.perf_counter() - began
    return done / elapsed


def socket_loop(port: int, body: bytes, seconds: float) -> list[float]:
    """How long each exchange took, in seconds, of prepared bytes over one blocking socket, for that long."""
    request = _REQUEST.format(path="0", length=len(body)).encode() + body
    took = []
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        end = time.perf_counter() + seconds
        while (began := time.perf_counter()) < end:
            client.sendall(request)
            answer = client.recv(4096)
            while not answer.endswith(b"\r\n\r\n"):
                answer += client.recv(4096)
            took.append(time.perf_counter() - began)
    return took


def fsync_p50(folder: Path, times: int = 100) -> float:
    """Seconds that a write of 4 KiB and its fsync take, the median."""
    took = []
    file = os.open(folder / "fsync", os.O_CREAT | os.O_WRONLY)
    try:
        for _ in range(times):
            began = time.perf_counter()
            os.write(file, b"x" * 4096)
            os.fsync(file)
            took.append(time.perf_counter() - began)
    finally:
        os.close(file)
    return percentile(took, 0.5)
