"""The file at a tenant's URL: its size, its redirects, its type, and what is said if it cannot be read."""

import gzip
from collections.abc import AsyncIterator, Callable

import httpx
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from hookgw import FetchedFile, Invalid, NetworkRefused
from tests.delivery.http.raw_receiver import Peer, answering, serving
from tests.public.delivery import ANSWER_PATIENCE as PATIENCE
from tests.public.delivery import (
    FETCH_TIMEOUT,
    MAX_REDIRECTS,
    AddressGuard,
    AnswerMemory,
    ConnectorClients,
    Dialer,
    fetch_file,
    keeping_answers,
)

MEMORY = AnswerMemory(2**30)
URL = "https://files.example/a.png"


async def fetched(answer: Callable[[httpx.Request], httpx.Response], limit: int = 100) -> FetchedFile:
    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
        return await fetch_file(client, URL, limit=limit, held=MEMORY.hold("a"))


async def test_the_content_and_the_type_that_the_server_says() -> None:
    headers = {"content-type": "image/png; a=b"}
    file = await fetched(lambda _: httpx.Response(200, content=b"png", headers=headers))
    assert file == b"png"
    assert file.mimetype == "image/png"
    assert (await fetched(lambda _: httpx.Response(200, content=b""))).mimetype == ""


async def test_a_file_may_have_as_many_bytes_as_the_limit() -> None:
    assert len(await fetched(lambda _: httpx.Response(200, content=bytes(100)))) == 100
    with pytest.raises(Invalid, match="The file at the URL has more than 100B"):
        await fetched(lambda _: httpx.Response(200, content=bytes(101)))


async def test_an_announced_length_is_enough_to_refuse() -> None:
    async def never() -> AsyncIterator[bytes]:
        pytest.fail("the body was read")
        yield b""

    headers = {"content-length": "101"}
    with pytest.raises(Invalid, match="more than 100B"):
        await fetched(lambda _: httpx.Response(200, content=never(), headers=headers))


async def test_an_endless_file_ends_at_the_limit() -> None:
    sent = 0

    async def endless(peer: Peer) -> None:
        nonlocal sent
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        while True:
            await peer.send(b"10000\r\n" + bytes(2**16) + b"\r\n")
            sent += 1

    guard = AddressGuard(["127.0.0.0/8"])
    dialer = Dialer(guard, connect_timeout=5)
    clients = ConnectorClients("x", dialer, (), dialer, MEMORY, timeout=5, max_requests=1, max_polls=1)
    async with serving(endless) as server:
        with pytest.raises(Invalid, match="more than 1MiB"):
            await clients.fetch("a", f"http://127.0.0.1:{server.port}/", limit=2**20)
    # Its place is free again.
    async with serving(answering(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nx")) as server:
        assert await clients.fetch("a", f"http://127.0.0.1:{server.port}/", limit=1) == b"x"


async def test_a_compressed_file_counts_as_it_is_without_compression() -> None:
    def compressed(content: bytes, coding: str = "gzip") -> Callable[[httpx.Request], httpx.Response]:
        async def pieces() -> AsyncIterator[bytes]:
            yield content

        return lambda _: httpx.Response(200, content=pieces(), headers={"content-encoding": coding})

    assert await fetched(compressed(gzip.compress(bytes(100)))) == bytes(100)
    with pytest.raises(Invalid, match="more than 1MiB"):
        await fetched(compressed(gzip.compress(bytes(64 * 2**20))), limit=2**20)
    with pytest.raises(Invalid, match="cannot be undone"):
        await fetched(compressed(b"no gzip"))
    assert await fetched(compressed(b"as it is", "identity")) == b"as it is"


@pytest.mark.parametrize("redirects", [MAX_REDIRECTS, MAX_REDIRECTS + 1])
async def test_redirects_are_few(redirects: int) -> None:
    seen: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.url.path)
        if len(seen) <= redirects:
            return httpx.Response(302, headers={"location": f"/{len(seen)}"})
        return httpx.Response(200, content=b"x")

    if redirects == MAX_REDIRECTS:
        assert await fetched(answer) == b"x"
    else:
        with pytest.raises(Invalid, match="redirects more than 3 times"):
            await fetched(answer)
    assert seen == ["/a.png", "/1", "/2", "/3"]


async def test_every_redirect_is_vetted_and_none_brings_the_password_along() -> None:
    """The first server is a public one, as far as the guard knows."""
    asked: list[bytes] = []

    async def first(peer: Peer) -> None:
        asked.append(await peer.request())
        await peer.send(moved)

    guard = AddressGuard(["127.0.0.1", "127.0.0.2"])
    dialer = Dialer(guard, connect_timeout=5)
    clients = ConnectorClients("x", dialer, (), dialer, MEMORY, timeout=5, max_requests=1, max_polls=1)
    async with serving(first) as server:
        for location, is_refused in (("http://127.0.0.3:9/", True), (f"http://127.1:{server.port}/b", False)):
            moved = f"HTTP/1.1 302 Moved\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n".encode()
            words = "127.0.0.3 is not dialled" if is_refused else "redirects more than"
            with pytest.raises(Invalid, match=words):
                await clients.fetch("a", f"http://user:secret@127.0.0.1:{server.port}/a", limit=9)
    assert b"authorization: basic" in asked[0].lower()
    assert all(b"authorization" not in request.lower() for request in asked[2:])


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("", "cannot be read"),
        ("ftp://files.example/x", "cannot be read"),
        ("file:///etc/passwd", "cannot be read"),
        ("https://files.example:port/", "cannot be read"),
        ("https://xn--", "cannot be read"),
        ("https://exa mple/", "cannot be read"),
        ("http://127.0.0.1\\@files.example/", "cannot be read"),
        ("http://[fe80::1%25eth0]/", "cannot be read"),
        ("http://\ud800/", "cannot be read"),
        (f"https://files.example/{'x' * 70_000}", "cannot be read"),
        ("data:text/plain,x", "cannot be read"),
    ],
)
async def test_what_is_no_url_is_a_sentence(url: str, words: str) -> None:
    async def unknown(*_: object, **__: object) -> list[object]:
        await trio.lowlevel.checkpoint()
        raise OSError("there is no such name")

    dialer = Dialer(AddressGuard(), connect_timeout=5, resolve=unknown)  # type: ignore[arg-type]
    clients = ConnectorClients("x", dialer, (), dialer, MEMORY, timeout=5, max_requests=1, max_polls=1)
    with pytest.raises(Invalid, match=words):
        await clients.fetch("a", url, limit=9)


@pytest.mark.parametrize(
    ("response", "words"),
    [
        (httpx.Response(404), "answered with 404"),
        (httpx.Response(304), "answered with 304"),
        (httpx.Response(302, headers={"location": "http://a:port/"}), "cannot be read"),
    ],
)
async def test_what_is_no_file(response: httpx.Response, words: str) -> None:
    with pytest.raises(Invalid, match=words):
        await fetched(lambda _: response)


async def test_a_slow_file_is_not_waited_for(autojump_clock: MockClock) -> None:
    async def drip() -> AsyncIterator[bytes]:
        while True:
            await trio.sleep(FETCH_TIMEOUT - 1)
            yield b"x"

    with pytest.raises(Invalid, match="not read within 20 s"):
        await fetched(lambda _: httpx.Response(200, content=drip()))


async def test_a_file_counts_twice_until_the_call_has_ended() -> None:
    memory = AnswerMemory(2**20)
    dialer = Dialer(AddressGuard(["127.0.0.0/8"]), connect_timeout=5)
    clients = ConnectorClients("x", dialer, (), dialer, memory, timeout=5, max_requests=1, max_polls=1)
    size = 2**17
    answer = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size + bytes(size)
    async with serving(answering(answer)) as server:
        url = f"http://127.0.0.1:{server.port}/"
        with keeping_answers():
            assert len(await clients.fetch("a", url, limit=2**20)) == size
            assert memory.share.held("a") == 2 * size
        assert memory.share.used == 0
        assert len(await clients.fetch("a", url, limit=2**20)) == size  # of no call
        assert memory.share.used == 0


async def test_no_file_is_larger_than_the_memory_of_one_instance() -> None:
    memory = AnswerMemory(2**20)
    dialer = Dialer(AddressGuard(["127.0.0.0/8"]), connect_timeout=5)
    clients = ConnectorClients("x", dialer, (), dialer, memory, timeout=5, max_requests=1, max_polls=1)
    async with serving(answering(b"HTTP/1.1 200 OK\r\ncontent-length: 262145\r\n\r\n")) as server:
        url = f"http://127.0.0.1:{server.port}/"
        with pytest.raises(Invalid, match="more than 256KiB"):
            await clients.fetch("a", url, limit=2**30)


async def test_a_file_for_which_there_is_no_memory_is_refused_for_now(mock_clock: MockClock) -> None:
    memory = AnswerMemory(2**20)
    await memory.hold("a").take(memory.most_of_holder)
    dialer = Dialer(AddressGuard(["127.0.0.0/8"]), connect_timeout=5)
    clients = ConnectorClients("x", dialer, (), dialer, memory, timeout=5, max_requests=1, max_polls=1)

    async def fetch(url: str) -> None:
        with pytest.raises(NetworkRefused, match=r"delivery\.answer_memory") as refusal:
            await clients.fetch("a", url, limit=2000)
        assert (refusal.value.status, refusal.value.retry_after) == (503, 5)

    answer = b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n" + bytes(1000)
    async with serving(answering(answer)) as server, trio.open_nursery() as nursery:
        nursery.start_soon(fetch, f"http://127.0.0.1:{server.port}/")
        while not memory.share.waiting:
            await wait_all_tasks_blocked(0.001)
        mock_clock.jump(PATIENCE)
