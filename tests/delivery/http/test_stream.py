"""The plain stream on a pair of sockets."""

import socket
from collections.abc import Iterator

import pytest
import trio
import trio.testing

from tests.public.delivery import PlainStream, StreamBroken

Pair = tuple[PlainStream, socket.socket]


class Hesitant(socket.socket):
    """Blocks once although it was reported as readable."""

    hesitated = False

    def recv(self, *args: int) -> bytes:
        if not self.hesitated:
            self.hesitated = True
            raise BlockingIOError
        return super().recv(*args)


class Gone(socket.socket):
    """Is closed after it was reported as readable, before it is read."""

    def recv(self, *args: int) -> bytes:
        self.close()
        return super().recv(*args)


@pytest.fixture(name="pair")
def _pair() -> Iterator[Pair]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs:
        yield PlainStream(ours), theirs


async def test_a_stream_has_no_arrivals_until_bytes_arrive(pair: Pair) -> None:
    stream, peer = pair
    assert not stream.has_arrivals()
    peer.send(b"x")
    assert stream.has_arrivals()
    assert await stream.receive() == b"x"
    assert not stream.has_arrivals()
    peer.close()
    assert stream.has_arrivals()
    assert await stream.receive() == b""


async def test_a_full_buffer_takes_nothing(pair: Pair) -> None:
    stream, _ = pair
    while stream.send_nowait(b"x" * 65536):
        pass
    assert stream.send_nowait(b"x") == 0


async def test_everything_is_sent_if_the_buffer_fills_up(pair: Pair) -> None:
    stream, peer = pair
    data = bytes(range(256)) * 20_000
    received = b""
    peer.setblocking(False)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stream.send_all, data)
        while len(received) < len(data):
            await trio.lowlevel.wait_readable(peer)
            received += peer.recv(65536)
    assert received == data


async def test_a_spurious_wake_up_is_ignored() -> None:
    ours, theirs = socket.socketpair()
    hesitant = Hesitant(fileno=ours.detach())
    hesitant.setblocking(False)
    with hesitant, theirs:
        theirs.send(b"x")
        assert await PlainStream(hesitant).receive() == b"x"


async def test_a_stream_closed_by_the_other_side_is_broken(pair: Pair) -> None:
    stream, peer = pair
    peer.close()
    with pytest.raises(StreamBroken, match="Broken pipe"):
        stream.send_nowait(b"x")
    with pytest.raises(StreamBroken, match="Broken pipe"):
        await stream.send_all(b"x")


async def test_closing_wakes_waiting_tasks(pair: Pair) -> None:
    stream, _ = pair

    async def wait() -> None:
        with pytest.raises(trio.ClosedResourceError):
            await stream.receive()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        stream.close_nowait()
        stream.close_nowait()


async def test_closing_is_reported_to_a_task_that_bytes_woke_up() -> None:
    """Bytes and the closing can come in one turn of the loop; the socket is then gone when it is read."""
    ours, theirs = socket.socketpair()
    gone = Gone(fileno=ours.detach())
    gone.setblocking(False)
    with gone, theirs:
        theirs.send(b"x")
        with pytest.raises(trio.ClosedResourceError):
            await PlainStream(gone).receive()


async def test_sending_on_a_closed_stream(pair: Pair) -> None:
    stream, _ = pair
    stream.close_nowait()
    with pytest.raises(trio.ClosedResourceError):
        stream.send_nowait(b"x")
