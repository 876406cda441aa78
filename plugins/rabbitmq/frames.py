"""Reads and writes the frames of AMQP 0-9-1."""

from __future__ import annotations

import struct

from pamqp import base, body, commands, frame, header, heartbeat
from pamqp.frame import FrameTypes

from hookgw import OutgoingStream

FRAME_MAX = 131_072
"""Bytes of a frame, as RabbitMQ proposes it by default."""
_HEADER, _END = 7, 1
_PROTOCOL = b"AMQP"


class FrameReader:
    """The frames of a connection. At most one task may read, and one may write."""

    def __init__(self, stream: OutgoingStream) -> None:
        self.stream = stream
        self._buffer = bytearray()

    async def read(self) -> tuple[int, FrameTypes]:
        """Return the next frame with its channel.

        Raises:
            OSError: the connection is broken or at its end, or the bytes are not AMQP.
        """
        while (size := self._size()) is None or len(self._buffer) < size:
            data = await self.stream.receive()
            if not data:
                raise ConnectionResetError("The broker closed the connection.")
            self._buffer += data
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        try:
            _, channel, found = frame.unmarshal(taken)
        except Exception as error:  # which ones, pamqp does not say; of deep tables, RecursionError
            raise ConnectionError(f"The broker sent a frame that cannot be read: {error}") from error
        return channel, found

    def _size(self) -> int | None:
        """Return the size of the frame at the front of the buffer, once that is known."""
        if self._buffer[:4] == _PROTOCOL:  # what a broker of another version answers
            return 8
        if len(self._buffer) < _HEADER:
            return None
        kind, _, size = struct.unpack_from(">BHI", self._buffer)
        if kind not in (1, 2, 3, 8) or size > FRAME_MAX:
            raise ConnectionError("The server does not speak AMQP 0-9-1.")
        return _HEADER + int(size) + _END


def method_bytes(channel: int, *methods: base.Frame) -> bytes:
    return b"".join(frame.marshal(method, channel) for method in methods)


def heartbeat_bytes() -> bytes:
    return frame.marshal(heartbeat.Heartbeat(), 0)


def message_bytes(
    channel: int,
    exchange: str,
    routing_key: str,
    properties: commands.Basic.Properties,
    content: bytes,
    frame_max: int,
) -> bytes:
    """Return the frames of a message, which the broker returns if it leads to no queue.

    Raises:
        ValueError: a name or a header is longer than AMQP allows.
    """
    method = commands.Basic.Publish(exchange=exchange, routing_key=routing_key, mandatory=True)
    frames: list[FrameTypes] = [method, header.ContentHeader(body_size=len(content), properties=properties)]
    most = frame_max - _HEADER - _END
    frames += (body.ContentBody(content[start : start + most]) for start in range(0, len(content), most))
    return b"".join(frame.marshal(one, channel) for one in frames)
