"""Whether a request that changes something comes from the dashboard's own pages. No I/O."""

from __future__ import annotations

from typing import Protocol
from urllib.parse import urlsplit

_OWN = frozenset({"same-origin", "none"})


class Headers(Protocol):
    """A request's headers."""

    def get(self, name: str, /) -> str | None:
        """Return the first header of a name, in any case; ``None`` if there is none."""


def is_own_request(headers: Headers, public_url: str | None) -> bool:
    """Return whether a request comes from a page of this server, as far as its headers tell.

    Browsers state where a request comes from, and pages cannot change it. A request that states nothing comes
    from a program, which has no session's cookie by accident; its form token is checked all the same.

    Args:
        headers: of the request.
        public_url: the URL under which others reach the gateway, if the settings name one.
    """
    # Fetch Metadata: what the browser itself concluded. "none" is the address bar.
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site in _OWN
    origin = headers.get("origin")
    if origin is None:
        return True
    # Only the host and port: behind a proxy that ends TLS, hookgw does not see the browser's scheme.
    named = urlsplit(origin).netloc.lower()
    own = {(headers.get("host") or "").lower()}
    if public_url:
        own.add(urlsplit(public_url).netloc.lower())
    return bool(named) and named in own
