"""Hosts in every spelling that browsers understand."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.public.kernel import parse_host


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("example.com", "example.com"),
        ("EXAMPLE.Com", "example.com"),
        ("example.com.", "example.com."),
        ("my_service", "my_service"),
        ("ex%61mple.com", "example.com"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("BÜCHER.example", "xn--bcher-kva.example"),
        ("b%C3%BCcher.example", "xn--bcher-kva.example"),
        ("straße.example", "xn--strae-oqa.example"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("ｅｘａｍｐｌｅ．ｃｏｍ", "example.com"),
        ("ⓛⓞⓒⓐⓛⓗⓞⓢⓣ", "localhost"),
        ("1.2.3.4a", "1.2.3.4a"),
        ("a" * 63 + ".example", "a" * 63 + ".example"),
        ("a." * 126 + "a", "a." * 126 + "a"),
    ],
)
def test_names(text: str, host: str) -> None:
    assert parse_host(text) == host


@pytest.mark.parametrize(
    "text",
    [
        "127.0.0.1",
        "127.0.0.1.",
        "127.1",
        "127.0.1",
        "2130706433",
        "0x7f000001",
        "0X7F.1",
        "0x7f.0x0.0x0.0x1",
        "0177.0.0.1",
        "017700000001",
        "0x7f.0.0.01",
        "１２７.0.0.1",
        "①②⑦.⓪.⓪.①",
        "127。0。0。1",
        "%31%32%37.0.0.1",
        "%EF%BC%91%EF%BC%92%EF%BC%97.0.0.1",
    ],
)
def test_every_spelling_of_an_address_is_that_address(text: str) -> None:
    assert parse_host(text) == "127.0.0.1"


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("0", "0.0.0.0"),
        ("0x", "0.0.0.0"),
        ("4294967295", "255.255.255.255"),
        ("1.16777215", "1.255.255.255"),
        ("1.2.65535", "1.2.255.255"),
        ("[::1]", "::1"),
        ("[::ffff:7f00:1]", str(ipaddress.IPv6Address("::ffff:7f00:1"))),
        ("[2001:DB8:0:0::1]", "2001:db8::1"),
        ("[::ffff:127.0.0.1]", str(ipaddress.IPv6Address("::ffff:7f00:1"))),
    ],
)
def test_other_addresses(text: str, host: str) -> None:
    assert parse_host(text) == host


@pytest.mark.parametrize(
    "text",
    [
        "4294967296",
        "256.1.1.1",
        "1.256.1.1",
        "1.16777216",
        "1.2.65536",
        "1.2.3.256",
        "1.2.3.4.5",
        "1.2.3.09",
        "0x7g.0x1",
        "1..2",
        "a.1",
        "0xffffffffff",
        "a..b",
        ".a",
        "..",
        "-%20-",
        "a*b",
        "a/b",
        "a:b",
        "%ff",
        "%00",
        "a%0Ab",
        "a_{x}",
        "⒈com",
        "xn--ü",
        "[::1",
        "[::g]",
        "[1.2.3.4]",
        "[fe80::1%25eth0]",
    ],
)
def test_malformed_hosts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".\.$"):
        parse_host(text)


@pytest.mark.parametrize("text", ["a" * 64, "a." * 127 + "a", "", ".", "0" * 65])
def test_lengths(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a host name|not an IPv4 address"):
        parse_host(text)


@given(st.ip_addresses(v=4), st.sampled_from(["{}", "0x{:x}", "0{:o}"]), st.integers(1, 4))
def test_any_form_of_any_ipv4_address(address: ipaddress.IPv4Address, form: str, parts: int) -> None:
    packed = address.packed
    numbers = [*packed[: parts - 1], int.from_bytes(packed[parts - 1 :], "big")]
    assert parse_host(".".join(map(form.format, numbers))) == str(address)


@given(st.ip_addresses(v=6))
def test_any_ipv6_address(address: ipaddress.IPv6Address) -> None:
    assert parse_host(f"[{address.exploded}]") == str(address)


@given(st.text(max_size=40))
def test_a_host_is_plain_and_stays_as_it_is(text: str) -> None:
    try:
        host = parse_host(text)
    except ValueError:
        return
    assert host.isascii()
    assert host == host.lower()
    assert not set(host) & set("/@?#%[] \\")
    assert parse_host(f"[{host}]" if ":" in host else host) == host
