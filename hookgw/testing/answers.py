"""The answers that a test can give a receiver. No I/O.

An :class:`Answer` is a sequence of steps: send these bytes, pause, drip, hang, reset, close. Most tests need
only :func:`answer` and the other functions below. Write any other fault as a sequence of steps::

    answer(503, headers={"retry-after": "30"})
    answer(200, body=b"x" * 1000, drip="body", every=1.0)
    answer(200, body=b"x" * 1000).cut(500, Reset())     # the head and some of the body, then RST
    raw(b"SSH-2.0-OpenSSH_9.6\\r\\n").then(Close())
    Answer((Send(b"HTTP/1.1 200"), Hang()))

All times are seconds of Trio's clock. Under a mock clock, the test moves it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
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
    """Send each piece that the function yields, until it ends or the client leaves.

    The function is called for each answer, so one ``Stream`` serves many requests::

        Stream(lambda: itertools.repeat(chunk(b"x" * 65536)))     # an endless chunked body
    """

    pieces: Callable[[], Iterable[bytes]]


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Hang:
    """Send nothing more. The connection stays open until the client closes it."""


@dataclass(frozen=True, slots=True)
class HalfClose:
    """Send FIN (without TLS's close_notify), and read until the client closes the connection too."""


@dataclass(frozen=True, slots=True)
class Close:
    """Close the connection."""


@dataclass(frozen=True, slots=True)
class Reset:
    """Reset the connection (RST): the client gets "connection reset by peer"."""


Step = Send | Drip | Stream | Pause | Hang | HalfClose | Close | Reset
"""``Hang``, ``HalfClose``, ``Close`` and ``Reset`` end the connection: steps after them are not performed."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A receiver's answer to one request.

    The connection stays open for the next request, unless a step ends it.

    Attributes:
        steps: performed in order, once the request is read and recorded.
        early: begin before the request's body is read. The request is recorded without its body, which is
            read and discarded after the answer.
    """

    steps: tuple[Step, ...] = ()
    early: bool = False

    def then(self, *steps: Step) -> Answer:
        """Return the same answer with more steps at its end."""
        return replace(self, steps=(*self.steps, *steps))

    def after(self, *steps: Step) -> Answer:
        """Return the same answer with more steps before it, for example ``after(Pause(3))``."""
        return replace(self, steps=(*steps, *self.steps))

    def cut(self, size: int, *steps: Step) -> Answer:
        """Return an answer with the first ``size`` bytes of this one, then ``steps`` (default: ``Close()``).

        Raises:
            ValueError: the answer has fewer bytes, or contains a :class:`Stream` before the cut.
        """
        kept: list[Step] = []
        missing = size
        for step in self.steps:
            if isinstance(step, Stream):
                raise ValueError("an answer with a Stream cannot be cut: its length is unknown")  # noqa: TRY004
            if not isinstance(step, Send | Drip):
                kept.append(step)
                continue
            kept.append(replace(step, data=step.data[:missing]))
            missing -= len(step.data[:missing])
            # Here and not at the start of the loop: a Pause or Hang after the last byte is beyond the cut.
            if missing == 0:
                break
        if missing:
            raise ValueError(f"the answer ends {missing} bytes before the cut")
        return replace(self, steps=(*kept, *(steps or (Close(),))))


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
    """Return an HTTP answer. Nothing checks that it is valid.

    Args:
        status: any number.
        body: text is sent as UTF-8.
        headers: sent in this order, after the framing header. A name may occur twice.
        reason: the reason phrase; by default the standard one.
        version: the version of HTTP.
        framing: ``length`` (the default) sends ``content-length``; ``chunked`` uses the chunked coding;
            ``close`` sends neither and ends the body by closing the connection; ``none`` sends neither and
            leaves the connection open (the default for 204 and 304).
        informational: statuses (100 to 199) to send before the answer, each without headers.
        wait: seconds before the first byte.
        wait_body: seconds between head and body.
        drip: send the head or the body in pieces of ``size`` bytes, ``every`` seconds apart.
        early: answer before the request's body is read; see :class:`Answer`.
        keep_alive: if false, send ``connection: close`` and close the connection.
    """
    content = body.encode() if isinstance(body, str) else body
    # 204 and 304 have no body, and 204 must not have a content-length (RFC 9110, sections 8.6 and 15.4.5).
    framing = framing or ("none" if status in (204, 304) else "length")
    lines = [f"HTTP/{version} {status} {_phrase(status) if reason is None else reason}"]
    if framing == "length":
        lines.append(f"content-length: {len(content)}")
    elif framing == "chunked":
        lines.append("transfer-encoding: chunked")
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    lines += [f"{name}: {value}" for name, value in pairs]
    if not keep_alive:
        lines.append("connection: close")
    # Latin-1, so that a test can send any byte in a header (RFC 9110, section 5.5: obs-text).
    head = "".join(f"{line}\r\n" for line in (*lines, "")).encode("latin-1")
    # Always HTTP/1.1: there is no 1xx in HTTP/1.0 (RFC 9110, section 15.2).
    interim = b"".join(f"HTTP/1.1 {code} {_phrase(code)}\r\n\r\n".encode() for code in informational)
    if framing == "chunked":
        # An empty chunk ends the body, so an empty body is the last chunk alone.
        content = (chunk(content) if content else b"") + chunk(b"")
    steps: list[Step | None] = [
        Pause(wait) if wait else None,
        Send(interim) if interim else None,
        Drip(head, every, size) if drip == "head" else Send(head),
        Pause(wait_body) if wait_body else None,
        Drip(content, every, size) if drip == "body" else Send(content),
        Close() if framing == "close" or not keep_alive else None,
    ]
    return Answer(tuple(step for step in steps if step is not None and step != Send(b"")), early=early)


def redirect(status: int, location: str) -> Answer:
    """Return a redirect to ``location``."""
    return answer(status, headers={"location": location})


def raw(data: bytes) -> Answer:
    """Return an answer of exactly these bytes. The connection stays open."""
    return Answer((Send(data),))


def hang() -> Answer:
    """Send nothing, and keep the connection open."""
    return Answer((Hang(),))


def reset() -> Answer:
    """Reset the connection. For later resets, see :meth:`Answer.cut` and :meth:`Answer.then`."""
    return Answer((Reset(),))


def close() -> Answer:
    """Close the connection without an answer."""
    return Answer((Close(),))


def chunk(data: bytes) -> bytes:
    """Return one chunk of the chunked coding (RFC 9112, section 7.1); ``chunk(b"")`` ends the body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"
