"""The state machine of a connection: finds the requests in a client's bytes. No I/O.

A connection carries one request after the other, and a server that loses count of the bytes takes one
client's body for another client's request. So one object reads all bytes of a connection, and one field says
where it is: :attr:`RequestReader.state`. Bytes are fed as they arrive; heads and parts of bodies are taken
when they are wanted, so that nothing is read ahead of a request whose response is not complete.

========== ============================================ ================================ ==================
state      what was read                                what comes next                  deadline
========== ============================================ ================================ ==================
IDLE       nothing of the next request                  HEAD, a body's first state, or   keep-alive; for a
                                                        COMPLETE                         new connection the
                                                                                         head's
HEAD       a part of a head                             as IDLE                          head
LENGTH     the head; the body has a length              COMPLETE                         body
CHUNK_LINE the head, or a chunk with its end            CHUNK; TRAILERS after size 0     body
CHUNK      the line of a chunk                          CHUNK_END                        body
CHUNK_END  a chunk without its line break               CHUNK_LINE                       body
TRAILERS   the last chunk                               COMPLETE                         body
COMPLETE   a request; more bytes wait for its response  IDLE, by ``head``                none
REFUSED    bytes that break a rule, or came too late    nothing                          of lingering
ENDED      the client's last byte                       nothing                          none
========== ============================================ ================================ ==================

``REFUSED`` and ``ENDED`` can follow every state. After a refusal the end of the request is unknown, so
nothing that follows can be a new request, and nothing is read as one.

No client's bytes may cost much more than they weigh. A client that sends one byte in each chunk makes the
reader work hardest, so whole short chunks are read in one short loop, a call of :meth:`RequestReader.part`
reads :data:`_CHUNKS_AT_ONCE` of them at most (about 1 ms), and what surrounds the bytes of a body is limited.
"""

from __future__ import annotations

import re

from hookgw.kernel.sentences import Sentence
from hookgw.kernel.units import Size
from hookgw.web.server.known_heads import KnownHeads
from hookgw.web.server.request_head import CHUNKED, Head, Refused, check_begun, check_trailers

_END_OF_HEAD = b"\r\n\r\n"
_END_OF_LINE = b"\r\n"
_CHUNK_LINE = re.compile(rb"([0-9A-Fa-f]{1,15})(?:;[\t -~\x80-\xff]*)?\r\n")
_LONGEST_CHUNK_LINE = 256
_MOST_EXTENSIONS = Size(4096)
"""Bytes of the chunk extensions of one body."""
_CHUNKS_AT_ONCE = 1000
_SHORT_SIZES = {
    line.encode(): size
    for size in range(1, 256)
    for line in (f"{size:x}", f"{size:X}", f"{size:02x}", f"{size:02X}")
}
"""The sizes of short chunks by their lines. A look-up takes a third of the time of reading the digits."""
_BAD_CHUNK = Sentence(
    "http.chunk",
    "Each chunk must begin with a line of its size in plain hexadecimal digits, and end with CR LF "
    "(RFC 9112, section 7.1). The line may have at most {most} bytes.",
    most=_LONGEST_CHUNK_LINE,
)
_LONG_EXTENSIONS = Sentence(
    "http.chunk_extensions",
    "The chunk extensions of a body may have at most {most} in total.",
    most=_MOST_EXTENSIONS,
)
_CUT_OFF = Sentence("http.body_cut_off", "The body ended before its announced end (RFC 9112, section 8).")


class State:
    """Where the reader of a connection is.

    No Enum: each request looks ten of these up, and Python 3.11 takes six times as long for an Enum's.
    """

    IDLE = "idle"
    HEAD = "head"
    LENGTH = "length"
    CHUNK_LINE = "chunk line"
    CHUNK = "chunk"
    CHUNK_END = "chunk end"
    TRAILERS = "trailers"
    COMPLETE = "complete"
    REFUSED = "refused"
    ENDED = "ended"


_BODY = (State.LENGTH, State.CHUNK_LINE, State.CHUNK, State.CHUNK_END, State.TRAILERS)


class RequestReader:
    """Reads the requests of one connection.

    Args:
        max_head: the most bytes of a head, and of trailers.
        known: the heads that the server knows; ``None`` for none of other connections.
    """

    def __init__(self, max_head: int, known: KnownHeads | None = None) -> None:
        self._max_head = max_head
        self._known = KnownHeads() if known is None else known
        self._data = b""
        self._at = 0
        self._rest = 0  # bytes of the body, or of the chunk, that are still to come
        self._extensions = 0  # bytes of the body's chunk extensions so far
        self._has_skipped = False
        self.state = State.IDLE
        self.refusal: Refused | None = None
        """Why the connection is refused."""
        self.came_whole = False
        """Whether all of the request had arrived when its head was taken."""

    @property
    def is_within_body(self) -> bool:
        return self.state in _BODY

    @property
    def has_unread(self) -> bool:
        return self._at < len(self._data)

    @property
    def has_begun_head_request(self) -> bool:
        """Whether the refused or incomplete head is that of a HEAD request."""
        return self._data.startswith(b"HEAD ", self._at)

    @property
    def length_left(self) -> int | None:
        """The bytes of the body that :meth:`part` has not returned; ``None`` if its end is unknown."""
        return self._rest if self.state == State.LENGTH else None

    def feed(self, data: bytes) -> None:
        """Take what the client has sent; no bytes are its end."""
        if not data:
            self.end()
        self._data = self._data[self._at :] + data if self._at < len(self._data) else data
        self._at = 0

    def end(self) -> None:
        if self.is_within_body:
            self.refuse(Refused(400, _CUT_OFF))
        elif self.state != State.REFUSED:
            self.state = State.ENDED

    def refuse(self, refusal: Refused) -> None:
        """Read nothing from now on."""
        self.state = State.REFUSED
        self.refusal = refusal

    def head(self) -> Head | None:
        """Return the next head if all of it has arrived. Call it once the last response is complete.

        Raises:
            Refused: it breaks a rule, or the connection was refused before.
        """
        if self.refusal is not None:
            raise self.refusal
        if self.state == State.COMPLETE:
            self.state = State.IDLE
        data, at = self._data, self._at
        if at == len(data):
            self._data, self._at = b"", 0  # an idle connection must not keep 64 KiB of its last request
            return None
        try:
            if data.startswith(_END_OF_LINE, at) and not self._has_skipped:
                self._has_skipped = True  # one blank line before a request is ignored (RFC 9112, section 2.2)
                at = self._at = at + 2
            end = data.find(_END_OF_HEAD, at) + 4
            if (end if end > 3 else len(data)) - at > self._max_head:
                raise Refused(
                    431,
                    Sentence(
                        "http.head_too_long",
                        "The head may have at most {limit} (server.max_header).",
                        limit=Size(self._max_head),
                    ),
                )
            if end < 4:
                if at < len(data) and (self._has_skipped or data[at:] != b"\r"):
                    check_begun(data[at:])
                # Nothing has begun by a blank line alone, however it is cut.
                self.state = State.HEAD if at < len(data) else State.IDLE
                return None
            head = self._known.read(data[at:end])
        except Refused as refusal:
            self.refuse(refusal)
            raise
        self._at, self._has_skipped = end, False
        if head.length == CHUNKED:
            self._extensions, self.state, self.came_whole = 0, State.CHUNK_LINE, False
        else:
            self._rest, self.state = head.length, State.LENGTH if head.length else State.COMPLETE
            self.came_whole = head.length <= len(data) - end
        return head

    def part(self) -> bytes:
        """Return the next bytes of the body that have arrived, or as many of them as one step may take.

        If there are none, and :attr:`state` is still a body's, more must be fed.

        Raises:
            Refused: the framing of the body breaks a rule.
        """
        try:
            part = self._take() if self.state == State.LENGTH else self._read_chunks()
        except Refused as refusal:
            self.refuse(refusal)
            raise
        if self.state == State.LENGTH and not self._rest:
            self.state = State.COMPLETE
        if self._at == len(self._data):  # nor must one whose client takes its time
            self._data, self._at = b"", 0
        return part

    def whole_body(self) -> bytes | None:
        """Take the rest of a body with a length, or of none, if all of it has arrived; ``None`` if not."""
        if self.state != State.LENGTH:
            return b"" if self.state == State.COMPLETE else None
        end = self._at + self._rest
        if len(self._data) < end:
            return None
        body = self._data[self._at : end]
        self._at, self._rest, self.state = end, 0, State.COMPLETE
        return body

    def _take(self) -> bytes:
        part = self._data[self._at : self._at + self._rest]
        self._at += len(part)
        self._rest -= len(part)
        return part

    def _read_chunks(self) -> bytes:
        parts: list[bytes] = []
        while self._at < len(self._data) and len(parts) < _CHUNKS_AT_ONCE:
            before = self.state, self._at
            match self.state:
                case State.CHUNK_LINE:
                    self._take_short_chunks(parts)
                    self._read_chunk_line()
                case State.CHUNK:
                    parts.append(self._take())
                    if not self._rest:
                        self.state = State.CHUNK_END
                case State.CHUNK_END:
                    self._read_chunk_end()
                case State.TRAILERS:
                    self._read_trailers()
                case _:
                    break
            if (self.state, self._at) == before:
                break  # the line goes on in bytes that have not arrived
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _take_short_chunks(self, parts: list[bytes]) -> None:
        """Take whole chunks of up to 255 bytes, without extensions. Others go through the states."""
        data, at, sizes = self._data, self._at, _SHORT_SIZES
        for _ in range(_CHUNKS_AT_ONCE):
            line_end = data.find(_END_OF_LINE, at, at + 4)
            if line_end < 0 or (size := sizes.get(data[at:line_end])) is None:
                break
            begin = line_end + 2
            end = begin + size
            if data[end : end + 2] != _END_OF_LINE:
                break
            parts.append(data[begin:end])
            at = end + 2
        self._at = at

    def _read_chunk_line(self) -> None:
        data, at = self._data, self._at
        end = data.find(_END_OF_LINE, at, at + _LONGEST_CHUNK_LINE) + 2
        if end < 2 and len(data) - at < _LONGEST_CHUNK_LINE:
            return  # chunk extensions are ignored, but must not grow without a limit
        line = _CHUNK_LINE.fullmatch(data, at, end) if end > 1 else None
        if line is None:
            raise Refused(400, _BAD_CHUNK)
        self._extensions += end - 2 - line.end(1)
        if self._extensions > _MOST_EXTENSIONS:
            raise Refused(400, _LONG_EXTENSIONS)
        self._rest, self._at = int(line[1], 16), end
        self.state = State.CHUNK if self._rest else State.TRAILERS

    def _read_chunk_end(self) -> None:
        end = self._data[self._at : self._at + 2]
        if not _END_OF_LINE.startswith(end):
            raise Refused(400, _BAD_CHUNK)
        if end == _END_OF_LINE:
            self._at += 2
            self.state = State.CHUNK_LINE

    def _read_trailers(self) -> None:
        data, at = self._data, self._at
        end = at + 2
        if not data.startswith(_END_OF_LINE, at):
            end = data.find(_END_OF_HEAD, at) + 4
            if (end if end > 3 else len(data)) - at > self._max_head:
                raise Refused(
                    431,
                    Sentence(
                        "http.trailers_too_long",
                        "The trailers may have at most {limit}.",
                        limit=Size(self._max_head),
                    ),
                )
            if end < 4:
                return
        check_trailers(data[at:end])
        self._at = end
        self.state = State.COMPLETE
