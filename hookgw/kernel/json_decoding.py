"""Decodes JSON in a time that depends on its length and its number of values alone. No I/O.

msgspec is fast, with one exception: a number such as ``1.5e300`` takes it 20 µs, so that 1 MiB of them blocks
the process for two seconds. Texts of clients therefore go through :func:`decode_json`.
"""

from __future__ import annotations

import gc

import msgspec

_INFINITY = float("inf")
LARGE = 16 * 1024
"""Bytes of a text that can become so many objects that :class:`no_collection` pays."""


def _finite(text: str) -> float:
    value = float(text)
    if value in (_INFINITY, -_INFINITY):
        raise ValueError("Number out of range")
    return value


# Python's own float() takes less than 1 µs for every number, and rounds in the same way.
decode_json = msgspec.json.Decoder(float_hook=_finite).decode
"""Decode a JSON text.

Raises:
    msgspec.DecodeError: the text is not JSON.
    msgspec.ValidationError: a number is out of range.
    RecursionError: the text is nested too deeply.
    UnicodeDecodeError: a string is not UTF-8. From msgspec 0.23 on, that is a ``msgspec.DecodeError``, too.
"""


class no_collection:  # noqa: N801 -- used like a function
    """Keep the garbage collector off while the values of a :data:`LARGE` text are made, used and dropped.

    100,000 new lists start collections, each of which looks at every object of the process: that takes 60 ms,
    and 9 ms without it. JSON values contain no cycles, so there is nothing to collect. Do not await inside
    the block.
    """

    __slots__ = ("_was_on",)

    def __enter__(self) -> None:
        self._was_on = gc.isenabled()
        gc.disable()

    def __exit__(self, *_: object) -> None:
        if self._was_on:
            gc.enable()
