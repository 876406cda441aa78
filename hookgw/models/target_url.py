"""The URL of a receiver, taken apart once, so that nothing is parsed for each event. No I/O."""

from __future__ import annotations

import base64
import re
from urllib.parse import quote, unquote_to_bytes

import msgspec

from hookgw.models.host_name import parse_host
from hookgw.models.masking import repr_without

MAX_URL = 2048
"""Characters that a URL may have."""

_DEFAULT_PORTS = {"http": 80, "https": 443}
_URL = re.compile(r"(https?)://([^/?]*)([^?]*)(\?.*)?", re.IGNORECASE | re.DOTALL)
_HOST_AND_PORT = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(?::([0-9]*))?")
_SENT_AS_THEY_ARE = "%/?:@!$&'()*+,;=~[]|"


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """Where requests go. Made by :func:`parse_target`.

    Attributes:
        url: as it was given.
        scheme: ``http`` or ``https``.
        host: what is resolved and dialled: a name in ASCII, or an IP address without brackets.
        port: given or implied by the scheme.
        path: the request target: path and query, percent-encoded, never empty (RFC 9112, section 3.2.1).
        host_header: the value of ``host``: without a port where the scheme implies it.
        authorization: Basic credentials from the URL's user information (RFC 7617), or ``None``.
    """

    url: str
    scheme: str
    host: str
    port: int
    path: str
    host_header: str
    authorization: str | None = None

    __repr__ = repr_without("authorization")

    @property
    def server_hostname(self) -> str:
        """The name that the receiver's certificate must be for."""
        return self.host.removesuffix(".")

    @property
    def place(self) -> str:
        """Host and port for messages, as ``example.com:443`` or ``[::1]:8080``."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def for_kind(self, segment: str) -> Target:
        """The target with a segment more in its path, before the query and without doubling a slash."""
        url, mark, query = self.url.partition("?")
        path = self.path.partition("?")[0]
        return msgspec.structs.replace(
            self,
            url=f"{url.removesuffix('/')}/{segment}{mark}{query}",
            path=f"{path.removesuffix('/')}/{segment}{self.path[len(path) :]}",
        )


def parse_target(url: str) -> Target:
    """Check a URL and take it apart.

    Args:
        url: absolute, ``http`` or ``https`` in any case, with a host, without a fragment, of at most
            :data:`MAX_URL` characters. The host may be spelled in any way that browsers understand
            (see :mod:`hookgw.models.host_name`).

    Raises:
        ValueError: it breaks one of these rules; the message is a sentence that says which. It never
            repeats user information.
    """
    if len(url) > MAX_URL:
        raise ValueError(f"The URL has {len(url)} characters; at most {MAX_URL} are allowed.")
    if not url.isprintable() or " " in url:  # no other space is printable
        raise ValueError("The URL must not contain spaces, line breaks or control characters.")
    match = _URL.fullmatch(url)
    if match is None:
        raise ValueError("The URL must begin with http:// or https://, as in https://example.com/hook.")
    if "#" in url:
        raise ValueError("The URL must not have a fragment: remove the # and what follows it.")
    scheme, (user_info, host, port) = match[1].lower(), _split_authority(match[2])
    default_port = _DEFAULT_PORTS[scheme]
    shown_host = f"[{host}]" if ":" in host else host.removesuffix(".")
    return Target(
        url=url,
        scheme=scheme,
        host=host,
        port=port or default_port,
        path=quote((match[3] or "/") + (match[4] or ""), safe=_SENT_AS_THEY_ARE),
        host_header=shown_host if port in (None, default_port) else f"{shown_host}:{port}",
        authorization=_basic(user_info) if user_info else None,
    )


def _split_authority(authority: str) -> tuple[str, str, int | None]:
    """User information, host and port (``None`` where none is given)."""
    if "\\" in authority:
        raise ValueError("The URL must not have a backslash before its path.")
    user_info, _, place = authority.rpartition("@")
    match = _HOST_AND_PORT.fullmatch(place)
    if match is None:
        raise ValueError("The URL's host and port must be as in example.com:8080 or [2001:db8::1]:8080.")
    if not match[1]:
        raise ValueError("The URL has no host, as in https://example.com/hook.")
    return user_info, parse_host(match[1]), _parse_port(match[2])


def _parse_port(digits: str | None) -> int | None:
    if not digits:
        return None
    port = int(digits) if len(digits) <= 5 else 0
    if not 1 <= port <= 65535:
        raise ValueError(f"The port {digits[:16]} is not between 1 and 65535.")
    return port


def _basic(user_info: str) -> str:
    user, _, password = user_info.partition(":")
    credentials = unquote_to_bytes(user) + b":" + unquote_to_bytes(password)
    return "Basic " + base64.b64encode(credentials).decode("ascii")
