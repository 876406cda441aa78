"""Checks that a request for a change comes from the dashboard's own pages. No I/O."""

from __future__ import annotations

from typing import Protocol
from urllib.parse import urlsplit

_OWN = frozenset({"same-origin", "none"})
_CHANGED = "Nothing was changed."


class Headers(Protocol):
    def get(self, name: str, /) -> str | None: ...


def refusal_of(headers: Headers, public_url: str | None) -> str | None:
    """Return why a form was not sent by a page of this server, in sentences; ``None`` if it was.

    Browsers state the origin of a request, and pages cannot change it. A request that states none comes from
    a program, which has no session's cookie by accident; its form token is checked anyway.

    Args:
        headers: of the request. ``host`` is the browser's, as far as a trusted proxy reports it.
        public_url: the URL under which others reach the gateway, if the settings name one.
    """
    # Fetch Metadata: what the browser itself concluded. "none" is the address bar.
    site = headers.get("sec-fetch-site")
    if site is not None:
        return None if site in _OWN else f"This form was sent by another site. {_CHANGED}"
    origin = headers.get("origin")
    if origin is None:
        return None
    # Only the host and port: behind a proxy that ends TLS, hookgw does not see the browser's scheme.
    named = origin.partition("://")[2].lower()  # RFC 6454, section 6.2; whatever else it is, is not ours
    host = (headers.get("host") or "").lower()
    own = {host, urlsplit(public_url or "").netloc.lower()}
    if named and named in own:
        return None
    # Browsers send sec-fetch-site over HTTPS and to localhost only: over plain HTTP, this is the only check.
    return (
        f"This form was sent by {(named or origin)[:255]!r}, but the request is for {host[:255]!r}. "
        f"{_CHANGED} If a proxy in front of hookgw changes the host, name it in server.trusted_proxies "
        "and let it send x-forwarded-host, or set server.public_url."
    )
