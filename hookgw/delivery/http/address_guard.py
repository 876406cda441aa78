"""The address guard: which addresses and ports hookgw may dial. No I/O.

A callback URL comes from outside, so it must not reach what only this machine or its network can
reach. The list is explicit: ``ipaddress.is_global`` lets through tunnels and translated forms of
private addresses. It follows the IANA special-purpose address registries (RFC 6890).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from hookgw.config.refused_ports import REFUSED_PORTS

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_REFUSED_IPV4 = {
    "0.0.0.0/8": "this host",
    "10.0.0.0/8": "private",
    "100.64.0.0/10": "shared with a carrier",
    "127.0.0.0/8": "loopback",
    "169.254.0.0/16": "link-local",
    "172.16.0.0/12": "private",
    "192.0.0.0/24": "reserved",
    "192.0.2.0/24": "for documentation",
    "192.88.99.0/24": "a 6to4 relay",
    "192.168.0.0/16": "private",
    "198.18.0.0/15": "for benchmarks",
    "198.51.100.0/24": "for documentation",
    "203.0.113.0/24": "for documentation",
    "224.0.0.0/4": "multicast",
    "240.0.0.0/4": "reserved",
}
_REFUSED_IPV6 = {
    "::1/128": "loopback",
    "::/8": "reserved",
    "64:ff9b:1::/48": "translated to a local IPv4 address",
    "100::/64": "discarded",
    "100:0:0:1::/64": "a dummy prefix",
    "2001::/23": "reserved for protocols",
    "2001:db8::/32": "for documentation",
    "2002::/16": "a 6to4 tunnel",
    "3fff::/20": "for documentation",
    "5f00::/16": "for segment routing",
    "fc00::/7": "private",
    "fe80::/10": "link-local",
    "fec0::/10": "site-local",
    "ff00::/8": "multicast",
}
_REFUSED: list[tuple[Network, str]] = [
    (ip_network(network), why) for network, why in (_REFUSED_IPV4 | _REFUSED_IPV6).items()
]
_HOLD_IPV4 = (IPv6Network("::ffff:0:0/96"), IPv6Network("64:ff9b::/96"))
_ISATAP_IDS = (0x00005EFE, 0x02005EFE)


class AddressGuard:
    """Says whether an address may be dialled.

    An IPv4-mapped address (RFC 4291, section 2.5.5.2) and one translated by NAT64 (RFC 6052) get the
    verdict of the IPv4 address in them. ISATAP addresses (RFC 5214) are refused in every network,
    because they tunnel to the IPv4 address in them.

    Args:
        allow_networks: networks or addresses that are allowed although they are on the list, as the
            setting ``delivery.allow_networks`` has them: ``10.1.2.0/24``, ``127.0.0.1``, ``fd00::/8``.
        refused_ports: ports that are refused at every address, as ``delivery.refused_ports`` has them.
        is_own: says whether hookgw itself listens at an address and port; then it is refused in an
            allowed network too. Asked with the IPv4 address that is held by an IPv6 one.

    Raises:
        ValueError: a network is none; the message says which, and what would be right.
    """

    def __init__(
        self,
        allow_networks: Sequence[str] = (),
        *,
        refused_ports: Collection[int] = tuple(REFUSED_PORTS),
        is_own: Callable[[Address, int], bool] = lambda _address, _port: False,
    ) -> None:
        self._allowed = [_held_network(parse_network(text)) for text in allow_networks]
        self._refused_ports = refused_ports
        self._is_own = is_own

    def port_refusal(self, port: int) -> str | None:
        """Why the port must not be dialled, at whatever address.

        Returns:
            A sentence with the setting that would allow it, or ``None`` where it may be dialled.
        """
        if port not in self._refused_ports:
            return None
        service = f" ({REFUSED_PORTS[port]})" if port in REFUSED_PORTS else ""
        others = ", ".join(str(other) for other in self._refused_ports if other != port)
        return (
            f"Port {port} is not dialled: it is on the list of refused ports{service}. "
            f"To allow it, set delivery.refused_ports: [{others}]."
        )

    def refusal(self, address: str, port: int) -> str | None:
        """Why the address must not be dialled; the port is not judged by itself.

        Args:
            address: an IP address as ``getaddrinfo`` gives it; an IPv6 zone is taken as part of it.
            port: named in the sentence.

        Returns:
            A sentence with the setting that would allow it, if one would, or ``None`` where it may be
            dialled.

        Raises:
            ValueError: it is no IP address.
        """
        judged = held_ipv4(ip_address(address.partition("%")[0]))
        shown = address if str(judged) == address else f"{address} ({judged})"
        if self._is_own(judged, port):
            return f"Port {port} of {shown} is not dialled: hookgw itself listens there."
        if any(judged in network for network in self._allowed):
            return None
        reason = next(_reasons(judged), None)
        if reason is None:
            return None
        return (
            f"Port {port} of {shown} is not dialled: the address is {reason}. "
            f'To allow it, set delivery.allow_networks: ["{ip_network(judged)}"].'
        )


def parse_network(text: str) -> Network:
    """A network, or the network of one address.

    Raises:
        ValueError: a sentence that says what would be right.
    """
    try:
        return ip_network(text)
    except ValueError:
        pass
    try:
        meant = ip_network(text, strict=False)
    except ValueError:
        raise ValueError(f"{text!r} is no network such as 10.1.2.0/24, 127.0.0.1 or fd00::/8.") from None
    raise ValueError(f"{text!r} has bits set beyond its prefix; write {str(meant)!r} or a single address.")


def held_ipv4(address: Address) -> Address:
    """The IPv4 address in one that is mapped, or translated by NAT64; any other as it is."""
    if isinstance(address, IPv6Address) and any(address in network for network in _HOLD_IPV4):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def _held_network(network: Network) -> Network:
    """The same for a network, so that both are compared in the same form."""
    if isinstance(network, IPv6Network) and any(network.subnet_of(holding) for holding in _HOLD_IPV4):
        return IPv4Network((int(network.network_address) & 0xFFFFFFFF, network.prefixlen - 96))
    return network


def _reasons(address: Address) -> Iterator[str]:
    for network, why in _REFUSED:
        if address in network:
            yield f"{why} ({network})"
    if isinstance(address, IPv6Address) and int(address) >> 32 & 0xFFFFFFFF in _ISATAP_IDS:
        yield "an ISATAP tunnel"
