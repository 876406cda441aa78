"""Computes TLS handshakes in threads, because the other side decides how much they cost.

A client may ask for a key exchange of 8,192 bits (RFC 7919), and so may a receiver: that takes 0.13 s of this
machine's processor. Python cannot limit the size before 3.15. In a thread it delays nothing else: OpenSSL
releases the interpreter's lock. The threads are a :class:`~hookgw.fair.Share`, so a client that starts many
handshakes waits only for its own.
"""

from __future__ import annotations

import ssl
from contextlib import suppress
from typing import Any, Generic, TypeVar, cast

import trio
from trio.lowlevel import RunVar

from hookgw.concurrency.share_line import WaitingClaim, take_in_line
from hookgw.concurrency.threads import SYSTEM_THREADS, Threads
from hookgw.fair import Share

AT_A_TIME = 2
"""Handshakes that are computed at a time. No holder has both threads."""

S = TypeVar("S", bound=trio.abc.Stream)

_PLACES: RunVar[Share[WaitingClaim]] = RunVar("handshakes")


class Handshake(Generic[S]):
    """Makes a stream of TLS over another one.

    Args:
        transport: connected; the new stream owns it.
        server_hostname: the name in the server's certificate, for a client.

    Attributes:
        stream: usable once :meth:`run` has returned.
        begun: what the other side sent first.
    """

    begun = b""

    def __init__(
        self,
        transport: S,
        context: ssl.SSLContext,
        *,
        server_side: bool = False,
        server_hostname: str | None = None,
        threads: Threads = SYSTEM_THREADS,
    ) -> None:
        self._context = context
        self._server_side = server_side
        self._threads = threads
        # Trio's stream makes its TLS object with wrap_bio() of the context, and nothing else with that.
        self.stream: trio.SSLStream[S] = trio.SSLStream(
            transport,
            cast("ssl.SSLContext", self),
            server_hostname=server_hostname,
            server_side=server_side,
            https_compatible=True,  # most others close without close_notify
        )

    def wrap_bio(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, **options: Any) -> ssl.SSLObject:
        """Replace the context's method, to keep the objects that a handshake needs."""
        self._incoming, self._outgoing = incoming, outgoing
        self._object = self._context.wrap_bio(incoming, outgoing, **options)
        return self._object

    async def run(self, holder: str) -> None:
        """Do the handshake.

        Args:
            holder: the instance or the client's address that is charged for the thread.

        Raises:
            trio.BrokenResourceError: the connection is broken, or the handshake failed; then an
                ``ssl.SSLError`` is the cause.
        """
        # A client's first step generates a key of the size that it prefers.
        is_costly, is_done = self._server_side, False
        if is_costly:
            await self._receive()
        while not is_done:
            try:
                if is_costly:
                    await self._compute(holder)
                else:
                    self._object.do_handshake()
                is_done = True
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLError as error:
                # OpenSSL has written an alert, by which the other side learns what is wrong.
                with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                    await self.stream.transport_stream.send_all(self._outgoing.read())
                raise trio.BrokenResourceError from error
            is_costly = True
            if to_send := self._outgoing.read():
                await self.stream.transport_stream.send_all(to_send)
            if not is_done:
                await self._receive()
        await self.stream.do_handshake()  # it is over: this tells the stream

    async def _receive(self) -> None:
        if received := await self.stream.transport_stream.receive_some(16_384):
            self.begun = self.begun or bytes(received[:16])
            self._incoming.write(received)
        else:
            self._incoming.write_eof()

    async def _compute(self, holder: str) -> None:
        try:
            places = _PLACES.get()
        except LookupError:
            places = Share(AT_A_TIME, ratio=1)
            _PLACES.set(places)
        await take_in_line(places, holder)
        try:
            await self._threads.run(self._object.do_handshake)
        finally:
            places.give(holder)
