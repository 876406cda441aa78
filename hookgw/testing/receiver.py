"""A receiver for tests: a real HTTP/1.1 server on Trio that records requests and misbehaves on demand.

It listens on a loopback port, with or without TLS, and keeps connections alive. The test decides how it
answers each request (:mod:`hookgw.testing.answers`). It can stop listening and restart on the same port.
"""

from __future__ import annotations

import math
import ssl
import threading
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import h11
import trio
from trio.testing import MockClock

from hookgw.delivery.signing import verify
from hookgw.kernel.signing_keys import verifying_key
from hookgw.testing.answers import Answer, HalfClose, Step, answer
from hookgw.testing.received import Received
from hookgw.testing.wire import BodyTooLarge, Peer, Wire

# Seconds for the 413 and the rest of a body that is too large, which could otherwise go on for ever.
_REFUSAL_TIMEOUT = 5.0
PATIENCE = 10.0
"""Real seconds that :meth:`Receiver.wait_for` waits on a mock clock."""
_SHOWN = 10
"""Requests and faults in the message of :meth:`Receiver.wait_for`, the last ones."""

Choice = Answer | Callable[[Received], Answer | Awaitable[Answer]]
"""An answer, or a plain or async function that takes the request and returns one."""


@dataclass(frozen=True)
class _Listening:
    """A time during which the receiver listens; a restart begins a new one."""

    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    ended: trio.Event = field(default_factory=trio.Event)


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
        port: 0 for any free port.
        ssl_context: a server-side context; with it, the receiver accepts only TLS.
        answers: answers for the first requests, in order.
        default: the answer for all other requests; by default 200 without a body.
        max_body: the limit for a body, in bytes. A longer one is answered with 413 and not recorded.
        on_fault: called with each fault of a client, instead of adding it to :attr:`Receiver.faults`.

    Yields:
        The receiver, listening. The end of the block closes its port and every connection at once, also in
        the middle of an answer.

    Raises:
        OSError: it cannot listen on that host and port.
    """
    listeners = await trio.open_tcp_listeners(port, host=host)
    async with trio.open_nursery() as nursery:
        receiver = Receiver(nursery, host, listeners, ssl_context)
        receiver.will(*answers)
        receiver.default = default or answer()
        receiver.max_body = max_body
        receiver.on_fault = on_fault or receiver.faults.append
        yield receiver
        # Connections stay open until their clients leave; the nursery would wait for them.
        nursery.cancel_scope.cancel()


def _describe(request: Received) -> str:
    kind, attempt = request.header("x-event-type"), request.header("x-attempt")
    told = [request.method, request.target, kind, request.event_id, attempt and f"(attempt {attempt})"]
    return " ".join(part for part in told if part)


class Receiver:
    """A running receiver; :func:`open_receiver` creates it.

    Attributes:
        requests: every request, in the order in which they were complete.
        default: the answer once the answers of :meth:`will` are used up. You may assign it at any time.
        greeting: steps to perform on each new connection before anything is read, even before TLS: with
            ``(Hang(),)`` a TLS handshake stalls; with ``(Reset(),)`` every connection is reset.
        faults: faults of clients (requests that are not HTTP, failed TLS handshakes), as sentences.
        max_body, on_fault: as passed to :func:`open_receiver`.
        connections: the number of connections so far.
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
        self.max_body: float = math.inf
        self.on_fault: Callable[[str], None] = self.faults.append
        self.connections = 0
        self._queued: deque[Choice] = deque()
        self._arrived = trio.Event()
        self._nursery = nursery
        self._host = host
        # With port 0 the system chose it; restart() needs the same one.
        self._port: int = listeners[0].socket.getsockname()[1]
        self._ssl_context = ssl_context
        self._listening: _Listening | None = None
        self._listen_on(listeners)

    @property
    def url(self) -> str:
        """Its URL with the path ``/``. It answers every other path too."""
        scheme = "http" if self._ssl_context is None else "https"
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{scheme}://{host}:{self._port}/"

    @property
    def port(self) -> int:
        """Its port, which stays the same after a restart."""
        return self._port

    @property
    def listening(self) -> bool:
        """Whether its port is open."""
        return self._listening is not None

    @property
    def ids(self) -> list[str | None]:
        """The ``webhook-id`` of each request, in order."""
        return [request.event_id for request in self.requests]

    def will(self, *answers: Choice) -> None:
        """Answer the next requests with these, one each, after those already queued."""
        self._queued.extend(answers)

    def events(self) -> list[Any]:
        """Return the decoded body of each request: hookgw's envelopes, unless a plugin encodes otherwise.

        Raises:
            msgspec.DecodeError: a body is not JSON.
        """
        return [request.json for request in self.requests]

    async def wait_for(self, count: int) -> list[Received]:
        """Wait until there are ``count`` requests. Without a mock clock, use a cancel scope for a timeout.

        Returns:
            The first ``count`` requests.

        Raises:
            TimeoutError: Trio runs with a mock clock, on which a cancel scope would never expire, and ten
                real seconds have passed. The message says what arrived.
        """
        if len(self.requests) >= count:
            return self.requests[:count]
        with trio.CancelScope() as patience:
            token = trio.lowlevel.current_trio_token()
            timer = threading.Timer(PATIENCE, token.run_sync_soon, (patience.cancel,))
            timer.daemon = True
            if isinstance(trio.lowlevel.current_clock(), MockClock):
                timer.start()
            try:
                while len(self.requests) < count:
                    await self._arrived.wait()
            finally:
                timer.cancel()
        if len(self.requests) < count:
            arrived = ", ".join(map(_describe, self.requests[-_SHOWN:]))
            faults = f" Faults: {'; '.join(self.faults[-_SHOWN:])}." if self.faults else ""
            raise TimeoutError(
                f"{len(self.requests)} of {count} requests arrived in {PATIENCE:g} real seconds. The mock "
                "clock stands still: to let a retry come, move it (kit.advance). "
                + (f"Arrived: {arrived}." if arrived else "Nothing arrived.")
                + faults
            )
        return self.requests[:count]

    def verify(self, request: Received, secret: str, *, now: float | None = None) -> None:
        """Check a request's signature as a receiver does (Standard Webhooks, ``v1`` and ``v1a``).

        Args:
            request: one of :attr:`requests`.
            secret: the registration's ``whsec_…`` or ``whsk_…``, or the public key, ``whpk_…``.
            now: seconds since the epoch; the request may be five minutes off. By default the request's own
                timestamp.

        Raises:
            SignatureInvalid: a header is missing or malformed, the timestamp is too far off, or no
                signature matches the secret.
            ValueError: the secret is malformed.
        """
        headers = dict(request.headers)
        # Under a mock clock, hookgw's timestamps have nothing to do with the machine's time.
        if now is None:
            now = float(headers.get("webhook-timestamp", 0))
        verify([verifying_key(secret)], headers, request.body, now=now)

    async def stop_listening(self) -> None:
        """Close the port and every connection. Returns once new connections are refused."""
        if self._listening is not None:
            self._listening.scope.cancel()
            await self._listening.ended.wait()

    async def restart(self) -> None:
        """Listen again on the same port; do nothing if it is listening.

        Raises:
            OSError: another program has taken the port.
        """
        if self._listening is None:
            self._listen_on(await trio.open_tcp_listeners(self._port, host=self._host))

    def _listen_on(self, listeners: list[trio.SocketListener]) -> None:
        # Set before the task starts: a stop right after a restart must find it.
        self._listening = _Listening()
        self._nursery.start_soon(self._listen, self._listening, listeners)

    async def _listen(self, listening: _Listening, listeners: list[trio.SocketListener]) -> None:
        try:
            with listening.scope:
                await trio.serve_listeners(self._serve, listeners)
        finally:
            self._listening = None
            listening.ended.set()

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
            # A client may leave in the middle of an answer, as hookgw does at its deadline.
            if isinstance(error.__cause__, ssl.SSLError):
                self.on_fault(f"connection {number}: {error.__cause__}")
        except BodyTooLarge as error:
            self.on_fault(f"connection {number}: {error}")
            # Closing with unread bytes would send RST, and the client might never see the 413. So read on.
            # The client may be gone by now.
            with trio.move_on_after(_REFUSAL_TIMEOUT), suppress(trio.BrokenResourceError):
                await wire.perform((*answer(413).steps, HalfClose()))
        finally:
            await wire.aclose()

    async def _serve_requests(self, wire: Wire, number: int) -> None:
        peer = Peer(wire)
        while (head := await peer.read_head()) is not None:
            choice = self._queued[0] if self._queued else self.default
            is_early = isinstance(choice, Answer) and choice.early
            # Requests take their answers in the order in which they are complete, so an answer that waits for
            # the body stays in the queue until then. Another connection may take it meanwhile.
            if is_early and self._queued:
                self._queued.popleft()
            body = b"" if is_early else await peer.read_body(self.max_body)
            request = Received(
                position=len(self.requests),
                connection=number,
                method=head.method.decode(),
                target=head.target.decode("latin-1"),
                headers=tuple((name.decode(), value.decode("latin-1")) for name, value in head.headers),
                body=body,
                http_version=head.http_version.decode(),
                at=trio.current_time(),
            )
            self.requests.append(request)
            # A Trio event cannot be cleared, so each request replaces it.
            self._arrived.set()
            self._arrived = trio.Event()
            if not is_early:
                choice = self._queued.popleft() if self._queued else self.default
            chosen = choice if isinstance(choice, Answer) else choice(request)
            if not isinstance(chosen, Answer):
                chosen = await chosen
            if not await wire.perform(chosen.steps):
                return
            if is_early:
                await peer.read_body(self.max_body)
            if not peer.keeps_alive:
                return
