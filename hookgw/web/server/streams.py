"""The streams of clients: plain sockets, and TLS on top of them.

A plain stream is a bare non-blocking socket. It sends first and waits only if the kernel's buffer is full,
which most responses never fill. That saves half the cost of an exchange with Trio's own stream.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from typing import Any

import trio

from hookgw.auth.client_address import rate_limit_key
from hookgw.concurrency.hub import NO_HUB, Hub
from hookgw.delivery.http.handshake import Handshake
from hookgw.delivery.http.stream import acknowledge, unacknowledged
from hookgw.kernel.sentences import Sentence
from hookgw.web.server.request_head import told_without_tls

_RECEIVED_AT_ONCE = 65_536
_SECURED_AT_ONCE = 65_536
_CLOSE_TIMEOUT = 2.0
"""Seconds for sending TLS's close notification."""


class ClientStream:
    """A connection over TCP, or a Unix socket. At most one task may send and one may receive at a time.

    It owns the socket, which is connected and non-blocking. Sending raises ``trio.BrokenResourceError`` if
    the client is gone.
    """

    scheme = "http"
    refusal: Sentence | None = None

    def __init__(self, sock: socket.socket | trio.socket.SocketType, hub: Hub = NO_HUB) -> None:
        self.socket: Any = sock
        self._readable = hub.watch(sock.fileno())

    async def handshake(self, peer: str) -> bool:  # noqa: ARG002 -- the other kind needs it
        """Prepare the stream for a client at an address, and return whether that succeeded."""
        return True

    async def receive(self) -> bytes:
        """Wait for bytes; empty at the end of the stream, also if it broke or was closed."""
        while True:
            try:
                # Waiting first: this is the only checkpoint of a request that is answered at once, and the
                # next request has seldom arrived when the last response has just been sent.
                await self._readable.wait()
                received: bytes = self.socket.recv(_RECEIVED_AT_ONCE)
            except BlockingIOError:
                self._readable.note_nothing()
                continue  # select(2): a socket may be reported as readable and then block
            except (OSError, trio.ClosedResourceError):
                return b""
            if len(received) == _RECEIVED_AT_ONCE:
                self._readable.note_more()
            return received

    def acknowledge_nowait(self) -> None:
        acknowledge(self.socket)

    def send_nowait(self, data: bytes | memoryview) -> int:
        """Send as much as possible without waiting, and return the number of bytes taken."""
        try:
            taken: int = self.socket.send(data)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise trio.BrokenResourceError from error
        return taken

    async def send_all(self, data: bytes | memoryview) -> None:
        """Send everything; raise ``trio.ClosedResourceError`` if :meth:`abort` was called."""
        rest = memoryview(data)
        while rest:
            rest = rest[self.send_nowait(rest) :]
            if rest:
                await trio.lowlevel.wait_writable(self.socket)

    def is_connected(self) -> bool:
        """Return whether the client has sent no reset, so that it may still get bytes."""
        try:
            self.socket.getpeername()
        except OSError:
            return False
        return True

    def has_unacknowledged(self) -> bool:
        """Return whether the client's system has yet to acknowledge sent bytes, or the end.

        ``False`` if the stream broke or was closed, or if this system cannot tell.
        """
        return self.is_connected() and unacknowledged(self.socket.fileno()) > 0

    def stop_receiving(self) -> None:
        """Make a pending :meth:`receive` return the end."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RD)

    def abort(self) -> None:
        """Close at once. Idempotent."""
        if self.socket.fileno() >= 0:
            self._readable.close()
            self.socket.close()

    async def send_eof(self) -> None:
        """Tell the client that no more bytes come, if the stream can."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_WR)

    async def aclose(self) -> None:
        self.abort()


class TlsStream(ClientStream):
    """A connection over TLS. It owns the client's stream.

    Attributes:
        refusal: what to tell the client whose handshake failed because it speaks without TLS. Then what is
            sent goes out without TLS, too.
    """

    scheme = "https"

    def __init__(self, stream: trio.SocketStream, context: ssl.SSLContext) -> None:
        super().__init__(stream.socket)
        self._handshake = Handshake(stream, context, server_side=True)
        self._secured: trio.abc.Stream = self._handshake.stream
        self._receiving = trio.CancelScope()

    async def handshake(self, peer: str) -> bool:
        """Perform the TLS handshake; only TLS tells a client that it failed."""
        try:
            await self._handshake.run(rate_limit_key(peer))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            self.refusal = told_without_tls(self._handshake.begun)
            if self.refusal is not None:
                self._secured = self._handshake.stream.transport_stream
            return False
        return True

    async def receive(self) -> bytes:
        received = b""
        if not self._receiving.cancel_called:
            self._receiving = trio.CancelScope()
            with self._receiving, contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                received = bytes(await self._secured.receive_some(_RECEIVED_AT_ONCE))
        return received

    def send_nowait(self, data: bytes | memoryview) -> int:  # noqa: ARG002 -- the other kind needs it
        """Send nothing: TLS may have to wait."""
        return 0

    async def send_all(self, data: bytes | memoryview) -> None:
        # In pieces: until the client reads, TLS has all that it was given a second time, encrypted.
        for start in range(0, len(data), _SECURED_AT_ONCE):
            await self._secured.send_all(data[start : start + _SECURED_AT_ONCE])

    def stop_receiving(self) -> None:
        # Shutting down the socket for reading, as without TLS, would keep TLS from writing the response.
        self._receiving.cancel()

    def abort(self) -> None:
        self.socket.close()

    async def send_eof(self) -> None:
        """Do nothing: TLS has no half-closed streams."""

    async def aclose(self) -> None:
        """Close, with TLS's close notification if the client still reads."""
        with (
            trio.move_on_after(_CLOSE_TIMEOUT),  # a cancelled aclose still closes the stream
            contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError),
        ):
            await self._secured.aclose()
