"""A receiver for tests: a real HTTP/1.1 server on Trio that records what it gets.

It listens on a loopback port, plain or with TLS, keeps connections alive, and does with each request
what the test says (:mod:`hookgw.testing.answers`). It can go down and come back on the same port.
"""

from __future__ import annotations

import math
import ssl
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import h11
import trio

from hookgw.delivery.signing import verify
from hookgw.models.signing_keys import verifying_key
from hookgw.testing.answers import Answer, HalfClose, Step, answer
from hookgw.testing.received import Received
from hookgw.testing.wire import BodyTooLarge, Peer, Wire

_LAST_WORDS = 5.0
"""How long a client may take to read that its body is too large, in seconds."""


@dataclass(frozen=True)
class _Period:
    """One stretch of time in which the receiver listens."""

    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    ended: trio.Event = field(default_factory=trio.Event)


Choice = Answer | Callable[[Received], Answer]
"""An answer, or a function that picks one when it sees the request."""


@asynccontextmanager
async def open_receiver(
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    ssl_context: ssl.SSLContext | None = None,
    answers: Sequence[Choice] = (),
    default: Choice | None = None,
    max_body: float = math.inf,
    on_fault: Callable[[str], None] | None = None,
) -> AsyncIterator[Receiver]:
    """Run a receiver for the length of the block.

    Args:
        host: an address of this machine: ``127.0.0.1``, any other of ``127.0.0.0/8``, or ``::1``.
        port: 0 lets the machine choose one.
        ssl_context: of the server side; with one the receiver speaks TLS only.
        answers: for the first requests, in turn.
        default: for every other request; by default 200 without a body.
        max_body: the most bytes of a body that are read; a longer one is answered with 413 and not recorded.
        on_fault: hears of what clients do wrong, in the place of :attr:`Receiver.faults`.

    Yields:
        the receiver, listening. The end of the block closes its port and every connection; it waits
        for nobody.

    Raises:
        OSError: it cannot listen there.
    """
    listeners = await trio.open_tcp_listeners(port, host=host)
    async with trio.open_nursery() as nursery:
        receiver = Receiver(nursery, host, listeners, ssl_context)
        receiver.will(*answers)
        receiver.default = default or answer()
        receiver.max_body = max_body
        receiver.on_fault = on_fault or receiver.faults.append
        yield receiver
        nursery.cancel_scope.cancel()


class Receiver:
    """A running receiver; :func:`open_receiver` makes it.

    Attributes:
        requests: every request, in the order in which they were complete.
        default: what is done once the answers of :meth:`will` are used up. Assign to it at any time.
        greeting: steps done on each new connection before anything is read, also before TLS: with
            ``(Hang(),)`` a TLS handshake stalls, with ``(Reset(),)`` every connection is refused late.
        faults: what clients did wrong (requests that are not HTTP, failed TLS handshakes), as sentences.
        max_body, on_fault: as :func:`open_receiver` was given them.
        connections: how many connections there have been.
        listening: whether its port is open.
    """

    def __init__(
        self,
        nursery: trio.Nursery,
        host: str,
        listeners: list[trio.SocketListener],
        ssl_context: ssl.SSLContext | None,
    ) -> None:
        self.requests: list[Received] = []
        self.default: Choice = answer()
        self.greeting: tuple[Step, ...] = ()
        self.faults: list[str] = []
        self.max_body = math.inf
        self.on_fault: Callable[[str], None] = self.faults.append
        self.connections = 0
        self._queued: deque[Choice] = deque()
        self._arrived = trio.Event()
        self._nursery = nursery
        self._host = host
        self._port: int = listeners[0].socket.getsockname()[1]
        self._ssl_context = ssl_context
        self._period: _Period | None = None
        self._begin(listeners)

    @property
    def url(self) -> str:
        """Where it listens, with the path ``/``; it answers every other path too."""
        scheme = "http" if self._ssl_context is None else "https"
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{scheme}://{host}:{self._port}/"

    @property
    def port(self) -> int:
        """Its port, the same for its whole life."""
        return self._port

    @property
    def listening(self) -> bool:
        """Whether its port is open."""
        return self._period is not None

    @property
    def ids(self) -> list[str | None]:
        """The ``webhook-id`` of each request, in order."""
        return [request.event_id for request in self.requests]

    def will(self, *answers: Choice) -> None:
        """Do these with the next requests, one each, after those already queued."""
        self._queued.extend(answers)

    def events(self) -> list[Any]:
        """The decoded body of each request: hookgw's envelopes, unless a plugin encodes otherwise.

        Raises:
            msgspec.DecodeError: a body is no JSON.
        """
        return [request.json for request in self.requests]

    async def wait_for(self, count: int) -> list[Received]:
        """Wait until there have been that many requests; put a cancel scope round it.

        Returns:
            the first ``count`` requests.
        """
        while len(self.requests) < count:
            await self._arrived.wait()
        return self.requests[:count]

    def verify(self, request: Received, secret: str, *, now: float | None = None) -> None:
        """Check a request's signature as a receiver does (Standard Webhooks, ``v1`` and ``v1a``).

        Args:
            request: one of :attr:`requests`.
            secret: ``whsec_…`` or ``whsk_…``, as the registration has it, or the public key, ``whpk_…``.
            now: seconds since the epoch, from which the request may be five minutes off. By default
                the request's own timestamp: under a mock clock the machine's time means nothing.

        Raises:
            SignatureInvalid: a header is missing or malformed, the time is too far off, or no
                signature is this secret's.
            ValueError: the secret is malformed.
        """
        headers = dict(request.headers)
        if now is None:
            now = float(headers.get("webhook-timestamp", 0))
        verify([verifying_key(secret)], headers, request.body, now=now)

    async def stop_listening(self) -> None:
        """Close the port and every connection; returns once new ones are refused."""
        if self._period is not None:
            self._period.scope.cancel()
            await self._period.ended.wait()

    async def restart(self) -> None:
        """Listen again on the same port. Nothing changes where it listens already.

        Raises:
            OSError: somebody else has taken the port.
        """
        if self._period is not None:
            return
        self._begin(await trio.open_tcp_listeners(self._port, host=self._host))

    def _begin(self, listeners: list[trio.SocketListener]) -> None:
        self._period = _Period()
        self._nursery.start_soon(self._listen, self._period, listeners)

    async def _listen(self, period: _Period, listeners: list[trio.SocketListener]) -> None:
        try:
            with period.scope:
                await trio.serve_listeners(self._serve, listeners)
        finally:
            self._period = None
            period.ended.set()

    async def _serve(self, stream: trio.SocketStream) -> None:
        self.connections += 1
        wire = Wire(stream)
        number = self.connections
        try:
            if await wire.perform(self.greeting):
                await wire.start_tls(self._ssl_context)
                await self._serve_requests(wire, number)
        except h11.RemoteProtocolError as error:
            self.on_fault(f"connection {number}: {error}")
        except trio.BrokenResourceError as error:
            if isinstance(error.__cause__, ssl.SSLError):
                self.on_fault(f"connection {number}: {error.__cause__}")
        except BodyTooLarge as error:
            self.on_fault(f"connection {number}: {error}")
            with trio.move_on_after(_LAST_WORDS):
                await wire.perform((*answer(413).steps, HalfClose()))
        finally:
            await wire.aclose()

    async def _serve_requests(self, wire: Wire, number: int) -> None:
        peer = Peer(wire)
        while (head := await peer.read_head()) is not None:
            early = self._take_early()
            body = b"" if early else await peer.read_body(self.max_body)
            request = self._record(head, body, number)
            chosen = early or self._choose(request)
            if not await wire.perform(chosen.steps):
                return
            if early:
                await peer.read_body(self.max_body)
            if not peer.keeps_alive:
                return

    def _take_early(self) -> Answer | None:
        """The next answer, where it is known already and does not wait for the body."""
        upcoming = self._queued[0] if self._queued else self.default
        if not isinstance(upcoming, Answer) or not upcoming.early:
            return None
        if self._queued:
            self._queued.popleft()
        return upcoming

    def _choose(self, request: Received) -> Answer:
        choice = self._queued.popleft() if self._queued else self.default
        return choice if isinstance(choice, Answer) else choice(request)

    def _record(self, head: h11.Request, body: bytes, connection: int) -> Received:
        request = Received(
            position=len(self.requests),
            connection=connection,
            method=head.method.decode(),
            target=head.target.decode("latin-1"),
            headers=tuple((name.decode(), value.decode("latin-1")) for name, value in head.headers),
            body=body,
            http_version=head.http_version.decode(),
            at=trio.current_time(),
        )
        self.requests.append(request)
        self._arrived.set()
        self._arrived = trio.Event()
        return request
