"""Finds the client of a request by its addresses. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network

from hookgw.config.values import UNIX

# A provider gives one customer at least a /64, so single IPv6 addresses would not limit anyone.
_CLIENT_BITS = 64
NAME_THE_PROXY = "If this is a proxy in front of hookgw, add it to server.trusted_proxies."
"""What to do if an address is at a limit that is meant for one client: behind a proxy, it is everybody's."""
_WITH_PORT = re.compile(r"\[([^\]]+)\](?::\d{1,5})?|([0-9.]+):\d{1,5}")


def rate_limit_key(address: str) -> str:
    """Return the key of a client for limits: an IPv4 address, or the /64 of an IPv6 address.

    The address may have a zone. Text that is not an address is returned unchanged.
    """
    try:
        parsed = _parse(address)
    except ValueError:
        return address
    if isinstance(parsed, IPv4Address):
        return str(parsed)
    return str(IPv6Network((int(parsed) >> _CLIENT_BITS << _CLIENT_BITS, _CLIENT_BITS)))


def _parse(text: str) -> IPv4Address | IPv6Address:
    address = ip_address(text.partition("%")[0])
    # A socket on :: reports IPv4 clients as ::ffff:a.b.c.d. All of them share one /64.
    return getattr(address, "ipv4_mapped", None) or address


class TrustedProxies:
    """The proxies that may name their clients: networks, and ``unix`` for every peer on a Unix socket."""

    def __init__(self, entries: Sequence[str]) -> None:
        self._trusts_unix = UNIX in entries
        self._networks = [ip_network(entry) for entry in entries if entry != UNIX]

    def trusts(self, peer: str | None) -> bool:
        """Return whether a peer is a trusted proxy; ``None`` is a peer on a Unix socket."""
        if peer is None:
            return self._trusts_unix
        try:
            return self._contains(_parse(peer))
        except ValueError:
            return False

    def _contains(self, address: IPv4Address | IPv6Address) -> bool:
        return any(address in network for network in self._networks)

    def client_of(self, peer: str | None, forwarded: Iterable[str]) -> str | None:
        """Return the address of a request's client.

        It is the peer (``None`` on a Unix socket), if that is not trusted or the relevant part of the
        ``x-forwarded-for`` headers is invalid.
        """
        if not self.trusts(peer):
            return peer
        client = peer
        # Each proxy appends the address from which it got the request. So the list is trustworthy from its
        # right end to the first address that is not a trusted proxy; the client may have written everything
        # left of it.
        for entry in reversed(",".join(forwarded).split(",")):
            text = entry.strip(" \t")
            # Some proxies add the port: 192.0.2.1:4711, [2001:db8::1]:4711.
            if match := _WITH_PORT.fullmatch(text):
                text = match[1] or match[2]
            try:
                address = _parse(text)
            except ValueError:
                return peer
            client = str(address)
            if not self._contains(address):
                break
        return client
