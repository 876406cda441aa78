"""Connections through real proxies: the guard holds, TLS sees the receiver's name, hostile proxies fail."""

import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing
import trustme

from tests.delivery.http.raw_receiver import OK, Peer, Server, serving
from tests.public.config import parse_proxy
from tests.public.delivery import (
    MAX_ADDRESSES,
    AddressGuard,
    Blocked,
    ConnectFailed,
    Dialer,
    LaneTransport,
    Phase,
    Response,
    TimedOut,
    render_head,
)
from tests.public.delivery import MAX_PROXY_HEAD as MAX_HEAD
from tests.support.proxies import LittleProxy, Speak, http_proxy, open_proxy, saying, socks5_proxy

# The clock stands still: a proxy that takes long is not asked for the next address meanwhile.
pytestmark = pytest.mark.usefixtures("mock_clock")

PUBLIC = "93.184.215.14"
NAMES = {
    "example.com": [PUBLIC],
    "two.example": [PUBLIC, "93.184.215.15"],
    "half.example": [PUBLIC, "10.0.0.1"],
    "inside.example": ["127.0.0.1"],
    "proxy.example": ["127.0.0.1"],
    "many.example": [*(f"127.0.9.{number}" for number in range(MAX_ADDRESSES)), "127.0.0.1"],
}
both_proxies = pytest.mark.parametrize(
    ("scheme", "speak"), [("http", http_proxy), ("socks5", socks5_proxy)], ids=["http", "socks5"]
)


async def resolve(host: str, port: int, **_: Any) -> Any:
    await trio.lowlevel.checkpoint()
    if host not in NAMES:
        raise socket.gaierror(-2, "Name or service not known")
    return [(0, 0, 0, "", (address, port)) for address in NAMES[host]]


def dialer(url: str) -> Dialer:
    """A dialer with the usual guard, which refuses loopback addresses, behind a proxy."""
    return Dialer(AddressGuard(), connect_timeout=5, resolve=resolve, proxy=parse_proxy(url))


async def post(lane: LaneTransport, server: Server, host: str = "example.com") -> Response:
    target = server.target(host=host)
    head = render_head(target, {}, 0)
    return await lane.exchange(target, head, b"", deadline=trio.current_time() + 30)


async def failing(url: str, host: str = "example.com") -> ConnectFailed:
    """Return the error of dialling through that proxy."""
    with pytest.raises(ConnectFailed) as caught:
        await dialer(url).dial(host, 443)
    return caught.value


@asynccontextmanager
async def receiver(context: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    async def behaviour(peer: Peer) -> None:
        while request := await peer.request():
            server.requests.append(request)
            await peer.send(OK)

    async with serving(behaviour, context=context) as server:
        yield server


@both_proxies
@pytest.mark.parametrize("credentials", ["", "ann:hunter2"])
async def test_a_request_goes_through_a_proxy_to_the_vetted_address(
    scheme: str, speak: Speak, credentials: str
) -> None:
    async with (
        receiver() as server,
        open_proxy(speak, reaches=server.port, credentials=credentials) as proxy,
    ):
        known = f"{credentials}@" if credentials else ""
        lane = LaneTransport(dialer(f"{scheme}://{known}proxy.example:{proxy.port}"))
        for _ in range(2):
            assert (await post(lane, server)).status == 200
        await lane.aclose()
    assert proxy.asked == [f"{PUBLIC}:{server.port}"]
    assert server.requests[0].startswith(b"POST /hook HTTP/1.1\r\nhost: example.com:%d\r\n" % server.port)


async def test_every_address_of_a_proxy_is_reached_in_the_end() -> None:
    async with receiver() as server, open_proxy(http_proxy, reaches=server.port) as proxy:
        lane = LaneTransport(dialer(f"http://many.example:{proxy.port}"))
        with pytest.raises(ConnectFailed, match=r"No connection to the proxy many\.example"):
            await post(lane, server)
        assert (await post(lane, server)).status == 200
        await lane.aclose()


@both_proxies
async def test_tls_goes_through_a_proxy_with_the_hosts_name(scheme: str, speak: Speak) -> None:
    authority, names = trustme.CA(), []
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("example.com").configure_cert(context)
    context.sni_callback = lambda _socket, name, _context: names.append(name)
    trust = ssl.create_default_context()
    authority.configure_trust(trust)
    async with receiver(context) as server, open_proxy(speak, reaches=server.port) as proxy:
        lane = LaneTransport(dialer(f"{scheme}://proxy.example:{proxy.port}"), ssl_context=trust)
        assert (await post(lane, server)).status == 200
        await lane.aclose()
    assert names == ["example.com"]
    assert proxy.asked == [f"{PUBLIC}:{server.port}"]


@both_proxies
@pytest.mark.parametrize("host", ["half.example", "inside.example"])
async def test_a_proxy_is_not_asked_for_what_the_guard_refuses(scheme: str, speak: Speak, host: str) -> None:
    async with open_proxy(speak, reaches=1) as proxy:
        with pytest.raises(Blocked, match="is not dialled"):
            await dialer(f"{scheme}://proxy.example:{proxy.port}").dial(host, 443)
        with pytest.raises(Blocked, match="Port 25 is not dialled"):
            await dialer(f"{scheme}://proxy.example:{proxy.port}").dial("example.com", 25)
        assert proxy.connections == 0


@pytest.mark.parametrize(
    ("scheme", "speak", "reason"),
    [
        ("http", http_proxy, "the proxy answered 403 Forbidden: not allowed by its rules"),
        ("socks5", socks5_proxy, "the proxy reported: connection refused"),
    ],
)
async def test_the_error_names_a_proxy_that_does_not_connect_and_its_reason(
    scheme: str, speak: Speak, reason: str
) -> None:
    async with open_proxy(speak) as proxy:
        place = f"proxy.example:{proxy.port}"
        failure = await failing(f"{scheme}://ann:hunter2@{place}", "two.example")
    assert failure.message == (
        f"No connection to port 443 of two.example through the proxy {place}: "
        f"93.184.215.14: {reason}; 93.184.215.15: {reason}."
    )
    assert proxy.asked == ["93.184.215.14:443", "93.184.215.15:443"]


async def test_the_proxy_is_asked_for_the_next_address_if_one_fails() -> None:
    async def speak(proxy: LittleProxy, stream: trio.SocketStream) -> None:
        refuses = saying(b"HTTP/1.1 504 Gateway Timeout\r\n\r\n")
        await (refuses if proxy.connections == 1 else http_proxy)(proxy, stream)

    async with receiver() as server, open_proxy(speak, reaches=server.port) as proxy:
        (await dialer(f"http://proxy.example:{proxy.port}").dial("two.example", 443)).close()
    assert proxy.asked == ["93.184.215.15:443"]


@both_proxies
@pytest.mark.parametrize(
    ("known", "reason"),
    [
        ("", "requires a user and password: add them to delivery.proxy"),
        ("ann:wrong@", "rejected the user and password of delivery.proxy"),
    ],
)
async def test_bad_credentials_are_reported_once_and_not_shown(
    scheme: str, speak: Speak, known: str, reason: str
) -> None:
    async with open_proxy(speak, credentials="ann:hunter2") as proxy:
        failure = await failing(f"{scheme}://{known}proxy.example:{proxy.port}", "two.example")
    code = " (407)" if scheme == "http" else ""
    assert failure.message == f"The proxy proxy.example:{proxy.port} {reason}{code}."
    assert proxy.connections == 1


async def test_a_proxy_that_is_down() -> None:
    """The sentence also names the address that its name has."""
    async with open_proxy(http_proxy) as proxy:
        place = f"proxy.example:{proxy.port}"
    failure = await failing(f"http://ann:hunter2@{place}")
    assert failure.message == f"No connection to the proxy {place}: 127.0.0.1: Connection refused."


async def test_a_proxy_with_an_unknown_name() -> None:
    failure = await failing("socks5://ann:hunter2@nowhere.example:1080")
    assert failure.message == (
        "The proxy nowhere.example:1080 could not be resolved: Name or service not known."
    )


@pytest.mark.parametrize(
    ("speak", "reason"),
    [
        (saying(), "closed the connection before its response was complete"),
        (saying(b"HTTP/1.1 20"), "closed the connection before its response was complete"),
        (saying(b"220 mail.example ESMTP\r\n\r\n"), "sent a response that is not HTTP"),
        (
            saying(b"x" * (MAX_HEAD + 1), then_waits=True),
            f"sent more than {MAX_HEAD} bytes without a complete response",
        ),
        (saying(b"HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK", then_waits=True), "sent data after its response"),
    ],
)
async def test_hostile_proxies_fail_with_a_reason(speak: Speak, reason: str) -> None:
    closed = trio.Event()

    async def speaking(proxy: LittleProxy, stream: trio.SocketStream) -> None:
        try:
            await speak(proxy, stream)
        finally:
            closed.set()

    async with open_proxy(speaking) as proxy:
        failure = await failing(f"http://proxy.example:{proxy.port}")
        await closed.wait()
    assert failure.message == f"The proxy proxy.example:{proxy.port} {reason}."


async def test_a_proxy_that_resets_the_connection() -> None:
    async def reset(_: LittleProxy, stream: trio.SocketStream) -> None:
        await stream.receive_some(1)
        stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        stream.socket.close()

    async with open_proxy(reset) as proxy:
        failure = await failing(f"http://proxy.example:{proxy.port}")
    assert failure.message == (
        f"The proxy proxy.example:{proxy.port} broke the connection: Connection reset by peer."
    )


async def test_a_dripping_proxy_times_out(mock_clock: trio.testing.MockClock) -> None:
    dripping, closed = trio.Event(), trio.Event()

    async def drip(_: LittleProxy, stream: trio.SocketStream) -> None:
        await stream.receive_some(4096)
        await stream.send_all(b"H")
        dripping.set()
        while await stream.receive_some(1):
            pass
        closed.set()

    async def dial() -> None:
        with pytest.raises(TimedOut) as caught:
            await dialer(f"http://proxy.example:{proxy.port}").dial("example.com", 443)
        assert caught.value.phase is Phase.CONNECT
        assert caught.value.message == (
            f"Connecting to port 443 of example.com ({PUBLIC}) through the proxy "
            f"proxy.example:{proxy.port} took longer than 5 s."
        )

    async with open_proxy(drip) as proxy, trio.open_nursery() as nursery:
        nursery.start_soon(dial)
        await dripping.wait()
        await trio.testing.wait_all_tasks_blocked(0.01)
        mock_clock.jump(5)
        await closed.wait()
