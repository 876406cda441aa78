"""Handshakes with a proxy: HTTP CONNECT (RFC 9110, section 9.3.6) and SOCKS5 (RFC 1928, RFC 1929). No I/O.

A handshake is a generator. It yields bytes to send (empty: only wait), receives the bytes that arrived
(empty: the proxy closed the connection), and returns when the connection is open.

A proxy is asked for an address, never for a name. The name was looked up here and its address vetted; if the
proxy looked it up again, it could get another address.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Generator
from http.client import responses
from ipaddress import ip_address

from hookgw.config.proxy_url import Proxy

MAX_PROXY_HEAD = 16 * 2**10
"""Bytes that an HTTP proxy may send before the connection is open."""

Handshake = Generator[bytes, bytes, None]

_PERHAPS_NO_PROXY = ": it may be no HTTP proxy"
_STATUS_LINE = re.compile(rb"HTTP/1\.[01] ([1-9][0-9]{2})(?: [^\r\n]*)?")
_NO_CREDENTIALS, _PASSWORD = 0, 2
# In the words of RFC 1928, section 6, which is what people search for.
_SOCKS_REASONS = {
    1: "general failure",
    2: "not allowed by ruleset",
    3: "network unreachable",
    4: "host unreachable",
    5: "connection refused",
    6: "TTL expired",
    7: "command not supported",
    8: "address type not supported",
}


class ProxyFailed(Exception):
    """The proxy cannot be used. The message continues a sentence that starts with the proxy's name."""


def open_tunnel(proxy: Proxy, address: str, port: int) -> Handshake:
    """Return the handshake that asks a proxy for a connection to an IP address.

    Raises:
        ConnectionRefusedError: the proxy could not, or may not, connect to the address.
        ProxyFailed: it is not a proxy of this scheme, requires other credentials, or broke the protocol.
    """
    handshake = _http_connect if proxy.scheme == "http" else _socks5_connect
    # A zone names an interface of this machine, so it means nothing to the proxy.
    return handshake(proxy, address.partition("%")[0], port)


def _http_connect(proxy: Proxy, address: str, port: int) -> Handshake:
    authority = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
    lines = [f"CONNECT {authority} HTTP/1.1", f"host: {authority}"]
    if proxy.user:
        credentials = base64.b64encode(proxy.user + b":" + proxy.password).decode("ascii")
        lines.append(f"proxy-authorization: Basic {credentials}")
    outgoing = "\r\n".join([*lines, "", ""]).encode("ascii")
    data, received, status = b"", 0, 0
    while not status:
        head, found, rest = data.partition(b"\r\n\r\n")
        if found:
            match = _STATUS_LINE.fullmatch(head.partition(b"\r\n")[0])
            if match is None:
                raise ProxyFailed("sent a response that is not HTTP")
            # Interim (1xx) responses are skipped; MAX_PROXY_HEAD limits them together with the final head.
            status = 0 if match[1].startswith(b"1") else int(match[1])
            data = rest
            continue
        if received > MAX_PROXY_HEAD:
            raise ProxyFailed(f"sent more than {MAX_PROXY_HEAD} bytes without a complete response")
        more = yield outgoing
        outgoing = b""
        if not more:
            raise ProxyFailed("closed the connection before its response was complete")
        data, received = data + more, received + len(more)
    _check_status(proxy, status)
    # The receiver speaks second, in HTTP as in TLS: bytes from it now would be taken for its response.
    if data:
        raise ProxyFailed("sent data after its response")


def _check_status(proxy: Proxy, status: int) -> None:
    # Wrong credentials fail for every address, so this is not a refusal of this one. 401 is Tinyproxy's.
    if status in (401, 407):
        raise ProxyFailed(f"{_credentials_problem(proxy)} ({status})")
    answered = f"answered {status} {responses.get(status, '')}".rstrip()
    if 300 <= status <= 399 or status in (405, 501):
        raise ProxyFailed(f"{answered} to CONNECT: it is no HTTP proxy, or does not take CONNECT")
    if not 200 <= status <= 299:
        # Squid allows CONNECT to port 443 alone, unless told otherwise.
        # 400 is that of nginx, Caddy, HAProxy and Varnish. But a proxy may say so of IPv6 alone.
        why = {403: ": not allowed by its rules", 400: _PERHAPS_NO_PROXY, 404: _PERHAPS_NO_PROXY}.get(
            status, ""
        )
        raise ConnectionRefusedError(f"the proxy {answered}{why}")


def _socks5_connect(proxy: Proxy, address: str, port: int) -> Handshake:
    replies = _Replies()
    methods = bytes([_NO_CREDENTIALS, _PASSWORD] if proxy.user else [_NO_CREDENTIALS])
    version, method = yield from replies.ask(b"\5" + bytes([len(methods)]) + methods, 2)
    if version != 5:
        raise ProxyFailed("is not a SOCKS5 proxy")
    if method not in methods:
        raise ProxyFailed(_credentials_problem(proxy))
    if method == _PASSWORD:
        user = bytes([len(proxy.user)]) + proxy.user
        password = bytes([len(proxy.password)]) + proxy.password
        _, refused = yield from replies.ask(b"\1" + user + password, 2)
        if refused:
            raise ProxyFailed(_credentials_problem(proxy))
    packed = ip_address(address).packed
    kind = b"\1" if len(packed) == 4 else b"\4"
    request = b"\5\1\0" + kind + packed + port.to_bytes(2, "big")
    version, code, _, kind_bound = yield from replies.ask(request, 4)
    if version != 5:
        raise ProxyFailed("sent a response that is not SOCKS5")
    if code:
        raise ConnectionRefusedError(f"the proxy reported: {_SOCKS_REASONS.get(code, f'error {code}')}")
    # The reply names the address that the proxy bound. It is of no use here, but must be read to its end.
    if kind_bound == 3:
        size = (yield from replies.ask(b"", 1))[0]
    elif kind_bound in (1, 4):
        size = 4 if kind_bound == 1 else 16
    else:
        raise ProxyFailed("sent a response that is not SOCKS5")
    yield from replies.ask(b"", size + 2)
    replies.check_end()


class _Replies:
    """Reads the replies of a SOCKS5 proxy: one after each request."""

    def __init__(self) -> None:
        self._data = b""

    def ask(self, request: bytes, size: int) -> Generator[bytes, bytes, bytes]:
        """Send a request (or nothing) and read ``size`` bytes."""
        if request:
            self.check_end()
        while request or len(self._data) < size:
            more = yield request
            request = b""
            if not more:
                raise ProxyFailed("closed the connection before its response was complete")
            self._data += more
        taken, self._data = self._data[:size], self._data[size:]
        return taken

    def check_end(self) -> None:
        if self._data:
            raise ProxyFailed("sent data after its response")


def _credentials_problem(proxy: Proxy) -> str:
    if proxy.user:
        return "rejected the user and password of delivery.proxy"
    return "requires a user and password: add them to delivery.proxy"
