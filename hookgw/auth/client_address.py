"""Whose a request is, as far as addresses tell. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network

from hookgw.config.settings import UNIX

_HOST_BITS = 64
_WITH_PORT = re.compile(r"\[([^\]]+)\](?::\d{1,5})?|([0-9.]+):\d{1,5}")


def rate_limit_key(address: str) -> str:
    """What a limit on one caller counts by: an IPv4 address; an IPv6 address's /64, which one caller has.

    Args:
        address: as a socket names it, perhaps with a zone. What is no address is a source of its own.
    """
    try:
        parsed = _parse(address)
    except ValueError:
        return address
    if isinstance(parsed, IPv4Address):
        return str(parsed)
    return str(IPv6Network((int(parsed) >> _HOST_BITS << _HOST_BITS, _HOST_BITS)))


def _parse(text: str) -> IPv4Address | IPv6Address:
    """An address without its zone; an IPv4 address that is mapped into IPv6 is that IPv4 address."""
    address = ip_address(text.partition("%")[0])
    return getattr(address, "ipv4_mapped", None) or address


class TrustedProxies:
    """The proxies whose word counts when they name the client that they speak for.

    Args:
        entries: networks, and ``unix`` for whoever connects to a Unix socket.
    """

    def __init__(self, entries: Sequence[str]) -> None:
        self._trusts_unix = UNIX in entries
        self._networks = [ip_network(entry) for entry in entries if entry != UNIX]

    def trusts(self, peer: str | None) -> bool:
        """Whether a peer is one of them; ``None`` is a peer on a Unix socket."""
        if peer is None:
            return self._trusts_unix
        try:
            return self._contains(_parse(peer))
        except ValueError:
            return False

    def _contains(self, address: IPv4Address | IPv6Address) -> bool:
        return any(address in network for network in self._networks)

    def client_of(self, peer: str | None, forwarded: Iterable[str]) -> str | None:
        """The client that a request comes from.

        Each proxy appends whom it heard the request from, so the list is believed from its right end, as
        far as those named there are trusted too. The first one that is not is the client.

        Args:
            peer: who is connected.
            forwarded: the values of the ``x-forwarded-for`` headers, in their order.

        Returns:
            its address; the peer where the peer is not trusted, or where what counts is no list of addresses.
        """
        if not self.trusts(peer):
            return peer
        client = peer
        for entry in reversed(",".join(forwarded).split(",")):
            try:
                address = _parse(_without_port(entry.strip(" \t")))
            except ValueError:
                return peer
            client = str(address)
            if not self._contains(address):
                break
        return client


def _without_port(entry: str) -> str:
    """Some proxies add the port: ``192.0.2.1:4711``, ``[2001:db8::1]:4711``."""
    match = _WITH_PORT.fullmatch(entry)
    return (match[1] or match[2]) if match else entry
