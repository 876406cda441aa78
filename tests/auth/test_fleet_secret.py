import pytest

from tests.public.auth import FLEET_SECRET_VALID_FOR as VALID_FOR
from tests.public.auth import FleetSecret, Origin

NOW = 1_700_000_000.5
TARGET = b"/instance/connect/shop?x=1"


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("client", ["127.0.0.1", "2001:db8::1", "", "odd;one"])
def test_a_node_knows_what_another_has_forwarded(client: str, scheme: str) -> None:
    value = FleetSecret("a secret").sign("GET", TARGET, Origin(client, scheme), NOW)
    assert FleetSecret("a secret").origin_of(value, "GET", TARGET, NOW + 60) == (client, scheme, ())
    assert b"a secret" not in value


@pytest.mark.parametrize(
    "named", [("ana@acme.example",), ("",), ("ana", "bob"), ("a, b;c d%",), ("José 日",), ("\udcff",)]
)
def test_a_node_knows_whom_the_proxy_of_another_names(named: tuple[str, ...]) -> None:
    value = FleetSecret("a secret").sign("GET", TARGET, Origin("192.0.2.1", "https", named), NOW)
    assert FleetSecret("a secret").origin_of(value, "GET", TARGET, NOW) == ("192.0.2.1", "https", named)
    assert FleetSecret("a secret").origin_of(value.replace(b"192", b"193"), "GET", TARGET, NOW) is None


def test_nothing_of_it_can_be_changed() -> None:
    secret = FleetSecret("a secret")
    value = secret.sign("GET", TARGET, Origin("127.0.0.1", "http"), NOW)
    assert secret.origin_of(value, "POST", TARGET, NOW) is None
    assert secret.origin_of(value, "GET", b"/instance/connect/bank", NOW) is None
    assert secret.origin_of(value.replace(b"127.0.0.1", b"127.0.0.2"), "GET", TARGET, NOW) is None
    assert secret.origin_of(value.replace(b"http", b"https"), "GET", TARGET, NOW) is None
    assert FleetSecret("another").origin_of(value, "GET", TARGET, NOW) is None


def test_it_is_valid_for_a_while_on_clocks_that_differ() -> None:
    secret = FleetSecret("a secret")
    value = secret.sign("GET", TARGET, Origin("", "http"), NOW)
    for apart in (-VALID_FOR, VALID_FOR):
        assert secret.origin_of(value, "GET", TARGET, NOW + apart * 0.99) == ("", "http", ())
        assert secret.origin_of(value, "GET", TARGET, NOW + apart * 1.01) is None


@pytest.mark.parametrize("value", [b"", b";", b";;", b"1;2", b"x;127.0.0.1;abc", b"\xff;\xff;\xff"])
def test_other_values_are_nobodys(value: bytes) -> None:
    assert FleetSecret("a secret").origin_of(value, "GET", TARGET, NOW) is None
