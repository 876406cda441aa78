"""The client of a connector: listed servers, connections that are used again, long polls and streams."""

import gzip
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import httpx
import pytest
import trio
import trio.testing

from hookgw import Invalid
from tests.delivery.http.raw_receiver import OK, Behaviour, Peer, Server, always_ok, answering, serving
from tests.public.delivery import CONNECTOR_IDLE_TIME as IDLE_TIME
from tests.public.delivery import MAX_CONNECTOR_ANSWER as MAX_ANSWER
from tests.public.delivery import MAX_CONNECTOR_IDLE as MAX_IDLE
from tests.public.delivery import STREAM_READ_SIZE as READ_SIZE
from tests.public.delivery import AddressGuard, AnswerMemory, ConnectorClients, Dialer
from tests.support.ports import free_port

EVERYWHERE = AddressGuard(["0.0.0.0/0", "::/0"], refused_ports=())


def clients_for(
    servers: Sequence[tuple[str, str, int]], *, max_requests: int = 8, memory: AnswerMemory | None = None
) -> ConnectorClients:
    return ConnectorClients(
        "matrix",
        Dialer(AddressGuard(), connect_timeout=5),
        servers,
        Dialer(EVERYWHERE, connect_timeout=5),
        memory or AnswerMemory(2**30),
        timeout=5,
        max_requests=max_requests,
        max_polls=max_requests,
    )


def client_for(servers: Sequence[tuple[str, str, int]], *, max_requests: int = 8) -> httpx.AsyncClient:
    return clients_for(servers, max_requests=max_requests).http


@asynccontextmanager
async def reaching(
    behaviour: Behaviour, *, max_requests: int = 8
) -> AsyncIterator[tuple[httpx.AsyncClient, Server]]:
    async with serving(behaviour) as server:
        listed = [("http", "127.0.0.1", server.port)]
        async with client_for(listed, max_requests=max_requests) as http:
            http.base_url = httpx.URL(f"http://127.0.0.1:{server.port}")
            yield http, server


# The guard.


async def test_only_the_listed_scheme_host_and_port_are_dialled() -> None:
    async with reaching(always_ok) as (http, server):
        assert (await http.get("/")).text == "ok"
        for url in (
            f"https://127.0.0.1:{server.port}/",
            f"http://127.0.0.2:{server.port}/",
            f"http://localhost:{server.port}/",
            f"http://127.0.0.1:{server.port + 1 if server.port < 65535 else 1024}/",
        ):
            with pytest.raises(httpx.ConnectError, match="is not dialled"):
                await http.get(url)
            with pytest.raises(httpx.ConnectError, match="is not dialled"):
                async with http.stream("GET", url):
                    pass


async def test_other_spellings_of_a_listed_server_are_the_same_server() -> None:
    async with reaching(always_ok) as (http, server):
        assert (await http.get(f"http://2130706433:{server.port}/")).text == "ok"
        assert (await http.get(f"HTTP://0x7f.1:{server.port}/")).text == "ok"


async def test_a_refusal_names_the_option_of_the_connector() -> None:
    async with client_for(()) as http:
        with pytest.raises(httpx.ConnectError) as refusal:
            await http.get("http://127.0.0.1:9/_matrix")
    assert "delivery.allow_networks" in str(refusal.value)
    assert str(refusal.value).endswith(
        "To allow it for this connector alone, add http://127.0.0.1:9 to plugins.options.matrix.servers."
    )


async def test_a_listed_server_that_does_not_answer_is_no_matter_of_the_guard() -> None:
    port = free_port()
    async with client_for([("http", "127.0.0.1", port)]) as http:
        with pytest.raises(httpx.ConnectError) as failure:
            await http.get(f"http://127.0.0.1:{port}/")
    assert "servers" not in str(failure.value)


async def test_a_redirect_passes_the_guard() -> None:
    elsewhere = b"HTTP/1.1 307 Moved\r\nlocation: http://127.0.0.2:9/\r\ncontent-length: 0\r\n\r\n"
    async with reaching(answering(elsewhere, elsewhere, elsewhere)) as (http, _):
        assert (await http.get("/")).status_code == 307
        with pytest.raises(httpx.ConnectError, match="is not dialled"):
            await http.get("/", follow_redirects=True)
        with pytest.raises(httpx.ConnectError, match="is not dialled"):
            async with http.stream("GET", "/", follow_redirects=True):
                pass


# Whose server it is.


async def test_an_instance_reaches_of_the_listed_servers_its_own() -> None:
    async with serving(always_ok) as own, serving(always_ok) as another:
        listed = [("http", "127.0.0.1", server.port) for server in (own, another)]
        clients = clients_for(listed)
        http = clients.of_instance("a", lambda: listed[:1])
        assert (await http.get(f"http://127.0.0.1:{own.port}/")).text == "ok"
        url = f"http://127.0.0.1:{another.port}/"
        with pytest.raises(httpx.ConnectError) as refusal:
            await http.post(url)
        with pytest.raises(httpx.ConnectError):
            async with http.stream("GET", url):
                pass
        assert another.connections == 0
        assert (await clients.http.get(url)).text == "ok"  # the plugin's own task reaches all
        await clients.aclose()
    assert "is in plugins.options.matrix.servers, but it is not this instance's server" in str(refusal.value)


async def test_what_an_instance_names_without_the_operator_is_no_server() -> None:
    async with serving(always_ok) as server:
        http = clients_for(()).of_instance("a", lambda: [("http", "127.0.0.1", server.port)])
        with pytest.raises(httpx.ConnectError, match=r"add http://127\.0\.0\.1:\d+ to plugins"):
            await http.get(f"http://127.0.0.1:{server.port}/")
        assert server.connections == 0


async def test_an_idle_connection_to_a_listed_server_serves_no_other_instance() -> None:
    async with serving(always_ok) as server:
        listed, url = [("http", "127.0.0.1", server.port)], f"http://127.0.0.1:{server.port}/"
        clients = clients_for(listed)
        own, another = clients.of_instance("a", lambda: listed), clients.of_instance("b", frozenset)
        await own.get(url)
        with pytest.raises(httpx.ConnectError, match="is not dialled"):
            await another.get(url)
        await own.get(url)
        assert server.connections == 1
        await clients.aclose()


async def test_no_redirect_leads_to_another_instances_server() -> None:
    async with serving(always_ok) as another:
        elsewhere = f"http://127.0.0.1:{another.port}/"
        moved = f"HTTP/1.1 307 Moved\r\nlocation: {elsewhere}\r\ncontent-length: 0\r\n\r\n".encode()
        async with serving(answering(moved)) as own:
            listed = [("http", "127.0.0.1", server.port) for server in (own, another)]
            clients = clients_for(listed)
            http = clients.of_instance("a", lambda: listed[:1])
            with pytest.raises(httpx.ConnectError, match="is not dialled"):
                await http.get(f"http://127.0.0.1:{own.port}/", follow_redirects=True)
            await clients.aclose()
        assert another.connections == 0


async def test_no_file_is_fetched_from_a_listed_server() -> None:
    async with serving(always_ok) as server:
        clients = clients_for([("http", "127.0.0.1", server.port)])
        with pytest.raises(Invalid, match=r"cannot be read: The host .* is blocked") as refusal:
            await clients.fetch("a", f"http://127.0.0.1:{server.port}/", limit=100)
        assert server.connections == 0
    # To list it would not help, and the message is for a tenant.
    assert "plugins.options" not in str(refusal.value)


# Connections.


async def test_a_connection_is_used_again() -> None:
    async with reaching(always_ok) as (http, server):
        for method in ("POST", "GET", "PUT", "DELETE", "HEAD"):
            await http.request(method, "/", timeout=5)
        assert server.connections == 1


async def test_a_post_has_a_new_connection() -> None:
    async with reaching(always_ok) as (http, server):
        await http.get("/")
        for _ in range(2):
            await http.post("/", json={})
        assert server.connections == 3


async def test_a_post_is_not_sent_twice() -> None:
    async def one_then_nothing(peer: Peer) -> None:
        if peer.number == 1:
            await peer.request()
            await peer.send(OK)
        await peer.request()

    async with reaching(one_then_nothing) as (http, server):
        await http.get("/")
        with pytest.raises(httpx.RemoteProtocolError, match="without responding"):
            await http.post("/")
        assert server.connections == 2


async def test_a_connection_that_the_server_closed_is_replaced() -> None:
    async with reaching(answering(OK)) as (http, server):
        for _ in range(3):
            assert (await http.get("/")).text == "ok"
        assert server.connections == 3


async def test_an_old_idle_connection_is_closed(mock_clock: trio.testing.MockClock) -> None:
    closed = trio.Event()

    async def behaviour(peer: Peer) -> None:
        await always_ok(peer)
        closed.set()

    async with reaching(behaviour) as (http, server):
        await http.get("/")
        mock_clock.jump(IDLE_TIME)
        await http.get("/")
        assert server.connections == 2
        await closed.wait()


async def test_idle_connections_are_few() -> None:
    arrived, closed = 0, 0
    go_on, half, rest = trio.Event(), trio.Event(), trio.Event()

    async def at_once(peer: Peer) -> None:
        nonlocal arrived, closed
        await peer.request()
        arrived += 1
        if arrived == 2 * MAX_IDLE:
            go_on.set()
        await go_on.wait()
        await peer.send(OK)
        await peer.closed_by_the_other_side()
        closed += 1
        if closed == MAX_IDLE:
            half.set()
        if closed == 2 * MAX_IDLE:
            rest.set()

    async with serving(at_once) as server:
        url = f"http://127.0.0.1:{server.port}/"
        async with client_for([("http", "127.0.0.1", server.port)], max_requests=50) as http:
            async with trio.open_nursery() as nursery:
                for _ in range(2 * MAX_IDLE):
                    nursery.start_soon(http.get, url)
            await half.wait()
            await trio.testing.wait_all_tasks_blocked(0.01)
            assert closed == MAX_IDLE
        await rest.wait()


# Limits and long polls.


async def test_a_long_poll_has_its_own_timeout(mock_clock: trio.testing.MockClock) -> None:
    asked = trio.Event()

    async def behaviour(peer: Peer) -> None:
        await peer.request()
        asked.set()
        await trio.sleep(60)
        await peer.send(OK)

    async with reaching(behaviour) as (http, _), trio.open_nursery() as nursery:

        async def poll() -> None:
            assert (await http.get("/sync", timeout=90)).text == "ok"

        nursery.start_soon(poll)
        await asked.wait()
        await trio.testing.wait_all_tasks_blocked(0.01)
        mock_clock.jump(60)


async def test_the_longest_response() -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n"
    async with reaching(answering(head % MAX_ANSWER + bytes(MAX_ANSWER))) as (http, _):
        assert len((await http.get("/")).content) == MAX_ANSWER
    async with reaching(answering(head % (MAX_ANSWER + 1) + bytes(MAX_ANSWER + 1))) as (http, _):
        with pytest.raises(httpx.RemoteProtocolError, match=f"The response exceeded {MAX_ANSWER} bytes"):
            await http.get("/")


async def test_the_number_of_requests_is_limited(mock_clock: trio.testing.MockClock) -> None:
    async def silent(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n")
        await peer.closed_by_the_other_side()

    async def waits(http: httpx.AsyncClient) -> None:
        with pytest.raises(
            httpx.PoolTimeout, match=r"for 3 s: 1 requests .* 1 of at most 1 of all instances"
        ):
            await http.get("/", timeout=httpx.Timeout(None, pool=3))

    async with reaching(silent, max_requests=1) as (http, _):
        async with http.stream("GET", "/"), trio.open_nursery() as nursery:
            nursery.start_soon(waits, http)
            await trio.testing.wait_all_tasks_blocked(0.01)
            mock_clock.jump(3)
        async with http.stream("GET", "/", timeout=httpx.Timeout(None, pool=3)) as response:
            assert response.status_code == 200


async def test_an_instance_whose_server_hangs_leaves_places_to_others() -> None:
    all_hang, hanging = trio.Event(), 0

    async def silent(peer: Peer) -> None:
        nonlocal hanging
        await peer.request()
        hanging += 1
        if hanging == 6:  # three quarters
            all_hang.set()
        await peer.closed_by_the_other_side()

    async with serving(silent) as hangs, serving(always_ok) as works:
        listed = [("http", "127.0.0.1", server.port) for server in (hangs, works)]
        clients = clients_for(listed, max_requests=8)
        attacker, victim = (clients.of_instance(name, lambda: listed) for name in "av")
        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(attacker.post, f"http://127.0.0.1:{hangs.port}/")
            await all_hang.wait()
            assert (await victim.post(f"http://127.0.0.1:{works.port}/")).text == "ok"
            with pytest.raises(Invalid, match="is not dialled"):
                await clients.fetch("v", f"http://127.0.0.1:{works.port}/", limit=9)
            nursery.cancel_scope.cancel()
        async with trio.open_nursery() as nursery:  # no place was lost
            for _ in range(6):
                nursery.start_soon(attacker.post, f"http://127.0.0.1:{works.port}/")
        await clients.aclose()
    assert hanging == 6


async def test_a_refused_place_says_who_has_them(mock_clock: trio.testing.MockClock) -> None:
    async def silent(peer: Peer) -> None:
        await peer.request()
        await peer.closed_by_the_other_side()

    async def ask(path: str, **options: Any) -> None:
        with pytest.raises(httpx.TimeoutException) as refusal:
            await http.get(path, **options)
        refusals.append(str(refusal.value))

    refusals: list[str] = []
    async with reaching(silent, max_requests=4) as (http, server), trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(ask, "/")
        nursery.start_soon(partial(ask, "/", extensions={"long_poll": True}))
        while server.connections < 4:
            await trio.testing.wait_all_tasks_blocked(0.001)
        nursery.start_soon(partial(ask, "/", timeout=httpx.Timeout(9, pool=3)))
        poll = {"long_poll": True}
        nursery.start_soon(partial(ask, "/", timeout=httpx.Timeout(9, pool=3), extensions=poll))
        await trio.testing.wait_all_tasks_blocked(0.01)
        mock_clock.jump(3)
        await trio.testing.wait_all_tasks_blocked(0.01)
        mock_clock.jump(3)
    words = "3 requests of this instance were in progress, and 3 of at most 4 of all instances."
    assert sorted(refusals[:2]) == [
        "Another long poll of this instance was in progress for 3 s. Nothing was sent.",
        f"No place was free for 3 s: {words} Nothing was sent; retry later.",
    ]


async def test_no_request_waits_for_long_polls_and_each_instance_polls() -> None:
    polling = 0
    all_poll = trio.Event()

    async def behaviour(peer: Peer) -> None:
        nonlocal polling
        if b"GET /sync" in await peer.request():
            polling += 1
            if polling == 5:
                all_poll.set()
            await peer.closed_by_the_other_side()
        else:
            await peer.send(OK)

    async with serving(behaviour) as server:
        listed, url = [("http", "127.0.0.1", server.port)], f"http://127.0.0.1:{server.port}"
        clients = clients_for(listed, max_requests=8)
        instances = [clients.of_instance(name, lambda: listed) for name in "abcde"]
        async with trio.open_nursery() as nursery:
            for http in instances:
                for _ in range(3):
                    poll = partial(http.get, timeout=90, extensions={"long_poll": True})
                    nursery.start_soon(poll, f"{url}/sync")
            await all_poll.wait()
            await trio.testing.wait_all_tasks_blocked(0.01)
            for http in instances:
                assert (await http.post(f"{url}/send")).text == "ok"
            nursery.cancel_scope.cancel()
        await clients.aclose()
    assert polling == 5


async def test_answers_that_never_end_stay_within_their_memory(mock_clock: trio.testing.MockClock) -> None:
    memory = AnswerMemory(8 * 2**20)

    async def endless(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % MAX_ANSWER)
        await peer.send(bytes(MAX_ANSWER - 1))
        await peer.closed_by_the_other_side()

    async def large(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % 2**20 + bytes(2**20))

    failures: list[str] = []

    async def ask(http: httpx.AsyncClient, url: str) -> None:
        with pytest.raises(httpx.RemoteProtocolError) as failure:
            await http.get(url, timeout=60)
        failures.append(str(failure.value))

    async with serving(endless) as bad, serving(large) as good:
        listed = [("http", "127.0.0.1", server.port) for server in (bad, good)]
        clients = clients_for(listed, max_requests=40, memory=memory)
        attacker, victim = (clients.of_instance(name, lambda: listed) for name in "av")
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(ask, attacker, f"http://127.0.0.1:{bad.port}/")
            while memory.share.waiting < 5:
                await trio.testing.wait_all_tasks_blocked(0.001)
            assert memory.share.used <= memory.most_of_holder + READ_SIZE
            assert len((await victim.get(f"http://127.0.0.1:{good.port}/")).content) == 2**20
            assert memory.share.held("v") == 0
            mock_clock.autojump_threshold = 0.01
        await clients.aclose()
    assert len(failures) == 5
    assert all("delivery.answer_memory" in failure for failure in failures)
    assert memory.share.used == 0


async def test_cookies_are_not_kept() -> None:
    answer = b"HTTP/1.1 200 OK\r\nset-cookie: a=b; path=/\r\ncontent-length: 0\r\n\r\n"
    async with reaching(answering(answer)) as (http, _):
        await http.get("/")
        assert not http.cookies


# Streams.


async def test_a_stream_is_passed_on_as_it_arrives() -> None:
    read = trio.Event()

    async def behaviour(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\ncontent-type: image/png\r\ncontent-length: 8\r\n\r\n")
        await peer.send(b"1234")
        await read.wait()
        await peer.send(b"5678")

    async with reaching(behaviour) as (http, _), http.stream("GET", "/") as response:
        assert response.headers["content-type"] == "image/png"
        pieces = response.aiter_bytes()
        assert await anext(pieces) == b"1234"
        read.set()
        assert b"".join([piece async for piece in pieces]) == b"5678"


async def test_a_stream_may_be_longer_than_any_other_response() -> None:
    size = MAX_ANSWER + 2**20
    longest = 0

    async def behaviour(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        for _ in range(size // 2**20):
            await peer.send(b"%x\r\n" % 2**20 + bytes(2**20) + b"\r\n")
        await peer.send(b"0\r\n\r\n")

    async with reaching(behaviour) as (http, _), http.stream("GET", "/") as response:
        got = 0
        async for piece in response.aiter_bytes():
            got += len(piece)
            longest = max(longest, len(piece))
    assert got == size
    assert longest <= 2**16


async def test_a_stream_that_ends_with_its_connection() -> None:
    answer = b"HTTP/1.1 200 OK\r\n\r\nall of it"
    async with reaching(answering(answer)) as (http, _), http.stream("GET", "/") as response:
        assert await response.aread() == b"all of it"


async def test_a_large_request_is_streamed_back() -> None:
    async def echo(peer: Peer) -> None:
        body = (await peer.request()).partition(b"\r\n\r\n")[2]
        await peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body)

    async with reaching(echo) as (http, _), http.stream("POST", "/", content=bytes(2**20)) as response:
        assert len(await response.aread()) == 2**20


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf", "in the middle of its response"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", "not valid HTTP/1"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\nzz\r\n", "not valid HTTP/1"),
    ],
)
async def test_a_stream_that_is_cut_off(answer: bytes, words: str) -> None:
    async with reaching(answering(answer)) as (http, _), http.stream("GET", "/") as response:
        with pytest.raises(httpx.RemoteProtocolError, match=words):
            async for _piece in response.aiter_bytes():
                pass


async def test_a_stream_that_is_reset() -> None:
    async def behaviour(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n")
        await reads.wait()
        peer.reset()

    reads = trio.Event()
    async with reaching(behaviour) as (http, _), http.stream("GET", "/") as response:
        reads.set()
        with pytest.raises(httpx.RemoteProtocolError, match="broke the connection in its response"):
            await response.aread()


async def test_no_response_at_all() -> None:
    async def nothing(peer: Peer) -> None:
        await peer.request()

    async with reaching(nothing) as (http, _):
        with pytest.raises(httpx.RemoteProtocolError, match="without responding"):
            async with http.stream("GET", "/"):
                pass


async def test_a_silent_stream_times_out(mock_clock: trio.testing.MockClock) -> None:
    async def behaviour(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n")
        await peer.closed_by_the_other_side()

    async def read(http: httpx.AsyncClient) -> None:
        async with http.stream("GET", "/", timeout=20) as response:
            begun.set()
            with pytest.raises(httpx.ReadTimeout, match="nothing for 20 s"):
                await response.aread()

    begun = trio.Event()
    async with reaching(behaviour) as (http, _), trio.open_nursery() as nursery:
        nursery.start_soon(read, http)
        await begun.wait()
        await trio.testing.wait_all_tasks_blocked(0.01)
        mock_clock.jump(20)


async def test_an_encoded_stream_expands_in_small_pieces() -> None:
    bomb = gzip.compress(bytes(64 * 2**20))
    head = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(bomb)
    seen: list[bytes] = []

    async def behaviour(peer: Peer) -> None:
        seen.append(await peer.request())
        await peer.send(head + bomb)

    async with reaching(behaviour) as (http, _), http.stream("GET", "/") as response:
        size = longest = 0
        async for piece in response.aiter_bytes():
            size += len(piece)
            longest = max(longest, len(piece))
    assert size == 64 * 2**20
    assert longest <= 6 * 2**20
    assert b"accept-encoding: identity" in seen[0].lower()


async def test_the_body_of_a_redirect_that_is_followed_is_limited() -> None:
    async def endless(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 307 Moved\r\nlocation: /\r\ntransfer-encoding: chunked\r\n\r\n")
        while True:
            await peer.send(b"%x\r\n" % 2**20 + bytes(2**20) + b"\r\n")

    async with reaching(endless) as (http, _):
        with pytest.raises(httpx.RemoteProtocolError, match=f"The response exceeded {MAX_ANSWER} bytes"):
            async with http.stream("GET", "/", follow_redirects=True):
                pass


async def test_leaving_a_stream_closes_its_connection() -> None:
    closed = trio.Event()

    async def behaviour(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n")
        await peer.closed_by_the_other_side()
        closed.set()

    async with reaching(behaviour, max_requests=1) as (http, _):
        with trio.CancelScope() as scope:
            async with http.stream("GET", "/"):
                scope.cancel()
                await trio.sleep_forever()
        await closed.wait()
        async with http.stream("GET", "/", timeout=httpx.Timeout(5, pool=0.1)):
            pass
