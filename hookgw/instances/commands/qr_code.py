"""A QR code in the terminal."""

from __future__ import annotations

import io


def qr_blocks(code: str) -> str:
    """Return a QR code as lines of blocks, for a dark terminal as for a light one: scanners read both.

    Args:
        code: the text in it.
    """
    import segno  # most commands show no code

    written = io.StringIO()
    segno.make(code, micro=False).terminal(written, border=2, compact=True)
    return written.getvalue().rstrip("\n")
