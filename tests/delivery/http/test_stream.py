"""The plain wire on a pair of sockets."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
import trio
import trio.testing

from hookgw.delivery.http.stream import PlainStream, StreamBroken

Pair = tuple[PlainStream, socket.socket]


class Hesitant(socket.socket):
    """Says once that there is nothing to read although it was said to be readable."""

    hesitated = False

    def recv(self, *args: int) -> bytes:
        if not self.hesitated:
            self.hesitated = True
            raise BlockingIOError
        return super().recv(*args)


class Gone(socket.socket):
    """Is closed between being readable and being read."""

    def recv(self, *args: int) -> bytes:
        self.close()
        return super().recv(*args)


@pytest.fixture(name="pair")
def _pair() -> Iterator[Pair]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs:
        yield PlainStream(ours), theirs


async def test_quiet_until_something_comes(pair: Pair) -> None:
    wire, peer = pair
    assert await wire.is_quiet()
    peer.send(b"x")
    assert not await wire.is_quiet()
    assert await wire.receive() == b"x"
    assert await wire.is_quiet()
    peer.close()
    assert not await wire.is_quiet()
    assert await wire.receive() == b""


async def test_a_full_buffer_takes_nothing(pair: Pair) -> None:
    wire, _ = pair
    while wire.send_nowait(b"x" * 65536):
        pass
    assert wire.send_nowait(b"x") == 0


async def test_all_is_sent_though_the_buffer_is_full(pair: Pair) -> None:
    wire, peer = pair
    data = bytes(range(256)) * 20_000
    received = b""
    peer.setblocking(False)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wire.send_all, data)
        while len(received) < len(data):
            await trio.lowlevel.wait_readable(peer)
            received += peer.recv(65536)
    assert received == data


async def test_a_false_alarm_is_waited_out() -> None:
    ours, theirs = socket.socketpair()
    hesitant = Hesitant(fileno=ours.detach())
    hesitant.setblocking(False)
    with hesitant, theirs:
        theirs.send(b"x")
        assert await PlainStream(hesitant).receive() == b"x"


async def test_a_wire_that_the_other_side_closed_is_broken(pair: Pair) -> None:
    wire, peer = pair
    peer.close()
    with pytest.raises(StreamBroken, match="Broken pipe"):
        wire.send_nowait(b"x")
    with pytest.raises(StreamBroken, match="Broken pipe"):
        await wire.send_all(b"x")


async def test_closing_wakes_who_waits(pair: Pair) -> None:
    wire, _ = pair

    async def wait() -> None:
        with pytest.raises(trio.ClosedResourceError):
            await wire.receive()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        wire.close_nowait()
        wire.close_nowait()


async def test_closing_is_told_even_to_who_was_woken_by_bytes() -> None:
    """Bytes and closing can come in one turn of the loop: then the socket is gone when it is read."""
    ours, theirs = socket.socketpair()
    gone = Gone(fileno=ours.detach())
    gone.setblocking(False)
    with gone, theirs:
        theirs.send(b"x")
        with pytest.raises(trio.ClosedResourceError):
            await PlainStream(gone).receive()


async def test_sending_on_a_closed_wire(pair: Pair) -> None:
    wire, _ = pair
    wire.close_nowait()
    with pytest.raises(trio.ClosedResourceError):
        wire.send_nowait(b"x")
