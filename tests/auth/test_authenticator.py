"""The authenticator with its limits."""

import pytest

from tests.public.auth import Authenticator, Keyring, RateLimits
from tests.public.config import AuthSettings
from tests.public.kernel import Duration, TooManyRequests
from tests.public.records import Key

HERE = "192.0.2.1"


class Door(Authenticator):
    def __init__(self, *, rate: int = 0, attempts: int = 0) -> None:
        self.time = 1000.0
        ring = Keyring(b"salt", self.now, RateLimits(rate, 0, self.now))
        ring.add_global(Key(name="ops", hash=ring.hash("ops-key")))
        ring.add_instance("shop", [Key(name="default", hash=ring.hash("shop-key"))])
        self.ring = ring
        settings = AuthSettings(failed_attempts=attempts, failed_window=Duration(60))
        self.limits: list[str] = []
        super().__init__(ring, settings, self.now, self.limits.append)

    def now(self) -> float:
        return self.time


def test_a_known_key() -> None:
    holder = Door(attempts=1).authenticate("shop-key", HERE)
    assert holder is not None
    assert (holder.principal.instance, holder.key.name) == ("shop", "default")


@pytest.mark.parametrize("key", [None, ""])
def test_no_key_is_no_attempt(key: str | None) -> None:
    door = Door(attempts=1)
    assert [door.authenticate(key, HERE) for _ in range(5)] == [None] * 5
    assert door.authenticate("shop-key", HERE) is not None


def test_an_address_that_waits_may_send_requests_without_a_key() -> None:
    door = Door(attempts=1)
    door.authenticate("wrong", HERE)
    with pytest.raises(TooManyRequests):
        door.authenticate("wrong", HERE)
    assert door.authenticate(None, HERE) is None
    assert door.limits == ["failed_attempts"]


def test_an_address_is_checked_without_counting_an_attempt() -> None:
    door = Door(attempts=2)
    for _ in range(3):
        door.check_address(HERE)
    door.authenticate("wrong", HERE)
    door.authenticate("wrong", HERE)
    with pytest.raises(TooManyRequests):
        door.check_address(HERE)
    assert door.limits == ["failed_attempts"]
    door.check_address("192.0.2.2")
    door.check_address(None)
    door.time += 60
    door.check_address(HERE)


def test_a_refused_link_counts_like_a_refused_key() -> None:
    door = Door(attempts=1)
    door.note_failure(HERE)
    with pytest.raises(TooManyRequests):
        door.note_failure(HERE)
    assert door.limits == ["failed_attempts"]


@pytest.mark.parametrize(("attempts", "address"), [(0, HERE), (1, None)])
def test_failures_that_are_not_limited(attempts: int, address: str | None) -> None:
    door = Door(attempts=attempts)
    assert [door.authenticate("wrong", address) for _ in range(100)] == [None] * 100
    for _ in range(100):
        door.note_failure(address)
    door.check_address(address)
    assert door.authenticate("shop-key", address) is not None


def test_a_revoked_key_fails_like_a_wrong_one() -> None:
    door = Door(attempts=1)
    holder = door.authenticate("shop-key", HERE)
    assert holder is not None
    door.ring.remove("shop", [holder.key])
    assert door.authenticate("shop-key", HERE, known=holder) is None
    with pytest.raises(TooManyRequests):
        door.authenticate("shop-key", HERE)


def test_the_rate_of_a_key() -> None:
    door = Door(rate=2)
    assert all(door.authenticate("shop-key", None) for _ in range(4))
    with pytest.raises(TooManyRequests, match="This key makes too many requests") as caught:
        door.authenticate("shop-key", HERE)
    assert caught.value.retry_after == 0.5
    assert door.limits == ["key_rate"]
    assert all(door.authenticate("ops-key", None) for _ in range(100))
    door.time += 0.5
    assert door.authenticate("shop-key", None) is not None


def test_nodes_of_a_fleet_divide_both_limits() -> None:
    door = Door(rate=2, attempts=2)
    door.divide(2)
    door.authenticate("wrong", HERE)
    with pytest.raises(TooManyRequests, match="Too many wrong keys"):
        door.authenticate("wrong", HERE)
    assert all(door.authenticate("shop-key", None) for _ in range(2))
    with pytest.raises(TooManyRequests, match="This key makes too many requests"):
        door.authenticate("shop-key", None)
    without = Door()
    without.divide(2)
    assert without.authenticate("shop-key", HERE) is not None


def test_keys_made_with_a_key_share_its_rate() -> None:
    door = Door(rate=2)
    made = Key(name="more", hash=door.ring.hash("more"), origin="default")
    apart = Key(name="apart", hash=door.ring.hash("apart"))
    door.ring.add_instance("shop", [made, apart])
    assert all(door.authenticate(key, None) for key in ("shop-key", "more") * 2)
    for key in ("shop-key", "more"):
        with pytest.raises(TooManyRequests):
            door.authenticate(key, None)
    assert door.authenticate("apart", None) is not None


def test_global_keys_have_a_rate_each() -> None:
    time = 1000.0
    ring = Keyring(b"salt", lambda: time, RateLimits(0, 1, lambda: time))
    for name in ("ops", "more"):
        ring.add_global(Key(name=name, hash=ring.hash(name), origin="configuration"))
    door = Authenticator(ring, AuthSettings(), lambda: time, print)
    for name in ("ops", "more"):
        assert all(door.authenticate(name, None) for _ in range(2))
        with pytest.raises(TooManyRequests):
            door.authenticate(name, None)
