"""The pictures of the simulator, as PNGs: QR codes to scan, and what incoming messages show. No I/O.

segno is loaded when the first one is drawn: every start loads this module, and few runs simulate anything.
"""

from __future__ import annotations

import hashlib
import io
from functools import cache

# Pixels per module, and the white margin in modules (ISO/IEC 18004).
_SCALE = 6
_QUIET = 4
_PICTURES = 16


def picture_of(code: str) -> str:
    """Return the QR code of a text as a ``data:image/png;base64,…`` URL."""
    import segno

    # The mask that scans best takes most of the time to find, and 200 accounts show a code at once.
    found: str = segno.make(code, micro=False, mask=0).png_data_uri(scale=_SCALE, border=_QUIET)
    return found


def png_of(reference: str) -> bytes:
    """Return the picture of an incoming message; the same message has the same picture."""
    # A few are enough: making one takes 10 ms, and every fifth message has one.
    return _numbered(hashlib.sha256(reference.encode()).digest()[0] % _PICTURES)


@cache
def _numbered(number: int) -> bytes:
    import segno

    written = io.BytesIO()
    segno.make(f"Picture {number} of the simulator", micro=False).save(
        written, kind="png", scale=_SCALE, border=_QUIET
    )
    return written.getvalue()
