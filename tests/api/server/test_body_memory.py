import gzip
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from hookgw import Gateway, Unavailable
from hookgw.web.server import body_memory
from tests.api.conftest import KEY
from tests.api.server.wire import Running, read_answer
from tests.public.config import ServerSettings
from tests.public.kernel import Size, TooManyRequests
from tests.public.web import COPIES, BodyMemory
from tests.public.web import AppApplication as Application

LIMIT = 100
EVENT = b'{"event":"CALL","data":"%s"}'
BODY = 64 * 1024


class Memory(BodyMemory):
    def __init__(self) -> None:
        self.limited: list[str] = []
        super().__init__(COPIES * LIMIT, LIMIT, self.limited.append)


async def test_bodies_within_the_budget_do_not_wait() -> None:
    memory = Memory()
    memory.hold("a", LIMIT - 1)
    with trio.CancelScope() as scope:
        scope.cancel()
        await memory.wait_room("b")
    assert not memory.is_full


async def test_beyond_the_budget_only_the_oldest_body_goes_on() -> None:
    memory = Memory()
    memory.hold("old", 60)
    memory.hold("new", 60)
    await memory.wait_room("old")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(memory.wait_room, "new")
        nursery.start_soon(memory.wait_room, "none yet")
        await wait_all_tasks_blocked()
        assert len(nursery.child_tasks) == 2
        memory.hold("old", 1000)  # one body always fits
        await memory.wait_room("old")
        memory.release("old")
    assert memory.limited == []


async def test_the_next_oldest_goes_on_even_while_the_budget_is_full() -> None:
    memory = Memory()
    for owner in ("a", "b", "c"):
        memory.hold(owner, LIMIT)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(memory.wait_room, "b")
        await wait_all_tasks_blocked()
        memory.release("a")


def test_the_bodies_of_an_instance_have_a_limit() -> None:
    memory = Memory()
    memory.hold("a", 60, "shop")
    memory.hold("b", 40, "shop")
    memory.hold("c", LIMIT, "cafe")
    with pytest.raises(TooManyRequests, match="100B of request bodies of this instance are in progress"):
        memory.hold("b", 1, "shop")
    memory.release("b", "shop")
    memory.release("b", "shop")
    memory.hold("d", 40, "shop")
    assert memory.limited == ["instance_share"]
    for owner, instance in (("a", "shop"), ("c", "cafe"), ("d", "shop")):
        memory.release(owner, instance)
    memory.hold("e", LIMIT, "shop")


def test_bytes_that_arrived_before_their_instance_was_known_are_its_own_too() -> None:
    memory = Memory()
    memory.attribute("a", "shop")  # nothing has arrived
    memory.hold("a", 60)
    memory.attribute("a", "shop")
    memory.hold("a", 30, "shop")
    with pytest.raises(TooManyRequests):
        memory.hold("b", 11, "shop")
    memory.release("a", "shop")
    memory.release("b", "shop")
    memory.hold("c", LIMIT, "shop")


async def test_a_wait_has_an_end(autojump_clock: MockClock) -> None:
    memory = Memory()
    memory.hold("a", LIMIT)
    began = trio.current_time()
    with pytest.raises(Unavailable) as caught:
        await memory.wait_room("b")
    assert trio.current_time() - began == body_memory.PATIENCE
    assert caught.value.retry_after >= 1
    assert memory.limited == ["body_memory"]


async def test_few_requests_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_memory, "MOST_WAITING", 1)
    memory = Memory()
    memory.hold("a", LIMIT)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(memory.wait_room, "b")
        await wait_all_tasks_blocked()
        with pytest.raises(Unavailable):
            await memory.wait_room("c")
        memory.release("a")


def test_releasing_is_complete_and_harmless() -> None:
    memory = Memory()
    memory.release("unknown")
    for _ in range(3):
        memory.hold("a", LIMIT)
        memory.hold("a", LIMIT)
        assert memory.is_full
        memory.release("a")
        memory.release("a")
        assert not memory.is_full


@pytest.fixture
def server_settings() -> ServerSettings:
    return ServerSettings(
        bind=("127.0.0.1:0",),
        body_memory=Size(COPIES * BODY),
        max_batch_body=Size(16 * BODY),
        max_requests=400,
    )


@pytest.fixture
async def app(either_app: Application, gateway: Gateway) -> Application:
    await gateway.instances.create("loja1")
    return either_app


def head(length: int, *more: str) -> bytes:
    lines = ("POST /event/emit/loja1 HTTP/1.1", "host: x", f"apikey: {KEY}", "content-type: application/json")
    return "\r\n".join((*lines, *more, f"content-length: {length}", "", "")).encode()


def event(size: int) -> bytes:
    return EVENT % (b"x" * (size - len(EVENT) + 2))


@asynccontextmanager
async def sent(server: Running, *data: bytes) -> AsyncIterator[list[trio.SocketStream]]:
    """Open a connection for each of some bytes, and wait until the server has read them."""
    async with AsyncExitStack() as stack:
        streams = []
        for each in data:
            streams.append(await stack.enter_async_context(await server.connect()))
            await streams[-1].send_all(each)
            await wait_all_tasks_blocked(0.02)
        yield streams


async def test_bodies_wait_for_memory_and_small_ones_do_not(server: Running) -> None:
    body = event(BODY + 1000)
    begun = head(len(body)) + body[:-500]
    async with sent(server, begun, begun) as (first, second):
        small = event(500)
        async with sent(server, head(len(small)) + small) as (third,):
            assert (await read_answer(third))[0] == 202
        await second.send_all(body[-500:])
        with trio.move_on_after(0.1) as waiting:
            await read_answer(second)
        assert waiting.cancelled_caught
        await first.send_all(body[-500:])
        assert (await read_answer(first))[0] == 202
        # Read to its end by now.
        assert (await read_answer(second))[0] == 202


async def test_announced_bodies_take_no_memory(server: Running) -> None:
    announced = [head(15 * BODY) + b"{"] * 50
    async with sent(server, *announced[:5]):
        body = event(BODY)
        async with sent(server, head(len(body)) + body) as (stream,):
            assert (await read_answer(stream))[0] == 202


async def test_a_wait_for_memory_ends_with_503(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_memory, "PATIENCE", 0.05)
    body = event(BODY + 1000)
    begun = head(len(body)) + body[:-500]
    async with sent(server, begun, begun) as (first, second):
        status, headers, content = await read_answer(second)
        assert (status, headers["retry-after"]) == (503, "5")
        assert b"server.body_memory" in content
        await first.send_all(body[-500:])
        assert (await read_answer(first))[0] == 202


async def test_a_client_that_leaves_frees_its_memory(server: Running) -> None:
    body = event(BODY + 1000)
    begun = head(len(body)) + body[:-500]
    async with sent(server, begun, begun) as (first, second):
        await first.aclose()
        await second.send_all(body[-500:])
        assert (await read_answer(second))[0] == 202


async def test_decoded_bytes_count(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    # A few hundred bytes that become a megabyte.
    monkeypatch.setattr(body_memory, "PATIENCE", 0.05)
    bomb = gzip.compress(event(10 * BODY))
    begun = head(len(bomb), "content-encoding: gzip")
    async with sent(server, begun + bomb[:-20], begun + bomb) as (first, second):
        assert (await read_answer(second))[0] == 503
        await first.send_all(bomb[-20:])
        assert (await read_answer(first))[0] == 202
