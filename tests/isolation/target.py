"""What an attack can do: the gateway as a tenant reaches it, and receivers that behave badly."""

from __future__ import annotations

import gzip
import re
import ssl
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode

import msgspec
import trio

from tests.isolation.wire import Closed, Connection, render

ADDRESSES = [f"127.0.0.{number}" for number in range(2, 12)]
"""The attacker's addresses: limits per address are not the only defence."""
NAME = "attacker"

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)
_COOKIE = re.compile(rb"set-cookie: ([^;]+)", re.IGNORECASE)
_OK = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"

Behaviour = Callable[[trio.abc.Stream], Awaitable[None]]
"""What a receiver does once a whole request has arrived; it returns to read the next one."""


class Refused(Exception):
    """A call that prepares an attack was answered with an error."""


class Target:
    """The gateway under attack.

    Args:
        port: of the gateway, on 127.0.0.1.
        global_key: creates the attacker's instances. Attacks use instance keys for what a tenant can do.
        nursery: for receivers and floods.
        seconds: how long the attack may take after its preparation.
        full: whether an attack is to have its full size, which takes minutes.

    Attributes:
        counts: what the gateway answered, by what the attack calls it.
        begun: set when the attack may begin.
        limit: the scope in which the attack runs; its deadline is set by :meth:`begin`.
    """

    def __init__(
        self, port: int, global_key: str, nursery: trio.Nursery, *, seconds: float, full: bool
    ) -> None:
        self._seconds = seconds
        self.limit = trio.CancelScope()
        self.begun = trio.Event()
        self.port = port
        self.global_key = global_key
        self.full = full
        self.nursery = nursery
        self.counts: Counter[str] = Counter()
        self._admin = Connection(port, ADDRESSES[0])
        self._turn = trio.Lock()

    def another(self) -> Target:
        """Return the same target, for calls that must not wait for those of this one."""
        return Target(self.port, self.global_key, self.nursery, seconds=self._seconds, full=self.full)

    async def begin(self) -> None:
        """Say that the preparation is complete, and wait until the attack may begin."""
        print("ready", flush=True)
        await trio.to_thread.run_sync(sys.stdin.readline)
        self.limit.deadline = trio.current_time() + self._seconds
        self.begun.set()

    async def log_in(self, key: str) -> str:
        """Log in to the dashboard with a key; return the ``cookie`` header of the session."""
        async with Connection(self.port, ADDRESSES[0]) as connection:
            head, page = await connection.exchange_whole(render("GET", "/dashboard/login"))
            visit = _COOKIE.findall(head)[0].decode()
            token = re.findall(rb'name="form_token" value="([^"]+)"', page)[0].decode()
            body = urlencode({"form_token": token, "key": key}).encode()
            headers = {"content-type": "application/x-www-form-urlencoded", "cookie": visit}
            head, page = await connection.exchange_whole(
                render("POST", "/dashboard/login", body, headers=headers)
            )
            if not head.startswith(b"HTTP/1.1 303"):
                raise Refused(f"the login: {head!r} {page[:300]!r}")
            cookie: bytes = _COOKIE.findall(head)[0]
            return cookie.decode()

    async def call(
        self, method: str, path: str, body: Any = None, *, key: str | None = None, right: tuple[int, ...] = ()
    ) -> Any:
        """Make one call and return the decoded response.

        Args:
            body: encoded as JSON; nothing is sent for ``None``.
            key: the global key by default.
            right: the statuses that are expected; any 2xx by default.

        Raises:
            Refused: the response has another status.
        """
        content = b"" if body is None else msgspec.json.encode(body)
        async with self._turn:
            status, answer = await self._admin.exchange(
                render(method, path, content, key=key or self.global_key)
            )
        if status not in right and not (200 <= status <= 299 and not right):
            raise Refused(f"{method} {path}: {status} {answer[:300]!r}")
        return msgspec.json.decode(answer)

    async def tenant(self, name: str = NAME) -> str:
        """Create an instance and return its key."""
        created = await self.call("POST", "/instance/create", {"instanceName": name})
        key = created["hash"]
        assert isinstance(key, str)
        return key

    async def register(self, url: str, *, name: str = NAME, label: str = "default", **fields: Any) -> None:
        await self.call("POST", f"/webhook/set/{name}/{label}", {"url": url, **fields})

    async def flood(
        self,
        requests: Callable[[], bytes],
        *,
        connections: int = 4,
        pause: float = 0.0,
        ramp: float = 0.0,
        label: str = "",
    ) -> None:
        """Send requests one after the other on each connection, until cancelled.

        Args:
            requests: makes the next request.
            connections: how many.
            pause: seconds between a response and the next request.
            ramp: seconds between the first requests of two connections.
            label: what the responses are counted as.
        """

        async def one(number: int) -> None:
            async with Connection(self.port, ADDRESSES[number % len(ADDRESSES)]) as connection:
                while True:
                    try:
                        status, _ = await connection.exchange(requests())
                        self.counts[f"{label} {status}".strip()] += 1
                    except (Closed, OSError) as error:
                        self.counts[f"{label} {type(error).__name__}".strip()] += 1
                        await trio.sleep(0.01)
                    # A client without a pause would never let the other tasks of this process run.
                    await trio.sleep(pause)

        async with trio.open_nursery() as nursery:
            for number in range(connections):
                nursery.start_soon(one, number)
                await trio.sleep(ramp)

    async def receiver(
        self, behaviour: Behaviour | None = None, *, port: int = 0, context: ssl.SSLContext | None = None
    ) -> str:
        """Run a receiver for the rest of the attack.

        Args:
            behaviour: 200 at once by default.
            port: where it listens; any free port by default.
            context: for TLS.

        Returns:
            its URL.
        """
        [listener] = await trio.open_tcp_listeners(port, host="127.0.0.1", backlog=4096)
        assert isinstance(listener, trio.SocketListener)

        async def serve(stream: trio.SocketStream) -> None:
            over: trio.abc.Stream = stream
            if context is not None:
                over = trio.SSLStream(stream, context, server_side=True, https_compatible=True)
            try:
                await _read_requests(over, behaviour or ok)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                pass
            finally:
                stream.socket.close()

        self.nursery.start_soon(trio.serve_listeners, serve, [listener])
        scheme = "http" if context is None else "https"
        return f"{scheme}://127.0.0.1:{listener.socket.getsockname()[1]}/"


async def _read_requests(stream: trio.abc.Stream, behaviour: Behaviour) -> None:
    data = b""
    while more := await stream.receive_some(65_536):
        data += more
        end = data.find(b"\r\n\r\n") + 4
        if end < 4:
            continue
        length = _LENGTH.search(data, 0, end)
        # The body is counted, not kept: the attacker needs its memory for the attack.
        missing = end + (int(length[1]) if length else 0) - len(data)
        while missing > 0 and (more := await stream.receive_some(min(65_536, missing))):
            missing -= len(more)
        data = b""
        await behaviour(stream)


async def ok(stream: trio.abc.Stream) -> None:
    """Answer 200."""
    await stream.send_all(_OK)


async def hang(stream: trio.abc.Stream) -> None:
    """Answer nothing."""
    del stream
    await trio.sleep_forever()


async def drip(stream: trio.abc.Stream) -> None:
    """Answer a byte at a time: the head to its end, then a body without end."""
    await stream.send_all(b"HTTP/1.1 ")
    for byte in b"200 OK\r\ntransfer-encoding: chunked\r\n\r\n":
        await stream.send_all(bytes([byte]))
        await trio.sleep(0.02)
    while True:
        await stream.send_all(b"1\r\nx\r\n")
        await trio.sleep(0.02)


_BOMB = gzip.compress(bytes(50 * 2**20))


async def bomb(stream: trio.abc.Stream) -> None:
    """Answer 200 with 50 MiB of zeros in 50 KiB of gzip."""
    head = f"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: {len(_BOMB)}\r\n\r\n"
    await stream.send_all(head.encode() + _BOMB)


def status(code: int, headers: Mapping[str, str] = {}, body: bytes = b"") -> Behaviour:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    answer = f"HTTP/1.1 {code} X\r\ncontent-length: {len(body)}\r\n{lines}\r\n".encode() + body

    async def answer_it(stream: trio.abc.Stream) -> None:
        await stream.send_all(answer)

    return answer_it


def event(data: bytes = b"{}", kind: str = "CALL", event_id: str | None = None) -> bytes:
    """Return the body of an emit."""
    named = b"" if event_id is None else b',"id":"%b"' % event_id.encode()
    return b'{"event":"%b"%b,"data":%b}' % (kind.encode(), named, data)


def batch(events: list[bytes]) -> bytes:
    """Return the body of an emit of several events."""
    return b"[" + b",".join(events) + b"]"


def emit(body: bytes, key: str, *, name: str = NAME, headers: Mapping[str, str] = {}) -> bytes:
    return render("POST", f"/event/emit/{name}", body, key=key, headers=headers)


@asynccontextmanager
async def attacking(port: int, global_key: str, *, seconds: float, full: bool) -> AsyncIterator[Target]:
    """Yield the target; at the end of the block its receivers end."""
    async with trio.open_nursery() as nursery:
        yield Target(port, global_key, nursery, seconds=seconds, full=full)
        nursery.cancel_scope.cancel()
