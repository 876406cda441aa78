"""Cross-origin requests of browsers (the Fetch Standard, "CORS protocol"). No I/O.

A page of another origin may send some requests anyway. Its scripts see a response, and can send a key, only
if the response allows it. hookgw allows that to the listed origins.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from hookgw.config.cors_origins import parse_origin

Lines = tuple[tuple[bytes, bytes], ...]

EXPOSED = b"retry-after, x-hookgw-version, hookgw-silent-nodes, hookgw-cursor"
"""Headers of responses that scripts see besides those that they always see."""
METHODS = b"GET, HEAD, POST, PUT, PATCH, DELETE"
MAX_AGE = b"600"
"""Seconds for which a browser remembers the answer to a preflight request."""

_VARY = (b"vary", b"origin")
_NAMES = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+(?:[ \t]*,[ \t]*[!#$%&'*+.^_`|~0-9A-Za-z-]+)*")


class CrossOrigin:
    """The listed origins (``server.cors_origins``), and the headers that let their pages use responses."""

    def __init__(self, origins: Collection[str]) -> None:
        self._origins = frozenset(parse_origin(one).encode("ascii") for one in origins)

    def lines(self, scope: Any) -> Lines:
        """Return headers for every response to a request, errors, too."""
        origin = _header(scope, b"origin")
        # A cache must not serve one origin's answer to another, allowed or not.
        if origin not in self._origins:
            return (_VARY,)
        return (_VARY, (b"access-control-allow-origin", origin), (b"access-control-expose-headers", EXPOSED))

    def preflight(self, scope: Any) -> Lines | None:
        """Return further headers for the response to a preflight request; ``None`` for another request.

        A browser sends it, without a key, before a request with a key.
        """
        if scope["method"] != "OPTIONS" or _header(scope, b"origin") not in self._origins:
            return None
        if not _header(scope, b"access-control-request-method"):
            return None
        wanted = _header(scope, b"access-control-request-headers")
        lines: Lines = ((b"access-control-allow-methods", METHODS), (b"access-control-max-age", MAX_AGE))
        # Any: plugins read further headers, and a header's effect depends on its request.
        if _NAMES.fullmatch(wanted):
            lines += ((b"access-control-allow-headers", wanted),)
        return lines


def _header(scope: Any, wanted: bytes) -> bytes:
    values = [value for name, value in scope["headers"] if name.lower() == wanted]
    return values[0] if len(values) == 1 else b""
