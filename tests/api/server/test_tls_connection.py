"""HTTP over TLS, over real sockets."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
import trio
from quart import request
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.api.server.test_certificates import AUTHORITY, write
from tests.api.server.wire import HEALTH, Running, read_answer, read_to_end
from tests.public.config import ServerSettings
from tests.public.web import AppApplication as Application
from tests.public.web import Certificates, serve


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(write(tmp_path))


@pytest.fixture
def server_settings(socket_folder: Path) -> ServerSettings:
    return ServerSettings(bind=("127.0.0.1:0", f"unix:{socket_folder}/s"))


@pytest.fixture
async def secured(
    app: Application, server_settings: ServerSettings, certificates: Certificates, nursery: trio.Nursery
) -> AsyncIterator[Running]:
    url, unix = await nursery.start(serve, app, server_settings, certificates)
    assert (url[:17], unix[:5]) == ("https://127.0.0.1", "unix:")
    yield Running(url, trio.CancelScope(), trio.Event())
    nursery.cancel_scope.cancel()


def trusting(**changes: object) -> ssl.SSLContext:
    """Return a client's TLS context."""
    context = ssl.create_default_context()
    AUTHORITY.configure_trust(context)
    for name, value in changes.items():
        setattr(context, name, value)
    return context


@asynccontextmanager
async def connect(
    server: Running, context: ssl.SSLContext | None = None
) -> AsyncIterator[trio.SSLStream[trio.SocketStream]]:
    async with await server.connect() as below:
        stream = trio.SSLStream(
            below, context or trusting(), server_hostname="localhost", https_compatible=True
        )
        await stream.do_handshake()
        yield stream


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT"])
async def test_plain_http_is_told_to_use_https(secured: Running, method: str) -> None:
    async with await secured.connect() as stream:
        await stream.send_all(f"{method} / HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{{}}".encode())
        answer = await read_to_end(stream)
    assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert b"use https:// instead of http://" in answer


@pytest.mark.parametrize("begin", [b"PROXY TCP4 192.0.2.1 192.0.2.2 3333 443\r\n", b"\r\n\r\n\0\r\nQUIT\n"])
async def test_the_proxy_protocol_before_tls_is_named(secured: Running, begin: bytes) -> None:
    async with await secured.connect() as stream:
        await stream.send_all(begin + b"\x16\x03\x01" + bytes(64))
        answer = await read_to_end(stream)
    assert b"This is the PROXY protocol" in answer


async def test_what_is_neither_tls_nor_http_is_told_nothing(secured: Running) -> None:
    async with await secured.connect() as stream:
        await stream.send_all(b"\x05\x01\x00" + bytes(64))
        assert b"HTTP" not in await read_to_end(stream)


async def test_requests_share_a_tls_connection(secured: Running, app: Application) -> None:
    @app.routing.post("/public/echo")
    async def echo() -> str:
        return f"{request.scheme} {request.scope['client']} {len(await request.get_data())}"

    url = secured.url.replace("127.0.0.1", "localhost")
    async with httpx.AsyncClient(verify=trusting(), trust_env=False) as client:
        for size in (0, 10, 1_000_000):
            answer = await client.post(f"{url}/public/echo", content=bytes(size))
            scheme, *_, received = answer.text.split()
            assert (answer.status_code, scheme, received) == (200, "https", str(size))
            assert "127.0.0.1" in answer.text


async def test_only_http_1_1_is_offered(secured: Running) -> None:
    context = trusting()
    context.set_alpn_protocols(["h2", "http/1.1"])
    async with connect(secured, context) as stream:
        assert stream.selected_alpn_protocol() == "http/1.1"


@pytest.mark.parametrize("sent", [HEALTH, b"nonsense\r\n\r\n"])
async def test_strict_transport_security_is_sent(sent: bytes, secured: Running) -> None:
    async with connect(secured) as stream:
        await stream.send_all(sent)
        assert (await read_answer(stream))[1]["strict-transport-security"] == "max-age=31536000"


async def test_tls_1_3_and_1_2_and_nothing_older(secured: Running) -> None:
    for version in (ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_2):
        async with connect(secured, trusting(maximum_version=version)) as stream:
            assert stream.version() == version.name.replace("_", ".")
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        old = trusting(minimum_version=ssl.TLSVersion.TLSv1_1, maximum_version=ssl.TLSVersion.TLSv1_1)
    old.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.raises(trio.BrokenResourceError):
        async with connect(secured, old):
            pass


async def test_new_connections_get_the_new_certificate_and_open_ones_continue(
    secured: Running, certificates: Certificates, tmp_path: Path
) -> None:
    async with connect(secured) as old:
        first = old.getpeercert(binary_form=True)
        write(tmp_path)
        await certificates.renew()
        async with connect(secured) as new:
            assert new.getpeercert(binary_form=True) != first
        await old.send_all(HEALTH)
        assert (await read_answer(old))[0] == 200


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01", HEALTH])
async def test_a_missing_handshake_blocks_no_other_client(
    sent: bytes, secured: Running, mock_clock: MockClock
) -> None:
    async with await secured.connect() as silent:
        await silent.send_all(sent)
        async with connect(secured) as stream:
            await stream.send_all(HEALTH)
            assert (await read_answer(stream))[0] == 200
        await wait_all_tasks_blocked(0.02)
        mock_clock.jump(11)
        received = await read_to_end(silent)
        assert not received.startswith(b"HTTP/1.1 200")


async def test_timeouts_apply_over_tls_too(secured: Running, mock_clock: MockClock) -> None:
    async with connect(secured) as stream:
        await stream.send_all(HEALTH[:-2])
        await wait_all_tasks_blocked(0.02)
        mock_clock.jump(11)
        status, headers, _ = await read_answer(stream)
        assert (status, headers["connection"]) == (408, "close")
        await stream.aclose()  # without it the server would read on for a while
    async with connect(secured) as stream:
        await stream.send_all(HEALTH)
        await read_answer(stream)
        await wait_all_tasks_blocked(0.02)
        mock_clock.jump(131)
        assert await read_to_end(stream) == b""


async def test_malformed_requests_are_refused_over_tls_too(secured: Running) -> None:
    async with connect(secured) as stream:
        await stream.send_all(HEALTH + HEALTH.replace(b"host", b"host "))
        assert (await read_answer(stream))[0] == 200
        assert (await read_answer(stream))[0] == 400


async def test_a_unix_socket_speaks_plain_http(secured: Running, socket_folder: Path) -> None:
    async with await trio.open_unix_socket(socket_folder / "s") as stream:
        await stream.send_all(HEALTH)
        assert (await read_answer(stream))[0] == 200
