"""Origins in settings, such as ``server.cors_origins``. No I/O."""

from __future__ import annotations

import re

from hookgw.kernel.host_name import parse_host
from hookgw.kernel.schemes import HTTP_PORTS

_ORIGIN = re.compile(r"(https?)://(\[[^\]/]*\]|[^:@/?#\[\]\s]+)(?::([0-9]{1,5}))?", re.IGNORECASE)


def parse_origin(text: str) -> str:
    """Return an origin (``http(s)://host[:port]``) as browsers write it; raise ``ValueError``."""
    match = _ORIGIN.fullmatch(text)
    if match is None:
        raise ValueError("not http(s)://host[:port]")
    scheme, host, port = match[1].lower(), parse_host(match[2]), int(match[3] or 0)
    if match[3] is not None and not 1 <= port <= 65535:
        raise ValueError("not a port")
    if ":" in host:
        host = f"[{host}]"
    return f"{scheme}://{host}" + (f":{port}" if port and port != HTTP_PORTS[scheme] else "")
