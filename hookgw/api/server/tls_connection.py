"""A client's connection with TLS."""

from __future__ import annotations

import ssl

import trio

from hookgw.api.server.client_timeouts import ClientTimeouts
from hookgw.api.server.connection import Connection
from hookgw.api.server.request_framing import RequestFilter

_NO_CLEAR_TEXT = b"strict-transport-security: max-age=31536000\r\n"
_FAREWELL = 2.0
"""Seconds for telling the client that the connection ends."""


class SecuredConnection(Connection):
    """A connection whose bytes are TLS on the wire.

    Args:
        stream: the client's; closed by :meth:`aclose`.
        context: with the certificate.
        gate, waits: as of every connection. The first wait is also the handshake's.
    """

    def __init__(
        self, stream: trio.SocketStream, context: ssl.SSLContext, gate: RequestFilter, waits: ClientTimeouts
    ) -> None:
        secured = trio.SSLStream(stream, context, server_side=True, https_compatible=True)
        super().__init__(secured, stream.socket, gate, waits, _NO_CLEAR_TEXT)
        self._secured = secured
        self._reading = trio.CancelScope()
        self.transport_stream = stream
        """Where the server looks for the socket of a stream with TLS."""

    async def shake(self) -> bool:
        """Take the client's handshake.

        Returns:
            whether there was one.
        """
        try:
            await self._secured.do_handshake()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return False
        return True

    async def do_handshake(self) -> None:
        """What the server calls; :meth:`shake` has done it."""

    def selected_alpn_protocol(self) -> str:
        """The only one that is offered."""
        return "http/1.1"

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        """Read what passes the gate."""
        if not self._reading.cancel_called:
            self._reading = trio.CancelScope()
            with self._reading:
                return await super().receive_some(max_bytes)
        return self._gate.end()

    def stop_reading(self) -> None:
        """Let whoever reads come to the end. (After an end on the wire, TLS could not write any more.)"""
        self._reading.cancel()

    async def aclose(self) -> None:
        """Close, with a farewell where the client takes it."""
        with trio.move_on_after(_FAREWELL):  # closing a stream that is cancelled still closes it
            await super().aclose()
