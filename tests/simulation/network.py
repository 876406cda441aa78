"""The simulated network: names, addresses, connections and receivers.

A connection is a pair of sockets within the process: hookgw's own streams, parsers and pools run on one end,
a receiver on the other. What a receiver does with a request follows from its mood.
"""

from __future__ import annotations

import errno
import random
import select
import socket
import zlib
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Protocol

import msgspec
import trio

from tests.public.delivery import Found

PRIVATE = "10.0.0.9"

# How often a receiver of a mood does what. Of ``answer``, the statuses follow below.
MOODS: dict[str, dict[str, float]] = {
    "healthy": {"answer": 1},
    "slow": {"answer": 0.6, "late": 0.4},
    "flaky": {"answer": 0.5, "hang": 0.05, "close": 0.15, "garbage": 0.1, "drip": 0.1, "reset": 0.1},
    "busy": {"answer": 1},
    "failing": {"answer": 0.9, "close": 0.1},
    "liar": {"too_long": 0.3, "cut": 0.15, "too_short": 0.1, "surplus": 0.2, "chunks": 0.1, "answer": 0.15},
    "picky": {"answer": 1},
    "gone": {"answer": 1},
    "hanging": {"hang": 0.7, "late": 0.3},
    "down": {"answer": 1},
}
STATUSES: dict[str, list[int]] = {
    "healthy": [200, 200, 201, 204],
    "slow": [200, 202, 500],
    "flaky": [200, 200, 500, 503, 504, 404, 302],
    "busy": [503, 429, 429, 200],
    "failing": [500, 404, 500, 302, 403],
    "liar": [200, 200, 500],
    "picky": [200, 400, 422, 200],
    "gone": [410, 200, 200],
    "hanging": [200],
    "down": [200],
}


class Request(msgspec.Struct, kw_only=True):
    """A complete request, as a receiver sees it.

    Attributes:
        dialled: when its connection was opened, if it is the first one there.
        unread_since: since when nobody read, if it may have been sent before it arrived.
    """

    path: str
    headers: Mapping[str, str]
    body: bytes
    dialled: float | None
    unread_since: float | None = None


class Observer(Protocol):
    """Hears what happens at receivers."""

    def arrived(self, request: Request) -> int:
        """Note a complete request, and return its number."""

    def answered(
        self, number: int, outcome: str, status: int = 0, wait: float = 0.0, decided: float | None = None
    ) -> None:
        """Note the end of an exchange, and when the head of the answer was complete, if that was before."""


class Host:
    """A receiver, or several behind one name.

    Attributes:
        address: what its name resolves to.
        mood: what it does with requests.
        names: whether its name is ``found``, ``lost``, ``slow``, or ``private``.
    """

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self.address = f"93.184.216.{number}"
        self.mood = "healthy"
        self.lookup = "found"


class Network:
    """All hosts, and the connections to them.

    Args:
        hosts: by name.
        chance: the seed's.
        observer: hears of requests and answers.
        latest: the longest usual time until an answer, in seconds.
    """

    def __init__(self, hosts: list[Host], chance: random.Random, observer: Observer, latest: float) -> None:
        self.hosts = {host.name: host for host in hosts}
        self._chance = chance
        self._observer = observer
        self._latest = latest
        self.nursery: trio.Nursery

    def line(self) -> Line:
        """Return the network as one start of the gateway sees it; it can be cut."""
        return Line(self)

    async def serve(self, sock: socket.socket, host: Host, dialled: float, line: Line) -> None:
        """Be a receiver on a connection."""
        stream = trio.socket.from_stdlib_socket(sock)
        buffer, first = b"", True
        try:
            with suppress(OSError, trio.ClosedResourceError, trio.BrokenResourceError):
                while True:
                    if self._chance.random() < 0.05 and not first:
                        await trio.sleep(self._chance.random() * 20)  # and close: an idle connection ends
                        return
                    unread_since = None
                    if host.mood == "hanging" and self._chance.random() < 0.3:
                        unread_since = trio.current_time()
                        await trio.sleep(self._chance.random() * 60)  # and read what the system has taken
                        if line.is_cut:
                            return
                    request, buffer = await _read(stream, buffer)
                    if request is None:
                        return
                    request.dialled = dialled if first else None
                    request.unread_since = unread_since
                    first = False
                    if not await self._answer(stream, host, self._observer.arrived(request)):
                        return
        finally:
            stream.close()
            line.ends.pop(sock, None)

    async def _answer(  # noqa: C901 -- a list of what receivers do
        self, stream: trio.socket.SocketType, host: Host, number: int
    ) -> bool:
        """Answer a request, and return whether the connection goes on."""
        chance, mood = self._chance, host.mood
        kinds = MOODS[mood]
        kind = chance.choices(list(kinds), list(kinds.values()))[0]
        status = chance.choice(STATUSES[mood])
        wait, headers = 0.0, ""
        if status in (429, 503) and chance.random() < 0.7:
            wait = float(chance.choice((1, 7, 60, 600, 9000)))
            headers = f"retry-after: {wait:.0f}\r\n"
        end = self._observer.answered
        try:
            if kind == "late":
                await trio.sleep(chance.random() * 20)
            elif self._latest and chance.random() < 0.3:
                await trio.sleep(chance.random() * self._latest)
            if kind == "hang":
                # After the deadline the gateway goes on listening: nobody here knows when that was.
                await _wait_for_end(stream)
                end(number, "unknown")
                return False
            if kind in ("close", "reset"):
                end(number, "unanswered")
                return False
            if kind == "garbage":
                await stream.send(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")
                end(number, "unreachable", 1)  # no HTTP: whatever this is, it has not taken the event
                return False
            outcome, body = _outcome(status), b"" if status == 204 else b'{"ok":true}'
            length = "" if status == 204 else f"content-length: {len(body)}\r\n"
            if kind in ("too_long", "cut"):
                length = "content-length: 99\r\n"
            elif kind == "too_short" and body:
                length = "content-length: 3\r\n"
            elif kind == "chunks" and body:
                length, body = "transfer-encoding: chunked\r\n", b"zz\r\nnonsense"
            head = f"HTTP/1.1 {status} X\r\n{headers}{length}\r\n".encode()
            if kind == "drip":
                for part in (head[:9], head[9:], body[:4]):
                    await stream.send(part)
                    await trio.sleep(chance.random() * 8)
                await stream.send(body[4:])
            elif kind == "surplus":
                await stream.send(head + body + b"HTTP/1.1 200 X\r\ncontent-length: 0\r\n\r\n")
            elif kind == "too_long":
                await stream.send(head + body)
                decided = trio.current_time()
                await _wait_for_end(stream)
                end(number, outcome, status, wait, decided)
                return False
            else:
                await stream.send(head + body)
            end(number, outcome, status, wait)
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError):
            # The gateway has closed the connection, after a timeout or because it ends.
            end(number, "unknown")
            return False
        return kind in ("answer", "late", "drip", "surplus", "too_short")


class _Resettable(socket.socket):
    """Takes back what the peer has not read if it is closed with a reset, as TCP does (``SO_LINGER``)."""

    peer: socket.socket

    def close(self) -> None:
        if self.fileno() >= 0 and self.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER):
            with suppress(OSError):
                while self.peer.recv(65536):
                    pass
        super().close()


class Line:
    """The network of one start of the gateway."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self.is_cut = False
        self.ends: dict[socket.socket, None] = {}  # in this order: that of a set differs

    def cut(self) -> None:
        """Break every connection: the process is gone."""
        self.is_cut = True
        for end in list(self.ends):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def count_open(self) -> int:
        """Return how many connections the gateway has not closed, whether receivers look or not."""
        return sum(not _has_ended(end) for end in self.ends)

    async def resolve(self, host: str, port: int, **options: Any) -> Found:
        """Look a name up. It is a :data:`~hookgw.delivery.http.resolver.Resolve`."""
        await trio.lowlevel.checkpoint()
        found = self._network.hosts.get(host)
        if found is None or found.lookup == "lost":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        if found.lookup == "slow":
            await trio.sleep(self._network._chance.random() * 8)
        address = PRIVATE if found.lookup == "private" else found.address
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    async def connect(self, address: tuple[Any, ...]) -> socket.socket:
        """Open a connection. It is a :data:`~hookgw.delivery.http.happy_eyeballs.Connect`."""
        dialled = trio.current_time()
        await trio.lowlevel.checkpoint()
        chance = self._network._chance
        found = [host for host in self._network.hosts.values() if host.address == address[0]]
        if self.is_cut:
            raise OSError(errno.ENETUNREACH, "Network is unreachable")
        if not found or (found[0].mood == "down" and chance.random() < 0.8):
            raise OSError(errno.ECONNREFUSED, "Connection refused")
        if found[0].mood in ("down", "hanging") and chance.random() < 0.3:
            await trio.sleep_forever()
        if chance.random() < 0.1:
            await trio.sleep(chance.random())
            if self.is_cut:
                raise OSError(errno.ENETUNREACH, "Network is unreachable")
        pair, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        ours = _Resettable(fileno=pair.detach())
        ours.setblocking(False)
        ours.peer = theirs
        self.ends[theirs] = None
        self._network.nursery.start_soon(self._network.serve, theirs, found[0], dialled, self)
        return ours


def _outcome(status: int) -> str:
    if status < 300:
        return "delivered"
    if status in (400, 422):
        return "rejected"
    if status == 410:
        return "gone"
    if status == 504:
        return "unanswered"
    return "unreachable" if status in (429, 503) else "failed"


def _has_ended(end: socket.socket) -> bool:
    poll = select.poll()
    poll.register(end, select.POLLRDHUP)
    return bool(poll.poll(0))


async def _read(stream: trio.socket.SocketType, buffer: bytes) -> tuple[Request | None, bytes]:
    """Return the next request, and what came after it; ``None`` at the end."""
    while b"\r\n\r\n" not in buffer:
        data = await stream.recv(65536)
        if not data:
            return None, b""
        buffer += data
    head, _, rest = buffer.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    length = int(headers.get("content-length", "0"))
    while len(rest) < length:
        data = await stream.recv(65536)
        if not data:
            return None, b""
        rest += data
    path = first.split(" ")[1]
    return Request(path=path, headers=headers, body=rest[:length], dialled=None), rest[length:]


async def _wait_for_end(stream: trio.socket.SocketType) -> None:
    with suppress(OSError):
        while await stream.recv(4096):
            pass


def checksum(body: bytes) -> int:
    """Return what tells bodies apart."""
    return zlib.crc32(body)
