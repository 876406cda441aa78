"""Answers of receivers: read from bytes as they come, within limits. No I/O.

:class:`AnswerParser` is fed with bytes and drives ``httptools`` (llhttp). What it adds:

- 1xx answers are skipped, at most :data:`MAX_INTERIM` of them (RFC 9110, section 15.2);
- the head is bounded by :data:`MAX_HEAD` and :data:`MAX_HEADERS`, the body by the caller's limit;
- once the head is complete, whatever the body does, the status stands: the answer is then merely
  incomplete, and the connection not to be used again;
- an answer whose lengths contradict each other keeps its status too (RFC 9112, section 6.3 has the
  body discarded and the connection closed);
- lines may end in a bare LF (RFC 9112, section 2.2), because hand-written receivers do that.
"""

from __future__ import annotations

import httptools
import msgspec

from hookgw.delivery.http.content_encoding import decode
from hookgw.delivery.http.errors import AnswerFailed

MAX_HEAD = 64 * 2**10
"""Bytes that the head of an answer may have, the 1xx answers before it included."""

MAX_HEADERS = 256
"""Headers that an answer may have."""

MAX_INTERIM = 32
"""1xx answers that may come before the answer."""

_HTTP = b"HTTP/1."
_SHOWN = 48


class Answer(msgspec.Struct, frozen=True):
    """What a receiver answered.

    Attributes:
        status: 200 and up; what is over 599 is passed on as it came.
        headers: in their order; names in lower case.
        body: without its transfer and content codings (``gzip``, ``deflate``), cut at the limit.
        complete: whether that is the whole body, and sound.
    """

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes
    complete: bool

    def header(self, name: str) -> str | None:
        """The first value of a header, or ``None``; the name in lower case."""
        wanted = name.encode("ascii")
        for known, value in self.headers:
            if known == wanted:
                return value.decode("utf-8", "replace").strip()
        return None


class AnswerParser:
    """Reads the answers on one connection, one after the other.

    Call :meth:`begin` before each request, then :meth:`feed` until it says that the answer is over,
    then :meth:`finish`. After an answer that does not leave the connection :attr:`reusable`, neither
    the parser nor the connection may be used again.

    Args:
        max_body: the most bytes of a body that are kept, before and after decoding.

    Attributes:
        started: whether any byte came since :meth:`begin`.
        status: of the answer, once its head is complete; 0 before.
        reusable: whether the answer is complete and the connection good for another exchange.
    """

    __slots__ = (
        "_beginning",
        "_bodiless",
        "_body",
        "_body_size",
        "_complete",
        "_headers",
        "_interim",
        "_max_body",
        "_parser",
        "_size",
        "reusable",
        "started",
        "status",
    )

    def __init__(self, max_body: int) -> None:
        self._max_body = max_body
        self._parser = httptools.HttpResponseParser(self)
        self._parser.set_dangerous_leniencies(lenient_headers=True, lenient_optional_cr_before_lf=True)
        self.begin()

    def begin(self, *, bodiless: bool = False) -> None:
        """Make ready for the next answer.

        Args:
            bodiless: the request was a HEAD: its answer ends with its head.
        """
        self._bodiless = bodiless
        self._body: list[bytes] = []
        self._body_size = 0
        self._complete = False
        self._beginning = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._interim = 0
        self._size = 0
        self.reusable = False
        self.started = False
        self.status = 0

    def feed(self, data: bytes) -> bool:
        """Take what came.

        Args:
            data: at least one byte.

        Returns:
            Whether the answer is over: complete, or as much of it as will be read.

        Raises:
            AnswerFailed: what came is not HTTP, or its head is over a limit.
        """
        self.started = True
        if len(self._beginning) < _SHOWN:
            self._check_beginning(data)
        self._size += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            return self._stopped(error)
        if len(self._headers) > MAX_HEADERS:
            raise AnswerFailed(f"The answer has more than {MAX_HEADERS} headers.")
        if self._interim > MAX_INTERIM:
            raise AnswerFailed(f"More than {MAX_INTERIM} answers with a 1xx status came first.")
        if not self.status and self._size > MAX_HEAD:
            raise AnswerFailed(f"The head of the answer is longer than {MAX_HEAD} bytes.")
        return self._complete or self._is_over_limit()

    def finish(self) -> Answer:
        """The answer, once its head is complete: with the body as far as it came.

        Also to be called where the deadline passed or the connection was closed or reset before the
        answer was over.
        """
        body, whole = b"".join(self._body), self._complete
        if len(body) > self._max_body:
            body, whole = body[: self._max_body], False
        for name, value in self._headers:
            if name == b"content-encoding":
                body, sound = decode(body, value.decode("latin-1"), self._max_body)
                whole = whole and sound
                break
        self.reusable = self.reusable and whole
        return Answer(self.status, self._headers, body, whole)

    def retire(self) -> None:
        """Let memory be freed at once: the parser and that of httptools refer to each other."""
        del self._parser

    def end_of_stream(self) -> None:
        """The receiver closed its side: that ends a body without a length, and cuts off any other."""
        names = {name: value.lower() for name, value in self._headers}
        sized = b"content-length" in names or names.get(b"transfer-encoding", b"").endswith(b"chunked")
        self._complete = self._complete or not sized
        self.reusable = False

    def on_message_begin(self) -> None:
        """Called by httptools. Bytes behind a complete answer belong to no request of ours."""
        if self._complete:
            self.reusable = False
            raise _Surplus

    def on_header(self, name: bytes, value: bytes) -> None:
        """Called by httptools, for trailers too."""
        if not self.status:
            self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """Called by httptools."""
        status = self._parser.get_status_code()
        if status >= 200:
            self.status = status
            self._complete = self._bodiless
        elif status < 100:
            raise httptools.HttpParserInvalidStatusError("Invalid status code")

    def on_body(self, body: bytes) -> None:
        """Called by httptools, with the transfer coding undone."""
        self._body_size += len(body)
        if self._body_size - len(body) <= self._max_body and not self._complete:
            self._body.append(body)

    def on_message_complete(self) -> None:
        """Called by httptools, for 1xx answers too."""
        if self.status:
            self._complete = True
            self.reusable = self._parser.should_keep_alive()
        else:
            self._interim += 1
            self._headers.clear()

    def _is_over_limit(self) -> bool:
        """Small chunks weigh more on the wire than in the body, and trailers are not counted there."""
        return self._body_size > self._max_body or self._size > 2 * (self._max_body + MAX_HEAD)

    def _check_beginning(self, data: bytes) -> None:
        """Anything but ``HTTP/1.``, in however small pieces it comes.

        Line breaks that belong behind the last answer are forgiven.
        """
        self._beginning = (self._beginning + data[:_SHOWN])[:_SHOWN]
        if not _HTTP.startswith(self._beginning.lstrip(b"\r\n")[:7]):
            raise AnswerFailed(f"What came is not an answer in HTTP/1: {_shown(self._beginning)}.")

    def _stopped(self, error: Exception) -> bool:
        """What it means that the parser will not go on: it depends on how far it had come."""
        if isinstance(error, httptools.HttpParserUpgrade) or self._parser.get_status_code() == 101:
            raise AnswerFailed(
                "The receiver answered 101 and changed the protocol, which nobody had asked for."
            )
        if not self.status and "Content-Length" in str(error):
            self.status = max(0, self._parser.get_status_code())
        self.reusable = False
        if self.status < 200:
            reason, shown = error.__context__ or error, _shown(self._beginning)
            raise AnswerFailed(f"What came is not an answer in HTTP/1 ({reason}): {shown}.")
        return True


class _Surplus(Exception):
    """Stops the parser behind a complete answer."""


def _shown(data: bytes) -> str:
    return repr(data[:_SHOWN]) + ("…" if len(data) >= _SHOWN else "")
