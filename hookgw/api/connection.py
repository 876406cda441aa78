"""A client's connection as the HTTP server sees it, with what the server leaves out."""

from __future__ import annotations

import trio

from hookgw.api.errors import JSON, error_body
from hookgw.api.exchange import VERSION_HEADER

WRITE_PATIENCE = 30.0
"""How long a client may leave an answer unread, in seconds."""
_LINGER = 2.0
_RECEIVE = 65_536
_OWN_ANSWERS = {
    400: "This is no valid HTTP request.",
    404: "There is nothing here.",
    413: "The request is too large.",
    431: "The head of the request is too large.",
    500: "Something went wrong inside hookgw; its log says what.",
}


class Connection(trio.abc.HalfCloseableStream):
    """A stream whose writes end, and on which the server's own errors have the one shape.

    The server shields its writes from cancellation; a client that reads nothing would hold it for ever.
    Its own answers (to what is no HTTP, say) have no body; they are known by lacking the version that
    every answer of the application carries.
    """

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._refused = False
        self.socket = stream.socket

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Write; a client that does not read for :data:`WRITE_PATIENCE` is cut off."""
        with trio.move_on_after(WRITE_PATIENCE) as patience:
            await self._stream.send_all(self._in_shape(bytes(data)))
        if patience.cancelled_caught:
            self.abort()
            raise trio.BrokenResourceError("the client reads nothing")

    def _in_shape(self, data: bytes) -> bytes:
        if not data.startswith((b"HTTP/1.1 4", b"HTTP/1.1 5")) or VERSION_HEADER[0] in data:
            return data
        self._refused = True
        return own_answer(int(data[9:12]))

    async def wait_send_all_might_not_block(self) -> None:
        """See :class:`trio.abc.SendStream`."""
        await self._stream.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        """Read."""
        return await self._stream.receive_some(max_bytes)

    async def send_eof(self) -> None:
        """Say that nothing more will be written."""
        await self._stream.send_eof()

    async def aclose(self) -> None:
        """Close; after a refusal only once the client has read it, or for a while."""
        if self._refused:
            self._refused = False
            await self._read_off()
        await self._stream.aclose()

    async def _read_off(self) -> None:
        """Drop what still comes: closing with bytes unread would reset the connection under the answer."""
        try:
            with trio.move_on_after(_LINGER):
                while await self._stream.receive_some(_RECEIVE):
                    pass
        except (trio.BrokenResourceError, trio.ClosedResourceError, trio.BusyResourceError):
            return

    def abort(self) -> None:
        """Close at once, whatever is under way on it."""
        self.socket.close()


def own_answer(status: int) -> bytes:
    """A whole answer, in the one shape, to what the application never saw."""
    body = error_body(status, [_OWN_ANSWERS.get(status, "The request cannot be answered.")])
    head = (
        f"HTTP/1.1 {status} \r\ncontent-type: {JSON}\r\ncontent-length: {len(body)}\r\n"
        f"{VERSION_HEADER[0].decode()}: {VERSION_HEADER[1].decode()}\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + body
