"""Every way in which a receiver can misbehave, before the real gateway: what the lane makes of it."""

from __future__ import annotations

import gzip
import itertools
import re
import socket
from collections.abc import Callable

import pytest
import trio.testing
from trio.testing import MockClock, wait_all_tasks_blocked

from hookgw import DeliveryState, LaneState, Outcome
from hookgw.testing import (
    Answer,
    Close,
    Drip,
    GatewayKit,
    HalfClose,
    Hang,
    Receiver,
    Reset,
    Send,
    Stream,
    answer,
    chunk,
    close,
    hang,
    raw,
    reset,
)
from tests.faults.support import KIND, attempts_of, report_of, state_of
from tests.support.waits import FIRST_WAIT

pytestmark = pytest.mark.usefixtures("hookgw_clock")

HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n"
MEGABYTE = b"x" * 2**20
LONGER_THAN_AN_ATTEMPT = 30.1


def flood(piece: bytes) -> Callable[[], itertools.repeat[bytes]]:
    return lambda: itertools.repeat(piece)


NO_HTTP: dict[str, tuple[Answer, str]] = {
    "garbage": (raw(b"SSH-2.0-OpenSSH_9.6\r\n"), "did not respond with HTTP/1"),
    "garbage, bit by bit": (Answer((Drip(b"220 mail ", every=0.0),)), "did not respond with HTTP/1"),
    "TLS": (raw(b"\x15\x03\x01\x00\x02\x02\x46"), "TLS"),
}
"""What is no answer of a receiver at all."""

NO_ANSWER: dict[str, tuple[Answer, str]] = {
    "resets before the answer": (reset(), "broke the connection"),
    "resets in the head": (answer().cut(10, Reset()), "broke the connection"),
    "closes before the answer": (close(), "closed the connection"),
    "closes in the head": (answer().cut(10), "closed the connection"),
    "half-closes": (Answer((HalfClose(),)), "closed the connection"),
    "an invalid status line": (raw(b"HTTP/1.1 OK\r\n\r\n"), "status line"),
    "an invalid header, and no end of the head": (raw(HEAD + b"content-length: x").then(Close()), "closed"),
    "a header of 1 MB": (raw(HEAD + b"a: " + MEGABYTE), "head"),
    "10,000 headers": (raw(HEAD + b"a: b\r\n" * 10_000 + b"\r\n"), "headers"),
    "a flood of 1xx": (Answer((Stream(flood(b"HTTP/1.1 103 Early Hints\r\n\r\n")),)), "1xx"),
}
"""Each fault with what the attempt's error says of it."""

TOO_SLOW: dict[str, Answer] = {
    "says nothing": hang(),
    "drips its head": answer(drip="head", every=10),
    "stops in the head": answer().cut(10, Hang()),
}

STATUS_STANDS: dict[str, Answer] = {
    "malformed headers": raw(HEAD + b"X Powered By: PHP\r\nX-A : 1\r\nno colon\r\ncontent-length: 0\r\n\r\n"),
    "a length that is none": raw(HEAD + b"content-length: x\r\n\r\n"),
    "HTTP/1.2": raw(b"HTTP/1.2 200 OK\r\ncontent-length: 0\r\n\r\n"),
    "interim responses that close": raw(
        b"HTTP/1.0 100 Continue\r\n\r\nHTTP/1.1 103 x\r\nconnection: close\r\n\r\n"
        + HEAD
        + b"content-length: 0\r\n\r\n"
    ),
    "resets after the answer": answer().then(Reset()),
    "resets in the body": answer(body=MEGABYTE).cut(1000, Reset()),
    "closes in the body": answer(body=MEGABYTE).cut(1000),
    "half-closes after the answer": answer().then(HalfClose()),
    "100 MB": Answer((Send(HEAD + b"content-length: 104857600\r\n\r\n"), Stream(flood(MEGABYTE)))),
    "an endless chunked body": Answer((Send(CHUNKED), Stream(flood(chunk(MEGABYTE))))),
    # Many in a piece: 64 KiB in pieces of 6 bytes took longer than the kit waits, on a busy machine.
    "endless trailers": Answer((Send(CHUNKED + b"0\r\n"), Stream(flood(b"a: b\r\n" * 500)))),
    "a gzip bomb": answer(body=gzip.compress(bytes(20 * 2**20)), headers={"content-encoding": "gzip"}),
    "bad gzip": answer(body=b"no gzip", headers={"content-encoding": "gzip"}),
    "HTTP/1.0 without a length": answer(body="fine", version="1.0", framing="close"),
    "a 204 with a body": raw(b"HTTP/1.1 204 No Content\r\ncontent-length: 5\r\n\r\nhello"),
    "two lengths": raw(HEAD + b"content-length: 1\r\ncontent-length: 2\r\n\r\nab"),
    "answers before it has read the body": answer(early=True),
    "connection: close": answer(keep_alive=False),
}


@pytest.mark.parametrize("name", NO_HTTP)
async def test_what_is_no_http_has_not_seen_the_event_and_is_tried_again_soon(
    name: str, hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    fault, said = NO_HTTP[name]
    hookgw_receiver.will(fault)
    await hookgw_gateway.register(hookgw_receiver.url)
    event = await hookgw_gateway.emit(KIND, {})
    await hookgw_gateway.settled()
    await hookgw_gateway.advance(0.06)
    failed, delivered = await attempts_of(hookgw_gateway, event)
    assert (failed.outcome, failed.status) == (Outcome.UNREACHABLE, None)
    assert said in (failed.error or "")
    assert delivered.outcome is Outcome.DELIVERED


@pytest.mark.parametrize("name", NO_ANSWER)
async def test_what_is_no_answer_is_tried_again(
    name: str, hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    fault, said = NO_ANSWER[name]
    hookgw_receiver.will(fault)
    await hookgw_gateway.register(hookgw_receiver.url)
    first, second = [await hookgw_gateway.emit(KIND, {"n": n}) for n in range(2)]
    await hookgw_gateway.settled()
    assert hookgw_receiver.ids == [first.id]
    await hookgw_gateway.advance(FIRST_WAIT - 0.1)
    assert hookgw_receiver.ids == [first.id]
    await hookgw_gateway.advance(0.1 + 0.11 * FIRST_WAIT)
    assert hookgw_receiver.ids == [first.id, first.id, second.id]
    failed, delivered = await attempts_of(hookgw_gateway, first)
    assert (failed.outcome, failed.status) == (Outcome.UNANSWERED, None)
    assert failed.error is not None
    assert re.search(said, failed.error), failed.error
    assert delivered.outcome is Outcome.DELIVERED


@pytest.mark.parametrize("name", TOO_SLOW)
async def test_one_deadline_is_over_an_attempt(
    name: str, hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    hookgw_receiver.will(TOO_SLOW[name])
    await hookgw_gateway.register(hookgw_receiver.url)
    first, second = [await hookgw_gateway.emit(KIND, {"n": n}) for n in range(2)]
    await hookgw_receiver.wait_for(1)
    hookgw_clock.jump(LONGER_THAN_AN_ATTEMPT)
    await hookgw_gateway.advance(29.9)
    assert hookgw_receiver.ids == [first.id]
    await hookgw_gateway.advance(3.2)
    assert hookgw_receiver.ids == [first.id, first.id, second.id]
    late, delivered = await attempts_of(hookgw_gateway, first)
    assert (late.outcome, late.status) == (Outcome.UNANSWERED, None)
    assert "within 30" in (late.error or "")
    assert "set a longer timeout for this webhook" in (late.error or "")
    assert delivered.outcome is Outcome.DELIVERED


@pytest.mark.parametrize("name", STATUS_STANDS)
async def test_a_status_stands_whatever_follows_it(
    name: str, hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.will(STATUS_STANDS[name])
    await hookgw_gateway.register(hookgw_receiver.url)
    first, second = [await hookgw_gateway.emit(KIND, {"n": n}) for n in range(2)]
    await hookgw_gateway.settled()
    assert hookgw_receiver.ids == [first.id, second.id]
    for event in (first, second):
        report = await report_of(hookgw_gateway, event)
        assert [attempt.outcome for attempt in report.attempts] == [Outcome.DELIVERED]
        assert len(report.attempts[0].answer) <= 4096


async def test_a_dripped_body_ends_with_the_attempt_and_the_status_stands(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    hookgw_receiver.will(answer(body=b"x" * 1000, drip="body"))
    await hookgw_gateway.register(hookgw_receiver.url)
    first, second = [await hookgw_gateway.emit(KIND, {"n": n}) for n in range(2)]
    await hookgw_receiver.wait_for(1)
    await wait_all_tasks_blocked(0.05)  # the head of the answer is there
    hookgw_clock.jump(LONGER_THAN_AN_ATTEMPT)
    await hookgw_gateway.settled()
    assert hookgw_receiver.ids == [first.id, second.id]
    assert await state_of(hookgw_gateway, first) is DeliveryState.DELIVERED


async def test_a_connection_that_closes_at_the_moment_of_the_next_request_is_replaced_within_the_attempt(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.will(answer(), close())
    await hookgw_gateway.register(hookgw_receiver.url)
    first, second = [await hookgw_gateway.emit(KIND, {"n": n}) for n in range(2)]
    await hookgw_gateway.settled()
    assert hookgw_receiver.ids == [first.id, second.id, second.id]
    assert [a.outcome for a in await attempts_of(hookgw_gateway, second)] == [Outcome.DELIVERED]


async def test_a_receiver_that_refuses_is_waited_for(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    await hookgw_receiver.stop_listening()
    await hookgw_gateway.register(hookgw_receiver.url)
    event = await hookgw_gateway.emit(KIND, {})
    for wait in (1, 2, 4):
        await hookgw_gateway.advance(wait * 1.11)
    await hookgw_receiver.restart()
    await hookgw_gateway.advance(8 * 1.11)
    *refused, delivered = await attempts_of(hookgw_gateway, event)
    assert [attempt.outcome for attempt in refused] == [Outcome.UNREACHABLE] * 4
    assert all("Connection refused" in (attempt.error or "") for attempt in refused)
    assert delivered.outcome is Outcome.DELIVERED


async def test_a_black_hole_costs_the_connect_timeout(
    hookgw_gateway: GatewayKit, hookgw_clock: MockClock
) -> None:
    with socket.socket() as listener, socket.socket() as one, socket.socket() as two:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for filler in (one, two):
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        await hookgw_gateway.register(f"http://127.0.0.1:{listener.getsockname()[1]}/")
        event = await hookgw_gateway.emit(KIND, {})
        await trio.testing.wait_all_tasks_blocked(0.05)
        [lane] = hookgw_gateway.gateway.lanes()
        assert lane.state is LaneState.DELIVERING
        hookgw_clock.jump(5.1)
        await hookgw_gateway.settled()
    [attempt] = await attempts_of(hookgw_gateway, event)
    assert attempt.outcome is Outcome.UNREACHABLE
    assert "took longer than 5 s" in (attempt.error or "")
