"""Exchanges in light steps: unusual responses, bodies larger than the buffers, deadlines, cancellation."""

import pytest
import trio
import trio.testing
from trio.lowlevel import current_task

from tests.delivery.http.raw_receiver import (
    BODY,
    OK,
    Peer,
    Server,
    always_ok,
    frozen_at_responses,
    hub_of,
    serving,
    transport,
)
from tests.public.concurrency import Hub
from tests.public.delivery import DeliveryError, LaneTransport, Response, TimedOut, render_head
from tests.support.hub import choice

LARGE = b"x" * 8_000_000


async def exchange(
    lane: LaneTransport, server: Server, body: bytes = BODY, *, seconds: float = 10
) -> tuple[Response | DeliveryError, bool]:
    """Make an exchange as a lane does. Return also whether it ended in a light step."""
    hub: Hub = hub_of(lane)
    task = current_task()
    target = server.target()
    head = render_head(target, {"content-type": "application/json"}, len(body))

    async def run() -> tuple[Response | DeliveryError, bool]:
        try:
            deadline = trio.current_time() + seconds
            found: Response | DeliveryError = await lane.exchange(target, head, body, deadline=deadline)
        except DeliveryError as error:
            found = error
        return found, current_task() is not task

    return await hub.steps.go(run())


@pytest.mark.parametrize(
    ("pieces", "status", "body"),
    [
        ([OK], 200, b"ok"),
        ([b"HTTP/1.1 204 No Content\r\n\r\n"], 204, b""),
        ([b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"], 200, b"ok"),
        ([OK[:20], OK[20:-2], OK[-2:]], 200, b"ok"),
        ([b"HTTP/1.1 100 Continue\r\n\r\n" + OK], 200, b"ok"),
        ([b"HTTP/1.1 103 Early Hints\r\n\r\n", OK], 200, b"ok"),
        ([b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n", b"x" * 100_000], 200, b"x" * 65_536),
        ([b"HTTP/1.1 500 X\r\ncontent-length: 2\r\n\r\nno"], 500, b"no"),
        ([OK + b"HTTP/1.1 404 surplus\r\n\r\n"], 200, b"ok"),
        ([b"HTTP/1.0 200 OK\r\n\r\nuntil the end", None], 200, b"until the end"),
        ([b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nok", None], 200, b"ok"),
        ([b"SSH-2.0-OpenSSH_9.2\r\n\r\n"], 0, b""),
        ([b"HTTP/1.1 100 Continue\r\n\r\n", None], 0, b""),
        ([b"HTTP/1.1 2", None], 0, b""),
    ],
)
async def test_whatever_is_answered_the_request_is_sent_once(
    pieces: list[bytes | None], status: int, body: bytes
) -> None:
    requests: list[int] = []

    async def behaviour(peer: Peer) -> None:
        while await peer.request():
            requests.append(peer.number)
            if len(requests) == 1:
                await peer.send(OK)
                continue
            for piece in pieces:
                if piece is None:
                    return
                await trio.sleep(0.01)
                await peer.send(piece)

    async with serving(behaviour) as server, transport(watched=True) as lane:
        first, _ = await exchange(lane, server)
        assert isinstance(first, Response)
        found, is_light = await exchange(lane, server)
        assert is_light is choice.is_on
        if status:
            assert isinstance(found, Response)
            assert (found.status, bytes(found.body)) == (status, body)
        else:
            assert isinstance(found, DeliveryError)
        assert requests == [1, 1]


@pytest.mark.parametrize("reads_first", [False, True])
async def test_a_body_larger_than_the_buffers_arrives_whole(*, reads_first: bool) -> None:
    got: list[bytes] = []

    async def behaviour(peer: Peer) -> None:
        await peer.request()
        await peer.send(OK)
        if not reads_first:
            await trio.sleep(0.05)
        got.append(await peer.request())
        await peer.send(OK)
        got.append(await peer.request())
        await peer.send(OK)

    async with serving(behaviour) as server, transport(watched=True) as lane:
        await exchange(lane, server)
        found, is_light = await exchange(lane, server, LARGE)
        assert isinstance(found, Response)
        assert not is_light  # it took a second task
        found, is_light = await exchange(lane, server)
        assert isinstance(found, Response)
        assert is_light is choice.is_on
        assert server.connections == 1
    assert [request.partition(b"\r\n\r\n")[2] for request in got] == [LARGE, BODY]


async def test_a_response_before_a_large_body_is_read_decides() -> None:
    early = b"HTTP/1.1 413 X\r\ncontent-length: 0\r\n\r\n"

    async def behaviour(peer: Peer) -> None:
        await peer.request()
        await peer.send(OK)
        await peer.stream.receive_some(100)
        await peer.send(early)
        await trio.sleep(0.05)

    async with serving(behaviour) as server, transport(watched=True) as lane:
        await exchange(lane, server)
        found, _ = await exchange(lane, server, LARGE)
        assert isinstance(found, Response)
        assert found.status == 413
        assert server.connections == 1


async def test_a_deadline_ends_an_exchange_in_light_steps(mock_clock: trio.testing.MockClock) -> None:
    requests = 0

    async def behaviour(peer: Peer) -> None:
        nonlocal requests
        while await peer.request():
            requests += 1
            if requests == 1:
                await peer.send(OK)
            else:
                mock_clock.jump(11)

    async with serving(behaviour) as server, transport(watched=True) as lane:
        await exchange(lane, server)
        found, is_light = await exchange(lane, server)
        assert isinstance(found, TimedOut)
        assert is_light is choice.is_on
        assert requests == 2
        assert not lane.connected


async def test_a_response_that_came_while_nothing_ran_counts(mock_clock: trio.testing.MockClock) -> None:
    """The machine was frozen, or the loop was busy, beyond the deadline: the receiver is not to blame."""
    async with serving(always_ok) as server, transport(watched=True) as lane:
        await exchange(lane, server)
        with frozen_at_responses(lane, mock_clock, 11):
            for _ in range(20):  # the timer and the reader run in any order
                found, _ = await exchange(lane, server)
                assert isinstance(found, Response)
        assert server.connections == 1
    assert mock_clock.current_time() > 11  # the kernel delivers some responses a moment too late for it


async def test_a_cancelled_exchange_in_light_steps_closes_its_connection() -> None:
    requests: list[int] = []
    scope = trio.CancelScope()

    async def behaviour(peer: Peer) -> None:
        while await peer.request():
            requests.append(peer.number)
            if len(requests) == 2:
                scope.cancel()
            else:
                await peer.send(OK)

    async with serving(behaviour) as server, transport(watched=True) as lane:
        await exchange(lane, server)
        with scope:
            await exchange(lane, server)
        assert not lane.connected
        found, _ = await exchange(lane, server)
        assert isinstance(found, Response)
    assert requests == [1, 1, 2]
