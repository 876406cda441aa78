"""The receiver with a plain client: what it records, and each fault on the wire."""

import itertools
import socket
import ssl
from collections.abc import AsyncIterator

import httpx
import pytest
import trio
import trustme
from trio.testing import MockClock

from hookgw.testing import (
    Answer,
    Close,
    HalfClose,
    Hang,
    Pause,
    Received,
    Receiver,
    Reset,
    Send,
    Stream,
    answer,
    chunk,
    close,
    hang,
    open_receiver,
    raw,
    reset,
)
from tests.public.delivery import SignatureInvalid, sign
from tests.public.kernel import signing_key
from tests.public.records import new_secret

POST = b"POST /hook?a=1 HTTP/1.1\r\nHost: x\r\nX-B: 2\r\nx-a: 1\r\nContent-Length: 7\r\n\r\n" + b'{"a":1}'
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"


async def connect(receiver: Receiver) -> trio.SocketStream:
    return await trio.open_tcp_stream("127.0.0.1", receiver.port)


async def read(stream: trio.abc.ReceiveStream, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = bytes(await stream.receive_some(size - len(data)))
        if not more:
            break
        data += more
    return data


async def read_all(stream: trio.abc.ReceiveStream) -> bytes:
    return b"".join([bytes(piece) async for piece in stream])


async def exchange(receiver: Receiver, request: bytes = POST) -> bytes:
    """Send one request on a new connection, and return everything until the connection ends."""
    async with await connect(receiver) as stream:
        await stream.send_all(request)
        return await read_all(stream)


async def test_it_records_requests_and_answers_200() -> None:
    async with open_receiver() as receiver, await connect(receiver) as stream:
        await stream.send_all(POST)
        assert await read(stream, len(OK)) == OK
        [request] = await receiver.wait_for(1)
    assert (request.method, request.target, request.path) == ("POST", "/hook?a=1", "/hook")
    assert request.headers == (("host", "x"), ("x-b", "2"), ("x-a", "1"), ("content-length", "7"))
    assert (request.body, request.json, request.http_version) == (b'{"a":1}', {"a": 1}, "1.1")
    assert (request.position, request.connection) == (0, 1)
    assert request.header("X-B") == "2"
    assert request.header("missing") is None
    assert request.event_id is None
    assert receiver.events() == [{"a": 1}]


async def test_it_keeps_connections_alive_and_numbers_them() -> None:
    async with open_receiver() as receiver:
        for _ in range(2):
            async with await connect(receiver) as stream:
                await stream.send_all(POST + POST.replace(b"X-B", b"webhook-id"))
                assert await read(stream, 2 * len(OK)) == OK + OK
    assert [(r.position, r.connection) for r in receiver.requests] == [(0, 1), (1, 1), (2, 2), (3, 2)]
    assert receiver.connections == 2
    assert receiver.ids == [None, "2", None, "2"]


@pytest.mark.parametrize("asked", [b"Connection: close\r\n", b"HTTP/1.0"])
async def test_it_closes_if_the_client_asks_for_it(asked: bytes) -> None:
    request = (
        POST.replace(b"X-B: 2\r\n", asked) if asked.endswith(b"\n") else POST.replace(b"HTTP/1.1", asked)
    )
    async with open_receiver() as receiver:
        assert await exchange(receiver, request) == OK


async def test_it_reads_chunked_bodies() -> None:
    request = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(b"ab") + chunk(b"c")
    async with open_receiver() as receiver, await connect(receiver) as stream:
        await stream.send_all(request + chunk(b""))
        [received] = await receiver.wait_for(1)
    assert received.body == b"abc"


async def test_answers_come_in_turn_then_the_default() -> None:
    def teapot(request: Received) -> Answer:
        return answer(418 if request.path == "/hook" else 500)

    async with open_receiver(answers=[answer(503)], default=teapot) as receiver:
        receiver.will(answer(404), teapot)
        async with httpx.AsyncClient(trust_env=False, verify=False) as client:
            statuses = [(await client.post(receiver.url + "hook")).status_code for _ in range(4)]
            receiver.default = answer(201)
            statuses.append((await client.post(receiver.url)).status_code)
    assert statuses == [503, 404, 418, 418, 201]


SECRET = new_secret()


def signed(timestamp: int, body: bytes = b"{}") -> bytes:
    lines = (
        "POST / HTTP/1.1",
        "Host: x",
        f"Content-Length: {len(body)}",
        "webhook-id: msg_1",
        f"webhook-timestamp: {timestamp}",
        f"webhook-signature: {sign([signing_key(SECRET.value)], 'msg_1', timestamp, b'{}')}",
    )
    return "\r\n".join((*lines, "", "")).encode() + body


async def receive(request: bytes) -> tuple[Receiver, Received]:
    async with open_receiver(default=close()) as receiver:
        await exchange(receiver, request)
        return receiver, receiver.requests[0]


async def test_it_verifies_signatures() -> None:
    receiver, request = await receive(signed(1000))
    receiver.verify(request, SECRET.value)
    receiver.verify(request, SECRET.value, now=1300)
    with pytest.raises(SignatureInvalid, match="301 s in the past"):
        receiver.verify(request, SECRET.value, now=1301)
    with pytest.raises(SignatureInvalid, match="no signature"):
        receiver.verify(request, new_secret().value)


async def test_a_changed_body_is_not_signed() -> None:
    receiver, request = await receive(signed(1000, b"[]"))
    with pytest.raises(SignatureInvalid, match="no signature"):
        receiver.verify(request, SECRET.value)


async def test_an_unsigned_request_is_refused() -> None:
    receiver, request = await receive(POST)
    with pytest.raises(SignatureInvalid, match="webhook-id is missing"):
        receiver.verify(request, SECRET.value)


async def test_wait_for_waits() -> None:
    async with open_receiver() as receiver, trio.open_nursery() as nursery:
        nursery.start_soon(exchange, receiver, POST.replace(b"X-B: 2", b"Connection: close"))
        nursery.start_soon(exchange, receiver, POST.replace(b"X-B: 2", b"Connection: close"))
        assert len(await receiver.wait_for(2)) == 2
        assert len(await receiver.wait_for(1)) == 1


async def test_a_request_that_is_not_http_is_a_fault() -> None:
    async with open_receiver() as receiver:
        assert await exchange(receiver, b"\x00garbage\r\n\r\n") == b""
    assert receiver.requests == []
    assert len(receiver.faults) == 1
    assert receiver.faults[0].startswith("connection 1: ")


async def test_an_incomplete_request_is_a_fault_and_not_recorded() -> None:
    async with open_receiver() as receiver, await connect(receiver) as stream:
        await stream.send_all(POST[:-1])
        await stream.send_eof()
        assert await read_all(stream) == b""
    assert receiver.requests == []
    assert len(receiver.faults) == 1


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        (close(), b""),
        (answer(framing="close", body=b"abc"), b"HTTP/1.1 200 OK\r\n\r\nabc"),
        (answer().then(Close()), OK),
        (answer().cut(10), OK[:10]),
        (raw(b"SSH-2.0-x\r\n").then(Close()), b"SSH-2.0-x\r\n"),
        (Answer((Stream(lambda: [b"a", b"b"]), Close())), b"ab"),
        (answer().then(HalfClose()), OK),
    ],
)
async def test_bytes_sent_before_the_connection_ends(what: Answer, expected: bytes) -> None:
    async with open_receiver(default=what) as receiver:
        assert await exchange(receiver) == expected


@pytest.mark.parametrize("what", [reset(), answer(body=b"x" * 100).cut(60, Reset()), answer().then(Reset())])
async def test_a_reset_is_a_reset(what: Answer) -> None:
    async with open_receiver(default=what) as receiver:
        with pytest.raises(trio.BrokenResourceError) as caught:
            await exchange(receiver)
    assert isinstance(caught.value.__cause__, ConnectionResetError)


async def test_an_endless_answer_ends_with_its_connection() -> None:
    endless = raw(b"").then(Stream(lambda: itertools.repeat(b"x" * 65536)))
    async with open_receiver(answers=[endless]) as receiver:
        async with await connect(receiver) as stream:
            await stream.send_all(POST)
            assert await read(stream, 10_000_000) == b"x" * 10_000_000
        async with await connect(receiver) as stream:
            await stream.send_all(POST)
            assert await read(stream, len(OK)) == OK


async def test_a_hang_sends_nothing_until_the_client_leaves() -> None:
    async with open_receiver(default=hang()) as receiver, await connect(receiver) as stream:
        await stream.send_all(POST)
        await receiver.wait_for(1)
        await stream.send_eof()
        assert await read_all(stream) == b""


async def test_pauses_follow_the_mock_clock(mock_clock: MockClock) -> None:
    slow = answer(body=b"abc", wait=5, drip="body", every=2)
    head = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n"
    async with open_receiver(default=slow) as receiver, await connect(receiver) as stream:
        await stream.send_all(POST)
        await receiver.wait_for(1)
        await trio.testing.wait_all_tasks_blocked(0.01)
        mock_clock.jump(5)
        assert await read(stream, len(head) + 1) == head + b"a"
        for expected in (b"b", b"c"):
            await trio.testing.wait_all_tasks_blocked(0.01)
            mock_clock.jump(2)
            assert await read(stream, 1) == expected
        assert trio.current_time() == receiver.requests[0].at + 9


async def test_an_early_answer_does_not_wait_for_the_body() -> None:
    head, body = POST[:-7], POST[-7:]
    async with (
        open_receiver(answers=[answer(413, early=True)]) as receiver,
        await connect(receiver) as stream,
    ):
        await stream.send_all(head)
        assert (await read(stream, 12)) == b"HTTP/1.1 413"
        assert receiver.requests[0].body == b""
        await stream.send_all(body + POST)
        await receiver.wait_for(2)
        assert receiver.requests[1].body == b'{"a":1}'


async def test_the_default_can_be_early_too() -> None:
    async with open_receiver(default=answer(413, early=True).then(Close())) as receiver:
        assert (await exchange(receiver, POST[:-7])).startswith(b"HTTP/1.1 413")


@pytest.mark.parametrize(
    ("greeting", "expected"), [((Close(),), b""), ((Send(b"hi"), Pause(0), Close()), b"hi")]
)
async def test_a_greeting_comes_before_any_request(
    greeting: tuple[Send | Close, ...], expected: bytes
) -> None:
    async with open_receiver() as receiver:
        receiver.greeting = greeting
        async with await connect(receiver) as stream:
            assert await read_all(stream) == expected
    assert receiver.requests == []


async def test_it_stops_and_restarts_on_the_same_port() -> None:
    async with open_receiver(default=hang()) as receiver:
        port = receiver.port
        async with await connect(receiver) as stream:
            await stream.send_all(POST)
            await receiver.wait_for(1)
            await receiver.stop_listening()
            assert not receiver.listening
            assert await read_all(stream) == b""
        with pytest.raises(OSError, match=r"."):
            await connect(receiver)
        await receiver.stop_listening()
        receiver.default = answer().then(Close())
        await receiver.restart()
        await receiver.restart()
        assert receiver.listening
        assert receiver.port == port
        assert await exchange(receiver) == OK
        assert len(receiver.requests) == 2


async def test_a_taken_port_is_an_error() -> None:
    async with open_receiver() as receiver:
        with pytest.raises(OSError, match="in use"):
            async with open_receiver(port=receiver.port):
                pass


async def test_the_end_of_the_block_closes_everything() -> None:
    async with open_receiver(default=hang()) as receiver:
        stream = await connect(receiver)
        await stream.send_all(POST)
        await receiver.wait_for(1)
    async with stream:
        assert await read_all(stream) == b""
    with pytest.raises(OSError, match=r"."):
        await connect(receiver)


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6 on this machine")
async def test_it_listens_on_ipv6() -> None:
    async with open_receiver(host="::1") as receiver:
        assert receiver.url == f"http://[::1]:{receiver.port}/"
        async with httpx.AsyncClient(trust_env=False, verify=False) as client:
            assert (await client.post(receiver.url)).status_code == 200


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


async def open_tls(receiver: Receiver, authority: trustme.CA | None) -> trio.SSLStream[trio.SocketStream]:
    context = ssl.create_default_context()
    if authority is not None:
        authority.configure_trust(context)
    return trio.SSLStream(
        await connect(receiver), context, server_hostname="127.0.0.1", https_compatible=True
    )


def server_context(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return context


async def test_it_speaks_tls(authority: trustme.CA) -> None:
    async with open_receiver(ssl_context=server_context(authority)) as receiver:
        assert receiver.url == f"https://127.0.0.1:{receiver.port}/"
        async with await open_tls(receiver, authority) as stream:
            await stream.send_all(POST)
            assert await read(stream, len(OK)) == OK
            receiver.will(reset())
            await stream.send_all(POST)
            with pytest.raises(trio.BrokenResourceError):
                await read_all(stream)


async def test_a_client_that_does_not_trust_it_is_a_fault(authority: trustme.CA) -> None:
    async with open_receiver(ssl_context=server_context(authority)) as receiver:
        async with await open_tls(receiver, None) as stream:
            with pytest.raises(trio.BrokenResourceError):
                await stream.do_handshake()
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert len(receiver.faults) == 1
        fault = receiver.faults[0]  # the client's alert, or its end, whichever is seen first
        assert fault.startswith("connection 1: ")
        assert "SSL" in fault


async def test_a_tls_handshake_can_stall(authority: trustme.CA) -> None:
    async with open_receiver(ssl_context=server_context(authority)) as receiver:
        receiver.greeting = (Hang(),)
        async with await open_tls(receiver, authority) as stream:
            with trio.move_on_after(0.05) as scope:
                await stream.do_handshake()
        assert scope.cancelled_caught


@pytest.mark.parametrize(("size", "status"), [(10, 200), (11, 413)])
@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_over_the_limit_is_refused_and_not_recorded(
    size: int, status: int, chunked: bool
) -> None:
    told: list[str] = []
    async with open_receiver(max_body=10, on_fault=told.append) as receiver:
        async with httpx.AsyncClient(trust_env=False, verify=False) as client:

            async def pieces() -> AsyncIterator[bytes]:
                yield b"x" * size

            content = pieces() if chunked else b"x" * size
            assert (await client.post(receiver.url, content=content)).status_code == status
        assert len(receiver.requests) == (status == 200)
        assert told == ([] if status == 200 else ["connection 1: a request had a body of more than 10 bytes"])
        assert receiver.faults == []
