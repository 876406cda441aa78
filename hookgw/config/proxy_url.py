"""The setting ``delivery.proxy``. No I/O."""

from __future__ import annotations

import re
from urllib.parse import unquote_to_bytes

import msgspec

from hookgw.models.host_name import parse_host

_URL = re.compile(r"(http|socks5)://(?:([^/?#]*)@)?(\[[^\]/]*\]|[^:@/?#\[\]]+):([0-9]{1,5})/?", re.IGNORECASE)


_FORM = "must be as in http://proxy.example:3128 or socks5://user:password@proxy.example:1080"


class Proxy(msgspec.Struct, frozen=True, kw_only=True):
    """A proxy, and what it is told about who asks. Made by :func:`parse_proxy`.

    Attributes:
        scheme: ``http`` or ``socks5``.
        host: a name, or an IP address without brackets.
        port: 1 to 65535.
        user, password: empty where none are given. They are in no message, nor in ``repr``.
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
        """Host and port for messages."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_proxy(url: str) -> Proxy:
    """Read the setting ``delivery.proxy``.

    Args:
        url: ``http`` or ``socks5``, user and password (percent-encoded) if there are any, host and port.

    Raises:
        ValueError: a sentence that says what would be right, and repeats nothing of the URL.
    """
    match = _URL.fullmatch(url)
    if match is None:
        raise ValueError(f"{_FORM}.")
    try:
        host = parse_host(match[3])
    except ValueError:
        raise ValueError(f"names no host: it {_FORM}.") from None
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
    _check_credentials(proxy)
    return proxy


def _check_credentials(proxy: Proxy) -> None:
    if proxy.password and not proxy.user:
        raise ValueError("has a password, but no user.")
    if max(len(proxy.user), len(proxy.password)) > 255:
        raise ValueError("has a user or password of more than 255 bytes.")
    if proxy.scheme == "http" and b":" in proxy.user:
        raise ValueError("has a colon in its user, which Basic authentication cannot tell from the password.")
