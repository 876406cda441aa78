"""A picture that looks like a QR code, as a PNG. No I/O.

It holds no data for a phone: there is no network behind it. Pictures of incoming messages are made here, too.
"""

from __future__ import annotations

import base64
import hashlib
import struct
import zlib

# Modules per side (a version 3 code), pixels per module, and the white margin in modules (ISO/IEC 18004).
SIDE = 29
SCALE = 6
QUIET = 4


def picture_of(code: str) -> str:
    """Return a picture as a ``data:image/png;base64,…`` URL."""
    return "data:image/png;base64," + base64.b64encode(png_of(code)).decode()


def png_of(code: str) -> bytes:
    """Return a picture; the same code gives the same picture."""
    bits = int.from_bytes(hashlib.shake_256(code.encode()).digest(SIDE * SIDE // 8 + 1), "big")
    pixels = (SIDE + 2 * QUIET) * SCALE
    white = ["1" * pixels] * QUIET * SCALE
    lines = list(white)
    for row in range(SIDE):
        line = ""
        for column in range(SIDE):
            if (row < 8 and (column < 8 or column >= SIDE - 8)) or (row >= SIDE - 8 and column < 8):
                # Inside a corner mark: a dark ring around a white one around a dark square.
                ring = max(abs(min(row, SIDE - 1 - row) - 3), abs(min(column, SIDE - 1 - column) - 3))
                is_dark = ring in (0, 1, 3)
            else:
                is_dark = bool(bits >> (row * SIDE + column) & 1)
            line += "0" if is_dark else "1"
        margin = "1" * QUIET
        lines += ["".join(module * SCALE for module in margin + line + margin)] * SCALE
    lines += white
    width = -(-pixels // 8)
    # Each line starts with a filter byte; 0 is "no filter" (PNG specification, section 9).
    data = b"".join(b"\x00" + int(line.ljust(width * 8, "1"), 2).to_bytes(width, "big") for line in lines)
    # A grey picture of one bit per pixel: 0 is black.
    header = struct.pack(">IIBBBBB", pixels, pixels, 1, 0, 0, 0, 0)
    png = b"\x89PNG\r\n\x1a\n"
    for kind, content in ((b"IHDR", header), (b"IDAT", zlib.compress(data)), (b"IEND", b"")):
        checksum = struct.pack(">I", zlib.crc32(kind + content))
        png += struct.pack(">I", len(content)) + kind + content + checksum
    return png
