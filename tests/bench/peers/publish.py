"""The load: publishers with a connection each, which wait for each answer before their next event."""

import heapq
import select
import socket
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.bench.load import connect, read_answer
from tests.bench.peers.marks import PLACE, make_mark

RECONNECT = 0.05
"""How long a publisher waits after its connection was lost or refused, in seconds."""
PATIENCE = 30.0
"""How long the load waits for its last answers, in seconds."""


@dataclass
class Published:
    """What came of a load.

    Attributes:
        accepted: the publisher and the number of each event that was answered with a 2xx.
        unknown: those whose connection was lost before the answer: the system may have them or not.
        refused: how many answers had each other status.
        began: when the load began (monotonic ns).
        each: how many destinations each publisher sends to, in turn.
        took: how long each exchange took, in seconds.
    """

    accepted: set[tuple[int, int]] = field(default_factory=set)
    unknown: set[tuple[int, int]] = field(default_factory=set)
    refused: Counter[int] = field(default_factory=Counter)
    began: int = 0
    each: int = 1
    took: list[float] = field(default_factory=list)


def publish(
    port: int,
    requests: Sequence[Sequence[bytes]],
    *,
    first: int,
    seconds: float,
    rate: float | None = None,
    most: int | None = None,
) -> Published:
    """Publish for that long, and return what the system answered.

    Args:
        port: of the system on 127.0.0.1.
        requests: of each publisher, which sends them in turn: one for each of its destinations, with
            :data:`~tests.bench.peers.marks.PLACE` in its body. All publishers have as many.
        first: the number of the first publisher; others follow.
        seconds: no event is due later.
        rate: events a second of all publishers together, each in its turn. An event that is due while its
            publisher still waits for an answer waits, too, and its latency counts from when it was due. None:
            each publisher sends its next event as soon as the last one is answered.
        most: events of all publishers together.
    """
    load = _Load(port, requests, first, seconds, rate, most)
    try:
        return load.run()
    finally:
        load.close()


class _Publisher:
    """A connection and the event that is its next or under way."""

    def __init__(self, identity: int, requests: Sequence[bytes], due: int) -> None:
        self.identity = identity
        self._parts = [request.split(PLACE) for request in requests]
        self.number = 0
        self.due = due
        self.sent = 0
        self.socket: socket.socket | None = None

    @property
    def event(self) -> tuple[int, int]:
        return (self.identity, self.number)

    def send(self, port: int) -> socket.socket:
        """Send the event.

        Raises:
            OSError: there is no connection.
        """
        if self.socket is None:
            self.socket = connect(port)
            self.socket.settimeout(PATIENCE)
        self.sent = time.monotonic_ns()
        head, tail = self._parts[self.number % len(self._parts)]
        self.socket.sendall(head + make_mark(self.identity, self.number, self.due) + tail)
        return self.socket

    def close(self) -> None:
        if self.socket is not None:
            self.socket.close()
            self.socket = None


class _Load:
    """The publishers of one load: each is idle until its next event is due, or waits for an answer."""

    def __init__(
        self,
        port: int,
        requests: Sequence[Sequence[bytes]],
        first: int,
        seconds: float,
        rate: float | None,
        most: int | None,
    ) -> None:
        began = time.monotonic_ns()
        self._port, self._left = port, most
        self._end = began + int(seconds * 1e9)
        # Between two events of a publisher. The first ones of all publishers are spread over it, too.
        self._step = int(1e9 * len(requests) / rate) if rate else None
        self._publishers = [
            _Publisher(first + place, own, began + (self._step or 0) * place // len(requests))
            for place, own in enumerate(requests)
        ]
        self._idle = [(publisher.due, publisher.identity, publisher) for publisher in self._publishers]
        self._waiting: dict[int, _Publisher] = {}
        self._poll = select.epoll()
        self._result = Published(began=began, each=len(requests[0]))

    def run(self) -> Published:
        heapq.heapify(self._idle)
        self._send_due()
        while self._idle or self._waiting:
            pause = PATIENCE
            if self._idle:
                pause = max(0.0, (self._idle[0][0] - time.monotonic_ns()) / 1e9)
            for fd, _ in self._poll.poll(pause):
                self._receive(self._waiting.pop(fd), fd)
            if time.monotonic_ns() > self._end + PATIENCE * 1e9:
                self._result.unknown.update(publisher.event for publisher in self._waiting.values())
                break
            self._send_due()
        return self._result

    def _send_due(self) -> None:
        while self._idle and self._idle[0][0] <= time.monotonic_ns():
            _, _, publisher = heapq.heappop(self._idle)
            if publisher.due > self._end or self._left == 0:
                continue
            try:
                client = publisher.send(self._port)
            except OSError:
                publisher.close()
                now = time.monotonic_ns()
                if now < self._end + PATIENCE * 1e9:
                    self._put_idle(now + int(RECONNECT * 1e9), publisher)
                continue
            self._waiting[client.fileno()] = publisher
            self._poll.register(client, select.EPOLLIN)
            if self._left is not None:
                self._left -= 1

    def _receive(self, publisher: _Publisher, fd: int) -> None:
        self._poll.unregister(fd)
        assert publisher.socket is not None
        try:
            status = read_answer(publisher.socket)
        except OSError:
            self._result.unknown.add(publisher.event)
            publisher.close()
        else:
            if 200 <= status < 300:
                self._result.accepted.add(publisher.event)
            else:
                self._result.refused[status] += 1
            self._result.took.append((time.monotonic_ns() - publisher.sent) / 1e9)
        publisher.number += 1
        publisher.due = time.monotonic_ns() if self._step is None else publisher.due + self._step
        self._put_idle(publisher.due, publisher)

    def _put_idle(self, until: int, publisher: _Publisher) -> None:
        heapq.heappush(self._idle, (until, publisher.identity, publisher))

    def close(self) -> None:
        self._poll.close()
        for publisher in self._publishers:
            publisher.close()
