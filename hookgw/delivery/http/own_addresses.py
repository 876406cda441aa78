"""Where hookgw itself listens: nobody may have it call itself, whatever networks are allowed."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable
from ipaddress import IPv6Address, ip_address
from urllib.parse import urlsplit

from hookgw.delivery.http.address_guard import Address, held_ipv4

_USUAL_PORTS = {"http": 80, "https": 443}
_FAMILIES = {4: socket.AF_INET, 6: socket.AF_INET6}
_NOBODYS = {4: ip_address("192.0.2.1"), 6: ip_address("2001:db8::1")}
"""For documentation alone (RFC 5737, RFC 3849)."""


def is_local(address: Address) -> bool:
    """Whether the address is this machine's, now; addresses come and go, so the system is asked.

    An IPv6 link-local address counts as one: it means something only together with an interface.
    """
    if address.is_loopback or address.is_unspecified:
        return True
    if isinstance(address, IPv6Address) and address.is_link_local:
        return True
    if not _can_bind(address):
        return False
    # Where the system lets programs bind to addresses that it does not have, that says nothing.
    return not _can_bind(_NOBODYS[address.version]) or _is_source(address)


def _can_bind(address: Address) -> bool:
    try:
        with socket.socket(_FAMILIES[address.version], socket.SOCK_STREAM) as trial:
            trial.bind((str(address), 0))
    except OSError:
        return False
    return True


def _is_source(address: Address) -> bool:
    """Whether what is sent there would come from the same address; nothing is sent."""
    try:
        with socket.socket(_FAMILIES[address.version], socket.SOCK_DGRAM) as trial:
            trial.connect((str(address), 9))
            return ip_address(trial.getsockname()[0]) == address
    except OSError:
        return False


class OwnAddresses:
    """The addresses and ports that hookgw listens on.

    Args:
        is_local: says whether an address is this machine's.
    """

    def __init__(self, is_local: Callable[[Address], bool] = is_local) -> None:
        self._is_local = is_local
        self._listening: frozenset[tuple[Address, int]] = frozenset()

    def listen_on(self, urls: Iterable[str]) -> None:
        """Take note of where hookgw listens now, in the place of what was noted before.

        Args:
            urls: each ``http://address:port`` or ``https://address:port`` with an IP address; others,
                such as Unix sockets, cannot be dialled and are passed over.
        """
        self._listening = frozenset(_read(url) for url in urls if urlsplit(url).scheme in _USUAL_PORTS)

    def includes(self, address: Address, port: int) -> bool:
        """Whether a connection to there would reach hookgw itself."""
        return any(port == own_port and self._reaches(address, own) for own, own_port in self._listening)

    def _reaches(self, address: Address, own: Address) -> bool:
        if own.is_unspecified:  # every address of the machine; a socket for IPv6 may take IPv4 too
            return self._is_local(address)
        return address == own or (address.is_unspecified and own.is_loopback)


def _read(url: str) -> tuple[Address, int]:
    parts = urlsplit(url)
    address = ip_address((parts.hostname or "").partition("%")[0])
    return held_ipv4(address), parts.port or _USUAL_PORTS[parts.scheme]
