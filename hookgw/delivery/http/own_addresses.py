"""The addresses on which hookgw itself listens: no URL may make hookgw call itself, in any network."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable
from ipaddress import IPv6Address, ip_address
from urllib.parse import urlsplit

from hookgw.delivery.http.address_guard import Address, embedded_ipv4
from hookgw.kernel.schemes import HTTP_PORTS

_FAMILIES = {4: socket.AF_INET, 6: socket.AF_INET6}
# Reserved for documentation (RFC 5737, RFC 3849), so no machine has these addresses.
_UNASSIGNED = {4: ip_address("192.0.2.1"), 6: ip_address("2001:db8::1")}


def is_local(address: Address) -> bool:
    """Return whether this machine has the address now. Addresses change, so each call asks the system."""
    if address.is_loopback or address.is_unspecified:
        return True
    # A link-local address means nothing without an interface, so it cannot be tried; assume the worst.
    if isinstance(address, IPv6Address) and address.is_link_local:
        return True
    if not can_bind(address):
        return False
    if not can_bind(_UNASSIGNED[address.version]):
        return True
    # net.ipv4.ip_nonlocal_bind lets programs bind to any address, so binding proves nothing. Ask for the
    # route instead: the system sends to its own address from that same address. Connecting UDP sends no
    # packet.
    try:
        with socket.socket(_FAMILIES[address.version], socket.SOCK_DGRAM) as probe:
            probe.connect((str(address), 9))
            return ip_address(probe.getsockname()[0]) == address
    except OSError:
        return False


def can_bind(address: Address) -> bool:
    try:
        with socket.socket(_FAMILIES[address.version], socket.SOCK_STREAM) as probe:
            probe.bind((str(address), 0))
    except OSError:
        return False
    return True


class OwnAddresses:
    def __init__(self, is_local: Callable[[Address], bool] = is_local) -> None:
        self._is_local = is_local
        self._listening: frozenset[tuple[Address, int]] = frozenset()

    def listen_on(self, urls: Iterable[str]) -> None:
        """Replace the addresses on which hookgw listens.

        URLs without an IP address, such as Unix sockets, cannot be dialled and are skipped.
        """
        listening = set()
        for parts in map(urlsplit, urls):
            if parts.scheme in HTTP_PORTS:
                address = ip_address((parts.hostname or "").partition("%")[0])
                listening.add((embedded_ipv4(address), parts.port or HTTP_PORTS[parts.scheme]))
        self._listening = frozenset(listening)

    def includes(self, address: Address, port: int) -> bool:
        """Return whether a connection to this address and port would reach hookgw itself."""
        for listening, listening_port in self._listening:
            if port != listening_port:
                continue
            # Bound to 0.0.0.0 or ::, hookgw answers on every address; a socket on :: may take IPv4 too.
            if self._is_local(address) if listening.is_unspecified else address == listening:
                return True
            # Linux connects to loopback for 0.0.0.0 and ::.
            if address.is_unspecified and listening.is_loopback:
                return True
        return False
