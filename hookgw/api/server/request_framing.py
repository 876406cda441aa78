"""The request filter in front of hypercorn: passes complete, valid request heads and their bodies. No I/O.

hypercorn's parser is lenient in places, and its code for HTTP/2 and WebSocket is fragile. So each byte goes
through here first: a :class:`RequestFilter` follows the framing of a connection, passes each request's head
once it is complete and valid, and then its body as it arrives. After an invalid byte nothing passes any more.
Instead, hypercorn gets bytes that it refuses itself, so that the error response comes in its turn, after the
responses to earlier requests.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from hookgw.api.server.request_head import CHUNKED, Refused, check_begun, check_trailers, read_head
from hookgw.models.units import Size

POISON = b"\0\r\n\r\n"
"""Bytes that no server accepts as a head, a chunk, or trailers."""

_END_OF_HEAD = b"\r\n\r\n"
_END_OF_LINE = b"\r\n"
_CHUNK_LINE = re.compile(rb"([0-9A-Fa-f]{1,15})(?:;[\t -~\x80-\xff]*)?\r\n")
_LONGEST_CHUNK_LINE = 256
_BAD_CHUNK = (
    "Each chunk must begin with a line of its size in plain hexadecimal digits, and end with CR LF "
    f"(RFC 9112, section 7.1). The line may have at most {_LONGEST_CHUNK_LINE} bytes."
)
_WAIT = b""

Step = Callable[[bytes, int], tuple[bytes, int]]
"""Reads from a position; returns the bytes to pass and the next position (the same one to wait for more)."""


class RequestFilter:
    """Follows the framing of one connection.

    Args:
        max_head: the most bytes of a head, or of trailers.
    """

    def __init__(self, max_head: int) -> None:
        self._max_head = max_head
        self._held = b""
        self._rest = 0
        self._step: Step = self._read_head
        self._after: Step = self._read_head
        self._has_skipped = False
        self._known = b""
        self._known_size = -1
        self._is_poisoned = False
        self.is_between = True
        """Whether no request is incomplete."""
        self.refusal: Refused | None = None
        """Why nothing passes any more; ``None`` while requests pass."""

    @property
    def is_within_head(self) -> bool:
        """Whether a head has begun and is incomplete."""
        return self._step == self._read_head and bool(self._held)

    @property
    def is_within_body(self) -> bool:
        """Whether the body of a request is incomplete."""
        return self._step != self._read_head

    def feed(self, data: bytes) -> bytes:
        """Return the bytes that may pass, now that ``data`` arrived."""
        # The fast path of a busy producer: a request with the same head as the last one is only compared.
        if len(data) == self._known_size and self.is_between and data.startswith(self._known):
            self._has_skipped = False
            return data
        if self.refusal is not None:
            return b""  # after an error, the end of the request is unknown, so nothing can be a new request
        passed = self._walk(self._held + data)
        self.is_between = self._step == self._read_head and not self._held
        return b"".join(passed)

    def _walk(self, data: bytes) -> list[bytes]:
        passed: list[bytes] = []
        at = 0
        try:
            while at < len(data):
                piece, end = self._step(data, at)
                if end == at:
                    break
                passed.append(piece)
                at = end
            self._held = data[at:]
        except Refused as refusal:
            self.refuse(refusal)
            self._is_poisoned = True
            passed.append(POISON)
        return passed

    def refuse(self, refusal: Refused) -> None:
        """Let nothing pass from now on."""
        self.refusal = refusal
        self._known_size = -1
        self._held = b""

    def end(self) -> bytes:
        """Return the bytes that may pass at the end of the stream; ``b""`` is the end for hypercorn too."""
        # After a refusal within a body nothing more is needed: hypercorn refuses a body that is cut off.
        if self.refusal is None or self._is_poisoned or self.is_within_body:
            return b""
        self._is_poisoned = True
        return POISON

    def _read_head(self, data: bytes, at: int) -> tuple[bytes, int]:
        if data.startswith(_END_OF_LINE, at) and not self._has_skipped:
            self._has_skipped = True  # one blank line before a request is ignored (RFC 9112, section 2.2)
            return b"", at + 2
        end = data.find(_END_OF_HEAD, at) + 4
        if (end if end > 3 else len(data)) - at > self._max_head:
            raise Refused(431, f"The head may have at most {Size(self._max_head)} (server.max_header).")
        if end < 4:
            if self._has_skipped or data[at:] != b"\r":
                check_begun(data[at:])
            return _WAIT, at
        given = data[at:end]
        passed, length = read_head(given)
        self._has_skipped = False
        if length == CHUNKED:
            self._step = self._read_chunk_line
            return passed, end
        if length:
            self._rest, self._step, self._after = length, self._read_part, self._read_head
        if passed is given:  # a head without an upgrade; a body of another length does not match the size
            self._known, self._known_size = given, len(given) + length
        return passed, end

    def _read_part(self, data: bytes, at: int) -> tuple[bytes, int]:
        part = data[at : at + self._rest]
        self._rest -= len(part)
        if not self._rest:
            self._step = self._after
        return part, at + len(part)

    def _read_chunk_line(self, data: bytes, at: int) -> tuple[bytes, int]:
        end = data.find(_END_OF_LINE, at, at + _LONGEST_CHUNK_LINE) + 2
        if end < 2 and len(data) - at < _LONGEST_CHUNK_LINE:
            return _WAIT, at  # chunk extensions are ignored, but must not grow without a limit
        line = _CHUNK_LINE.fullmatch(data, at, end) if end > 1 else None
        if line is None:
            raise Refused(400, _BAD_CHUNK)
        size = int(line[1], 16)
        if size:
            self._rest, self._step, self._after = size, self._read_part, self._read_chunk_end
        else:
            self._step = self._read_trailers
        return data[at:end], end

    def _read_chunk_end(self, data: bytes, at: int) -> tuple[bytes, int]:
        end = data[at : at + 2]
        if not _END_OF_LINE.startswith(end):
            raise Refused(400, _BAD_CHUNK)  # not every version of h11 checks it
        if end != _END_OF_LINE:
            return _WAIT, at
        self._step = self._read_chunk_line
        return end, at + 2

    def _read_trailers(self, data: bytes, at: int) -> tuple[bytes, int]:
        end = at + 2
        if not data.startswith(_END_OF_LINE, at):
            end = data.find(_END_OF_HEAD, at) + 4
            if (end if end > 3 else len(data)) - at > self._max_head:
                raise Refused(431, f"The trailers may have at most {Size(self._max_head)}.")
            if end < 4:
                return _WAIT, at
        check_trailers(data[at:end])
        self._step = self._read_head
        return data[at:end], end
