"""Compressed answers count as they are decoded: many are decoded at once, in steps."""

import gzip

import httpx
import trio
import trio.testing

from tests.delivery.http.raw_receiver import answering, serving
from tests.delivery.http.test_connector_client import clients_for
from tests.public.delivery import AnswerMemory


async def test_compressed_answers_count_as_they_are_decoded(mock_clock: trio.testing.MockClock) -> None:
    memory, peak, failed, whole = AnswerMemory(8 * 2**20), 0, 0, 0
    bomb = gzip.compress(bytes(3 * 2**20))
    head = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(bomb)

    async def ask(http: httpx.AsyncClient, url: str) -> None:
        nonlocal failed, whole
        try:
            await http.get(url, timeout=60)
            whole += 1
        except httpx.RemoteProtocolError:
            failed += 1

    async with serving(answering(head + bomb)) as server:
        clients = clients_for([("http", "127.0.0.1", server.port)], max_requests=40, memory=memory)
        http = clients.of_instance("a", lambda: [("http", "127.0.0.1", server.port)])
        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(ask, http, f"http://127.0.0.1:{server.port}/")
            while whole + failed < 10:
                await trio.testing.wait_all_tasks_blocked(0.001)
                peak = max(peak, memory.share.used)
                if memory.share.waiting == 10 - whole - failed:
                    mock_clock.jump(10)
        await clients.aclose()
    assert peak <= memory.most_of_holder + 2**16
    assert whole
    assert memory.share.used == 0
