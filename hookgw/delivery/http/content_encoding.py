"""Content codings of answers (RFC 9110, section 8.4), decoded within a limit. No I/O."""

from __future__ import annotations

import zlib

_WINDOW_BITS = {"gzip": (31,), "x-gzip": (31,), "deflate": (15, -15)}
"""How zlib reads each coding; some servers send ``deflate`` without its wrapper (hence the second)."""


def decode(body: bytes, coding: str, limit: int) -> tuple[bytes, bool]:
    """Undo one content coding.

    A coding that is not known, and a row of several, are left as they are: the body is only shown to
    people, and nobody who was asked for ``identity`` needs more.

    Args:
        body: as it came.
        coding: the value of ``content-encoding``.
        limit: the most bytes that may come out; a bomb is cut there.

    Returns:
        What came out, and whether that is all of it, and sound.
    """
    window_bits = _WINDOW_BITS.get(coding.strip().lower())
    if window_bits is None or not body:
        return body, True
    for bits in window_bits:
        decoder = zlib.decompressobj(wbits=bits)
        try:
            decoded = decoder.decompress(body, limit)
        except zlib.error:
            continue
        return decoded, decoder.eof and not decoder.unused_data
    return b"", False
