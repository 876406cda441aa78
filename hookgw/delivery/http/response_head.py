"""The head of a response: its status, its headers, and where its body ends (RFC 9112). No I/O.

A complete head decides an attempt, so a head is read as generously as curl and browsers read it: malformed
lines after the status line are ignored. Anything that another reader might understand differently makes the
head :attr:`~ResponseHead.is_odd`: its connection must not be used again, because the next response on it
might belong to another request.
"""

from __future__ import annotations

import re
from enum import Enum, auto

import msgspec

from hookgw.kernel.masking import repr_without
from hookgw.kernel.rules import NAME_PATTERN

Headers = list[tuple[bytes, bytes]]


class BodyEnd(Enum):
    """How the end of a body is found (RFC 9112, section 6.3)."""

    LENGTH = auto()
    """After :attr:`ResponseHead.length` bytes; 0 without a body."""
    CHUNKED = auto()
    CLOSE = auto()
    """Where the receiver closes the connection."""
    UNKNOWN = auto()
    """The head contradicts itself, or names a coding that was not requested: the body cannot be read."""


class ResponseHead(msgspec.Struct, frozen=True):
    """The head of one response.

    Attributes:
        headers: in the order received; names in lower case, values without the whitespace around them.
        is_odd: whether the receiver broke a rule of HTTP/1.1.
        is_persistent: whether this head allows the connection to be used again.
    """

    status: int
    headers: Headers
    body_end: BodyEnd
    length: int
    is_odd: bool
    is_persistent: bool

    __repr__ = repr_without("headers")  # a receiver may send a cookie


# The reason may be missing, and the space before it, too. A minor version above 1 counts as 1 (RFC 9110,
# section 2.5). More than one space is read, as RFC 9112, section 3, allows for requests, but is odd.
_STATUS_LINE = re.compile(rb"HTTP/1\.([0-9])([ \t]+)([1-9][0-9]{2})(?:[ \t][^\r\n]*)?")
_TOKEN = NAME_PATTERN.encode()
# Possessive: both repetitions take spaces, so a line of spaces that ends in NUL would be tried in each way to
# divide them.
_FIELD = re.compile(rb"(" + _TOKEN + rb"):[ \t]*+([^\r\n\0]*+)")
_SOUND_FIELDS = re.compile(rb"\r\n(?:" + _TOKEN + rb"+:[^\r\n\0]*+\r\n)*+\r\n")
_LENGTH = re.compile(rb"0*([0-9]{1,18})")
_ABOUT_BODY = frozenset({b"content-length", b"transfer-encoding"})
_DECISIVE = _ABOUT_BODY | {b"connection"}


def match_status_line(line: bytes) -> re.Match[bytes] | None:
    """Return the match of a status line of HTTP/1, given with its end; ``None`` for any other line."""
    return _STATUS_LINE.fullmatch(line.removesuffix(b"\n").removesuffix(b"\r"))


def read_head(status_line: re.Match[bytes], lines: bytes, *, most_headers: int) -> ResponseHead | None:
    """Parse a complete head; return ``None`` if it has too many headers.

    Args:
        lines: from the end of the status line, without its CR, to the empty line at the end of the head.
    """
    minor, spaces, status = status_line.groups()
    number, is_odd = int(status), spaces != b" "
    malformed: frozenset[bytes] = frozenset()
    if _SOUND_FIELDS.fullmatch(lines):
        if lines.count(b"\n") - 2 > most_headers:  # before the first one, and behind the last one
            return None
        # Sound as a whole: this takes a third of the time of one match a line.
        fields = [line.split(b":", 1) for line in lines[2:-4].split(b"\r\n")] if len(lines) > 4 else []
    else:
        is_odd, unfolded = True, _unfolded(lines)
        if len(unfolded) > most_headers:
            return None
        matches = [(line, _FIELD.fullmatch(line)) for line in unfolded]
        fields = [[*field.groups()] for _, field in matches if field is not None]
        malformed = frozenset(
            line.partition(b":")[0].strip().lower() for line, field in matches if field is None
        )
    headers = [(name.lower(), value.strip(b" \t")) for name, value in fields]
    options: list[bytes] = []
    codings: list[bytes] = []
    lengths: list[bytes] = []
    for name, value in headers:
        if name not in _DECISIVE:  # most are not
            continue
        if name == b"content-length":
            lengths += [one.strip(b" \t") for one in value.split(b",")]
        elif name == b"transfer-encoding":
            codings += _tokens(value)
        else:
            options += _tokens(value)
    is_persistent = b"close" not in options and (minor != b"0" or b"keep-alive" in options)
    if codings:
        # HTTP/1.0 has no transfer codings (RFC 9112, section 6.1). A length beside one is overridden, and a
        # sign that a proxy in between may read the body otherwise (section 6.3).
        is_odd = is_odd or codings != [b"chunked"] or bool(lengths) or minor == b"0"
    if number < 200 or number in (204, 304):
        # These have no body, whatever the head says. Some servers send one with a 204 all the same.
        is_odd = is_odd or (number != 304 and (bool(codings) or any(one.strip(b"0") for one in lengths)))
        return ResponseHead(number, headers, BodyEnd.LENGTH, 0, is_odd, is_persistent)
    # An unreadable line about the body must not count as a missing one.
    body_end, length = (BodyEnd.UNKNOWN, 0) if malformed & _ABOUT_BODY else _body_end(codings, lengths)
    is_odd = is_odd or body_end is BodyEnd.UNKNOWN or len(lengths) > 1
    return ResponseHead(number, headers, body_end, length, is_odd, is_persistent)


def _body_end(codings: list[bytes], lengths: list[bytes]) -> tuple[BodyEnd, int]:
    """Return how a body ends, and its length if it has one (RFC 9112, section 6.3)."""
    # "identity" changes nothing (RFC 2616, section 3.6).
    if codings and (others := set(codings) - {b"identity"}):
        return (BodyEnd.CHUNKED if others == {b"chunked"} else BodyEnd.UNKNOWN), 0
    different = set(lengths)
    if not different:
        return BodyEnd.CLOSE, 0
    # The same length twice is one length.
    digits = _LENGTH.fullmatch(different.pop())
    return (BodyEnd.UNKNOWN, 0) if different or digits is None else (BodyEnd.LENGTH, int(digits[1]))


def _unfolded(lines: bytes) -> list[bytes]:
    """Join each line with its continuations (obs-fold, RFC 9112, section 5.2)."""
    unfolded: list[bytes] = []
    # A bare LF ends a line (RFC 9112, section 2.2): hand-written receivers do that. Before the first LF is
    # the end of the status line, and behind the last line are the empty one and nothing.
    for line in (line.removesuffix(b"\r") for line in lines.split(b"\n")[1:-2]):
        if line.startswith((b" ", b"\t")) and unfolded:
            unfolded[-1] += b" " + line.strip(b" \t")
        else:
            unfolded.append(line)  # one that continues the status line is malformed (section 2.2)
    return unfolded


def _tokens(value: bytes) -> list[bytes]:
    tokens = (token.strip(b" \t") for token in value.lower().split(b","))
    return [token for token in tokens if token]
