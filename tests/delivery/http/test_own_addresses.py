"""The addresses on which hookgw itself listens."""

import socket
from ipaddress import ip_address

import pytest

from tests.public.delivery import OwnAddresses, is_local

LOCAL = ("127.0.0.1", "127.9.9.9", "0.0.0.0", "::", "::1", "10.0.0.5", "fe80::5")


def own(*urls: str) -> OwnAddresses:
    addresses = OwnAddresses(lambda address: str(address) in LOCAL)
    addresses.listen_on(urls)
    return addresses


@pytest.mark.parametrize(
    ("url", "address", "port", "reached"),
    [
        ("http://127.0.0.1:8080", "127.0.0.1", 8080, True),
        ("http://127.0.0.1:8080/base", "127.0.0.1", 8080, True),
        ("https://127.0.0.1:8080", "127.0.0.1", 8080, True),
        ("http://127.0.0.1:8080", "127.0.0.1", 8081, False),
        ("http://127.0.0.1:8080", "127.0.0.2", 8080, False),
        ("http://127.0.0.1:8080", "0.0.0.0", 8080, True),
        ("http://10.0.0.5:8080", "0.0.0.0", 8080, False),
        ("http://10.0.0.5:8080", "10.0.0.5", 8080, True),
        ("http://0.0.0.0:8080", "127.9.9.9", 8080, True),
        ("http://0.0.0.0:8080", "10.0.0.5", 8080, True),
        ("http://0.0.0.0:8080", "10.0.0.6", 8080, False),
        ("http://0.0.0.0:8080", "10.0.0.5", 8081, False),
        ("http://[::]:8080", "::1", 8080, True),
        ("http://[::]:8080", "10.0.0.5", 8080, True),
        ("http://[::1]:8080", "::1", 8080, True),
        ("http://[::1]:8080", "::", 8080, True),
        ("http://[::1]:8080", "127.0.0.1", 8080, False),
        ("http://[::ffff:127.0.0.1]:8080", "127.0.0.1", 8080, True),
        ("http://[fe80::5%eth0]:8080", "fe80::5", 8080, True),
        ("http://127.0.0.1", "127.0.0.1", 80, True),
        ("https://127.0.0.1", "127.0.0.1", 443, True),
        ("unix:/run/hookgw.sock", "127.0.0.1", 80, False),
    ],
)
def test_which_addresses_reach_hookgw(url: str, address: str, port: int, reached: bool) -> None:
    assert own(url).includes(ip_address(address), port) == reached


def test_listening_addresses_are_replaced() -> None:
    addresses = own("http://127.0.0.1:1", "http://127.0.0.1:2")
    assert addresses.includes(ip_address("127.0.0.1"), 1)
    assert addresses.includes(ip_address("127.0.0.1"), 2)
    addresses.listen_on(["http://127.0.0.1:3"])
    assert not addresses.includes(ip_address("127.0.0.1"), 1)
    assert addresses.includes(ip_address("127.0.0.1"), 3)


@pytest.mark.parametrize("address", ["127.0.0.1", "127.9.9.9", "0.0.0.0", "::1", "::", "fe80::1"])
def test_every_machine_has_these_addresses(address: str) -> None:
    assert is_local(ip_address(address))


@pytest.mark.parametrize("address", ["192.0.2.1", "2001:db8::1"])
def test_no_machine_has_these_addresses(address: str) -> None:
    assert not is_local(ip_address(address))


def own_address() -> str:
    """Return an address of this machine other than loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as trial:
        try:
            trial.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this machine has no address beside loopback")
        return str(trial.getsockname()[0])


@pytest.mark.parametrize("any_address_binds", [False, True])
def test_an_address_of_this_machine(monkeypatch: pytest.MonkeyPatch, any_address_binds: bool) -> None:
    """Some machines let programs bind to any address (``net.ipv4.ip_nonlocal_bind``)."""
    if any_address_binds:
        monkeypatch.setattr("hookgw.delivery.http.own_addresses.can_bind", lambda _: True)
    assert is_local(ip_address(own_address()))
    assert not is_local(ip_address("192.0.2.7"))
    assert not is_local(ip_address("2001:db8::7"))
