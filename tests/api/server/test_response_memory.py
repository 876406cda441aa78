"""The memory for responses that clients have yet to read."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
import trio
from quart import Response
from trio.testing import MockClock, wait_all_tasks_blocked

from hookgw import Gateway, Unavailable
from hookgw.web.server import response_memory
from tests.api.conftest import KEY
from tests.api.server.wire import Running, assert_answers, read_answer
from tests.public.auth import KeyHolder
from tests.public.config import ServerSettings
from tests.public.kernel import Duration, Size
from tests.public.records import Key, Principal
from tests.public.web import LIST, ResponseMemory, current_exchange, holder_of, reserve
from tests.public.web import SMALL_RESPONSE as SMALL
from tests.public.web import AppApplication as Application
from tests.support.application import create_app
from tests.support.waits import until

LIMIT = 8 * 2**20
OWN = "the-key-of-loja1"
LONG = 8 * 2**20
"""Bytes of a response: more than the system takes for a client that does not read."""
SERVED = 34 * 2**20
"""Two such responses are the most that a holder may have: it leaves as much free."""
SHARED = b"x" * LONG
SIZES = {"long": (LONG, LONG), "short": (LONG, SMALL), "longer": (SMALL, LONG), "changed": (0, LONG)}
SIZES |= {"huge": (SMALL, SERVED + LONG), "tiny": (0, 10)}
"""The bytes that routes reserve, and those that they respond with."""


class Memory(ResponseMemory):
    def __init__(self, limit: int = LIMIT) -> None:
        self.limited: list[str] = []
        super().__init__(limit, self.limited.append)


async def test_a_holder_that_does_not_read_leaves_room_for_others() -> None:
    memory = Memory()
    while memory.reserve_nowait("a", LIST):
        pass
    assert memory.used <= LIMIT // 2
    assert memory.reserve_nowait("b", LIST)


async def test_those_that_do_not_read_leave_a_list_for_each_of_some_others() -> None:
    memory = Memory(8 * LIMIT)
    for slow in ("a", "b"):
        while memory.reserve_nowait(slow, LIST):
            pass
    others = [f"holder {number}" for number in range(8)]
    assert all(memory.reserve_nowait(other, LIST) for other in others)
    assert not memory.reserve_nowait("a", 1)


async def test_a_request_waits_in_turn_among_holders() -> None:
    memory = Memory()
    memory.change("other", 0, LIMIT)
    order = []

    async def reserve(holder: str) -> None:
        await memory.reserve(holder, LIMIT // 8)
        order.append(holder)

    async with trio.open_nursery() as nursery:
        for holder in ("a", "a", "a", "b"):
            nursery.start_soon(reserve, holder)
            await wait_all_tasks_blocked()
        memory.change("other", LIMIT, 3 * LIMIT // 4)
        await wait_all_tasks_blocked()
        assert sorted(order) == ["a", "b"]
        memory.change("other", 3 * LIMIT // 4, 0)
    assert order[2:] == ["a", "a"]


async def test_a_wait_has_an_end(autojump_clock: MockClock) -> None:
    memory = Memory()
    memory.change("a", 0, LIMIT)
    began = trio.current_time()
    with pytest.raises(Unavailable) as caught:
        await memory.reserve("b", LIST)
    assert trio.current_time() - began == response_memory.PATIENCE
    assert caught.value.retry_after is not None
    assert "b has 0.0 MiB of responses that clients have yet to read, and all together have" in str(
        caught.value
    )
    assert memory.limited == ["response_memory"]
    assert memory.used == LIMIT
    memory.change("a", LIMIT, 0)
    assert memory.used == 0


@pytest.mark.parametrize("is_granted", [False, True])
async def test_a_client_that_leaves_while_it_waits_holds_nothing(is_granted: bool) -> None:
    memory = Memory()
    memory.change("a", 0, LIMIT)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(memory.reserve, "b", LIST)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
        if is_granted:
            memory.change("a", LIMIT, 0)
    memory.change("a", 0 if is_granted else LIMIT, 0)
    assert memory.used == 0


@pytest.mark.parametrize(
    ("instance", "address", "holder"),
    [
        ("loja1", "192.0.2.1", "instance loja1"),
        ("*", "192.0.2.1", "key crm"),
        (None, "192.0.2.1", "address 192.0.2.1"),
        (None, "2001:db8:1:2:3:4:5:6", "address 2001:db8:1:2::/64"),
        (None, None, "no address"),
    ],
)
def test_who_holds_a_response(instance: str | None, address: str | None, holder: str) -> None:
    key = None
    if instance is not None:
        principal = Principal() if instance == "*" else Principal(instance)
        key = KeyHolder(principal, Key(name="crm", hash=""), None)
    assert holder_of(key, (address, 1) if address else None) == holder


@pytest.fixture
def server_settings() -> ServerSettings:
    # Four places, of which an instance may have one.
    return ServerSettings(
        bind=("127.0.0.1:0",), response_memory=Size(SERVED), max_requests=4, shutdown_grace=Duration(0.2)
    )


@pytest.fixture
async def app(gateway: Gateway) -> Application:
    await gateway.instances.create("loja1", token=OWN)
    app = create_app(gateway)

    async def respond(name: str) -> Response:
        reserved, size = SIZES[name]
        if reserved:
            await reserve(reserved)
        return Response(b"x" * size)

    async def static() -> Response:
        current_exchange().is_static = True
        return Response(SHARED)

    async def parts() -> Response:
        async def generate() -> AsyncIterator[bytes]:
            for _ in range(3):
                yield b"x" * LONG

        return Response(generate())

    app.routing.add_url_rule("/shared/static", view_func=static)
    app.routing.add_url_rule("/shared/parts", view_func=parts)
    app.routing.add_url_rule("/shared/<name>", view_func=respond)
    return app


@asynccontextmanager
async def asked(
    server: Running, path: str, *keys: str, method: str = "GET"
) -> AsyncIterator[list[trio.SocketStream]]:
    """Ask for a route with each key, and read nothing."""
    async with AsyncExitStack() as stack:
        streams = []
        for key in keys:
            sock = trio.socket.socket()
            sock.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_RCVBUF, 65_536)
            await sock.connect(("127.0.0.1", server.port))
            stream = await stack.enter_async_context(trio.SocketStream(sock))
            await stream.send_all(
                f"{method} /shared/{path} HTTP/1.1\r\nhost: x\r\napikey: {key}\r\n\r\n".encode()
            )
            streams.append(stream)
            await wait_all_tasks_blocked(0.05)
        yield streams


async def status_of(stream: trio.SocketStream) -> int:
    with trio.fail_after(10):
        head, _, body = (await stream.receive_some()).partition(b"\r\n\r\n")
        left = int(head.lower().partition(b"content-length: ")[2].partition(b"\r")[0]) - len(body)
        while left:
            more = len(await stream.receive_some())
            assert more, "closed within the body"
            left -= more
    return int(head.split()[1])


async def test_who_does_not_read_waits_for_memory_and_others_do_not(
    server: Running, app: Application
) -> None:
    async with asked(server, "long", KEY, KEY) as unread:
        assert app.response_memory.used == 2 * LONG
        # More of them than there are places: those that wait have none.
        async with asked(server, "long", *[KEY] * 6) as waiting:
            assert app.response_memory.used == 2 * LONG
            async with asked(server, "long", OWN) as (other,):
                assert await status_of(other) == 200
            await assert_answers(server)
            assert await status_of(unread[0]) == 200
            assert await status_of(waiting[0]) == 200
    await emptied(app)


@pytest.mark.parametrize("path", ["changed", "static"])
async def test_who_does_not_read_takes_no_place(server: Running, app: Application, path: str) -> None:
    async with asked(server, path, *[KEY] * 4), asked(server, "tiny", OWN) as (other,):
        assert await status_of(other) == 200
    await emptied(app)


async def emptied(app: Application) -> None:
    await until(lambda: not app.response_memory.used)


async def test_a_wait_for_memory_ends_with_503(
    server: Running, app: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(response_memory, "PATIENCE", 0.05)
    async with asked(server, "long", KEY, KEY, KEY) as (*_, refused):
        status, headers, content = await read_answer(refused)
        assert (status, headers["retry-after"]) == (503, "5")
        assert b"server.response_memory" in content
    await emptied(app)


async def test_a_client_that_leaves_gives_its_memory_back(server: Running, app: Application) -> None:
    async with asked(server, "long", KEY, KEY) as unread, asked(server, "long", KEY, KEY) as (first, second):
        await first.aclose()
        await unread[0].aclose()
        assert await status_of(second) == 200
    await emptied(app)


async def test_a_request_that_is_answered_while_it_waits_for_more_gives_back_what_it_has(
    server: Running, app: Application
) -> None:
    async def more() -> str:
        await reserve(LONG // 16)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(current_exchange().answer_for, Unavailable("The database is away."))
            await reserve(LONG)
        return "done"

    app.routing.add_url_rule("/shared/more", view_func=more)
    async with asked(server, "long", KEY, KEY) as unread, asked(server, "more", KEY) as (waiting,):
        assert await status_of(waiting) == 503
        await unread[0].aclose()
        await unread[1].aclose()
    await emptied(app)


async def test_a_response_that_must_not_be_refused_never_waits(server: Running, app: Application) -> None:
    async with asked(server, "changed", *[KEY] * 4) as streams:
        assert app.response_memory.used >= 2 * LONG
        for stream in streams:
            assert await status_of(stream) == 200
    await emptied(app)


async def test_a_response_that_is_longer_than_all_memory_is_sent_if_it_is_alone(
    server: Running, app: Application
) -> None:
    async with asked(server, "huge", KEY) as (stream,):
        assert app.response_memory.used == SERVED + LONG
        assert await status_of(stream) == 200
    await emptied(app)


async def test_a_response_that_is_longer_than_reserved_is_refused_if_there_is_no_room(
    server: Running, app: Application
) -> None:
    async with asked(server, "longer", KEY, KEY, KEY) as (*_, refused):
        assert app.response_memory.used == 2 * LONG
        status, headers, content = await read_answer(refused)
        assert (status, headers["retry-after"]) == (503, "5")
        assert b"server.response_memory" in content
    await emptied(app)


@pytest.mark.parametrize(("path", "method"), [("short", "GET"), ("static", "GET"), ("long", "HEAD")])
async def test_what_is_small_or_shared_or_not_sent_takes_no_memory(
    path: str, method: str, server: Running, app: Application
) -> None:
    async with asked(server, path, *[KEY] * 3, method=method):
        assert app.response_memory.used == 0
    await assert_answers(server)


async def test_of_a_stream_only_the_part_that_is_sent_counts(server: Running, app: Application) -> None:
    async with asked(server, "parts", KEY) as (stream,):
        assert app.response_memory.used == LONG
        size = 0
        with trio.fail_after(10):
            while size < 3 * LONG:
                size += len(await stream.receive_some())
                assert app.response_memory.used <= LONG
    await emptied(app)


async def test_pipelined_requests_hold_one_response_at_a_time(server: Running, app: Application) -> None:
    async with await server.connect() as stream:
        await stream.send_all(
            b"GET /shared/changed HTTP/1.1\r\nhost: x\r\napikey: %b\r\n\r\n" % KEY.encode() * 8
        )
        await wait_all_tasks_blocked(0.05)
        assert app.response_memory.used == LONG
    await emptied(app)


async def test_a_shutdown_gives_everything_back(server: Running, app: Application) -> None:
    async with asked(server, "long", KEY, KEY, KEY):
        with trio.fail_after(15):
            await server.stop()
        assert app.response_memory.used == 0


class TestManyPlaces:
    @pytest.fixture
    def server_settings(self) -> ServerSettings:
        return ServerSettings(
            bind=("127.0.0.1:0",), response_memory=Size(SERVED), max_requests=64, shutdown_grace=Duration(0.2)
        )

    async def test_others_do_not_wait_for_what_must_not_be_refused(
        self, server: Running, app: Application, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(response_memory, "PATIENCE", 0.05)
        async with asked(server, "changed", *[OWN] * 6):
            assert app.response_memory.used <= SERVED // 2 + 1
            async with asked(server, "long", OWN, KEY) as (own, other):
                assert await status_of(own) == 503
                assert await status_of(other) == 200
        await emptied(app)


class TestWriteTimeout:
    @pytest.fixture
    def server_settings(self) -> ServerSettings:
        return ServerSettings(
            bind=("127.0.0.1:0",), response_memory=Size(SERVED), write_timeout=Duration(0.2), max_requests=64
        )

    async def test_a_client_that_never_reads_loses_its_memory(
        self, server: Running, app: Application
    ) -> None:
        async with asked(server, "long", KEY, KEY), asked(server, "short", KEY) as (third,):
            assert await status_of(third) == 200
        await emptied(app)
