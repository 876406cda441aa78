"""A client's connection with TLS."""

from __future__ import annotations

import ssl

import trio

from hookgw.api.server.client_timeouts import ClientTimeouts
from hookgw.api.server.connection import Connection
from hookgw.api.server.request_framing import RequestFilter

_NO_CLEAR_TEXT = b"strict-transport-security: max-age=31536000\r\n"
_CLOSE_TIMEOUT = 2.0
"""Seconds for sending TLS's close notification."""


class TlsConnection(Connection):
    """A connection over TLS.

    Args:
        stream: the client's stream; closed by :meth:`aclose`.
        context: the TLS context with the certificate.
        request_filter, timeouts: see :class:`Connection`. The first timeout also covers the handshake.
    """

    def __init__(
        self,
        stream: trio.SocketStream,
        context: ssl.SSLContext,
        request_filter: RequestFilter,
        timeouts: ClientTimeouts,
    ) -> None:
        # https_compatible: most clients close without TLS's close notification.
        secured = trio.SSLStream(stream, context, server_side=True, https_compatible=True)
        super().__init__(secured, stream.socket, request_filter, timeouts, _NO_CLEAR_TEXT)
        self._secured = secured
        self._reading = trio.CancelScope()
        self.transport_stream = stream
        """hypercorn takes the socket of a TLS stream from here."""

    async def handshake(self) -> bool:
        """Perform the TLS handshake.

        Returns:
            Whether it succeeded.
        """
        try:
            await self._secured.do_handshake()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return False
        return True

    async def do_handshake(self) -> None:
        """Do nothing: hypercorn calls this method, but :meth:`handshake` is done by then."""

    def selected_alpn_protocol(self) -> str:
        """Return the only protocol that the context offers."""
        return "http/1.1"

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        """Return the next bytes that pass the request filter; ``b""`` at the end."""
        if not self._reading.cancel_called:
            self._reading = trio.CancelScope()
            with self._reading:
                return await super().receive_some(max_bytes)
        return self._filter.end()

    def stop_reading(self) -> None:
        """Make the pending read return the end of the stream."""
        # Shutting down the socket for reading, as without TLS, would keep TLS from writing the response.
        self._reading.cancel()

    async def aclose(self) -> None:
        """Close, with TLS's close notification if the client still reads."""
        with trio.move_on_after(_CLOSE_TIMEOUT):  # a cancelled aclose still closes the stream
            await super().aclose()
