"""Exchanges over real sockets: reuse, replacement, deadlines, early answers, cancellation."""

from __future__ import annotations

import trio

from hookgw.delivery.answer import Answer
from hookgw.delivery.transport import LaneTransport
from tests.delivery.wire_server import Server, always_ok, head, serving, transport

BODY = b'{"event":"MESSAGES_UPSERT"}'


async def post(lane: LaneTransport, server: Server, body: bytes = BODY, *, seconds: float = 10) -> Answer:
    target = server.target()
    return await lane.exchange(target, head(target, len(body)), body, deadline=trio.current_time() + seconds)


async def test_an_answer_is_read_and_the_connection_kept() -> None:
    async with serving(always_ok) as server, transport() as lane:
        for _ in range(3):
            answer = await post(lane, server)
            assert (answer.status, answer.body, answer.complete) == (200, b"ok", True)
        assert lane.connected
        assert server.connections == 1
