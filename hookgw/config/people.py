"""The people whom a reverse proxy names. No I/O."""

from __future__ import annotations

import re

LONGEST_PERSON = 255
"""Characters of a person's name."""
_HEADER = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]{1,64}", re.ASCII)
# Each of these says something else already, also to browsers and proxies between.
_TAKEN = re.compile(
    r"authorization|cookie|apikey|x-api-key|host|origin|referer|connection|te|trailer|upgrade|expect|range"
    r"|user-agent|last-event-id|idempotency-key|forwarded|x-forwarded-(for|host|proto|port|prefix|server)"
    r"|(accept|content|transfer|proxy|sec|if|access-control|hookgw)(-.*)?",
    re.ASCII,
)


def is_person(name: str) -> bool:
    return name == name.strip() != "" and name.isprintable() and len(name) <= LONGEST_PERSON


def is_proxy_header(name: str) -> bool:
    """Return whether a header can name people: a token (RFC 9110, section 5.6.2) with no other meaning."""
    return _HEADER.fullmatch(name.lower()) is not None and _TAKEN.fullmatch(name.lower()) is None
