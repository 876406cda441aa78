"""A client that keeps a server busy: some connections, each with one request under way at any time."""

from __future__ import annotations

import re
import select
import socket
import time
from collections import Counter
from dataclasses import dataclass, field

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)


@dataclass
class Load:
    """What came of it.

    Attributes:
        seconds: how long it took.
        statuses: how many answers had each status.
        took: how long each exchange took, in seconds.
    """

    seconds: float = 0.0
    statuses: Counter[int] = field(default_factory=Counter)
    took: list[float] = field(default_factory=list)

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


def drive(port: int, request: bytes, *, connections: int, seconds: float) -> Load:
    """Send the request over and over on each connection for that long.

    Args:
        port: of the server on 127.0.0.1.
        request: head and body; its answers must have a ``content-length``.

    Raises:
        ConnectionError: the server closed a connection.
    """
    load, poll = Load(), select.epoll()
    clients: dict[int, tuple[socket.socket, float]] = {}
    try:
        for _ in range(connections):
            client = socket.create_connection(("127.0.0.1", port))
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            clients[client.fileno()] = (client, 0.0)
            poll.register(client, select.EPOLLIN)
        began = time.perf_counter()
        for fd, (client, _) in clients.items():
            client.sendall(request)
            clients[fd] = (client, time.perf_counter())
        while (now := time.perf_counter()) < began + seconds:
            for fd, _ in poll.poll(1.0):
                client, sent = clients[fd]
                load.statuses[_read_answer(client)] += 1
                now = time.perf_counter()
                load.took.append(now - sent)
                clients[fd] = (client, now)
                client.sendall(request)
        load.seconds = now - began
    finally:
        poll.close()
        for client, _ in clients.values():
            client.close()
    return load


def _read_answer(client: socket.socket) -> int:
    data = client.recv(65536)
    while (end := data.find(b"\r\n\r\n") + 4) < 4:
        data += _more(client)
    length = _LENGTH.search(data, 0, end)
    assert length is not None, data[:end]
    while len(data) < end + int(length[1]):
        data += _more(client)
    return int(data[9:12])


def _more(client: socket.socket) -> bytes:
    data = client.recv(65536)
    if not data:
        raise ConnectionError("the server closed the connection")
    return data
