"""The filter of a registration: an event must meet all conditions. No I/O.

A condition is a JSON pointer (RFC 6901) into the event, an operation, and a value to compare with. The event
is the object that receivers get: ``/event``, ``/instance``, ``/sender`` and ``/date_time``, and the payload
below ``/data``. :mod:`hookgw.webhooks.filters` reads conditions.

The payload is not decoded as a whole. One pass over it takes out the values that the pointers name, as bytes,
and skips the rest.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from enum import StrEnum
from functools import lru_cache
from typing import Any

import msgspec

from hookgw.kernel.json_decoding import LARGE, no_collection
from hookgw.records.events import Event
from hookgw.records.inline_media import without_file

FIELDS = ("event", "instance", "sender", "date_time", "data")
"""What a pointer can begin with."""
_ATTRIBUTES = {"event": "kind", "instance": "instance", "sender": "sender", "date_time": "date_time"}

Scalar = str | bool | int | float | None

# Beyond so many characters, a sentence about a condition shows only the beginning of its value.
_SHOWN = 80
_UNNAMEABLE = re.compile(r'["\\\x00-\x1f]')
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
        op: a negated operation holds wherever the other does not, so also if the pointer names nothing.
        value: a tuple for ``in``, and ``None`` for ``exists``, which compares nothing.
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
        ValueError: it does not begin with ``/``, has a ``~`` that is not ``~0`` or ``~1``, or has a character
            that the names of msgspec's fields cannot have.
    """
    if not pointer.startswith("/"):
        raise ValueError("must begin with /")
    if _UNNAMEABLE.search(pointer):
        raise ValueError("must not contain quotation marks, backslashes or control characters")
    if re.search("~(?![01])", pointer):
        raise ValueError("has a ~ that is neither ~0 (for ~) nor ~1 (for /)")
    return [token.replace("~1", "/").replace("~0", "~") for token in pointer[1:].split("/")]


class _Mark:
    """Marks a pointer that names something else than a text, a number, true, false or null."""


_MISSING = _Mark()
_CONTAINER = _Mark()


class EventFilter:
    """The conditions of one registration, ready to be checked against events.

    ``with_files`` says whether the registration gets files inside of events: the others do not count as seen.
    """

    __slots__ = ("_checks", "_paths", "_with_files")

    def __init__(self, conditions: Iterable[Condition], *, with_files: bool = True) -> None:
        self._with_files = with_files
        paths: dict[tuple[str, ...], int] = {}
        self._checks: list[tuple[Condition, str, int, Callable[[Any], bool]]] = []
        for condition in conditions:
            first, *rest = split_pointer(condition.pointer)
            slot = paths.setdefault(tuple(rest), len(paths)) if first == "data" else -1
            attribute = "" if slot >= 0 or rest else _ATTRIBUTES[first]
            self._checks.append((condition, attribute, slot, _test(condition)))
        self._paths = tuple(paths)

    def unmet(self, event: Event) -> Condition | None:
        """Return the first condition that an event does not meet; ``None`` if it meets all."""
        if not self._with_files:
            event = without_file(event)
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
        found: list[Any] = [_MISSING] * len(self._paths)
        tree = _tree_of(self._paths)
        try:
            if len(data_json) < LARGE:
                tree.read(data_json, found)
            else:
                with no_collection():
                    tree.read(data_json, found)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            # Payloads were checked when they were accepted. If one is damaged all the same, what was not
            # found is missing: an exception would stop the lane at this event for ever.
            pass
        return found


class _Node:
    """A place in the payload that a path leads to or through.

    Its type tells msgspec what to extract. At the end of a path, that is the JSON there. In between, it is an
    object, of which only the members on a path are looked at, or a list, of which the items on a path are
    read afterwards; any other value is the end.
    """

    __slots__ = ("_decode", "children", "slot")

    def __init__(self) -> None:
        self.children: dict[str, _Node] = {}
        self.slot = -1
        self._decode: Callable[[bytes | msgspec.Raw], Any] | None = None

    def read(self, text: bytes | msgspec.Raw, found: list[Any]) -> None:
        """Put the values here and below into the slots, from JSON."""
        if self._decode is None:
            self._decode = msgspec.json.Decoder(self._type()).decode
        self._take(self._decode(text), found)

    def _type(self) -> Any:
        if not self.children:
            return msgspec.Raw
        names = {f"f{number}": name for number, name in enumerate(self.children)}
        fields: list[Any] = [
            (field, self.children[name]._type(), _NOTHING)  # noqa: SLF001 -- of the same class
            for field, name in names.items()
        ]
        members = msgspec.defstruct("Members", fields, rename=names, gc=False)
        return members | Scalar | list[msgspec.Raw]

    def _take(self, value: Any, found: list[Any]) -> None:
        if isinstance(value, msgspec.Raw):
            # An object or a list equals no value: no look inside.
            value = _CONTAINER if memoryview(value)[0] in b"{[" else _decode_value(value)
        elif isinstance(value, msgspec.Struct):
            for child, inner in zip(self.children.values(), msgspec.structs.astuple(value), strict=True):
                if inner is not _NOTHING:
                    child._take(inner, found)  # noqa: SLF001
            value = _CONTAINER
        elif isinstance(value, list):
            for token, child in self.children.items():
                if _INDEX.fullmatch(token) and int(token) < len(value):
                    child.read(value[int(token)], found)
            value = _CONTAINER
        if self.slot >= 0:
            found[self.slot] = value


_NOTHING = msgspec.Raw()
# float: msgspec's own takes 20 µs for a number such as 1.5e300.
_decode_value = msgspec.json.Decoder(float_hook=float).decode


# Most tenants ask for the same few fields. Making the types takes 0.1 ms for each level of a path, and they
# are too large to be kept by each of many lanes.
@lru_cache(maxsize=512)
def _tree_of(paths: tuple[tuple[str, ...], ...]) -> _Node:
    """Return the tree that reads the values at some paths."""
    root = _Node()
    for slot, path in enumerate(paths):
        node = root
        for token in path:
            node = node.children.setdefault(token, _Node())
        node.slot = slot
    return root


def _test(condition: Condition) -> Callable[[Any], bool]:
    """Return the check of a condition, for the value at its pointer."""
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
