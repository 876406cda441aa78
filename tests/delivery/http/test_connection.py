"""A connection whose stream breaks at awkward moments, or whose receiver waits for acknowledgements."""

import socket
import sys

import pytest
import trio

from tests.delivery.http.raw_receiver import OK
from tests.public.delivery import SMALL_REQUEST as SMALL
from tests.public.delivery import OutgoingConnection, PlainStream, SendFailed, StreamBroken

ORIGIN = ("http", "127.0.0.1", 80)


class BrokenStream:
    """Accepts no request; the bytes that arrived before it broke can still be read."""

    def __init__(self, *received: bytes, takes: int | None = None) -> None:
        self._received = list(received)
        self._takes = takes

    def has_arrivals(self) -> bool:
        return bool(self._received)

    def send_nowait(self, data: bytes | memoryview) -> int:
        if self._takes is None:
            raise StreamBroken("Broken pipe")
        return self._takes

    async def send_all(self, data: bytes) -> None:
        await trio.lowlevel.checkpoint()
        raise StreamBroken("Broken pipe")

    async def receive(self) -> bytes:
        for _ in range(3):
            await trio.lowlevel.checkpoint()
        if self._received:
            return self._received.pop(0)
        raise StreamBroken("Connection reset by peer")

    def acknowledge_nowait(self) -> None:
        """Nothing to acknowledge."""

    def close_nowait(self, *, drop: bool = False) -> None:
        """Nothing to close."""

    def interrupt_nowait(self) -> None:
        """Nothing to interrupt."""

    def resume_nowait(self) -> None:
        """Nothing to resume."""

    @property
    def fileno(self) -> int:
        raise NotImplementedError


@pytest.mark.parametrize("size", [7, SMALL, SMALL + 1])
@pytest.mark.parametrize("takes", [None, 0, 3], ids=["at once", "while waiting", "in the middle"])
async def test_a_response_from_before_the_break_counts(takes: int | None, size: int) -> None:
    connection = OutgoingConnection(BrokenStream(OK, takes=takes), ORIGIN, 100)
    await connection.exchange(b"r" * size)
    response = connection.response(trio.current_time())
    assert (response.status, response.complete) == (200, True)
    assert not connection.reusable


@pytest.mark.parametrize("size", [7, SMALL, SMALL + 1])
@pytest.mark.parametrize("takes", [None, 0, 3], ids=["at once", "while waiting", "in the middle"])
async def test_without_a_response_sending_failed(takes: int | None, size: int) -> None:
    connection = OutgoingConnection(BrokenStream(takes=takes), ORIGIN, 100)
    await connection.exchange(b"r" * size)
    with pytest.raises(SendFailed, match=r"before the whole request was sent: Broken pipe\."):
        connection.response(trio.current_time())
    assert not connection.reusable


class WorkingStream(BrokenStream):
    """Writes down what is done with it, and takes what it is told to take."""

    def __init__(self, done: list[str], takes: int) -> None:
        super().__init__(OK, takes=takes)
        self._done = done

    async def send_all(self, data: bytes) -> None:
        await trio.lowlevel.checkpoint()
        self._done.append("sent")

    async def receive(self) -> bytes:
        self._done.append("receive")
        return await super().receive()


@pytest.mark.parametrize(
    ("takes", "size", "expected"),
    [
        (7, 7, ["meanwhile", "receive"]),
        (0, 7, ["sent", "meanwhile", "receive"]),
        (3, SMALL + 1, ["receive", "sent"]),
    ],
    ids=["at once", "by TLS", "in parts"],
)
async def test_what_is_done_meanwhile_delays_neither_the_request_nor_its_rest(
    takes: int, size: int, expected: list[str]
) -> None:
    done: list[str] = []
    connection = OutgoingConnection(WorkingStream(done, takes), ORIGIN, 100)
    await connection.exchange(b"r" * size, meanwhile=lambda: done.append("meanwhile"))
    assert done == expected
    assert connection.response(trio.current_time()).status == 200


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no TCP_QUICKACK")
async def test_the_first_part_of_a_response_is_acknowledged_at_once() -> None:
    """A receiver without ``TCP_NODELAY`` sends the body 40 ms later otherwise, for each event of the lane."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ours = socket.create_connection(listener.getsockname())
        theirs = listener.accept()[0]
    ours.setblocking(False)
    at_once: list[int] = []

    async def send_body(_length: int) -> None:
        at_once.append(ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK))
        theirs.send(b"ok")
        await trio.lowlevel.checkpoint()

    with theirs:
        connection = OutgoingConnection(PlainStream(ours), ORIGIN, 100)
        for _ in range(5):  # the kernel delays its acknowledgements once a connection goes back and forth
            await connection.exchange(
                b"request", send_body, lambda: theirs.send(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n")
            )
            assert connection.response(trio.current_time()).body == b"ok"
        connection.stream.close_nowait()
    assert at_once == [1] * 5
