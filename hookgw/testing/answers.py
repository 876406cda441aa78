"""What a receiver can be told to do with a request. No I/O.

An :class:`Answer` is a row of steps: send these bytes, pause, drip, hang, reset, close. Most tests
need only :func:`answer` and the other functions below; every fault that they lack is a row of steps
away::

    answer(503, headers={"retry-after": "30"})
    answer(200, body=b"x" * 1000, drip="body", every=1.0)
    answer(200, body=b"x" * 1000).cut(500, Reset())     # the head and some of the body, then RST
    raw(b"SSH-2.0-OpenSSH_9.6\\r\\n").then(Close())
    Answer((Send(b"HTTP/1.1 200"), Hang()))

All times are seconds of Trio's clock: under a mock clock they pass when the test says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Literal

Headers = Mapping[str, str] | Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Send:
    """Send the bytes."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Drip:
    """Send the bytes ``size`` at a time, with ``every`` seconds between two pieces."""

    data: bytes
    every: float = 1.0
    size: int = 1


@dataclass(frozen=True, slots=True)
class Stream:
    """Send what the function yields, piece by piece, for as long as it yields and somebody reads.

    The function is called anew for each answer, so one ``Stream`` serves many requests::

        Stream(lambda: itertools.repeat(chunk(b"x" * 65536)))     # an endless chunked body
    """

    pieces: Callable[[], Iterable[bytes]]


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait for that many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Hang:
    """Send nothing more; the connection stays open until the other side closes it."""


@dataclass(frozen=True, slots=True)
class HalfClose:
    """Send FIN (over TLS nothing) and go on reading until the other side closes too."""


@dataclass(frozen=True, slots=True)
class Close:
    """Close the connection in good order."""


@dataclass(frozen=True, slots=True)
class Reset:
    """Close the connection with RST: the other side gets "connection reset by peer"."""


Step = Send | Drip | Stream | Pause | Hang | HalfClose | Close | Reset
"""After ``Hang``, ``HalfClose``, ``Close`` or ``Reset`` the connection serves no further request."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a receiver does with one request.

    Unless a step ends the connection, it is kept for the next request.

    Attributes:
        steps: done in turn, once the request has been read and recorded.
        early: begin before the request's body is read; the request is recorded without its body,
            which is then read and thrown away.
    """

    steps: tuple[Step, ...] = ()
    early: bool = False

    def then(self, *steps: Step) -> Answer:
        """The same answer with further steps at its end."""
        return replace(self, steps=(*self.steps, *steps))

    def after(self, *steps: Step) -> Answer:
        """The same answer with further steps before it, for example ``after(Pause(3))``."""
        return replace(self, steps=(*steps, *self.steps))

    def cut(self, size: int, *steps: Step) -> Answer:
        """Only the first ``size`` bytes of the answer, then ``steps`` (by default ``Close()``).

        Raises:
            ValueError: the answer is not that long, or a :class:`Stream` comes before them.
        """
        return replace(self, steps=(*_first_bytes(self.steps, size), *(steps or (Close(),))))


def answer(
    status: int = 200,
    body: bytes | str = b"",
    *,
    headers: Headers = (),
    reason: str | None = None,
    version: Literal["1.0", "1.1"] = "1.1",
    framing: Literal["length", "chunked", "close", "none"] | None = None,
    informational: Sequence[int] = (),
    wait: float = 0.0,
    wait_body: float = 0.0,
    drip: Literal["head", "body"] | None = None,
    every: float = 1.0,
    size: int = 1,
    early: bool = False,
    keep_alive: bool = True,
) -> Answer:
    """An HTTP answer, right or wrong in whatever way the test needs.

    Args:
        status: any number; nothing checks it.
        body: text is sent as UTF-8.
        headers: in the order given, after the framing header; a name may stand there twice.
        reason: the reason phrase; by default the usual one.
        version: of HTTP.
        framing: ``length`` (the default) sends ``content-length``, ``chunked`` the chunked coding,
            ``close`` neither and ends the body by closing, ``none`` neither and leaves the
            connection open (the default for 204 and 304).
        informational: statuses (100 to 199) to send before the answer, each with an empty head.
        wait: seconds before the first byte.
        wait_body: seconds between head and body.
        drip: send the head or the body ``size`` bytes every ``every`` seconds.
        early: see :class:`Answer`.
        keep_alive: false sends ``connection: close`` and closes.
    """
    content = body.encode() if isinstance(body, str) else body
    framing = framing or ("none" if status in (204, 304) else "length")
    lines = [f"HTTP/{version} {status} {_phrase(status) if reason is None else reason}"]
    lines += [f"{name}: {value}" for name, value in _framing_headers(framing, len(content))]
    lines += [f"{name}: {value}" for name, value in _pairs(headers)]
    if not keep_alive:
        lines.append("connection: close")
    head = "".join(f"{line}\r\n" for line in (*lines, "")).encode("latin-1")
    interim = b"".join(f"HTTP/1.1 {code} {_phrase(code)}\r\n\r\n".encode() for code in informational)
    sent = content
    if framing == "chunked":
        sent = (chunk(content) if content else b"") + chunk(b"")
    steps: list[Step | None] = [
        Pause(wait) if wait else None,
        Send(interim) if interim else None,
        Drip(head, every, size) if drip == "head" else Send(head),
        Pause(wait_body) if wait_body else None,
        Drip(sent, every, size) if drip == "body" else Send(sent),
        Close() if framing == "close" or not keep_alive else None,
    ]
    return Answer(tuple(step for step in steps if step is not None and step != Send(b"")), early=early)


def redirect(status: int, location: str) -> Answer:
    """A redirect to ``location``."""
    return answer(status, headers={"location": location})


def raw(data: bytes) -> Answer:
    """The bytes as they are, whatever they mean; the connection stays open."""
    return Answer((Send(data),))


def hang() -> Answer:
    """No answer at all; the connection stays open."""
    return Answer((Hang(),))


def reset() -> Answer:
    """No answer but RST. See :meth:`Answer.cut` and :meth:`Answer.then` for later resets."""
    return Answer((Reset(),))


def close() -> Answer:
    """No answer but the end of the connection."""
    return Answer((Close(),))


def chunk(data: bytes) -> bytes:
    """One chunk of the chunked coding (RFC 9112, section 7.1); of nothing: the end of the body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"


def _pairs(headers: Headers) -> Iterable[tuple[str, str]]:
    return headers.items() if isinstance(headers, Mapping) else headers


def _framing_headers(framing: str, length: int) -> Iterator[tuple[str, str]]:
    if framing == "length":
        yield "content-length", str(length)
    elif framing == "chunked":
        yield "transfer-encoding", "chunked"


def _first_bytes(steps: Iterable[Step], size: int) -> Iterator[Step]:
    for step in steps:
        if isinstance(step, Stream):
            raise ValueError("what a Stream sends cannot be cut: nobody knows how long it is")  # noqa: TRY004
        if not isinstance(step, Send | Drip):
            yield step
            continue
        kept = step.data[:size]
        yield replace(step, data=kept)
        size -= len(kept)
        if size == 0:
            return
    if size:
        raise ValueError(f"the answer ends {size} bytes before the place to cut it")
