"""Read the text of a QR code from the picture that GOWA draws. No I/O.

GOWA tells the code as a picture alone. Terminals and clients of hookgw draw the code from its text. A picture
that a program drew has no fault that would need correcting.
ISO/IEC 18004 has the layout; segno, which draws hookgw's own codes, has its tables.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from segno import consts

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_LARGEST = 4096
_NO_FILTER, _UP = 0, 2
_COUNTS, _TRIED = range(21, 178, 4), 7
"""How many modules a code may have in a row, and how many of these numbers are tried."""
_FORMAT_MASK = 0b101010000010010
_LEVELS = {
    0b01: consts.ERROR_LEVEL_L,
    0b00: consts.ERROR_LEVEL_M,
    0b11: consts.ERROR_LEVEL_Q,
    0b10: consts.ERROR_LEVEL_H,
}
_ALPHANUMERIC = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ $%*+-./:"
_MASKS: tuple[Callable[[int, int], bool], ...] = (
    lambda r, c: (r + c) % 2 == 0,
    lambda r, _: r % 2 == 0,
    lambda _, c: c % 3 == 0,
    lambda r, c: (r + c) % 3 == 0,
    lambda r, c: (r // 2 + c // 3) % 2 == 0,
    lambda r, c: r * c % 2 + r * c % 3 == 0,
    lambda r, c: (r * c % 2 + r * c % 3) % 2 == 0,
    lambda r, c: ((r + c) % 2 + r * c % 3) % 2 == 0,
)

Grid = list[list[bool]]
"""Rows of modules; ``True`` is dark."""


def read_qr_code(picture: bytes) -> str:
    """Return the text of the QR code in a PNG.

    Raises:
        ValueError: it is no such picture.
    """
    try:
        modules = _modules_of(picture)
        return _text_of(_codewords_of(modules), (len(modules) - 17) // 4)
    except (ValueError, LookupError, StopIteration, OverflowError, struct.error, zlib.error) as error:
        raise ValueError("the picture has no QR code that can be read") from error


def _modules_of(picture: bytes) -> Grid:
    """Return the modules of the code in a PNG, which is gray or has a palette."""
    if not picture.startswith(_SIGNATURE):
        raise ValueError
    at, data, head = len(_SIGNATURE), b"", b""
    while at < len(picture):
        length, kind = struct.unpack_from(">I4s", picture, at)
        chunk = picture[at + 8 : at + 8 + length]
        head, data = (chunk, data) if kind == b"IHDR" else (head, data + chunk if kind == b"IDAT" else data)
        at += length + 12
    width, height, depth, colour = map(int, struct.unpack_from(">IIBB", head))
    if not 0 < width <= _LARGEST or not 0 < height <= _LARGEST or colour not in (0, 3) or depth > 8:
        raise ValueError
    size = (width * depth + 7) // 8 + 1
    raw = zlib.decompressobj().decompress(data, size * height)
    rows: list[bytes] = []
    for number in range(height):
        row = raw[number * size : (number + 1) * size]
        if row[0] == _UP and rows:  # the difference to the row above
            row = bytes(map((255).__and__, map(int.__add__, row, rows[-1])))
        elif row[0] != _NO_FILTER:
            raise ValueError
        rows.append(row)

    def is_dark(y: int, x: int) -> bool:  # only where the modules are: all pixels would take a while
        value = rows[y][1 + x * depth // 8] >> (8 - depth - x * depth % 8) & (1 << depth) - 1
        return value != light

    light = rows[0][1] >> 8 - depth  # the margin
    top = next(number for number, row in enumerate(rows) if row[1:] != rows[0][1:])
    first = next(x for x in range(width) if is_dark(top, x))
    last = next(x for x in range(width - 1, -1, -1) if is_dark(top, x))
    # The finder pattern begins with seven dark modules. GOWA's pictures have 512 pixels, and modules are no
    # whole number of them: the timing pattern, which alternates, says how many modules there are.
    seven = next(x for x in range(first, width) if not is_dark(top, x)) - first
    for count in sorted(_COUNTS, key=lambda count: abs(count - 7 * (last + 1 - first) / seven))[:_TRIED]:
        places = [int((number + 0.5) * (last + 1 - first) / count) for number in range(count)]
        timing = [is_dark(top + places[6], first + x) for x in places[6:-6]]
        if all(is_dark_ is (number % 2 == 0) for number, is_dark_ in enumerate(timing)):
            return [[is_dark(top + y, first + x) for x in places] for y in places]
    raise ValueError


def _codewords_of(modules: Grid) -> bytes:
    """Return the data of a code, in its order."""
    count = len(modules)
    version = (count - 17) // 4
    places = [(8, c) for c in (*range(6), 7, 8)] + [(r, 8) for r in (7, *range(5, -1, -1))]
    form = sum(modules[r][c] << 14 - number for number, (r, c) in enumerate(places)) ^ _FORMAT_MASK
    level, mask = _LEVELS[form >> 13], _MASKS[form >> 10 & 0b111]
    bits = [modules[r][c] ^ mask(r, c) for r, c in _data_places(count, version)]
    stored = [sum(bit << 7 - n for n, bit in enumerate(bits[i : i + 8])) for i in range(0, len(bits) - 7, 8)]
    # The words of the blocks take turns, and those for corrections come last.
    blocks_of: Any = consts.ECC
    lengths = [block.num_data for block in blocks_of[version][level] for _ in range(block.num_blocks)]
    blocks: list[list[int]] = [[] for _ in lengths]
    words = iter(stored)
    for number in range(max(lengths)):
        for block, length in zip(blocks, lengths, strict=True):
            if number < length:
                block.append(next(words))
    return bytes(word for block in blocks for word in block)


def _data_places(count: int, version: int) -> Iterator[tuple[int, int]]:
    """Yield the places of the data, upwards and downwards in pairs of columns."""
    centres = consts.ALIGNMENT_POS[version - 2] if version > 1 else ()
    alignments = [
        (y, x) for y in centres for x in centres if (y, x) not in ((6, 6), (6, count - 7), (count - 7, 6))
    ]

    def is_data(r: int, c: int) -> bool:
        if (r < 9 and (c < 9 or c >= count - 8)) or (r >= count - 8 and c < 9) or 6 in (r, c):
            return False
        if version >= 7 and ((r < 6 and c >= count - 11) or (c < 6 and r >= count - 11)):
            return False
        return not any(abs(r - y) <= 2 and abs(c - x) <= 2 for y, x in alignments)

    rows, right = range(count - 1, -1, -1), count - 1
    while right > 0:
        right -= right == 6  # the column of the timing pattern
        yield from ((r, c) for r in rows for c in (right, right - 1) if is_data(r, c))
        rows, right = rows[::-1], right - 2


def _text_of(data: bytes, version: int) -> str:
    bits = "".join(f"{byte:08b}" for byte in data)
    at, found = 0, b""

    def take(length: int) -> int:
        nonlocal at
        at += length
        if at > len(bits):
            raise ValueError
        return int(bits[at - length : at], 2)

    group = 0 if version < 10 else 1 if version < 27 else 2
    while len(bits) - at >= 4 and (mode := take(4)):
        count = take({1: (10, 12, 14), 2: (9, 11, 13), 4: (8, 16, 16)}[mode][group])
        if mode == 4:
            found += bytes(take(8) for _ in range(count))
            continue
        most, sizes = (3, (0, 4, 7, 10)) if mode == 1 else (2, (0, 6, 11))
        while count:
            part = min(count, most)
            value, count = take(sizes[part]), count - part
            if mode == 1:
                found += f"{value:0{part}d}".encode()
            else:
                found += "".join(_ALPHANUMERIC[value // 45**n % 45] for n in range(part - 1, -1, -1)).encode()
    return found.decode()
