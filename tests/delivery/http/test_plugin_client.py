"""The client for plugins: every connection is guarded, and plugins share nothing by it."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import httpx
import pytest
import trio
import trio.testing

from tests.delivery.http.raw_receiver import OK, Behaviour, Peer, Server, always_ok, answering, serving
from tests.public.delivery import MAX_PLUGIN_ANSWER as MAX_ANSWER
from tests.public.delivery import MAX_PLUGIN_REQUESTS as MAX_CONCURRENT
from tests.public.delivery import AddressGuard, Dialer, LaneTransport, guarded_client

ALLOWED = ("127.0.0.1",)


def client(allowed: Sequence[str] = ALLOWED, *, timeout: float = 5) -> httpx.AsyncClient:
    dialer = Dialer(AddressGuard(allowed), connect_timeout=5)
    return guarded_client(partial(LaneTransport, dialer, max_answer=MAX_ANSWER), timeout=timeout)


@asynccontextmanager
async def reaching(behaviour: Behaviour, **options: Any) -> AsyncIterator[tuple[httpx.AsyncClient, Server]]:
    async with serving(behaviour) as server, client(**options) as http:
        http.base_url = httpx.URL(f"http://127.0.0.1:{server.port}")
        yield http, server


def redirect_to(url: str) -> bytes:
    return b"HTTP/1.1 307 Moved\r\nlocation: %b\r\ncontent-length: 0\r\n\r\n" % url.encode()


async def test_each_request_has_its_own_connection() -> None:
    seen: list[bytes] = []

    async def behaviour(peer: Peer) -> None:
        seen.append(await peer.request())
        await peer.send(OK)
        await peer.closed_by_the_other_side()

    async with reaching(behaviour) as (http, server):
        for _ in range(2):
            assert (await http.post("/a", json={"x": 1})).text == "ok"
        assert server.connections == 2
    head = seen[0].partition(b"\r\n\r\n")[0].lower()
    assert b"\r\nuser-agent: hookgw/" in head
    assert b"\r\nconnection: close" in head
    assert b"\r\naccept-encoding: gzip, deflate\r\n" in head


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:9/", "http://0x7f.1:9/", "http://[::1]:9/", "https://localhost/"]
)
async def test_refused_addresses_are_not_dialled(url: str) -> None:
    async with client(()) as http:
        with pytest.raises(httpx.ConnectError, match="is not dialled: the address is loopback"):
            await http.get(url)


@pytest.mark.parametrize("elsewhere", ["http://127.0.0.2:9/", "http://10.0.0.1/", "http://8.8.8.8:25/"])
async def test_a_redirect_is_not_followed_and_cannot_lead_past_the_guard(elsewhere: str) -> None:
    async with reaching(answering(redirect_to(elsewhere))) as (http, _):
        response = await http.get("/")
        assert (response.status_code, response.headers["location"]) == (307, elsewhere)
        with pytest.raises(httpx.ConnectError, match="is not dialled"):
            await http.get("/", follow_redirects=True)


async def test_the_environment_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.2:9")
    async with reaching(always_ok) as (http, _):
        assert (await http.get("/")).status_code == 200


async def test_cookies_are_not_kept() -> None:
    seen: list[bytes] = []

    async def behaviour(peer: Peer) -> None:
        seen.append(await peer.request())
        await peer.send(b"HTTP/1.1 200 OK\r\nset-cookie: a=b; path=/\r\ncontent-length: 0\r\n\r\n")

    async with reaching(behaviour) as (http, _):
        for _ in range(2):
            await http.get("/")
        assert not http.cookies
    assert b"cookie" not in seen[1]


async def test_the_longest_response() -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n"
    async with reaching(answering(head % MAX_ANSWER + bytes(MAX_ANSWER))) as (http, _):
        assert len((await http.get("/")).content) == MAX_ANSWER
    async with reaching(answering(head % (MAX_ANSWER + 1) + bytes(MAX_ANSWER + 1))) as (http, _):
        with pytest.raises(httpx.RemoteProtocolError, match=f"The response exceeded {MAX_ANSWER} bytes"):
            await http.get("/")


async def test_a_truncated_response() -> None:
    async with reaching(answering(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok")) as (http, _):
        with pytest.raises(httpx.RemoteProtocolError, match="cut off"):
            await http.get("/")


async def test_a_request_is_not_sent_twice() -> None:
    async def nothing(peer: Peer) -> None:
        await peer.request()

    async with reaching(nothing) as (http, server):
        with pytest.raises(httpx.RemoteProtocolError, match="without responding"):
            await http.post("/")
        assert server.connections == 1


async def test_requests_have_a_default_timeout() -> None:
    async with client(timeout=7) as http:
        assert http.timeout == httpx.Timeout(7)


async def test_the_number_of_concurrent_requests_is_limited(mock_clock: trio.testing.MockClock) -> None:
    go_on, full, open_now = trio.Event(), trio.Event(), 0

    async def behaviour(peer: Peer) -> None:
        nonlocal open_now
        await peer.request()
        open_now += 1
        if open_now == MAX_CONCURRENT:
            full.set()
        await go_on.wait()
        await peer.send(OK)

    async def one_too_many(http: httpx.AsyncClient) -> None:
        with pytest.raises(httpx.PoolTimeout, match=f"{MAX_CONCURRENT} requests were in progress for 3 s"):
            await http.get("/", timeout=httpx.Timeout(None, pool=3))
        go_on.set()

    async with reaching(behaviour) as (http, server):
        async with trio.open_nursery() as nursery:
            for _ in range(MAX_CONCURRENT):
                nursery.start_soon(partial(http.get, timeout=None), "/")
            await full.wait()
            nursery.start_soon(one_too_many, http)
            await trio.testing.wait_all_tasks_blocked(0.01)
            mock_clock.jump(3)
        assert server.connections == MAX_CONCURRENT
        assert (await http.get("/")).status_code == 200


async def test_cancelling_frees_the_place() -> None:
    async def hangs(peer: Peer) -> None:
        await peer.request()
        asked.set()
        await peer.closed_by_the_other_side()

    async with reaching(hangs) as (http, _):
        for _ in range(MAX_CONCURRENT + 1):
            asked = trio.Event()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(http.get, "/")
                await asked.wait()
                nursery.cancel_scope.cancel()
