"""Reads JSON of messaging networks as far as possible, and never for long in one step. No I/O.

Networks' servers write people's texts into JSON: with half of a surrogate pair where a text was cut, or with
numbers that no double holds. One such value must not hold back its neighbours. And a server that a tenant
chose may answer with anything: 4 KB of gzip become a million values, which a decoder reads in one step, with
the interpreter's lock.

So a long text is read in three passes, which pause every few KiB:

1. :func:`mend` replaces what strict decoders refuse, in the bytes.
2. :func:`read_network_json` walks down to the events, whose places the connector knows. It keeps events as
   bytes, many in a part of :data:`PART` bytes. A larger event is measured, and left out if it has more than
   :data:`MOST_VALUES` values.
3. The connector iterates :class:`NetworkEvents`, which decodes one part at a time.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Generator, Iterable, Iterator
from functools import lru_cache
from typing import Any

import msgspec

from hookgw.kernel.errors import EventLeftOut
from hookgw.kernel.json_decoding import no_collection
from hookgw.kernel.json_text import is_deep
from hookgw.kernel.long_json import (
    CHUNK,
    check_syntax,
    cut_at_escape,
    end_of_first,
    end_of_value,
    finish,
    measure,
    skip_blank,
)

MOST_VALUES = 20_000
"""JSON values of an event as the network sent it, and of anything else that is decoded in one step."""
PART = CHUNK
"""Bytes of a text that is decoded in one step without counting its values: less than 3 ms, whatever it is."""
MOST_BESIDE = 500_000
"""JSON values of a text beside its events."""
MOST_SHOWN = 256 * 1024
"""Bytes of something that was left out."""
MOST_ITEMS = 500_000
"""Items and members of a text that are looked at one by one: an account may be in 30,000 rooms, each of which
has a dozen."""
_MOST_GROWTH = 2**20
"""Bytes that a text may grow by, because U+FFFD has three."""
_SEARCHED = 2**20
_WINDOW = 1024
_LONGEST_NAME = 64 * 1024
_LONGEST_INTEGER = 400
_INFINITY = float("inf")
# After a backslash that no other one escapes. A look at the neighbours is enough: a high half always belongs
# to the low half behind it.
_HIGH, _LOW = rb"\\u[dD][89abAB][0-9a-fA-F]{2}", rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_LONE_ESCAPE = re.compile(rb"%b(?!%b)|(?<!%b)%b" % (_HIGH, _LOW, _HIGH, _LOW))
_HIGH_ESCAPE = re.compile(_HIGH)
_ESCAPE = 6
_NO_NUMBER = re.compile(rb"NaN|-?Infinity")
_BEFORE_WORD = frozenset((b",", b"[", b":", b" ", b"\n", b"\r", b"\t"))
_NAME = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_TOO_DEEP = "is nested too deeply"
_TOO_MANY = f"has too many JSON values: at most {MOST_VALUES:,} are allowed"
_LEFT_OUT = object()


class LeftOut(msgspec.Struct, frozen=True):
    """A part of a network's JSON that was not read.

    Attributes:
        reason: completes "the event …".
        text: its first bytes, at most :data:`MOST_SHOWN`.
    """

    reason: str
    text: bytes


class NetworkEvents:
    """The events of a list, in order. They are decoded anew at each iteration, a few KiB at a time."""

    __slots__ = ("_left_out", "_parts")

    def __init__(self, parts: Iterable[list[Any] | bytes], left_out: Callable[[LeftOut], None]) -> None:
        self._parts = tuple(parts)
        self._left_out = left_out

    def __iter__(self) -> Iterator[Any]:
        for part in self._parts:
            yield from part if isinstance(part, list) else self._decode(part)

    def __bool__(self) -> bool:
        return any(self._parts)

    def texts(self) -> Iterator[bytes]:
        """Yield the events as JSON lists, each with one event or of at most :data:`PART` bytes."""
        for part in self._parts:
            yield msgspec.json.encode(part) if isinstance(part, list) else part

    def _decode(self, part: bytes) -> list[Any]:
        try:
            found: list[Any] = _decode(part)
        except ValueError as error:
            try:
                items = _raw_items(part)
            except (msgspec.DecodeError, RecursionError):
                items = []
            if len(items) <= 1:
                self._left_out(LeftOut(str(error), part[1:-1][:MOST_SHOWN]))
                return []
            return [event for item in items for event in self._decode(b"[%b]" % bytes(item))]
        return found


def decode_json(text: bytes) -> Any:
    """Decode JSON that a network sends in one step: a short request, or the response of its server.

    It takes what strict readers refuse, because one odd value in one message must not cost the others: bytes
    that are not UTF-8 and halves of surrogate pairs become U+FFFD, and ``null`` stands for numbers that no
    double holds. For a text that may be long, use :meth:`hookgw.Session.decode_json`, which pauses.

    Args:
        text: the JSON.

    Raises:
        ValueError: the text is not JSON even so, is nested too deeply, or has more than 20,000 values.
    """
    return finish(read_network_json(text))


def _ignore(_: LeftOut) -> None:
    return None


def read_network_json(
    text: bytes, events: tuple[str, ...] = (), left_out: Callable[[LeftOut], None] = _ignore
) -> Generator[None, None, Any]:
    """Decode JSON that a network sends, with pauses; see :func:`decode_json`.

    Args:
        text: the JSON.
        events: the places of events, as in :meth:`hookgw.Session.decode_json`. A list of events becomes
            :class:`NetworkEvents`.
        left_out: called for each event, and anything else, that has more than 20,000 values.

    Raises:
        EventLeftOut: the whole text is one event, and was left out.
        ValueError: the text is not JSON even so, is nested too deeply, or has too many values beside its
            events. The message completes "the body …".
    """
    place = _tree_of(events)
    # What is too deep is left out alone: the long way finds it.
    if len(text) <= PART and not is_deep(text, MOST_VALUES):
        try:
            return _with_events(_decode_well_formed(text), place, left_out)
        except (ValueError, RecursionError):
            pass
        try:
            return _with_events(_decode(mend(text)), place, left_out)
        except ValueError as error:
            if not events or str(error) != _TOO_DEEP:
                raise
    text = yield from _mending(text)
    # Without places of events, a large text is an error, not an event.
    reader = _Reader(text, left_out if events else _ignore)
    at = yield from skip_blank(text, 0)
    value, at = yield from reader.read(at, place)
    if value is _LEFT_OUT:
        if place.is_event:
            raise EventLeftOut.of("event.left_out", "The event {reason}.", reason=reader.reason)
        raise ValueError(reader.reason)
    at = yield from skip_blank(text, at)
    if at < len(text):
        raise ValueError(f"is not JSON: trailing characters (byte {at + 1})")
    return value


class _Place:
    """A place in a text, on the way to events.

    Attributes:
        children: the places below: by name, ``*`` for all members, ``#`` for the items of a list.
    """

    __slots__ = ("children", "is_event")

    def __init__(self) -> None:
        self.children: dict[str, _Place] = {}
        self.is_event = False

    def child(self, name: str) -> _Place:
        return self.children.get(name) or self.children.get("*", _BESIDE)


_BESIDE = _Place()


@lru_cache(maxsize=64)
def _tree_of(events: tuple[str, ...]) -> _Place:
    root = _Place()
    for path in events:
        place = root
        for name in path.split("/")[1:]:
            place = place.children.setdefault(name, _Place())
        place.is_event = True
    return root


def _with_events(value: Any, place: _Place, left_out: Callable[[LeftOut], None]) -> Any:
    """Return a decoded value with :class:`NetworkEvents` instead of the lists of events."""
    if isinstance(value, list):
        items = place.children.get("#", _BESIDE)
        if items.is_event:
            return NetworkEvents([value], left_out)
        return [_with_events(item, items, left_out) for item in value] if items.children else value
    if isinstance(value, dict) and place.children:
        return {name: _with_events(item, place.child(name), left_out) for name, item in value.items()}
    return value


class _Reader:
    """Reads one long text from left to right. ``reason`` is why it left out a part last."""

    def __init__(self, text: bytes, left_out: Callable[[LeftOut], None]) -> None:
        self._text = text
        self._view = memoryview(text)
        self._left_out = left_out
        self.reason = ""
        self._items = 0
        self._values = 0

    def read(self, at: int, place: _Place) -> Generator[None, None, tuple[Any, int]]:
        """Return the value at a position, and the position behind it; a mark if it was left out."""
        first = self._text[at : at + 1]
        if first == b"[" and "#" in place.children:
            items = place.children["#"]
            if items.is_event:
                return (yield from self._read_events(at + 1))
            return (yield from self._read_members(at + 1, items, b"]"))
        if first == b"{" and place.children.keys() - {"#"}:
            return (yield from self._read_members(at + 1, place, b"}"))
        return (yield from self._read_value(at, is_event=place.is_event))

    def _read_members(self, at: int, place: _Place, closing: bytes) -> Generator[None, None, tuple[Any, int]]:
        """Read an object on the way to events, or a list of such values."""
        text, is_object = self._text, closing == b"}"
        members: dict[str, Any] = {}
        found: list[Any] = []
        at = yield from skip_blank(text, at)
        if text.startswith(closing, at):
            return (members if is_object else found), at + 1
        while True:
            self._count_item()
            child, name = place, ""
            if is_object:
                quoted = _NAME.match(text, at, at + _LONGEST_NAME)
                if quoted is None:
                    raise ValueError(f"is not JSON: expected a name (byte {at + 1})")
                name = str(_decode(quoted[0]))
                at = yield from skip_blank(text, quoted.end())
                if not text.startswith(b":", at):
                    raise ValueError(f"is not JSON: expected ':' (byte {at + 1})")
                at = yield from skip_blank(text, at + 1)
                child = place.child(name)
            value, at = yield from self.read(at, child)
            if value is not _LEFT_OUT and is_object:
                members[name] = value
            elif value is not _LEFT_OUT:
                found.append(value)
            at = yield from skip_blank(text, at)
            yield
            if not text.startswith(b",", at):
                break
            at = yield from skip_blank(text, at + 1)
        if not text.startswith(closing, at):
            raise ValueError(f"is not JSON: expected ',' or '{closing.decode()}' (byte {at + 1})")
        return (members if is_object else found), at + 1

    def _read_events(self, at: int) -> Generator[None, None, tuple[Any, int]]:  # noqa: C901 -- left to right
        """Read a list of events: a whole part if possible, or else one event after the other."""
        text, parts = self._text, list[bytes]()
        at = yield from skip_blank(text, at)
        if text.startswith(b"]", at):
            return NetworkEvents(parts, self._left_out), at + 1
        # Events usually begin alike. A part ends where one seems to begin, if the text before is well-formed.
        first = text[at : at + 1]
        marks = {b"," + text[at : at + 8], b"," + first if first in b'{["tfn' else b","}
        begin, looked_until = at, at
        while True:
            yield
            if at >= looked_until:
                window = b"[" + text[at : at + PART]
                looked_until = at + PART // 2
                try:
                    end = end_of_first(window)
                except (msgspec.DecodeError, RecursionError):
                    pass
                else:  # the list ends within the window
                    if end is None:
                        end = len(window)
                    parts.append(b"[" + text[begin:at] + window[1:end].rstrip(b" \t\r\n"))
                    return NetworkEvents(parts, self._left_out), at + end - 1
                part = self._find_part(at, marks)
                if part is not None:
                    if begin < at:
                        parts.append(b"[%b]" % text[begin:at].rstrip(b", \t\r\n"))
                    parts.append(b"[%b]" % text[at:part])
                    begin = at = looked_until = yield from skip_blank(text, part + 1)
                    if text.startswith(b"]", at):
                        raise ValueError(f"is not JSON: expected a value (byte {at + 1})")
                    continue
            self._count_item()
            value, end = yield from self._skip_event(at)
            if value is not None:
                if begin < at:
                    parts.append(b"[%b]" % text[begin:at].rstrip(b", \t\r\n"))
                parts += value
                begin = -1
            at = yield from skip_blank(text, end)
            is_last = not text.startswith(b",", at)
            if begin >= 0 and (is_last or at - begin > PART):
                parts.append(b"[%b]" % text[begin:end])
                begin = -1
            if is_last:
                break
            at = yield from skip_blank(text, at + 1)
            if begin < 0:
                begin = at
        if not text.startswith(b"]", at):
            raise ValueError(f"is not JSON: expected ',' or ']' (byte {at + 1})")
        return NetworkEvents(parts, self._left_out), at + 1

    def _find_part(self, at: int, marks: set[bytes]) -> int | None:
        for mark in tuple(marks):
            cut = self._text.rfind(mark, at, at + PART)
            if cut > at:
                try:
                    check_syntax(b"[%b]" % self._text[at:cut])
                except (msgspec.DecodeError, RecursionError):
                    marks.discard(mark)
                else:
                    return cut
        return None

    def _skip_event(self, at: int) -> Generator[None, None, tuple[list[bytes] | None, int]]:
        """Return the position behind an event, and if it is long, a list with it, or without it."""
        end = self._end_of_short(at)
        if end is not None:
            return None, end
        end, values = yield from measure(self._text, at)
        if values > MOST_VALUES:
            self._leave_out(_TOO_MANY, at, end)
            return [], end
        yield
        return [b"[%b]" % self._text[at:end]], end

    def _read_value(self, at: int, *, is_event: bool) -> Generator[None, None, tuple[Any, int]]:
        """Read a value in one step; leave it out if it is too large for that."""
        end = self._end_of_short(at)
        if end is None:
            end, values = yield from measure(self._text, at)
            if values > MOST_VALUES:
                self._leave_out(_TOO_MANY, at, end)
                return _LEFT_OUT, end
            yield
        else:
            values = 1 + self._text.count(b",", at, end)
        if not is_event:
            self._values += values
            if self._values > MOST_BESIDE:
                raise ValueError(
                    f"has too many JSON values beside its events: at most {MOST_BESIDE:,} are allowed"
                )
        try:
            return _decode(self._text[at:end]), end
        except ValueError as error:
            if str(error) != _TOO_DEEP:
                raise
        self._leave_out(_TOO_DEEP, at, end)
        return _LEFT_OUT, end

    def _end_of_short(self, at: int) -> int | None:
        try:
            return end_of_value(self._view, at, _WINDOW, PART)
        except ValueError as error:
            if str(error) == _TOO_DEEP:  # its end can be found all the same
                return None
            raise

    def _leave_out(self, reason: str, at: int, end: int) -> None:
        self.reason = reason
        self._left_out(LeftOut(reason, self._text[at : min(end, at + MOST_SHOWN)]))

    def _count_item(self) -> None:
        self._items += 1
        if self._items > MOST_ITEMS:
            raise ValueError(f"has too many items: at most {MOST_ITEMS:,} are allowed")


def mend(text: bytes) -> bytes:
    """Return a JSON text with U+FFFD for halves of surrogate pairs and bytes that are not UTF-8.

    ``null`` stands for NaN and the infinities. A text without any of them stays as it is.
    """
    return finish(_mending(text))


def _mending(text: bytes) -> Generator[None, None, bytes]:
    if not text.isascii():
        text = yield from _mend_encoding(text)
    has_halves = (yield from _has(text, b"\\ud")) or (yield from _has(text, b"\\uD"))
    has_no_numbers = (yield from _has(text, b"NaN")) or (yield from _has(text, b"Infinity"))
    # A decoder refuses a NUL. Here it stands for escapes.
    if not (has_halves or has_no_numbers) or b"\0" in text:
        return text
    pieces, at, in_string = [], 0, False
    while at < len(text):
        yield
        chunk = cut_at_escape(text, at)
        # Now every backslash begins an escape.
        plain = chunk.replace(b"\\\\", b"\0\0").replace(b'\\"', b"\0\1")
        if at + len(chunk) < len(text):
            plain = plain[: _cut(plain)]
        at += len(plain)
        if has_halves:
            plain = _LONE_ESCAPE.sub(rb"\\ufffd", plain)
        if has_no_numbers:
            parts = plain.split(b'"')
            parts[in_string::2] = [_NO_NUMBER.sub(b"null", part) for part in parts[in_string::2]]
            in_string ^= len(parts) % 2 == 0
            plain = b'"'.join(parts)
        pieces.append(plain.replace(b"\0\0", b"\\\\").replace(b"\0\1", b'\\"'))
    return b"".join(pieces)


def _has(text: bytes, word: bytes) -> Generator[None, None, bool]:
    for at in range(0, len(text), _SEARCHED):
        if text.find(word, at, at + _SEARCHED + len(word)) >= 0:
            return True
        yield
    return False


def _cut(plain: bytes) -> int:
    """Return where a chunk can end: not within an escape, a pair of them, or a word."""
    end = len(plain)
    started = plain.rfind(b"\\", end - _ESCAPE + 1)
    if started >= 0:
        end = started
    if _HIGH_ESCAPE.match(plain, end - _ESCAPE, end):
        end -= _ESCAPE
    word = end
    while word > end - len("-Infinity") and (plain[word - 1 : word].isalpha() or plain[word - 1] == ord("-")):
        word -= 1
    return word if plain[word - 1 : word] in _BEFORE_WORD else end


def _mend_encoding(text: bytes) -> Generator[None, None, bytes]:
    """Return a text in UTF-8, with U+FFFD for other bytes."""
    check, is_sound = codecs.getincrementaldecoder("utf-8")(), True
    try:
        for at in range(0, len(text), CHUNK):
            check.decode(text[at : at + CHUNK], final=at + CHUNK >= len(text))
            yield
    except UnicodeDecodeError:
        is_sound = False
    if is_sound:
        return text
    decoder, pieces, size = codecs.getincrementaldecoder("utf-8")("replace"), [], 0
    for at in range(0, len(text), CHUNK):
        pieces.append(decoder.decode(text[at : at + CHUNK], final=at + CHUNK >= len(text)).encode())
        size += len(pieces[-1])
        if size > at + _MOST_GROWTH:
            raise ValueError("is not UTF-8")
        yield
    return b"".join(pieces)


def _decode(text: bytes) -> Any:
    # Some versions of Python decode thousands of levels, on which a connector's recursion would fail.
    if is_deep(text, MOST_VALUES):
        raise ValueError(_TOO_DEEP)
    with no_collection():
        try:
            return _decode_well_formed(text)
        except (ValueError, RecursionError):
            pass
        try:
            # As a text: of bytes, it takes UTF-16 and UTF-32, too, in which nothing was mended.
            return json.loads(text.decode(), parse_constant=_none, parse_int=_int, parse_float=_float)
        except RecursionError:
            raise ValueError(_TOO_DEEP) from None
        except ValueError as error:
            raise ValueError(f"is not JSON: {error}") from None


def _none(_: str) -> None:
    return None


def _int(digits: str) -> int | None:
    # Python reads and writes longer ones in quadratic time, and refuses the longest.
    return int(digits) if len(digits) <= _LONGEST_INTEGER else None


def _float(digits: str) -> float | None:
    found = float(digits)
    return found if -_INFINITY < found < _INFINITY else None


# Its own float takes 20 µs for a number such as 1.5e300.
_decode_well_formed = msgspec.json.Decoder(float_hook=_float).decode
_raw_items = msgspec.json.Decoder(list[msgspec.Raw]).decode
