"""Asking a proxy for a connection: HTTP CONNECT (RFC 9110, 9.3.6), SOCKS5 (RFC 1928 and 1929). No I/O.

A proxy is asked for an address, never for a name: the name was looked up and its address vetted here, and
the proxy must not look it up again.

A handshake is a generator. It gives bytes to send (none: only wait), is sent the bytes that came (none: the
proxy closed the connection), and returns when the connection is open.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Generator
from http import HTTPStatus
from ipaddress import ip_address

from hookgw.config.proxy_url import Proxy

MAX_HEAD = 16 * 2**10
"""Bytes that an HTTP proxy may send before the connection is open."""

Handshake = Generator[bytes, bytes, None]

_STATUS_LINE = re.compile(rb"HTTP/1\.[01] ([1-9][0-9]{2})(?: [^\r\n]*)?")
_NO_CREDENTIALS, _PASSWORD = 0, 2
_SOCKS_REASONS = {
    1: "general failure",
    2: "not allowed by its rules",
    3: "network unreachable",
    4: "host unreachable",
    5: "connection refused",
    6: "the packets' time ran out",
    7: "CONNECT is not supported",
    8: "this kind of address is not supported",
}


class ProxyFailed(Exception):
    """The proxy cannot be used; the message goes on after the proxy's name, without a full stop."""


def open_tunnel(proxy: Proxy, address: str, port: int) -> Handshake:
    """Ask a proxy for a connection.

    Args:
        proxy: which, and the credentials it is shown.
        address: an IP address; an IPv6 zone means nothing to a proxy and is left out.
        port: of the receiver.

    Raises:
        ConnectionRefusedError: the proxy could not, or may not, connect there.
        ProxyFailed: it is no such proxy, wants other credentials, or broke the rules.
    """
    shake = _http_connect if proxy.scheme == "http" else _socks5_connect
    return shake(proxy, address.partition("%")[0], port)


def _http_connect(proxy: Proxy, address: str, port: int) -> Handshake:
    place = _place(address, port)
    lines = [f"CONNECT {place} HTTP/1.1", f"host: {place}"]
    if proxy.user:
        credentials = base64.b64encode(proxy.user + b":" + proxy.password).decode("ascii")
        lines.append(f"proxy-authorization: Basic {credentials}")
    status, surplus = yield from _read_status("\r\n".join([*lines, "", ""]).encode("ascii"))
    if status == 407:
        raise ProxyFailed(f"{_wants_credentials(proxy)} (407)")
    if not 200 <= status <= 299:
        raise ConnectionRefusedError(f"the proxy answered {_described(status)}")
    if surplus:
        raise ProxyFailed("sent more than its answer")


def _read_status(outgoing: bytes) -> Generator[bytes, bytes, tuple[int, bytes]]:
    """Send, and read the final status (interim ones are passed over), and what came after its head."""
    data, received = b"", 0
    while True:
        head, found, rest = data.partition(b"\r\n\r\n")
        if found:
            match = _STATUS_LINE.fullmatch(head.partition(b"\r\n")[0])
            if match is None:
                raise ProxyFailed("gave an answer that is not HTTP")
            if not match[1].startswith(b"1"):
                return int(match[1]), rest
            data = rest
            continue
        if received > MAX_HEAD:
            raise ProxyFailed(f"sent more than {MAX_HEAD} bytes without an answer")
        more = yield outgoing
        outgoing = b""
        if not more:
            raise ProxyFailed("closed the connection before its answer was complete")
        data, received = data + more, received + len(more)


def _socks5_connect(proxy: Proxy, address: str, port: int) -> Handshake:
    replies = _Replies()
    methods = bytes([_NO_CREDENTIALS, _PASSWORD] if proxy.user else [_NO_CREDENTIALS])
    version, method = yield from replies.ask(b"\5" + bytes([len(methods)]) + methods, 2)
    if version != 5:
        raise ProxyFailed("is no SOCKS5 proxy")
    if method not in methods:
        raise ProxyFailed(_wants_credentials(proxy))
    if method == _PASSWORD:
        user = bytes([len(proxy.user)]) + proxy.user
        password = bytes([len(proxy.password)]) + proxy.password
        _, refused = yield from replies.ask(b"\1" + user + password, 2)
        if refused:
            raise ProxyFailed(_wants_credentials(proxy))
    packed = ip_address(address).packed
    kind = b"\1" if len(packed) == 4 else b"\4"
    yield from replies.connect(b"\5\1\0" + kind + packed + port.to_bytes(2, "big"))


class _Replies:
    """What a SOCKS5 proxy sends: each reply after the request that it answers."""

    def __init__(self) -> None:
        self._data = b""

    def ask(self, request: bytes, size: int) -> Generator[bytes, bytes, bytes]:
        """Send a request (or none) and read that many bytes."""
        if request and self._data:
            raise ProxyFailed("sent more than its answer")
        while request or len(self._data) < size:
            more = yield request
            request = b""
            if not more:
                raise ProxyFailed("closed the connection before its answer was complete")
            self._data += more
        taken, self._data = self._data[:size], self._data[size:]
        return taken

    def connect(self, request: bytes) -> Handshake:
        """Send the request for a connection and read the reply, which must be the last that comes."""
        version, code, _, kind = yield from self.ask(request, 4)
        if version != 5:
            raise ProxyFailed("gave an answer that is not SOCKS5")
        if code:
            raise ConnectionRefusedError(f"the proxy says: {_SOCKS_REASONS.get(code, f'error {code}')}")
        if kind == 3:
            size = (yield from self.ask(b"", 1))[0]
        elif kind in (1, 4):
            size = 4 if kind == 1 else 16
        else:
            raise ProxyFailed("gave an answer that is not SOCKS5")
        yield from self.ask(b"", size + 2)
        if self._data:
            raise ProxyFailed("sent more than its answer")


def _wants_credentials(proxy: Proxy) -> str:
    if proxy.user:
        return "refused the user and password of delivery.proxy"
    return "wants a user and password: write them into delivery.proxy"


def _described(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def _place(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
