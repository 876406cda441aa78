"""Which headers a plugin may set on an attempt. No I/O."""

from __future__ import annotations

import re

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9a-z-]+")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_RESERVED = frozenset(
    {
        "connection",
        "content-length",
        "host",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)


def refusal(name: object, value: object) -> str | None:
    """Why a header cannot be set; ``None`` where it can.

    Names are tokens in lower case, values visible Latin-1 without line breaks (RFC 9110, section 5).
    ``host``, ``content-length``, the hop-by-hop headers and ``webhook-*`` are the gateway's own.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        return f"it set a header with the name {name!r}: use a token in lower case"
    if name in _RESERVED or name.startswith("webhook-"):
        return f"it set the header {name}, which is the gateway's own"
    if not isinstance(value, str) or not _VALUE.fullmatch(value):
        return f"it set the header {name} to a value that cannot be sent: use a string without line breaks"
    return None
