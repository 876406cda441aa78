"""Ambiguous requests, over a socket: they are refused, and nothing after them is processed."""

import contextlib
import json
import re

import h2.config
import h2.connection
import pytest
import trio

from hookgw import Gateway, __version__
from tests.api.conftest import KEY
from tests.api.server.wire import HEALTH, Running, assert_answers, read_answer, read_to_end
from tests.public.web import AppApplication as Application
from tests.public.web import RequestResponse

SMUGGLED = b"GET /healthz?smuggled HTTP/1.1\r\nhost: x\r\n\r\n"
KEYED = b"host: x\r\napikey: %s\r\ncontent-type: application/json\r\n" % KEY.encode()
EMIT = b"POST /event/emit/loja1 HTTP/1.1\r\n" + KEYED


def chunked(body: bytes) -> bytes:
    return EMIT + b"transfer-encoding: chunked\r\n\r\n" + body


TABLE: dict[str, bytes] = {
    "length and chunked": EMIT + b"content-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunked and length": EMIT + b"transfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n0\r\n\r\n",
    "two lengths": EMIT + b"content-length: 2\r\ncontent-length: 3\r\n\r\n{} ",
    "the same length twice": EMIT + b"content-length: 2\r\ncontent-length: 2\r\n\r\n{}",
    "a list of lengths": EMIT + b"content-length: 2, 2\r\n\r\n{}",
    "a length with a sign": EMIT + b"content-length: +2\r\n\r\n{}",
    "a negative length": EMIT + b"content-length: -2\r\n\r\n{}",
    "a hexadecimal length": EMIT + b"content-length: 0x2\r\n\r\n{}",
    "a length beyond 64 bits": EMIT + b"content-length: 18446744073709551618\r\n\r\n{}",
    "a space before the colon of the length": EMIT + b"content-length : 2\r\n\r\n{}",
    "a tab before the colon of the coding": EMIT + b"transfer-encoding\t: chunked\r\n\r\n0\r\n\r\n",
    "a folded length": EMIT + b"content-length:\r\n 2\r\n\r\n{}",
    "a folded coding": EMIT + b"x: y\r\n transfer-encoding: chunked\r\ncontent-length: 2\r\n\r\n{}",
    "another coding": EMIT + b"transfer-encoding: xchunked\r\n\r\n0\r\n\r\n",
    "two codings": EMIT + b"transfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "two coding headers": EMIT + b"transfer-encoding: chunked\r\ntransfer-encoding: x\r\n\r\n0\r\n\r\n",
    "chunked in HTTP/1.0": chunked(b"0\r\n\r\n").replace(b"HTTP/1.1", b"HTTP/1.0"),
    "bare line feeds": b"GET /healthz HTTP/1.1\nhost: x\n\n",
    "one bare line feed": b"GET /healthz HTTP/1.1\r\nhost: x\nx: y\r\n\r\n",
    "an end of bare line feeds": b"GET /healthz HTTP/1.1\r\nhost: x\n\n",
    "a bare carriage return": b"GET /healthz HTTP/1.1\r\nhost: x\rx: y\r\n\r\n",
    "a NUL in a value": b"GET /healthz HTTP/1.1\r\nhost: x\r\nx: a\0b\r\n\r\n",
    "a NUL in a name": b"GET /healthz HTTP/1.1\r\nhost: x\r\nx\0: a\r\n\r\n",
    "no host": b"GET /healthz HTTP/1.1\r\n\r\n",
    "two hosts": b"GET /healthz HTTP/1.1\r\nhost: x\r\nhost: x\r\n\r\n",
    "a path as host": b"GET /healthz HTTP/1.1\r\nhost: x/y\r\n\r\n",
    "a user in the host": b"GET /healthz HTTP/1.1\r\nhost: a@x\r\n\r\n",
    "absolute-form with a user": b"GET http://a@x/healthz HTTP/1.1\r\nhost: x\r\n\r\n",
    "absolute-form without a host": b"GET http:///healthz HTTP/1.1\r\nhost: x\r\n\r\n",
    "absolute-form and no host header": b"GET http://x/healthz HTTP/1.1\r\n\r\n",
    "absolute-form of another scheme": b"GET ftp://x/healthz HTTP/1.1\r\nhost: x\r\n\r\n",
    "authority-form": b"CONNECT x:80 HTTP/1.1\r\nhost: x\r\n\r\n",
    "asterisk-form": b"OPTIONS * HTTP/1.1\r\nhost: x\r\n\r\n",
    "no slash": b"GET healthz HTTP/1.1\r\nhost: x\r\n\r\n",
    "a fragment": b"GET /healthz#x HTTP/1.1\r\nhost: x\r\n\r\n",
    "two spaces": b"GET  /healthz HTTP/1.1\r\nhost: x\r\n\r\n",
    "a space in the path": b"GET /healthz /x HTTP/1.1\r\nhost: x\r\n\r\n",
    "a space at the end": b"GET /healthz HTTP/1.1 \r\nhost: x\r\n\r\n",
    "a method in small letters": b"get /healthz HTTP/1.1\r\nhost: x\r\n\r\n",
    "junk in the method": b"GE\x01T /healthz HTTP/1.1\r\nhost: x\r\n\r\n",
    "no version": b"GET /healthz\r\nhost: x\r\n\r\n",
    "blank lines": b"\r\n" * 5000,
    "a TLS handshake": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "a chunk size with a sign": chunked(b"+2\r\n{}\r\n0\r\n\r\n"),
    "a chunk size with a space": chunked(b"2 \r\n{}\r\n0\r\n\r\n"),
    "a chunk size with 0x": chunked(b"0x2\r\n{}\r\n0\r\n\r\n"),
    "a chunk size beyond 64 bits": chunked(b"10000000000000002\r\n{}\r\n0\r\n\r\n"),
    "a chunk size that ends in a line feed": chunked(b"2\n{}\r\n0\r\n\r\n"),
    "a line feed in a chunk extension": chunked(b"2;\nxx\r\n{}\r\n0\r\n\r\n"),
    "a long chunk extension": chunked(b"2;" + b"x" * 1000 + b"\r\n{}\r\n0\r\n\r\n"),
    "a chunk longer than it says": chunked(b"2\r\n{}}\r\n0\r\n\r\n"),
    "a chunk without its end": chunked(b"2\r\n{}0\r\n\r\n"),
    "trailers with a space": chunked(b"2\r\n{}\r\n0\r\nx : y\r\n\r\n"),
    "trailers with a bare line feed": chunked(b"2\r\n{}\r\n0\r\nx: y\nz: a\r\n\r\n"),
    "a WebSocket": b"GET /healthz HTTP/1.1\r\nhost: x\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n",
}


async def refused(server: Running, request: bytes) -> tuple[int, dict[str, str], bytes]:
    """Return the only response on a connection: its status, headers and body."""
    async with await server.connect() as stream:
        await stream.send_all(request)
        received = await read_to_end(stream)
    assert len(re.findall(rb"HTTP/1\.1 \d", received)) == 1
    head, _, body = received.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    return int(first.split()[1]), dict(line.lower().split(": ", 1) for line in lines), body


@pytest.fixture
async def seen(app: Application, gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The queries of the requests that reached the application."""
    await gateway.instances.create("loja1")  # without it, emits would be answered by their head alone
    queries: list[str] = []

    def note(exchange: RequestResponse, _status: int) -> None:
        queries.append(exchange.scope["query_string"].decode())

    monkeypatch.setattr(app, "limits", app.limits._replace(report_status=note))
    return queries


@pytest.mark.parametrize("name", TABLE)
async def test_it_is_refused_and_nothing_after_it_is_processed(
    name: str, server: Running, seen: list[str]
) -> None:
    status, headers, body = await refused(server, TABLE[name] + SMUGGLED)
    assert status == 400
    assert (headers["content-type"], headers["connection"]) == ("application/json", "close")
    assert headers["x-hookgw-version"] == __version__
    assert re.fullmatch(
        r'\{"status":400,"error":"Bad Request","response":\{"message":\[".+\."\],'
        r'"errors":\[\{"id":"http\.\w+","values":\{.*\}\}\]\}\}',
        body.decode(),
    )
    assert "smuggled" not in seen
    await assert_answers(server)


@pytest.mark.parametrize("name", TABLE)
async def test_it_is_refused_after_a_valid_request(name: str, server: Running, seen: list[str]) -> None:
    async with await server.connect() as stream:
        await stream.send_all(HEALTH + TABLE[name] + SMUGGLED)
        received = await read_to_end(stream)
    assert re.findall(rb"HTTP/1\.1 (\d+)", received) == [b"200", b"400"]
    assert "smuggled" not in seen


async def test_a_head_that_arrives_byte_by_byte_is_refused_too(server: Running) -> None:
    async with await server.connect() as stream:
        with contextlib.suppress(trio.BrokenResourceError):
            for byte in TABLE["two lengths"]:
                await stream.send_all(bytes([byte]))
        assert (await read_answer(stream))[0] == 400


async def test_http2_in_clear_text_is_refused(server: Running) -> None:
    client = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
    client.initiate_connection()
    for stream_id in range(1, 40, 2):
        headers = [(":method", "GET"), (":path", "/healthz"), (":scheme", "http"), (":authority", "x")]
        client.send_headers(stream_id, headers, end_stream=True)
        client.reset_stream(stream_id)
    status, _, body = await refused(server, client.data_to_send())
    assert status == 505
    assert json.loads(body)["response"]["message"] == ["hookgw speaks only HTTP/1.1 and HTTP/1.0."]
    await assert_answers(server)


async def test_an_offer_of_http2_is_ignored(server: Running) -> None:
    offer = b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\n"
    async with await server.connect() as stream:
        for _ in range(3):
            await stream.send_all(offer + b"http2-settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n\r\n")
            status, headers, body = await read_answer(stream)
            assert (status, headers.get("connection"), body) == (200, None, b'{"status":"ok"}')


async def test_a_byte_after_a_websocket_handshake(server: Running) -> None:
    for extra in (b"x", b"\x81\x00", b"x" * 70_000):
        handshake = (
            TABLE["a WebSocket"][:-2]
            + b"sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )
        status, _, body = await refused(server, handshake + extra)
        assert (status, b"WebSocket" in body) == (400, True)
    await assert_answers(server)


async def test_a_last_request_is_the_last(server: Running, seen: list[str]) -> None:
    for last in (
        HEALTH.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"),
        HEALTH.replace(b"1.1", b"1.0"),
    ):
        for behind in (SMUGGLED, TABLE["two lengths"]):
            async with await server.connect() as stream:
                await stream.send_all(last + behind)
                received = await read_to_end(stream)
            assert received.count(b"HTTP/1.1 ") == 1
    assert "smuggled" not in seen
