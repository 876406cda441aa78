"""A table that forgets the least recently used values. No I/O."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class Recent(Generic[Key, Value]):
    """Keeps a limited number of values in memory, such as the authors of messages.

    Args:
        limit: how many. Beyond it, the value that was not read or written for longest is forgotten.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._values: OrderedDict[Key, Value] = OrderedDict()

    def get(self, key: Key) -> Value | None:
        """Return a value, or ``None`` if it is not known."""
        if key in self._values:
            self._values.move_to_end(key)
        return self._values.get(key)

    def put(self, key: Key, value: Value) -> None:
        """Keep a value."""
        self._values[key] = value
        self._values.move_to_end(key)
        if len(self._values) > self._limit:
            self._values.popitem(last=False)

    def pop(self, key: Key) -> Value | None:
        """Forget a value, and return it; ``None`` if it is not known."""
        return self._values.pop(key, None)
