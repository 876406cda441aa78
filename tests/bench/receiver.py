"""The receiver of the benches: a process of its own that answers 200 as fast as Python can.

It is no HTTP server in any wider sense: it finds the end of each request, which is JSON with a
``content-length`` or in chunks, and sends the same prepared answer. ``GET /`` gives what it counted, as JSON,
and sets the counts to zero: ``{"requests": n, "arrivals": {"<webhook-id>": <monotonic ns>}}``. Arrivals are
kept only with the argument ``record``; ``port=N`` makes it listen there, and ``addresses=N`` on that many
addresses of loopback, from 127.0.0.1. With ``flaky`` it answers 503 to one request in four, at random. It
prints its port, and ends when its standard input does.
"""

import json
import random
import re
import resource
import select
import socket
import sys
import time

_OK = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
_BUSY = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding: *chunked\r\n", re.IGNORECASE)
_ID = re.compile(rb"\r\nwebhook-id: ([^\r]+)\r\n")


class Counter:
    """What came so far."""

    def __init__(self, record: bool, failing: float) -> None:
        self.record = record
        self.failing = failing
        self._random = random.Random(4)
        self.requests = 0
        self.arrivals: dict[str, int] = {}

    def answer_get(self, head: bytes) -> bytes:
        """The counts as an HTTP answer; they begin anew."""
        body = json.dumps({"requests": self.requests, "arrivals": self.arrivals}).encode()
        self.requests, self.arrivals = 0, {}
        return b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)

    def handle(self, data: bytes) -> tuple[bytes, bytes]:
        """Take whole requests off the data; give what to answer and what is left."""
        answers = b""
        while (end := data.find(b"\r\n\r\n") + 4) > 3:
            if data.startswith(b"GET"):
                answers += self.answer_get(data[:end])
                data = data[end:]
                continue
            size = _size(data, end)
            if size is None or len(data) < size:
                break
            if self.failing and self._random.random() < self.failing:
                answers += _BUSY
            else:
                self.count(data, end, size)
                answers += _OK
            data = data[size:]
        return answers, data

    def count(self, data: bytes, end: int, size: int) -> None:
        """Count a request that is answered 200.

        Args:
            data: the request, perhaps with the next ones.
            end: of its head.
            size: of the whole request.
        """
        self.requests += 1
        if self.record and (found := _ID.search(data, 0, end)):
            self.arrivals.setdefault(found[1].decode(), time.monotonic_ns())


def _size(data: bytes, end: int) -> int | None:
    """The size of the request, whose head ends there; None if that is not known yet."""
    if length := _LENGTH.search(data, 0, end):
        return end + int(length[1])
    if not _CHUNKED.search(data, 0, end):
        return end
    # JSON has no such line, so the first one ends it.
    last = data.find(b"\r\n0\r\n\r\n", end - 2)
    return None if last < 0 else last + 7


def address_of(number: int) -> str:
    """The address of loopback with that number, from 0."""
    return f"127.0.{number // 250}.{number % 250 + 1}"


def serve(counter: Counter, port: int, addresses: int = 1) -> None:
    """Serve until standard input ends."""
    listeners: dict[int, socket.socket] = {}
    for number in range(addresses):
        listener = socket.create_server((address_of(number), port), backlog=4096)
        listeners[listener.fileno()] = listener
        port = listener.getsockname()[1]
    print(port, flush=True)
    poll = select.epoll()
    for fd in listeners:
        poll.register(fd, select.EPOLLIN)
    poll.register(0, select.EPOLLIN | select.EPOLLHUP)
    clients: dict[int, tuple[socket.socket, bytes]] = {}
    while True:
        for fd, _ in poll.poll():
            if fd == 0:
                return
            if fd in listeners:
                client, _ = listeners[fd].accept()
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                poll.register(client, select.EPOLLIN)
                clients[client.fileno()] = (client, b"")
                continue
            client, rest = clients[fd]
            try:
                data = client.recv(1 << 18)
                answers, rest = counter.handle(rest + data) if rest else counter.handle(data)
                if answers:
                    client.sendall(answers)
            except ConnectionError:
                data = b""
            if data:
                clients[fd] = (client, rest)
            else:
                del clients[fd]
                client.close()


if __name__ == "__main__":
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    given = dict(argument.split("=") for argument in sys.argv if "=" in argument)
    counter = Counter("record" in sys.argv, 0.25 if "flaky" in sys.argv else 0.0)
    serve(counter, int(given.get("port", 0)), int(given.get("addresses", 1)))
