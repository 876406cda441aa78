"""The address guard: both ends of each network of the list, and every way to disguise an address."""

import ipaddress
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.public.config import REFUSED_PORTS
from tests.public.delivery import AddressGuard

REFUSED_IPV4 = [
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.0.2.0/24",
    "192.88.99.0/24",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "224.0.0.0/4",
    "240.0.0.0/4",
]
REFUSED_IPV6 = [
    # All that is not global unicast (RFC 4291, section 2.4).
    "::/3",
    "4000::/2",
    "8000::/1",
    # The rows of the IANA registry below it, in one piece where one contains others.
    "2001::/23",
    "2001:db8::/32",
    "2002::/16",
    "3fff::/20",
]
REFUSED = [ipaddress.ip_network(text) for text in REFUSED_IPV4 + REFUSED_IPV6]

# https://www.iana.org/assignments/iana-ipv6-special-registry/ with its column "Globally Reachable" (true,
# false, or None for N/A), and an address to try.
REGISTRY = [
    ("::1/128", False, "::1"),
    ("::/128", False, "::"),
    ("::ffff:0:0/96", False, "::ffff:10.0.0.1"),
    ("64:ff9b::/96", True, "64:ff9b::808:808"),
    ("64:ff9b:1::/48", False, "64:ff9b:1::808:808"),
    ("100::/64", False, "100::1"),
    ("100:0:0:1::/64", False, "100:0:0:1::1"),
    ("2001::/23", False, "2001:1ff::1"),
    ("2001::/32", None, "2001:0:4136:e378:8000:63bf:3fff:fdd2"),
    ("2001:1::1/128", True, "2001:1::1"),
    ("2001:1::2/128", True, "2001:1::2"),
    ("2001:1::3/128", True, "2001:1::3"),
    ("2001:2::/48", False, "2001:2::1"),
    ("2001:3::/32", True, "2001:3::1"),
    ("2001:4:112::/48", True, "2001:4:112::1"),
    ("2001:10::/28", None, "2001:10::1"),
    ("2001:20::/28", True, "2001:20::1"),
    ("2001:30::/28", True, "2001:30::1"),
    ("2001:db8::/32", False, "2001:db8::1"),
    ("2002::/16", None, "2002:808:808::1"),
    ("2620:4f:8000::/48", True, "2620:4f:8000::1"),
    ("3fff::/20", False, "3fff:fff::1"),
    ("5f00::/16", False, "5f00::1"),
    ("fc00::/7", False, "fd00::1"),
    ("fe80::/10", False, "fe80::1"),
]
# Reachable, but no place for a receiver: anycast to the nearest NAT, relay or registrar, and identifiers that
# no packet can be sent to.
NO_RECEIVERS = {
    "2001:1::1/128",
    "2001:1::2/128",
    "2001:1::3/128",
    "2001:3::/32",
    "2001:4:112::/48",
    "2001:20::/28",
    "2001:30::/28",
}

guard = AddressGuard()


@pytest.mark.parametrize("network", REFUSED, ids=str)
def test_both_ends_of_each_network_are_refused(network: ipaddress.IPv4Network) -> None:
    for address in (network[0], network[-1]):
        if address not in ipaddress.ip_network("::ffff:0:0/96"):
            assert guard.refusal(str(address), 80)


@pytest.mark.parametrize(("row", "reachable", "address"), REGISTRY, ids=[row for row, *_ in REGISTRY])
def test_the_registry_of_special_ipv6_addresses(row: str, reachable: bool | None, address: str) -> None:
    assert ipaddress.ip_address(address) in ipaddress.ip_network(row)
    allowed = bool(reachable) and row not in NO_RECEIVERS
    assert (guard.refusal(address, 443) is None) == allowed


@pytest.mark.parametrize(
    ("network", "reason"),
    [
        ("200::/7", "not global unicast (outside 2000::/3)"),
        ("400::/6", "not global unicast (outside 2000::/3)"),
        ("800::/5", "not global unicast (outside 2000::/3)"),
        ("1000::/4", "not global unicast (outside 2000::/3)"),
        ("4000::/3", "not global unicast (outside 2000::/3)"),
        ("6000::/3", "not global unicast (outside 2000::/3)"),
        ("8000::/3", "not global unicast (outside 2000::/3)"),
        ("a000::/3", "not global unicast (outside 2000::/3)"),
        ("c000::/3", "not global unicast (outside 2000::/3)"),
        ("e000::/4", "not global unicast (outside 2000::/3)"),
        ("f000::/5", "not global unicast (outside 2000::/3)"),
        ("f800::/6", "not global unicast (outside 2000::/3)"),
        ("fc00::/7", "private (fc00::/7)"),
        ("fe00::/9", "not global unicast (outside 2000::/3)"),
        ("fe80::/10", "link-local (fe80::/10)"),
        ("fec0::/10", "site-local (fec0::/10)"),
        ("ff00::/8", "multicast (ff00::/8)"),
        ("::/8", "reserved (::/8)"),
        ("5f00::/16", "for segment routing (5f00::/16)"),
        ("2001::/32", "a Teredo tunnel (2001::/32)"),
        ("2002::/16", "a 6to4 tunnel (2002::/16)"),
    ],
)
def test_the_reason_at_both_ends_of_a_network(network: str, reason: str) -> None:
    # The first addresses of ::/8 have reasons of their own; an ISATAP identifier has too.
    for address in (ipaddress.ip_network(network)[1 << 40], ipaddress.ip_network(network)[-1]):
        refusal = guard.refusal(str(address), 443)
        assert refusal is not None
        assert f"the address is {reason}." in refusal


@pytest.mark.parametrize(
    "address",
    [
        "1.0.0.0",
        "9.255.255.255",
        "11.0.0.0",
        "100.63.255.255",
        "100.128.0.0",
        "126.255.255.255",
        "128.0.0.0",
        "169.253.255.255",
        "169.255.0.0",
        "172.15.255.255",
        "172.32.0.0",
        "191.255.255.255",
        "192.0.1.0",
        "192.0.3.0",
        "192.88.98.255",
        "192.88.100.0",
        "192.167.255.255",
        "192.169.0.0",
        "198.17.255.255",
        "198.20.0.0",
        "198.51.99.255",
        "198.51.101.0",
        "203.0.112.255",
        "203.0.114.0",
        "223.255.255.255",
        "8.8.8.8",
        "64:ff9b::808:808",
        "::ffff:8.8.8.8",
        "2606:4700::1111",
        "2000::",
        "2000:ffff::1",
        "2001:200::",
        "2001:db7:ffff::1",
        "2001:db9::",
        "2003::",
        "2a00:1450:4001::1",
        "3ffe:ffff::",
        "3ffe:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        "3fff:1000::",
        "3fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
    ],
)
def test_the_neighbours_of_refused_networks_are_allowed(address: str) -> None:
    assert guard.refusal(address, 443) is None


@pytest.mark.parametrize(
    "address",
    [
        "::",
        "::1",
        "::7f00:1",
        "::ffff:0:7f00:1",
        "::ffff:7f00:1",
        "::ffff:10.0.0.1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b::7f00:1",
        "64:ff9b:1::808:808",
        "2002:7f00:1::",
        "2002:808:808::",
        "fec0::1",
        "fe80::1",
        "fe80::1%eth0",
        "2606:4700::5efe:a00:1",
        "2606:4700::200:5efe:808:808",
        "2a00:1450:1:2:0:5efe:7f00:1",
        "ff02::1",
        "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    ],
)
def test_private_addresses_in_disguise_are_refused(address: str) -> None:
    assert guard.refusal(address, 80)


@given(st.ip_addresses(v=4))
def test_an_embedded_ipv4_address_decides(address: ipaddress.IPv4Address) -> None:
    refused = guard.refusal(str(address), 80) is not None
    assert refused == any(address in network for network in REFUSED)
    for prefix in ("::ffff:", "64:ff9b::"):
        assert (guard.refusal(f"{prefix}{address}", 80) is not None) == refused


@given(st.ip_addresses(v=6).filter(lambda address: int(address) >> 32 not in (0xFFFF, 0x64FF9B << 64)))
def test_ipv6_is_refused_outside_2000_3_and_for_the_list_and_isatap(address: ipaddress.IPv6Address) -> None:
    isatap = int(address) >> 32 & 0xFDFFFFFF == 0x5EFE
    assert (guard.refusal(str(address), 80) is not None) == (isatap or any(address in net for net in REFUSED))


@pytest.mark.parametrize(
    ("allowed", "address", "passes"),
    [
        ("10.1.2.3/32", "10.1.2.3", True),
        ("10.1.2.3/32", "10.1.2.4", False),
        ("10.1.2.3", "10.1.2.3", True),
        ("10.0.0.0/8", "::ffff:10.9.9.9", True),
        ("10.0.0.0/8", "64:ff9b::10.9.9.9", True),
        ("10.0.0.0/8", "2002:a00:1::", False),
        ("::ffff:10.0.0.0/104", "10.9.9.9", True),
        ("::ffff:10.0.0.0/104", "::ffff:10.9.9.9", True),
        ("::ffff:10.0.0.0/104", "127.0.0.1", False),
        ("64:ff9b::/96", "64:ff9b::10.9.9.9", True),
        ("64:ff9b::/96", "10.9.9.9", False),
        ("64:ff9b::/96", "::ffff:10.9.9.9", False),
        ("64:ff9b::7f00:1", "64:ff9b::7f00:1", True),
        ("64:ff9b::7f00:1", "127.0.0.1", False),
        ("::fffe:0:0/95", "127.0.0.1", False),
        ("::1", "::1", True),
        ("::/0", "127.0.0.1", False),
        ("fe80::/10", "fe80::1%eth0", True),
        ("0.0.0.0/0", "127.0.0.1", True),
        ("200::/7", "200::1", True),
        ("200::/8", "300::1", False),
        ("4000::/3", "5f00::1", True),
        ("2001:db8::/32", "2001:db8::1", True),
    ],
)
def test_allowed_networks_pass(allowed: str, address: str, passes: bool) -> None:
    assert (AddressGuard([allowed]).refusal(address, 80) is None) == passes


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        (
            "127.0.0.1",
            (
                "Port 8080 of 127.0.0.1 is not dialled: the address is loopback (127.0.0.0/8). "
                'To allow it, set delivery.allow_networks: ["127.0.0.1/32"].'
            ),
        ),
        (
            "::ffff:10.1.2.3",
            (
                "Port 8080 of ::ffff:10.1.2.3 (10.1.2.3) is not dialled: "
                "the address is private (10.0.0.0/8). "
                'To allow it, set delivery.allow_networks: ["10.1.2.3/32"].'
            ),
        ),
        (
            "::1",
            (
                "Port 8080 of ::1 is not dialled: the address is loopback (::1/128). "
                'To allow it, set delivery.allow_networks: ["::1/128"].'
            ),
        ),
    ],
)
def test_the_refusal_names_the_setting_that_would_allow_the_address(address: str, sentence: str) -> None:
    assert guard.refusal(address, 8080) == sentence


@given(st.ip_addresses())
def test_the_named_setting_allows_the_address(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    refusal = guard.refusal(str(address), 80)
    if refusal is not None and "needs a zone" not in refusal:
        assert AddressGuard([refusal.split('"')[1]]).refusal(str(address), 80) is None


@pytest.mark.parametrize("allowed", [[], ["fe80::/10"]])
def test_a_link_local_address_needs_a_zone_whatever_is_allowed(allowed: list[str]) -> None:
    guard = AddressGuard(allowed)
    refusal = guard.known_refusal("fe80::2", 80)
    assert refusal is not None
    assert "It needs a zone, which URLs do not have" in refusal
    assert "allow_networks" not in refusal
    # Of a name that the system knows with its interface.
    assert (guard.refusal("fe80::2%eth0", 80) is None) == bool(allowed)


def test_the_refusal_names_the_setting_that_would_allow_the_port() -> None:
    assert AddressGuard(refused_ports=(22, 25, 8081)).port_refusal(25) == (
        "Port 25 is not dialled: it is on the list of refused ports (SMTP). "
        "To allow it, leave 25 out of delivery.refused_ports."
    )
    assert AddressGuard(refused_ports=(8081,)).port_refusal(8081) == (
        "Port 8081 is not dialled: it is on the list of refused ports. "
        "To allow it, leave 8081 out of delivery.refused_ports."
    )


@pytest.mark.parametrize("port", REFUSED_PORTS)
def test_the_named_setting_allows_the_port(port: int) -> None:
    refusal = guard.port_refusal(port)
    assert refusal is not None
    assert refusal.endswith(f"To allow it, leave {port} out of delivery.refused_ports.")
    assert AddressGuard(refused_ports=set(REFUSED_PORTS) - {port}).port_refusal(port) is None


@pytest.mark.parametrize(
    ("host", "port", "why"),
    [
        ("10.1.2.3", 80, 'delivery.allow_networks: ["10.1.2.3/32"]'),
        ("fd00::1", 80, 'delivery.allow_networks: ["fd00::1/128"]'),
        ("crm.example", 5432, "leave 5432 out"),
        ("8.8.8.8", 5432, "leave 5432 out"),
        ("crm.example", 80, None),
        ("8.8.8.8", 80, None),
    ],
)
def test_what_is_refused_without_a_lookup(host: str, port: int, why: str | None) -> None:
    refusal = guard.known_refusal(host, port)
    assert refusal is None if why is None else (why in (refusal or ""))


@pytest.mark.parametrize("port", [1, 80, 443, 8080, 65535])
def test_other_ports_pass(port: int) -> None:
    assert guard.port_refusal(port) is None
    assert AddressGuard(refused_ports=()).port_refusal(22) is None


@pytest.mark.parametrize("address", ["127.0.0.1", "::ffff:127.0.0.1", "64:ff9b::7f00:1"])
def test_own_addresses_are_refused_in_allowed_networks_too(address: str) -> None:
    own = (ipaddress.ip_address("127.0.0.1"), 8080)
    open_guard = AddressGuard(["0.0.0.0/0", "::/0"], is_own_address=lambda *place: place == own)
    shown = address if address == "127.0.0.1" else f"{address} (127.0.0.1)"
    assert (
        open_guard.refusal(address, 8080)
        == f"Port 8080 of {shown} is not dialled: hookgw itself listens there."
    )
    assert open_guard.refusal(address, 8081) is None


def test_invalid_networks_are_refused() -> None:
    for network in ("10.0.0.1/8", "localhost"):
        with pytest.raises(ValueError, match=re.escape(network)):
            AddressGuard([network])


def test_the_guard_accepts_only_addresses() -> None:
    with pytest.raises(ValueError, match="localhost"):
        guard.refusal("localhost", 80)
