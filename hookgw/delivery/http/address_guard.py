"""The address guard decides which addresses and ports hookgw may dial. No I/O.

Callback URLs come from outside, so they must not reach what only this machine or its network can reach.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from hookgw.config.refused_ports import REFUSED_PORTS
from hookgw.kernel.schemes import is_port_of_plugin

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# From the IANA special-purpose address registries (RFC 6890). ipaddress.is_global lets tunnels and translated
# forms of private addresses through, among others ::7f00:1 and 64:ff9b::a9fe:a9fe, and 6to4 addresses that
# contain 127.0.0.1 on Python 3.11 and 3.12.
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
# The rest of IPv6 is not assigned, so a network may route it wherever it likes: only global unicast addresses
# (RFC 4291, section 2.4) may be dialled at all.
_GLOBAL_UNICAST = IPv6Network("2000::/3")
# Inside 2000::/3 this list refuses; outside it only names the reason. All of 2001::/23 is refused: what
# the registry calls reachable in it is anycast to the nearest NAT or relay, or cannot be a host.
_REFUSED_IPV6 = {
    "::1/128": "loopback",
    "::/8": "reserved",
    "64:ff9b:1::/48": "translated to a local IPv4 address",
    "100::/64": "discarded",
    "100:0:0:1::/64": "a dummy prefix",
    "2001::/32": "a Teredo tunnel",
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
    (ip_network(network), reason) for network, reason in (_REFUSED_IPV4 | _REFUSED_IPV6).items()
]
# IPv4-mapped addresses (RFC 4291, section 2.5.5.2) and those translated by NAT64 (RFC 6052).
_MAPPED, _NAT64 = IPv6Network("::ffff:0:0/96"), IPv6Network("64:ff9b::/96")
# The interface identifiers that end in an IPv4 address, local and global (RFC 5214, section 6.1).
_ISATAP_IDS = (0x00005EFE, 0x02005EFE)


class AddressGuard:
    """Decides whether an address may be dialled.

    Args:
        allow_networks: networks or addresses that are allowed although they are on the list, as in
            ``delivery.allow_networks``: ``10.1.2.0/24``, ``127.0.0.1``, ``fd00::/8``. An IPv4 network also
            allows the IPv6 addresses that embed its addresses. A network of NAT64 addresses allows these
            alone: they are reached through the translator, and not directly.
        is_own_address: whether hookgw itself listens at an address and port. Such a place is refused in an
            allowed network too. It is asked for the IPv4 address that an IPv6 address embeds.

    Raises:
        ValueError: a network is invalid. The configuration is checked before, with better messages.
    """

    def __init__(
        self,
        allow_networks: Sequence[str] = (),
        *,
        refused_ports: Collection[int] = tuple(REFUSED_PORTS),
        is_own_address: Callable[[Address, int], bool] = lambda _address, _port: False,
    ) -> None:
        self._allowed: list[Network] = []
        self._allowed_nat64: list[IPv6Network] = []
        for network in map(ip_network, allow_networks):
            # Judged addresses are unwrapped to IPv4, so ::ffff:10.0.0.0/104 has to become 10.0.0.0/8. Both
            # name the same hosts, while 64:ff9b::/96 as 0.0.0.0/0 would open this machine itself.
            if isinstance(network, IPv6Network) and network.subnet_of(_MAPPED):
                ipv4 = (int(network.network_address) & 0xFFFFFFFF, network.prefixlen - 96)
                self._allowed.append(IPv4Network(ipv4))
            elif isinstance(network, IPv6Network) and network.subnet_of(_NAT64):
                self._allowed_nat64.append(network)
            else:
                self._allowed.append(network)
        self._refused_ports = refused_ports
        self._is_own_address = is_own_address

    def port_refusal(self, port: int, scheme: str = "") -> str | None:
        """Return why a port is refused, with the setting that would allow it; ``None`` if it is allowed.

        The standard port of a plugin's scheme is allowed for URLs of that scheme.
        """
        if port not in self._refused_ports or is_port_of_plugin(scheme, port):
            return None
        service = f" ({REFUSED_PORTS[port]})" if port in REFUSED_PORTS else ""
        return (
            f"Port {port} is not dialled: it is on the list of refused ports{service}. "
            f"To allow it, leave {port} out of delivery.refused_ports."
        )

    def known_refusal(self, host: str, port: int, scheme: str = "") -> str | None:
        """Return why a host is refused without a lookup, by its port or literal address; else ``None``."""
        if (refusal := self.port_refusal(port, scheme)) is not None:
            return refusal
        try:
            return self.refusal(host, port)
        except ValueError:
            return None

    def refusal(self, address: str, port: int) -> str | None:
        """Return why the address must not be dialled, with the setting that would allow it if there is one.

        ``None`` if it may be.

        The port is named in the reason, and checked only for hookgw's own addresses; see
        :meth:`port_refusal`.

        Args:
            address: an IP address as returned by ``getaddrinfo``, perhaps with an IPv6 zone.

        Raises:
            ValueError: this is not an IP address.
        """
        given = ip_address(address.partition("%")[0])
        judged = embedded_ipv4(given)
        shown = address if str(judged) == address else f"{address} ({judged})"
        # Before the allowed networks: a gateway that calls itself would loop whatever the operator allows.
        if self._is_own_address(judged, port):
            return f"Port {port} of {shown} is not dialled: hookgw itself listens there."
        # The system has to know by which interface; whatever the operator allows.
        if isinstance(given, IPv6Address) and given.is_link_local and "%" not in address:
            return (
                f"Port {port} of {shown} is not dialled: the address is link-local (fe80::/10). It needs a "
                "zone, which URLs do not have: use another address of the host, or a name."
            )
        if any(judged in network for network in self._allowed):
            return None
        if any(given in network for network in self._allowed_nat64):
            return None
        reason = next((f"{reason} ({network})" for network, reason in _REFUSED if judged in network), None)
        if reason is None and isinstance(judged, IPv6Address):
            if judged not in _GLOBAL_UNICAST:
                reason = f"not global unicast (outside {_GLOBAL_UNICAST})"
            # ISATAP can appear under any prefix, so no network of the list can name it. It tunnels to the
            # IPv4 address in it, past this guard.
            elif int(judged) >> 32 & 0xFFFFFFFF in _ISATAP_IDS:
                reason = "an ISATAP tunnel"
        if reason is None:
            return None
        return (
            f"Port {port} of {shown} is not dialled: the address is {reason}. "
            f'To allow it, set delivery.allow_networks: ["{ip_network(judged)}"].'
        )


def embedded_ipv4(address: Address) -> Address:
    """Return the IPv4 address that an IPv6 address embeds (mapped or NAT64); any other address unchanged."""
    if isinstance(address, IPv6Address) and (address in _MAPPED or address in _NAT64):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address
