from __future__ import annotations

import pytest

from hookgw.auth.fleet_secret import VALID_FOR, FleetSecret

NOW = 1_700_000_000.5
TARGET = b"/instance/connect/shop?x=1"


@pytest.mark.parametrize("client", ["127.0.0.1", "2001:db8::1", ""])
def test_a_node_knows_what_another_has_forwarded(client: str) -> None:
    value = FleetSecret("a secret").sign("GET", TARGET, client, NOW)
    assert FleetSecret("a secret").client_of(value, "GET", TARGET, NOW + 60) == client
    assert b"a secret" not in value


def test_nothing_of_it_can_be_changed() -> None:
    secret = FleetSecret("a secret")
    value = secret.sign("GET", TARGET, "127.0.0.1", NOW)
    assert secret.client_of(value, "POST", TARGET, NOW) is None
    assert secret.client_of(value, "GET", b"/instance/connect/bank", NOW) is None
    assert secret.client_of(value.replace(b"127.0.0.1", b"127.0.0.2"), "GET", TARGET, NOW) is None
    assert FleetSecret("another").client_of(value, "GET", TARGET, NOW) is None


def test_it_is_valid_for_a_while_on_clocks_that_differ() -> None:
    secret = FleetSecret("a secret")
    value = secret.sign("GET", TARGET, "", NOW)
    for apart in (-VALID_FOR, VALID_FOR):
        assert secret.client_of(value, "GET", TARGET, NOW + apart * 0.99) == ""
        assert secret.client_of(value, "GET", TARGET, NOW + apart * 1.01) is None


@pytest.mark.parametrize("value", [b"", b";", b";;", b"1;2", b"x;127.0.0.1;abc", b"\xff;\xff;\xff"])
def test_other_values_are_nobodys(value: bytes) -> None:
    assert FleetSecret("a secret").client_of(value, "GET", TARGET, NOW) is None
