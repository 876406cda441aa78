"""A picture that looks like a QR code, as a PNG. No I/O.

It holds no data that a phone could read: there is no network behind it.
"""

from __future__ import annotations

import base64
import hashlib
import struct
import zlib

SIDE = 29
SCALE = 6
QUIET = 4
"""Modules in a row, pixels of a module, and modules of white around."""


def picture_of(code: str) -> str:
    """The picture of a code, as a ``data:image/png;base64,…`` URL; the same code gives the same one."""
    return "data:image/png;base64," + base64.b64encode(_png(_modules(code))).decode()


def _modules(code: str) -> list[list[bool]]:
    """The dark modules, row by row: three corner marks and, elsewhere, bits of the code's hash."""
    bits = int.from_bytes(hashlib.shake_256(code.encode()).digest(SIDE * SIDE // 8 + 1), "big")
    return [
        [
            _corner(row, column) if _in_corner(row, column) else bool(bits >> (row * SIDE + column) & 1)
            for column in range(SIDE)
        ]
        for row in range(SIDE)
    ]


def _in_corner(row: int, column: int) -> bool:
    return (row < 8 and (column < 8 or column >= SIDE - 8)) or (row >= SIDE - 8 and column < 8)


def _corner(row: int, column: int) -> bool:
    row, column = min(row, SIDE - 1 - row), min(column, SIDE - 1 - column)
    ring = max(abs(row - 3), abs(column - 3))
    return ring in (0, 1, 3)


def _png(modules: list[list[bool]]) -> bytes:
    """A grey picture of one bit a pixel (PNG specification, section 5)."""
    side = (SIDE + 2 * QUIET) * SCALE
    blank = [False] * QUIET
    rows = [[False] * (SIDE + 2 * QUIET)] * QUIET
    rows = [*rows, *([*blank, *row, *blank] for row in modules), *rows]
    lines = b"".join(_line(row, side) * SCALE for row in rows)
    header = struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + _chunk(b"IHDR", header)
        + _chunk(b"IDAT", zlib.compress(lines))
        + _chunk(b"IEND", b"")
    )


def _line(row: list[bool], side: int) -> bytes:
    """One line of pixels, dark as 0, after the byte that says it is not filtered."""
    pixels = "".join(("0" if dark else "1") * SCALE for dark in row).ljust(-(-side // 8) * 8, "1")
    return b"\x00" + int(pixels, 2).to_bytes(len(pixels) // 8, "big")


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
