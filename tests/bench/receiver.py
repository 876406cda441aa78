"""The receiver of the benches: a process of its own that answers 200 as fast as Python can.

It is no HTTP server in any wider sense: it finds the end of each request by ``content-length`` and
sends the same prepared answer. ``GET /`` gives what it counted, as JSON, and sets the counts to zero:
``{"requests": n, "arrivals": {"<webhook-id>": <monotonic ns>}}``. Arrivals are kept only with the
argument ``record``; ``port=N`` makes it listen there. With ``flaky`` it answers 503 to one request in
four, at random. It prints its port, and ends when its standard input does.
"""

from __future__ import annotations

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
_ID = re.compile(rb"\r\nwebhook-id: ([^\r]+)\r\n")


class Counter:
    """What came so far."""

    def __init__(self, record: bool, flaky: bool) -> None:
        self.record = record
        self._chance = random.Random(4) if flaky else None
        self.requests = 0
        self.arrivals: dict[str, int] = {}

    def take(self) -> bytes:
        """The counts as an HTTP answer; they begin anew."""
        body = json.dumps({"requests": self.requests, "arrivals": self.arrivals}).encode()
        self.requests, self.arrivals = 0, {}
        return b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)

    def handle(self, data: bytes) -> tuple[bytes, bytes]:
        """Take whole requests off the data; give what to answer and what is left."""
        answers = b""
        while (end := data.find(b"\r\n\r\n") + 4) > 3:
            if data.startswith(b"GET"):
                answers += self.take()
                data = data[end:]
                continue
            length = _LENGTH.search(data, 0, end)
            size = end + (int(length[1]) if length else 0)
            if len(data) < size:
                break
            if self._chance is not None and self._chance.random() < 0.25:
                answers += _BUSY
            else:
                self._count(data, end)
                answers += _OK
            data = data[size:]
        return answers, data

    def _count(self, data: bytes, end: int) -> None:
        self.requests += 1
        if self.record and (found := _ID.search(data, 0, end)):
            self.arrivals.setdefault(found[1].decode(), time.monotonic_ns())


def serve(counter: Counter, port: int) -> None:
    """Serve until standard input ends."""
    listener = socket.create_server(("127.0.0.1", port), backlog=4096)
    print(listener.getsockname()[1], flush=True)
    poll = select.epoll()
    poll.register(listener, select.EPOLLIN)
    poll.register(0, select.EPOLLIN | select.EPOLLHUP)
    clients: dict[int, tuple[socket.socket, bytes]] = {}
    while True:
        for fd, _ in poll.poll():
            if fd == 0:
                return
            if fd == listener.fileno():
                client, _ = listener.accept()
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
    ports = [int(argument[5:]) for argument in sys.argv if argument.startswith("port=")]
    serve(Counter("record" in sys.argv, "flaky" in sys.argv), ports[0] if ports else 0)
