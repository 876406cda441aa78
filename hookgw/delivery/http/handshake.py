"""TLS handshakes that are computed in threads, because the other side says what they cost.

A client may ask for a key exchange of 8,192 bits (RFC 7919), and so may a receiver: that takes 0.13 s of a
processor, and nothing of theirs. Python cannot limit the size before 3.15. In a thread, it holds up nobody:
OpenSSL lets go of the interpreter's lock. The threads are a :class:`~hookgw.fair.Share`, so whoever makes
many of them waits for its own.
"""

from __future__ import annotations

import ssl
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
        context: of the client or the server.
        server_side: whether hookgw is the server.
        server_hostname: the name in the server's certificate, for a client.
        threads: compute.

    Attributes:
        stream: usable once :meth:`run` has returned.
    """

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
        """Do the same as the context, and keep what a handshake needs."""
        self._incoming, self._outgoing = incoming, outgoing
        self._object = self._context.wrap_bio(incoming, outgoing, **options)
        return self._object

    async def run(self, holder: str) -> None:
        """Do the handshake.

        Args:
            holder: who has the thread meanwhile: an instance, or the address of a client.

        Raises:
            trio.BrokenResourceError: the handshake failed, and an ``ssl.SSLError`` is the cause; or the
                connection is broken.
        """
        # A client's first step makes a key of its own choice.
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
                raise trio.BrokenResourceError from error
            is_costly = True
            if to_send := self._outgoing.read():
                await self.stream.transport_stream.send_all(to_send)
            if not is_done:
                await self._receive()
        await self.stream.do_handshake()  # it is over: this tells the stream

    async def _receive(self) -> None:
        if received := await self.stream.transport_stream.receive_some(16_384):
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
