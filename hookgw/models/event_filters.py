"""The filter of a registration: conditions on an event, all of which must hold. No I/O.

A condition is a JSON pointer (RFC 6901) into the event, an operation, and a value to compare with. The event
is the object that receivers get: ``/event``, ``/instance``, ``/sender`` and ``/date_time``, and the payload
below ``/data``. :mod:`hookgw.parsing.event_filters` reads conditions.

The payload is not decoded as a whole. One pass over it takes out the values that the pointers name, as bytes,
and skips the rest.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import Any

import msgspec

from hookgw.models.events import Event
from hookgw.models.json_decoding import LARGE, no_collection

FIELDS = ("event", "instance", "sender", "date_time", "data")
"""What a pointer can begin with."""
_ATTRIBUTES = {"event": "kind", "instance": "instance", "sender": "sender", "date_time": "date_time"}

Scalar = str | bool | int | float | None

# Beyond so many characters, a sentence about a condition shows only the beginning of its value.
_SHOWN = 80
# RFC 6901, section 4: no leading zeros.
_INDEX = re.compile(r"0|[1-9][0-9]{0,6}", re.ASCII)


class FilterOp(StrEnum):
    """What a condition asks of the value at its pointer."""

    EQUALS = "equals"
    IN = "in"
    PREFIX = "prefix"
    EXISTS = "exists"
    NOT_EQUALS = "notEquals"
    NOT_IN = "notIn"
    NOT_PREFIX = "notPrefix"
    NOT_EXISTS = "notExists"

    @property
    def positive(self) -> FilterOp:
        """The operation that this one negates, or this one."""
        return _POSITIVE.get(self, self)


_POSITIVE = {
    FilterOp.NOT_EQUALS: FilterOp.EQUALS,
    FilterOp.NOT_IN: FilterOp.IN,
    FilterOp.NOT_PREFIX: FilterOp.PREFIX,
    FilterOp.NOT_EXISTS: FilterOp.EXISTS,
}


class Condition(msgspec.Struct, frozen=True):
    """One condition of a filter.

    Attributes:
        pointer: begins with one of :data:`FIELDS`.
        op: the operation. A negated one holds where the other does not, so also where the pointer names
            nothing.
        value: what to compare with; a tuple for ``in``, and ``None`` for ``exists``, which compares nothing.
    """

    pointer: str
    op: FilterOp
    value: Scalar | tuple[Scalar, ...] = None

    def __str__(self) -> str:
        if self.op.positive is FilterOp.EXISTS:
            return f"{self.pointer} {self.op}"
        value = json.dumps(self.value, ensure_ascii=False)
        return f"{self.pointer} {self.op} {value if len(value) <= _SHOWN else value[:_SHOWN] + '…'}"


def split_pointer(pointer: str) -> list[str]:
    """Return the tokens of a JSON pointer.

    Raises:
        ValueError: it does not begin with ``/``, or has a ``~`` that is not ``~0`` or ``~1``.
    """
    if not pointer.startswith("/"):
        raise ValueError("must begin with /")
    if re.search("~(?![01])", pointer):
        raise ValueError("has a ~ that is neither ~0 (for ~) nor ~1 (for /)")
    return [token.replace("~1", "/").replace("~0", "~") for token in pointer[1:].split("/")]


class _Mark:
    """What is at a pointer, if it is not a text, a number, true, false or null."""


_MISSING = _Mark()
_CONTAINER = _Mark()


class EventFilter:
    """The conditions of one registration, ready to be checked against events.

    Args:
        conditions: valid ones.
    """

    __slots__ = ("_checks", "_size", "_tree")

    def __init__(self, conditions: Iterable[Condition]) -> None:
        self._tree = _Node()
        self._checks: list[tuple[Condition, str, int, Callable[[Any], bool]]] = []
        self._size = 0
        for condition in conditions:
            first, *rest = split_pointer(condition.pointer)
            slot = -1
            if first == "data":
                node = self._tree.below(rest)
                if node.slot < 0:
                    node.slot, self._size = self._size, self._size + 1
                slot = node.slot
            attribute = "" if slot >= 0 or rest else _ATTRIBUTES[first]
            self._checks.append((condition, attribute, slot, _test(condition)))

    def unmet(self, event: Event) -> Condition | None:
        """Return the first condition that an event does not meet; ``None`` if it meets all."""
        found: list[Any] | None = None
        for condition, attribute, slot, holds in self._checks:
            if slot >= 0:
                if found is None:  # not before: conditions on the kind alone do not read the payload
                    found = self._look(event.data_json)
                value = found[slot]
            elif attribute:
                value = getattr(event, attribute)
                if value is None:  # an unknown sender is not in the envelope
                    value = _MISSING
            else:
                value = _MISSING
            if not holds(value):
                return condition
        return None

    def _look(self, data_json: bytes) -> list[Any]:
        found: list[Any] = [_MISSING] * self._size
        try:
            if len(data_json) < LARGE:
                self._tree.look(data_json.strip(b" \t\r\n"), found)
            else:
                with no_collection():
                    self._tree.look(data_json.strip(b" \t\r\n"), found)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            # Payloads were checked when they were accepted. If one is damaged all the same, what was not
            # found is missing: an exception would stop the lane at this event for ever.
            pass
        return found


class _Node:
    """A place in the payload that a pointer leads to or through."""

    __slots__ = ("children", "slot")

    def __init__(self) -> None:
        self.children: dict[str, _Node] = {}
        self.slot = -1

    def below(self, tokens: Sequence[str]) -> _Node:
        """Return the node at a path below this one, and create it if it is new."""
        node = self
        for token in tokens:
            node = node.children.setdefault(token, _Node())
        return node

    def look(self, text: bytes | msgspec.Raw, found: list[Any]) -> None:
        """Put the values of this node and of those below it into their slots."""
        first = bytes(memoryview(text)[:1])
        if self.slot >= 0:
            # Without a look inside of it: an object or a list equals no value.
            found[self.slot] = _CONTAINER if first in (b"{", b"[") else _decode_value(text)
        if not self.children:
            return
        if first == b"{":
            for child, inner in zip(
                self.children.values(), _members(text, tuple(self.children)), strict=True
            ):
                if inner:
                    child.look(inner, found)
        elif first == b"[":
            indices = [
                (int(token), child) for token, child in self.children.items() if _INDEX.fullmatch(token)
            ]
            items = _decode_list(text) if indices else ()
            for index, child in indices:
                if index < len(items):
                    child.look(items[index], found)


# float: msgspec's own takes 20 µs for a number such as 1.5e300.
_decode_value = msgspec.json.Decoder(float_hook=float).decode
_decode_list = msgspec.json.Decoder(list[msgspec.Raw]).decode
_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_NOTHING = msgspec.Raw()


def _members(text: bytes | msgspec.Raw, names: tuple[str, ...]) -> Sequence[msgspec.Raw]:
    """Return the members of an object, as JSON; an empty one for each that is missing."""
    decode = _member_decoder(names)
    if decode is not None:
        return msgspec.structs.astuple(decode(text))
    members = _decode_object(text)
    return [members.get(name, _NOTHING) for name in names]


# Most tenants ask for the same few fields. A type for each set of names skips all other members of an object
# without making objects of them; it takes 0.2 ms to make, and some KiB.
@lru_cache(maxsize=256)
def _member_decoder(names: tuple[str, ...]) -> Callable[[Any], msgspec.Struct] | None:
    fields = [(f"f{number}", msgspec.Raw, _NOTHING) for number in range(len(names))]
    try:
        kind = msgspec.defstruct(
            "Members", fields, rename={f"f{number}": name for number, name in enumerate(names)}
        )
    except ValueError:  # a name with a quotation mark, a backslash or a control character
        return None
    return msgspec.json.Decoder(kind).decode


def _test(condition: Condition) -> Callable[[Any], bool]:
    """Return a function that tells whether a condition holds for the value at its pointer."""
    op, wanted = condition.op.positive, condition.value
    holds: Callable[[Any], bool]
    if op is FilterOp.EXISTS:

        def holds(value: Any) -> bool:
            return value is not _MISSING

    elif op is FilterOp.PREFIX:
        prefix = str(wanted)

        def holds(value: Any) -> bool:
            return isinstance(value, str) and value.startswith(prefix)

    else:
        keys = frozenset(map(_key, wanted if isinstance(wanted, tuple) else (wanted,)))

        def holds(value: Any) -> bool:
            return _key(value) in keys

    if op is condition.op:
        return holds
    return lambda value: not holds(value)


def _key(value: object) -> tuple[bool, object]:
    # To Python, true equals 1, and to JSON it does not. 1 equals 1.0 to both.
    return isinstance(value, bool), value
