"""The setting ``delivery.proxy``. No I/O."""

from __future__ import annotations

import re
from urllib.parse import unquote_to_bytes

import msgspec

from hookgw.kernel.host_name import parse_host

_URL = re.compile(r"(http|socks5)://(?:([^/?#]*)@)?(\[[^\]/]*\]|[^:@/?#\[\]]+):([0-9]{1,5})/?", re.IGNORECASE)
_FORM = "must be as in http://proxy.example:3128 or socks5://user:password@proxy.example:1080"


class Proxy(msgspec.Struct, frozen=True, kw_only=True):
    """A proxy and its credentials. Created by :func:`parse_proxy`.

    Attributes:
        scheme: ``http`` or ``socks5``.
        host: a name, or an IP address without brackets.
        user, password: empty if not given. No message and no ``repr`` shows them.
    """

    scheme: str
    host: str
    port: int
    user: bytes = b""
    password: bytes = b""

    def __repr__(self) -> str:
        return f"<Proxy {self.scheme} {self.place}>"

    @property
    def place(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_proxy(url: str) -> Proxy:
    """Parse a URL with optional user and password (percent-encoded), host and port.

    Raises:
        ValueError: the message says what to write instead and repeats nothing of the URL.
    """
    match = _URL.fullmatch(url)
    if match is None:
        raise ValueError(f"{_FORM}.")
    try:
        host = parse_host(match[3])
    except ValueError:
        # The message of parse_host repeats the text, which may be a password with a stray "@" or "/".
        raise ValueError(f"contains no valid host: it {_FORM}.") from None
    port = int(match[4])
    if not 1 <= port <= 65535:
        raise ValueError("has a port that is not between 1 and 65535.")
    user, _, password = (match[2] or "").partition(":")
    proxy = Proxy(
        scheme=match[1].lower(),
        host=host,
        port=port,
        user=unquote_to_bytes(user),
        password=unquote_to_bytes(password),
    )
    if proxy.password and not proxy.user:
        raise ValueError("has a password, but no user.")
    # RFC 1929, section 2: one byte holds the length of each.
    if max(len(proxy.user), len(proxy.password)) > 255:
        raise ValueError("has a user or password of more than 255 bytes.")
    # RFC 7617, section 2: the first colon ends the user, so a user cannot contain one.
    if proxy.scheme == "http" and b":" in proxy.user:
        raise ValueError("has a colon in its user, which Basic authentication cannot tell from the password.")
    return proxy
