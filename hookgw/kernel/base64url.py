"""Base64 for URLs (RFC 4648, section 5), without padding."""

from __future__ import annotations

import base64

# The two letters of the usual alphabet become ones that no alphabet has. With ``altchars``, Python takes them
# as well, from 3.15 on with a warning.
_USUAL = str.maketrans("-_+/", "+/  ")


def decode_base64url(text: str) -> bytes:
    """Return the bytes of a text; raise ``ValueError`` if it has a character of another alphabet."""
    return base64.b64decode(text.translate(_USUAL) + "=" * (-len(text) % 4), validate=True)
