"""A QR code in the terminal."""

from __future__ import annotations

import io


def qr_blocks(code: str) -> str:
    """Return a QR code as lines of blocks, for dark and light terminals: scanners read both."""
    import segno  # most commands show no code

    written = io.StringIO()
    segno.make(code, micro=False).terminal(written, border=2, compact=True)
    return written.getvalue().rstrip("\n")
