"""Responses of receivers, parsed from bytes as they arrive, within limits. No I/O.

:class:`ResponseParser` is fed with bytes, however they are cut. :mod:`hookgw.delivery.http.response_head`
takes heads apart, and ``httptools`` (llhttp) chunked bodies. The rules:

- only a complete head has a status; then the status stands, whatever happens to the body: the response is
  then incomplete, and the connection must not be used again;
- interim (1xx) responses are skipped whatever they say, at most :data:`MAX_INTERIM_RESPONSES` of them (RFC
  9110, section 15.2);
- :data:`MAX_RESPONSE_HEAD` and :data:`MAX_RESPONSE_HEADERS` limit the head, the caller and :data:`MAX_CHUNKS`
  the body. Each limit is a place in the bytes: where a read of the socket ends makes no difference;
- a connection on which anything was odd is not used again;
- a response that is byte for byte the last one on its connection is not parsed again: most receivers answer
  every request alike, or alike for a second.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Awaitable, Callable, Generator

import httptools
import msgspec
import trio

from hookgw.delivery.http.errors import NotHttp, ResponseFailed
from hookgw.delivery.http.response_head import BodyEnd, Headers, ResponseHead, match_status_line, read_head
from hookgw.kernel.long_json import finish

MAX_RESPONSE_HEAD = 64 * 2**10
"""Bytes that the head of a response may have, including the interim responses before it."""

MAX_RESPONSE_HEADERS = 256
"""Lines of headers that a response may have."""

MOST_KEPT = 1024
"""Bytes of a response that is kept, to be compared with the next one."""

DECODED_AT_ONCE = 2**20
"""The most bytes that a body which is decoded in one step may become."""

MAX_INTERIM_RESPONSES = 32
"""Interim (1xx) responses that may precede the response."""

MAX_CHUNKS = 4096
"""Chunks of a body. Each costs 0.2 µs, so a body of one-byte chunks took 9 ms of everybody's time."""

_HTTP = b"HTTP/1."
_TLS_RECORDS = (b"\x15\x03", b"\x16\x03")
# The first frame of a server (RFC 9113, section 3.4): settings, of no stream.
_HTTP2 = re.compile(rb"\0[\0-\x3f].\x04[\0\1]\0{4}", re.DOTALL)
_HEAD_END = re.compile(rb"\n\r?\n")
# A head for llhttp, which has no parser of bodies alone.
_CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
# Some servers send "deflate" without the zlib wrapper of RFC 1950, hence the second value.
_PIECE = 64 * 1024
_WINDOW_BITS = {"gzip": (31,), "x-gzip": (31,), "deflate": (15, -15)}


class Response(msgspec.Struct, frozen=True):
    """The response of a receiver.

    Attributes:
        headers: in the order received, names in lower case.
        body: without its transfer and content codings (``gzip``, ``deflate``), cut at the limit.
        complete: whether ``body`` is the whole body, and decoded without an error.
    """

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes
    complete: bool

    def header(self, name: str) -> str | None:
        """Return the first value of a header, by its name in lower case."""
        wanted = name.encode("ascii")
        for known, value in self.headers:
            if known == wanted:
                return value.decode("utf-8", "replace").strip()
        return None


class ResponseParser:
    """Parses the responses on one connection, one after the other.

    Call :meth:`begin` before each request, then :meth:`feed` until it returns true, then :meth:`finish`. If a
    response does not leave the connection :attr:`reusable`, stop using both.

    Args:
        max_body: the most bytes of a body that are kept, before and after decoding. With more than
            :data:`DECODED_AT_ONCE`, the body stays encoded.

    Attributes:
        started: whether any byte arrived since :meth:`begin`.
        status: 0 until the head is complete.
    """

    __slots__ = (
        "_bodiless",
        "_body",
        "_body_end",
        "_body_size",
        "_chunk_count",
        "_chunks",
        "_complete",
        "_headers",
        "_interim",
        "_is_fit",
        "_last",
        "_last_bytes",
        "_left",
        "_max_body",
        "_offset",
        "_pending",
        "_piece",
        "_searched",
        "_size",
        "_status_line",
        "_tail",
        "reusable",
        "started",
        "status",
    )

    def __init__(self, max_body: int) -> None:
        self._max_body = max_body
        # The last response, and its bytes if it came in one piece and was small.
        self._last: Response | None = None
        self._last_bytes = b""
        self._size = -1
        self.begin()

    def begin(self, *, bodiless: bool = False) -> None:
        """Reset the state for the next response, which ends with its head if the request was ``bodiless``."""
        self._bodiless = bodiless
        self.reusable = self.started = False
        self.status = 0
        if self._size == 0:  # nothing was parsed since the last reset: the last response was the same again
            return
        self._body: list[bytes] = []
        self._body_end = BodyEnd.UNKNOWN
        self._body_size = 0
        self._chunk_count = 0
        self._chunks: httptools.HttpResponseParser | None = None
        self._complete = False
        self._headers: Headers = []
        self._interim = 0
        self._is_fit = True  # nothing was odd so far, and nothing asked for the end of the connection
        self._left = 0  # of a body with a length, or of the bytes that a chunked body may take
        self._offset = 0  # of _pending, in all the bytes of the response
        self._pending = bytearray()  # a head that is not complete
        self._piece = b""
        self._searched = 0
        self._size = 0
        self._status_line: re.Match[bytes] | None = None  # of the head in _pending, once it is complete
        self._tail = b""

    def feed(self, data: bytes) -> bool:
        """Parse more bytes, at least one. Return whether the response is over, complete or cut at a limit.

        Raises:
            ResponseFailed: the bytes are not HTTP, or the head exceeds a limit.
        """
        if self._last is not None and data == self._last_bytes and not (self.started or self._bodiless):
            self.started = self.reusable = True
            self.status = self._last.status
            return True
        self.started = True
        self._size += len(data)
        self._piece = data
        if not self.status:
            behind = self._feed_head(data)
            if behind is None:
                return False
            if self._bodiless:
                self._complete = True
                return True
            data = behind
        match self._body_end:
            case BodyEnd.LENGTH:
                self._feed_sized(data)
            case BodyEnd.CHUNKED:
                if data and not self._feed_chunked(data):
                    return True
            case BodyEnd.CLOSE:
                self.on_body(data)
            case BodyEnd.UNKNOWN:
                return True
        return self._complete or self._body_size > self._max_body

    def finish(self) -> Response:
        """Return the response with as much of the body as arrived. The head must be complete.

        Call this once, also if the deadline passed or the connection broke before.
        """
        if self._last is not None and self._size == 0:  # the same again
            return self._last
        body, whole = b"".join(self._body), self._complete
        if len(body) > self._max_body:
            body, whole = body[: self._max_body], False
        for name, value in self._headers:
            if name == b"content-encoding" and self._max_body <= DECODED_AT_ONCE:
                body, sound = decode_content(body, value.decode("latin-1"), self._max_body)
                whole = whole and sound
                break
        self.reusable = self.reusable and whole
        response = Response(self.status, self._headers, body, whole)
        # An idle connection must not keep a large response in memory, nor a reference cycle with httptools.
        piece, self._piece, self._body, self._headers, self._chunks = self._piece, b"", [], [], None
        self._last = None
        # A response to HEAD ends with its head, whatever that says: the same bytes mean another response.
        if self.reusable and not self._bodiless and len(piece) == self._size <= MOST_KEPT:
            self._last, self._last_bytes = response, piece
        return response

    def rest(self) -> None:
        """Free the memory that only an exchange needs."""
        self._last, self._last_bytes = None, b""

    def end_of_stream(self) -> None:
        """Note the end of the stream: it ends a body without a length, and truncates others."""
        self._complete = self._complete or (self.status != 0 and self._body_end is BodyEnd.CLOSE)
        self.reusable = False

    def _feed_head(self, data: bytes) -> bytes | None:
        """Take more bytes of the heads; return the bytes after the final one, or ``None`` before its end."""
        pending = self._pending
        pending += data
        while pending:
            if self._status_line is None:
                self._status_line = self._find_status_line()
            if self._status_line is None:
                break
            found = _HEAD_END.search(pending, self._searched)
            if found is None:
                self._searched = max(self._searched, len(pending) - 2)
                break
            end = found.end()
            if self._offset + end > MAX_RESPONSE_HEAD:
                break
            head = self._read_head(self._status_line, bytes(pending[self._status_line.end() : end]))
            self._is_fit = self._is_fit and head.is_persistent and not head.is_odd
            del pending[:end]
            if head.status >= 200:
                self.status, self._headers = head.status, head.headers
                self._body_end, self._left = head.body_end, head.length
                if head.body_end is BodyEnd.CHUNKED:
                    # For one-byte chunks with long extensions, and for trailers without end: they take bytes
                    # on the connection and none in the body.
                    self._left = 2 * (self._max_body + MAX_RESPONSE_HEAD)
                self._pending = bytearray()
                return bytes(pending)
            self._interim += 1
            if self._interim > MAX_INTERIM_RESPONSES:
                raise ResponseFailed(
                    f"The receiver sent more than {MAX_INTERIM_RESPONSES} interim (1xx) responses."
                )
            self._offset += end
            self._status_line = None
        if self._offset + len(pending) > MAX_RESPONSE_HEAD:
            raise ResponseFailed(f"The head of the response is longer than {MAX_RESPONSE_HEAD} bytes.")
        return None

    def _read_head(self, status_line: re.Match[bytes], lines: bytes) -> ResponseHead:
        head = read_head(status_line, lines, most_headers=MAX_RESPONSE_HEADERS)
        if head is None:
            raise ResponseFailed(f"The response has more than {MAX_RESPONSE_HEADERS} headers.")
        if head.status == 101:
            raise ResponseFailed("The receiver switched protocols (101), which the request did not ask for.")
        return head

    def _find_status_line(self) -> re.Match[bytes] | None:
        """Return the status line, or ``None`` before its end; raise as soon as it cannot be one.

        Errors never quote the bytes: if a URL leads to another service, the tenant must not read its banner
        in the attempts.
        """
        pending = self._pending
        if pending[0] in b"\r\n":
            # Left over from the last response, or sent before this one.
            breaks = len(pending) - len(pending.lstrip(b"\r\n"))
            del pending[:breaks]
            self._offset += breaks
            self._is_fit = False
        if not _HTTP.startswith(pending[: len(_HTTP)]):
            if pending.startswith(_TLS_RECORDS):
                raise NotHttp(
                    "The receiver did not respond with HTTP/1 but with TLS. Use https:// in the URL."
                )
            if _HTTP2.match(pending):
                raise NotHttp("The receiver speaks HTTP/2 alone. Let it accept HTTP/1.1, too.")
            if not any(record.startswith(pending) for record in _TLS_RECORDS):
                raise NotHttp(
                    "The receiver did not respond with HTTP/1. Check the scheme, host and port of the URL."
                )
        end = pending.find(b"\n") + 1
        if not end or self._offset + end > MAX_RESPONSE_HEAD:
            return None
        line = match_status_line(bytes(pending[:end]))
        if line is None:
            raise ResponseFailed("The receiver did not respond with valid HTTP/1: the status line is wrong.")
        self._searched = end - 1
        return line

    def _feed_sized(self, data: bytes) -> None:
        self.on_body(data[: self._left] if len(data) > self._left else data)
        # Bytes behind a complete response belong to no request of ours (response splitting, or a receiver
        # that counts wrongly).
        self._left -= len(data)
        if self._left <= 0:
            self._complete = True
            self.reusable = self._is_fit and self._left == 0

    def _feed_chunked(self, data: bytes) -> bool:
        """Return whether the body is sound so far, and may go on."""
        if self._chunks is None:
            self._chunks = httptools.HttpResponseParser(self)
            # Some servers pad sizes with spaces.
            self._chunks.set_dangerous_leniencies(lenient_spaces_after_chunk_size=True)
            self._chunks.feed_data(_CHUNKED)
        is_cut = len(data) > self._left
        if is_cut:
            data = data[: self._left]
        self._left -= len(data)
        try:
            self._chunks.feed_data(data)
        except httptools.HttpParserError:  # also behind a complete body
            return False
        self._tail = (self._tail + data[-5:])[-5:]
        if self._complete:
            # llhttp skips line breaks behind a body, which ends with the end of a line and one empty line.
            ends_here = self._tail.endswith(b"\r\n\r\n") and self._tail[0] not in b"\r\n"
            self.reusable = self._is_fit and not is_cut and ends_here
        return self._left > 0

    # Callbacks of httptools, under the names that it looks up.

    def on_message_begin(self) -> None:
        if self._complete:
            raise _Surplus

    def on_chunk_header(self) -> None:
        self._chunk_count += 1
        if self._chunk_count > MAX_CHUNKS:
            raise _Surplus

    def on_body(self, body: bytes) -> None:
        self._body_size += len(body)
        # The piece that crosses the limit is kept whole and cut in finish(); nothing behind it is kept.
        if self._body_size - len(body) <= self._max_body:
            self._body.append(body)

    def on_message_complete(self) -> None:
        self._complete = True


class _Surplus(Exception):
    """Raised to stop httptools behind a complete response, or one with too many chunks."""


def decode_content(body: bytes, coding: str, limit: int) -> tuple[bytes, bool]:
    """Undo one content coding (RFC 9110, section 8.4).

    Unknown codings and lists of codings are left alone: the request asked for ``identity``, and people only
    look at the body.

    Args:
        limit: the most bytes to return; a decompression bomb is cut there.

    Returns:
        The decoded body, and whether it is whole and was decoded without an error.
    """
    return finish(_decoding(body, coding, limit))


async def decode_in_steps(
    body: bytes, coding: str, limit: int, admit: Callable[[int], Awaitable[None]] | None = None
) -> tuple[bytes, bool]:
    """Do what :func:`decode_content` does, while other tasks run: 16 MiB take 100 ms.

    Args:
        admit: awaited with the size of each piece: 16 KiB become 16 MiB, and many bodies are decoded at once.
    """
    steps = _decoding(body, coding, limit)
    while True:
        try:
            size = next(steps)
        except StopIteration as end:
            found: tuple[bytes, bool] = end.value
            return found
        if admit is not None:
            await admit(size)
        await trio.lowlevel.checkpoint()


def _decoding(body: bytes, coding: str, limit: int) -> Generator[int, None, tuple[bytes, bool]]:
    window_bits = _WINDOW_BITS.get(coding.strip().lower())
    if window_bits is None or not body:
        return body, True
    for bits in window_bits:
        decoder, pieces, left = zlib.decompressobj(wbits=bits), list[bytes](), limit
        at, part, is_full = 0, b"", False
        try:
            # A bomb never expands in memory: zlib stops after each piece. It may have taken all bytes then,
            # and still have something to return.
            while left and not decoder.eof and (part or at < len(body) or is_full):
                if not part:
                    part = body[at : at + _PIECE]
                    at += len(part)
                pieces.append(decoder.decompress(part, min(left, _PIECE)))
                part, left = decoder.unconsumed_tail, left - len(pieces[-1])
                is_full = len(pieces[-1]) == _PIECE
                yield len(pieces[-1])
        except zlib.error:
            continue
        return b"".join(pieces), decoder.eof and not decoder.unused_data and at >= len(body)
    return b"", False
