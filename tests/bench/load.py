"""A client that keeps a server busy: some connections, each with one request under way at any time."""

from __future__ import annotations

import re
import select
import socket
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.bench.parts import DATA
from tests.support.gateway_process import KEY

EVENT = b'{"event":"MESSAGES_UPSERT","data":' + DATA + b"}"
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding: *chunked\r\n", re.IGNORECASE)


@dataclass
class Load:
    """What came of it.

    Attributes:
        seconds: how long it took.
        statuses: how many answers had each status.
        took: how long each exchange took, in seconds.
        answers: how many each connection got.
    """

    seconds: float = 0.0
    statuses: Counter[int] = field(default_factory=Counter)
    took: list[float] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Answers a second."""
        return sum(self.statuses.values()) / self.seconds

    def only(self, status: int) -> Load:
        """Itself, if every answer had that status.

        Raises:
            AssertionError: some had not.
        """
        assert set(self.statuses) == {status}, self.statuses
        return self


def request_of(path: str, body: bytes) -> bytes:
    """A POST of JSON with the global key, as bytes."""
    head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\napikey: {KEY}\r\n"
    return f"{head}content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body


def drive(port: int, request: bytes, *, connections: int, seconds: float) -> Load:
    """Send the request over and over on each connection for that long.

    Args:
        port: of the server on 127.0.0.1.
        request: head and body; its answers must have a ``content-length``.

    Raises:
        ConnectionError: the server closed a connection.
    """
    return drive_all(port, [request] * connections, seconds=seconds)


def drive_all(port: int, requests: Sequence[bytes], *, seconds: float) -> Load:
    """Send each request over and over, on a connection of its own; see :func:`drive`."""
    return drive_servers([(port, request) for request in requests], seconds=seconds)


def drive_servers(requests: Sequence[tuple[int, bytes]], *, seconds: float) -> Load:
    """Send each request over and over to its port, on a connection of its own; see :func:`drive`."""
    load, poll = Load(), select.epoll()
    clients: dict[int, _Client] = {}
    try:
        for port, request in requests:
            client = _Client(connect(port), request)
            clients[client.socket.fileno()] = client
            poll.register(client.socket, select.EPOLLIN)
        began = time.perf_counter()
        for client in clients.values():
            client.send()
        while (now := time.perf_counter()) < began + seconds:
            for fd, _ in poll.poll(1.0):
                client = clients[fd]
                load.statuses[read_answer(client.socket)] += 1
                load.took.append(time.perf_counter() - client.sent)
                client.answers += 1
                client.send()
        load.seconds = now - began
        load.answers = [client.answers for client in clients.values()]
    finally:
        poll.close()
        for client in clients.values():
            client.socket.close()
    return load


@dataclass
class _Client:
    socket: socket.socket
    request: bytes
    sent: float = 0.0
    answers: int = 0

    def send(self) -> None:
        self.sent = time.perf_counter()
        self.socket.sendall(self.request)


def connect(port: int) -> socket.socket:
    """A connection to a server on 127.0.0.1; the caller closes it."""
    client = socket.create_connection(("127.0.0.1", port))
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return client


def read_answer(client: socket.socket) -> int:
    """The status of the next answer, once all of it is there.

    Args:
        client: gets an answer with a ``content-length`` or in chunks.

    Raises:
        ConnectionError: the server closed the connection.
    """
    data = client.recv(65536)
    while (end := data.find(b"\r\n\r\n") + 4) < 4:
        data += _more(client)
    length = _LENGTH.search(data, 0, end)
    if length is not None:
        while len(data) < end + int(length[1]):
            data += _more(client)
    else:
        assert _CHUNKED.search(data, 0, end) is not None, data[:end]
        while not data.endswith(b"\r\n0\r\n\r\n"):
            data += _more(client)
    return int(data[9:12])


def _more(client: socket.socket) -> bytes:
    data = client.recv(65536)
    if not data:
        raise ConnectionError("the server closed the connection")
    return data
