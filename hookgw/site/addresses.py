"""Addresses of pages that come from requests."""

from __future__ import annotations

import re
from urllib.parse import urlencode, urlsplit

from quart import request

from hookgw.config.settings import ServerSettings
from hookgw.web.auth import DASHBOARD_PATH

_HOST = re.compile(r"[-.:\w\[\]]{1,255}", re.ASCII)


def local_path(path: str, *but: str) -> str:
    """Return a path below the dashboard to go to; empty for any other path, and for those that begin so."""
    # It is appended to the path of the dashboard, so it cannot lead to another site; this only keeps out
    # what the browser or the routing would read in another way.
    is_plain = path.startswith("/") and path.isprintable() and path.isascii() and "\\" not in path
    return path if is_plain and len(path) <= 2000 and not path.startswith(("//", *but)) else ""


def page_address(status: int, *, is_open: bool) -> str:
    """Return the current page below the dashboard, for a form that leads back to it."""
    if status >= 400:
        return "/"  # the page of an error says the same of what exists and of what does not
    if not is_open:
        return request.full_path.removeprefix(DASHBOARD_PATH).rstrip("?")
    # Nothing of an address that may have a secret.
    page = "/portal" if request.path.endswith("/portal") else "/login"
    after = local_path(request.args.get("next", ""))
    return f"{page}?{urlencode({'next': after})}" if after and page == "/login" else page


def address_of_request(server: ServerSettings) -> str:
    """Return the URL of hookgw as the current request names it."""
    # Not request.host, which is empty for a name with an underscore, such as that of a container.
    host = request.headers.get("host", "")
    # People copy the URL into a shell.
    return f"{request.scheme}://{host if _HOST.fullmatch(host) else ''}{server.base_path}"


def address_for_programs(server: ServerSettings) -> str:
    """Return the URL of hookgw for programs of the current request's reader."""
    public = server.public_url
    # A name without a dot is known in a network of containers, and not where the reader is.
    if public is None or "." not in (urlsplit(public).hostname or ""):
        return address_of_request(server)
    return public
