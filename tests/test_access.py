"""Keys and whose they are."""

from __future__ import annotations

import pytest

from hookgw.access import GLOBAL, Keyring, Principal, new_key
from hookgw.errors import Forbidden


@pytest.fixture
def keyring() -> Keyring:
    ring = Keyring(b"salt")
    ring.add_global(ring.hash("the-global-key"))
    ring.add_instance("shop", [ring.hash("shop-key-1"), ring.hash("shop-key-2")])
    return ring


@pytest.mark.parametrize(
    ("key", "owner"),
    [
        ("the-global-key", GLOBAL),
        ("shop-key-1", Principal("shop")),
        ("shop-key-2", Principal("shop")),
        ("the-global-key ", None),
        ("THE-GLOBAL-KEY", None),
        ("", None),
        (None, None),
        ("\udcff\ud800", None),
        ("é" * 10_000, None),
    ],
)
def test_whose_a_key_is(keyring: Keyring, key: str | None, owner: Principal | None) -> None:
    assert keyring.authenticate(key) == owner


def test_what_a_principal_may() -> None:
    assert GLOBAL.is_global
    assert GLOBAL.may("shop")
    assert not Principal("shop").is_global
    assert Principal("shop").may("shop")
    assert not Principal("shop").may("Shop")
    assert not Principal("").is_global


def test_the_hash_is_the_installations_own_and_not_the_key(keyring: Keyring) -> None:
    assert keyring.hash("k") == Keyring(b"salt").hash("k")
    assert keyring.hash("k") != Keyring(b"pepper").hash("k")
    assert "shop-key-1" not in keyring.hash("shop-key-1")


def test_a_hash_is_no_key(keyring: Keyring) -> None:
    assert keyring.authenticate(keyring.hash("the-global-key")) is None


def test_removed_keys_open_nothing(keyring: Keyring) -> None:
    keyring.remove([keyring.hash("shop-key-1"), keyring.hash("nobody's")])
    assert keyring.authenticate("shop-key-1") is None
    assert keyring.authenticate("shop-key-2") == Principal("shop")


def test_the_global_key_is_not_lost_to_an_instance(keyring: Keyring) -> None:
    keyring.add_instance("cheeky", [keyring.hash("the-global-key")])
    keyring.remove([keyring.hash("the-global-key")])
    assert keyring.authenticate("the-global-key") == GLOBAL


def test_one_instance_does_not_get_the_key_of_another(keyring: Keyring) -> None:
    keyring.add_instance("other", [keyring.hash("shop-key-1")])
    assert keyring.authenticate("shop-key-1") == Principal("shop")


@pytest.mark.parametrize("key", ["the-global-key", "shop-key-1"])
def test_a_key_that_somebody_has_cannot_be_claimed(keyring: Keyring, key: str) -> None:
    with pytest.raises(Forbidden, match="choose another"), keyring.claiming(key):
        pytest.fail("claimed")


def test_a_key_is_claimed_by_one_at_a_time(keyring: Keyring) -> None:
    with keyring.claiming("fresh-key") as key_hash:
        assert key_hash == keyring.hash("fresh-key")
        assert keyring.authenticate("fresh-key") is None
        with pytest.raises(Forbidden), keyring.claiming("fresh-key"):
            pytest.fail("claimed twice")
    with keyring.claiming("fresh-key"):
        pass


def test_new_keys_are_long_and_differ() -> None:
    keys = {new_key() for _ in range(100)}
    assert len(keys) == 100
    assert all(len(key) == 32 for key in keys)
