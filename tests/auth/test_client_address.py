import pytest

from tests.public.auth import TrustedProxies, rate_limit_key


@pytest.mark.parametrize(
    ("address", "source"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8::ffff:ffff:ffff:ffff", "2001:db8::/64"),
        ("2001:db8:0:1::1", "2001:db8:0:1::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::1", "::/64"),
        ("nonsense", "nonsense"),
    ],
)
def test_the_key_for_rate_limits(address: str, source: str) -> None:
    assert rate_limit_key(address) == source


@pytest.mark.parametrize(
    ("peer", "trusted"),
    [
        ("10.0.0.1", True),
        ("10.0.1.0", False),
        ("::ffff:10.0.0.1", True),
        ("fd00::7", True),
        ("fd01::7", False),
        ("fe80::1%eth0", False),
        ("nonsense", False),
        (None, False),
    ],
)
def test_trusted_peers(peer: str | None, trusted: bool) -> None:
    assert TrustedProxies(["10.0.0.0/24", "fd00::/64"]).trusts(peer) is trusted


def test_unix_sockets_are_trusted_if_listed() -> None:
    assert TrustedProxies(["unix"]).trusts(None)
    assert not TrustedProxies(["unix"]).trusts("127.0.0.1")
    assert TrustedProxies(["unix"]).client_of(None, ["192.0.2.1"]) == "192.0.2.1"
    assert TrustedProxies(["127.0.0.0/8"]).client_of(None, ["192.0.2.1"]) is None


@pytest.mark.parametrize(
    ("forwarded", "client"),
    [
        ([], "10.0.0.1"),
        (["192.0.2.1"], "192.0.2.1"),
        (["203.0.113.9, 192.0.2.1"], "192.0.2.1"),
        (["203.0.113.9", "192.0.2.1"], "192.0.2.1"),
        (["192.0.2.1, 10.0.0.7"], "192.0.2.1"),
        (["192.0.2.1,10.0.0.7\t, 10.0.0.8"], "192.0.2.1"),
        (["10.0.0.6, 10.0.0.7"], "10.0.0.6"),
        (["2001:db8::1"], "2001:db8::1"),
        (["[2001:db8::1]"], "2001:db8::1"),
        (["[2001:db8::1]:4711"], "2001:db8::1"),
        (["192.0.2.1:4711"], "192.0.2.1"),
        (["::ffff:192.0.2.1"], "192.0.2.1"),
        (["fe80::1%eth0"], "fe80::1"),
        (["nonsense, 192.0.2.1"], "192.0.2.1"),
        (["nonsense"], "10.0.0.1"),
        (["192.0.2.1, nonsense"], "10.0.0.1"),
        (["192.0.2.1, nonsense, 10.0.0.7"], "10.0.0.1"),
        (["192.0.2.1,"], "10.0.0.1"),
        (["192.0.2.1, , 10.0.0.7"], "10.0.0.1"),
        (["192.0.2.1:port"], "10.0.0.1"),
        (["unknown"], "10.0.0.1"),
        (["0x7f.1"], "10.0.0.1"),
        (["192.0.2.1/32"], "10.0.0.1"),
    ],
)
def test_the_client_behind_a_trusted_proxy(forwarded: list[str], client: str) -> None:
    assert TrustedProxies(["10.0.0.0/24"]).client_of("10.0.0.1", forwarded) == client


def test_untrusted_peers_cannot_name_a_client() -> None:
    assert TrustedProxies(["10.0.0.0/24"]).client_of("192.0.2.9", ["192.0.2.1"]) == "192.0.2.9"
    assert TrustedProxies([]).client_of("127.0.0.1", ["192.0.2.1"]) == "127.0.0.1"
