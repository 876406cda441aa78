"""Responses of receivers, parsed from bytes as they arrive, within limits. No I/O.

:class:`ResponseParser` is fed with bytes and drives ``httptools`` (llhttp). It adds:

- interim (1xx) responses are skipped, at most :data:`MAX_INTERIM` of them (RFC 9110, section 15.2);
- :data:`MAX_HEAD` and :data:`MAX_HEADERS` limit the head, the caller limits the body;
- once the head is complete the status stands, whatever happens to the body: the response is then
  incomplete, and the connection must not be used again;
- a response that is byte for byte the last one on its connection is not parsed again: most receivers answer
  every request alike, or alike for a second;
- a response whose lengths contradict each other keeps its status too (RFC 9112, section 6.3: discard
  the body and close the connection);
- lines may end in a bare LF (RFC 9112, section 2.2), because hand-written receivers do that.
"""

from __future__ import annotations

import zlib

import httptools
import msgspec

from hookgw.delivery.http.errors import NotHttp, ResponseFailed

MAX_HEAD = 64 * 2**10
"""Bytes that the head of a response may have, including the interim responses before it."""

MAX_HEADERS = 256
"""Headers that a response may have."""

MOST_KEPT = 1024
"""Bytes of a response that is kept, to be compared with the next one."""

MAX_INTERIM = 32
"""Interim (1xx) responses that may precede the response."""

_HTTP = b"HTTP/1."
_BEGINNING = 48
"""Bytes of a response in which its version must appear; line breaks may precede it."""
_TLS_RECORDS = (b"\x15\x03", b"\x16\x03")
# Some servers send "deflate" without the zlib wrapper of RFC 1950, hence the second value.
_WINDOW_BITS = {"gzip": (31,), "x-gzip": (31,), "deflate": (15, -15)}


class Response(msgspec.Struct, frozen=True):
    """The response of a receiver.

    Attributes:
        status: 200 and up; values over 599 are passed on as they came.
        headers: in the order received; names in lower case.
        body: without its transfer and content codings (``gzip``, ``deflate``), cut at the limit.
        complete: whether ``body`` is the whole body, and decoded without an error.
    """

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes
    complete: bool

    def header(self, name: str) -> str | None:
        """Return the first value of a header, or ``None``. ``name`` must be in lower case."""
        wanted = name.encode("ascii")
        for known, value in self.headers:
            if known == wanted:
                return value.decode("utf-8", "replace").strip()
        return None


class ResponseParser:
    """Parses the responses on one connection, one after the other.

    Call :meth:`begin` before each request, then :meth:`feed` until it returns true, then :meth:`finish`.
    After a response that does not leave the connection :attr:`reusable`, use neither the parser nor the
    connection again.

    Args:
        max_body: the most bytes of a body that are kept, before and after decoding.

    Attributes:
        started: whether any byte arrived since :meth:`begin`.
        status: the response's status once its head is complete; 0 before.
        reusable: whether the response is complete and the connection fit for another exchange.
    """

    __slots__ = (
        "_beginning",
        "_bodiless",
        "_body",
        "_body_size",
        "_complete",
        "_headers",
        "_interim",
        "_last",
        "_last_bytes",
        "_max_body",
        "_parser",
        "_piece",
        "_size",
        "reusable",
        "started",
        "status",
    )

    def __init__(self, max_body: int) -> None:
        self._max_body = max_body
        # The last response, and its bytes if it came in one piece and was small.
        self._last: Response | None = None
        self._last_bytes = b""
        self.begin()

    def begin(self, *, bodiless: bool = False) -> None:
        """Reset the state for the next response.

        Args:
            bodiless: the request is a HEAD, so its response ends with its head.
        """
        if not hasattr(self, "_parser"):
            self._parser = httptools.HttpResponseParser(self)
            self._parser.set_dangerous_leniencies(lenient_headers=True, lenient_optional_cr_before_lf=True)
        self._bodiless = bodiless
        self._body: list[bytes] = []
        self._body_size = 0
        self._complete = False
        self._beginning = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._interim = 0
        self._piece = b""
        self._size = 0
        self.reusable = False
        self.started = False
        self.status = 0

    def feed(self, data: bytes) -> bool:
        """Parse more bytes.

        Args:
            data: at least one byte.

        Returns:
            Whether the response is over: complete, or as much of it as will be read.

        Raises:
            ResponseFailed: the bytes are not HTTP, or the head exceeds a limit.
        """
        if self._last is not None and data == self._last_bytes and not (self.started or self._bodiless):
            self.started = self.reusable = True
            self.status = self._last.status
            return True
        self.started = True
        if len(self._beginning) < _BEGINNING:
            # llhttp also accepts the status lines of RTSP, ICE, HTTP/0.9 and HTTP/2.0. A receiver that speaks
            # one of these has not taken the event. Line breaks left over from the last response are allowed.
            self._beginning = (self._beginning + data[:_BEGINNING])[:_BEGINNING]
            if not _HTTP.startswith(self._beginning.lstrip(b"\r\n")[:7]):
                # No error shows the bytes: a URL may lead to another service, and its owner must not read the
                # banner of that service in the attempts.
                if self._beginning.startswith(_TLS_RECORDS):
                    raise NotHttp(
                        "The receiver did not respond with HTTP/1 but with TLS. Use https:// in the URL."
                    )
                raise NotHttp(
                    "The receiver did not respond with HTTP/1. Check the scheme, host and port of the URL."
                )
        self._size += len(data)
        self._piece = data
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            return self._stop(error)
        # httptools keeps calling back within one piece of data, so these limits are checked after it. A piece
        # has at most READ_SIZE bytes, which bounds what one call can pile up.
        if len(self._headers) > MAX_HEADERS:
            raise ResponseFailed(f"The response has more than {MAX_HEADERS} headers.")
        if self._interim > MAX_INTERIM:
            raise ResponseFailed(f"The receiver sent more than {MAX_INTERIM} interim (1xx) responses.")
        if not self.status and self._size > MAX_HEAD:
            raise ResponseFailed(f"The head of the response is longer than {MAX_HEAD} bytes.")
        # The second limit is for one-byte chunks with long extensions, and for trailers without end: they
        # take bytes on the connection and none in the body.
        return (
            self._complete or self._body_size > self._max_body or self._size > 2 * (self._max_body + MAX_HEAD)
        )

    def finish(self) -> Response:
        """Return the response with as much of the body as arrived. The head must be complete.

        Call this once, also if the deadline passed or the connection broke before the response was over.
        """
        if self._last is not None and self._size == 0:  # the same again
            return self._last
        body, whole = b"".join(self._body), self._complete
        if len(body) > self._max_body:
            body, whole = body[: self._max_body], False
        for name, value in self._headers:
            if name == b"content-encoding":
                body, sound = decode_content(body, value.decode("latin-1"), self._max_body)
                whole = whole and sound
                break
        self.reusable = self.reusable and whole
        response = Response(self.status, self._headers, body, whole)
        # An idle connection must not keep a large response in memory.
        piece, self._piece, self._body, self._headers = self._piece, b"", [], []
        self._last = None
        # A response to HEAD ends with its head, whatever that says: the same bytes mean another response.
        if self.reusable and not self._bodiless and len(piece) == self._size <= MOST_KEPT:
            self._last, self._last_bytes = response, piece
        return response

    def rest(self) -> None:
        """Free the parser, and break its reference cycle with httptools; :meth:`begin` makes another."""
        self._last, self._last_bytes = None, b""
        if hasattr(self, "_parser"):
            del self._parser

    def end_of_stream(self) -> None:
        """Note that the receiver closed its side: this ends a body without a length, and truncates others."""
        names = {name: value.lower() for name, value in self._headers}
        sized = b"content-length" in names or names.get(b"transfer-encoding", b"").endswith(b"chunked")
        self._complete = self._complete or not sized
        self.reusable = False

    # Callbacks of httptools, under the names that it looks up.

    def on_message_begin(self) -> None:
        # Bytes behind a complete response belong to no request of ours (response splitting, or a receiver
        # that counts wrongly). Parsing them would mix a second response into the first.
        if self._complete:
            self.reusable = False
            raise _Surplus

    def on_header(self, name: bytes, value: bytes) -> None:
        # Trailers come here too. They are dropped: a trailer must not pose as a header (RFC 9110, section
        # 6.5.1).
        if not self.status:
            self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status >= 200:
            self.status = status
            self._complete = self._bodiless
        elif status < 100:
            # llhttp accepts "099"; a status has three digits, and the first is not 0 (RFC 9110, section 15).
            raise httptools.HttpParserInvalidStatusError("Invalid status code")

    def on_body(self, body: bytes) -> None:
        self._body_size += len(body)
        # The piece that crosses the limit is kept whole and cut in finish(); nothing behind it is kept.
        if self._body_size - len(body) <= self._max_body and not self._complete:
            self._body.append(body)

    def on_message_complete(self) -> None:
        if self.status:
            self._complete = True
            self.reusable = self._parser.should_keep_alive()
        else:
            self._interim += 1
            self._headers.clear()

    def _stop(self, error: Exception) -> bool:
        if isinstance(error, httptools.HttpParserUpgrade) or self._parser.get_status_code() == 101:
            raise ResponseFailed("The receiver switched protocols (101), which the request did not ask for.")
        if not self.status and "Content-Length" in str(error):
            # Contradicting lengths stop llhttp before on_headers_complete. The status line was sound, and it
            # decides: a delivered event must not be retried because of a bad header (RFC 9112, section 6.3).
            self.status = max(0, self._parser.get_status_code())
        self.reusable = False
        if self.status < 200:
            # llhttp's reasons are fixed texts: they quote nothing that arrived.
            reason = error.__context__ or error
            raise ResponseFailed(f"The receiver did not respond with valid HTTP/1: {reason}.")
        return True


class _Surplus(Exception):
    """Stops httptools behind a complete response."""


def decode_content(body: bytes, coding: str, limit: int) -> tuple[bytes, bool]:
    """Undo one content coding (RFC 9110, section 8.4).

    Unknown codings and lists of codings are left alone: the request asked for ``identity``, and the body is
    only shown to people.

    Args:
        body: as received.
        coding: the value of ``content-encoding``.
        limit: the most bytes to return; a decompression bomb is cut there.

    Returns:
        The decoded body, and whether it is all of it and decoded without an error.
    """
    window_bits = _WINDOW_BITS.get(coding.strip().lower())
    if window_bits is None or not body:
        return body, True
    for bits in window_bits:
        decoder = zlib.decompressobj(wbits=bits)
        try:
            # zlib stops at the limit by itself, so a bomb never expands in memory.
            decoded = decoder.decompress(body, limit)
        except zlib.error:
            continue
        return decoded, decoder.eof and not decoder.unused_data
    return b"", False
