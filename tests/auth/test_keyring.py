"""Keys and their holders."""

import pytest

from tests.public.auth import Keyring, RateLimits, new_key
from tests.public.kernel import Forbidden, Sentence
from tests.public.records import Key, Principal, Right, Rights

NOW = 1_000.0
UNUSABLE = Sentence("token.unusable", "Choose another.")


class Ring(Keyring):
    """A keyring on a clock that the test moves."""

    def __init__(self, salt: bytes = b"salt") -> None:
        self.time = NOW
        super().__init__(salt, lambda: self.time, RateLimits(0, 0, float))

    def key(self, key: str, expires_at: float | None = None) -> Key:
        return Key(name=key, hash=self.hash(key), expires_at=expires_at)

    def owner(self, key: str | None) -> Principal | None:
        holder = self.find(key)
        return None if holder is None else holder.principal


@pytest.fixture
def ring() -> Ring:
    ring = Ring()
    ring.add_global(ring.key("the-global-key"))
    ring.add_instance("shop", [ring.key("shop-key-1"), ring.key("shop-key-2", NOW + 10)])
    return ring


@pytest.mark.parametrize(
    ("key", "owner"),
    [
        ("the-global-key", Principal()),
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
def test_the_owner_of_a_key(ring: Ring, key: str | None, owner: Principal | None) -> None:
    assert ring.owner(key) == owner


def test_the_reach_of_a_principal() -> None:
    assert Principal().is_global
    assert Principal().reaches("shop", None)
    assert not Principal("shop").is_global
    assert Principal("shop").reaches("shop", None)
    assert not Principal("shop").reaches("Shop", None)
    assert not Principal("").is_global


def test_a_principal_of_an_instance_never_operates() -> None:
    few = Rights(frozenset({Right.OPERATE, Right.RECEIVE}), "crm")
    assert Principal("shop", rights=few).rights == Rights(frozenset({Right.RECEIVE}), "crm")
    assert Principal("shop").rights == Rights(frozenset(Right) - {Right.OPERATE})
    # A hundred thousand instances have as many keys, and nearly all of them have the same rights.
    assert Principal("shop").rights is Principal("yard").rights


def test_the_hash_depends_on_the_salt(ring: Ring) -> None:
    assert ring.hash("k") == Ring().hash("k")
    assert ring.hash("k") != Ring(b"pepper").hash("k")
    assert "shop-key-1" not in ring.hash("shop-key-1")


def test_the_hash_is_hmac_sha256(ring: Ring) -> None:
    """Another hash would make every stored key useless."""
    assert ring.hash("k") == "0adf6a405b15b87ab6e0ed9c5cacd1e8f196f19c84a72c30d78c8b3a2a6a63b2"


def test_a_hash_is_no_key(ring: Ring) -> None:
    assert ring.owner(ring.hash("the-global-key")) is None


def test_a_key_expires(ring: Ring) -> None:
    holder = ring.find("shop-key-2")
    assert holder is not None
    ring.time = NOW + 9.99
    assert ring.is_held(holder)
    ring.time = NOW + 10
    assert ring.find("shop-key-2") is None
    assert not ring.is_held(holder)
    assert ring.owner("shop-key-1") == Principal("shop")


@pytest.mark.parametrize(
    ("key", "other", "outlives"),
    [(None, None, False), (5.0, None, False), (None, 5.0, True), (6.0, 5.0, True), (5.0, 5.0, False)],
)
def test_which_key_outlives_which(key: float | None, other: float | None, outlives: bool) -> None:
    ring = Ring()
    assert ring.key("a", key).outlives(ring.key("b", other)) is outlives


def test_removed_keys_are_unknown(ring: Ring) -> None:
    holder = ring.find("shop-key-1")
    assert holder is not None
    ring.remove("shop", [holder.key, ring.key("nobody's")])
    assert not ring.is_held(holder)
    assert ring.owner("shop-key-1") is None
    assert ring.owner("shop-key-2") == Principal("shop")


def test_a_holder_that_lost_its_key_does_not_get_it_back_with_the_next_holder(ring: Ring) -> None:
    holder = ring.find("shop-key-1")
    assert holder is not None
    ring.remove("shop", [holder.key])
    ring.add_instance("bar", [holder.key])
    assert not ring.is_held(holder)


def test_a_global_key_is_not_lost_to_an_instance(ring: Ring) -> None:
    key = ring.key("the-global-key")
    ring.add_instance("cheeky", [key])
    ring.remove("cheeky", [key])
    assert ring.owner("the-global-key") == Principal()
    ring.remove(None, [key])
    assert ring.owner("the-global-key") is None


def test_a_global_key_wins_over_an_instances_key(ring: Ring) -> None:
    ring.add_global(ring.key("shop-key-1"))
    assert ring.owner("shop-key-1") == Principal()


def test_one_instance_neither_gets_nor_removes_the_key_of_another(ring: Ring) -> None:
    ring.add_instance("other", [ring.key("shop-key-1")])
    assert ring.owner("shop-key-1") == Principal("shop")
    ring.remove("other", [ring.key("shop-key-1")])
    assert ring.owner("shop-key-1") == Principal("shop")


@pytest.mark.parametrize("key", ["the-global-key", "shop-key-1"])
def test_an_existing_key_cannot_be_claimed(ring: Ring, key: str) -> None:
    with pytest.raises(Forbidden, match="Choose another"), ring.claiming(key, UNUSABLE):
        pytest.fail("claimed")


def test_a_key_is_claimed_by_one_at_a_time(ring: Ring) -> None:
    with ring.claiming("fresh-key", UNUSABLE) as key_hash:
        assert key_hash == ring.hash("fresh-key")
        assert ring.find("fresh-key") is None
        with pytest.raises(Forbidden), ring.claiming("fresh-key", UNUSABLE):
            pytest.fail("claimed twice")
    with ring.claiming("fresh-key", UNUSABLE):
        pass


def test_new_keys_are_long_and_differ() -> None:
    keys = {new_key() for _ in range(100)}
    assert len(keys) == 100
    assert all(len(key) == 32 for key in keys)
