"""Failed attempts, on a clock that the test moves."""

from ipaddress import IPv4Address, IPv6Address

import pytest
from structlog.testing import capture_logs

from tests.public.auth import MAX_FAILING_SOURCES as MAX_SOURCES
from tests.public.auth import MAX_SOURCES_PER_KEY, FailedKeyLimiter, KeyHolder
from tests.public.kernel import TooManyRequests
from tests.public.records import Key, Principal

HERE, THERE = "192.0.2.1", "192.0.2.2"
LIMIT, WINDOW = 3, 60.0


class Attempts(FailedKeyLimiter):
    def __init__(self) -> None:
        self.time = 1000.0
        super().__init__(LIMIT, WINDOW, lambda: self.time, lambda _: None)

    @property
    def sources(self) -> list[str]:
        return list(self.windows)

    def fail(self, address: str = HERE, times: int = 1) -> None:
        for _ in range(times):
            self.check(address, None)

    def refuses(self, holder: KeyHolder | None = None, address: str = HERE) -> float | None:
        """Return the wait in seconds; ``None`` if the attempt is not refused."""
        try:
            self.check(address, holder)
        except TooManyRequests as error:
            return error.retry_after
        return None


@pytest.fixture
def attempts() -> Attempts:
    return Attempts()


def holder() -> KeyHolder:
    return KeyHolder(Principal(), Key(name="a", hash="aa"), None)


def test_an_address_with_too_many_failures_has_to_wait(attempts: Attempts) -> None:
    attempts.fail(times=LIMIT)
    assert attempts.refuses() == WINDOW
    assert attempts.refuses(address=THERE) is None


def test_a_right_key_is_refused_like_a_wrong_one(attempts: Attempts) -> None:
    attempts.fail(times=LIMIT)
    with pytest.raises(TooManyRequests) as wrong:
        attempts.check(HERE, None)
    with pytest.raises(TooManyRequests) as right:
        attempts.check(HERE, holder())
    assert (wrong.value.messages, wrong.value.retry_after) == (right.value.messages, right.value.retry_after)


def test_a_right_key_does_not_reset_failures(attempts: Attempts) -> None:
    own = holder()
    for _ in range(LIMIT):
        attempts.fail()
        assert attempts.refuses(own) is None
    assert attempts.refuses() == WINDOW


def test_a_key_used_from_the_address_before_is_exempt(attempts: Attempts) -> None:
    known = holder()
    attempts.fail(times=LIMIT - 1)
    assert attempts.refuses(known) is None
    attempts.fail()
    assert attempts.refuses(known) is None
    assert attempts.refuses(holder()) == WINDOW
    attempts.fail(THERE, times=LIMIT)
    assert attempts.refuses(known, THERE) == WINDOW


def test_the_wait_ends_with_the_window(attempts: Attempts) -> None:
    attempts.fail()
    attempts.time += 20
    attempts.fail(times=LIMIT - 1)
    assert attempts.refuses() == WINDOW - 20
    attempts.time += 39.5
    assert attempts.refuses() == 0.5
    attempts.time += 0.5
    attempts.fail(times=LIMIT)
    assert attempts.refuses() == WINDOW


def test_refused_attempts_do_not_count(attempts: Attempts) -> None:
    """So each window has room for a key that is right."""
    attempts.fail(times=LIMIT)
    for _ in range(10 * LIMIT):
        attempts.refuses()
    attempts.time += WINDOW
    known = holder()
    assert attempts.refuses(known) is None
    attempts.fail(times=LIMIT)
    assert attempts.refuses(known) is None


def test_failures_in_different_windows_do_not_add_up(attempts: Attempts) -> None:
    for _ in range(10):
        attempts.fail(times=LIMIT - 1)
        assert attempts.refuses(holder()) is None
        attempts.time += WINDOW


def test_it_is_logged_once_per_window(attempts: Attempts) -> None:
    with capture_logs() as logs:
        attempts.fail(times=LIMIT)
        for _ in range(10):
            attempts.refuses()
        attempts.time += WINDOW
        attempts.fail(times=LIMIT)
    assert [(log["source"], log["seconds"]) for log in logs] == [(HERE, 60)] * 2
    assert "server.trusted_proxies" in logs[0]["fix"]  # behind a proxy, it is everybody's address


def test_memory_is_bounded(attempts: Attempts) -> None:
    for number in range(MAX_SOURCES + 100):
        attempts.fail(str(IPv4Address(number)))
    assert len(attempts.sources) == MAX_SOURCES
    assert str(IPv4Address(99)) not in attempts.sources
    assert str(IPv4Address(100)) in attempts.sources


def test_ended_windows_are_removed(attempts: Attempts) -> None:
    attempts.fail(HERE)
    attempts.time += 1
    attempts.fail(THERE)
    attempts.time += WINDOW - 1
    attempts.fail("192.0.2.3")
    assert attempts.sources == [THERE, "192.0.2.3"]


def test_the_sources_of_a_key_are_bounded(attempts: Attempts) -> None:
    own = holder()
    for number in range(MAX_SOURCES_PER_KEY + 1):
        attempts.check(str(IPv4Address(number)), own)
    assert len(own.sources) == MAX_SOURCES_PER_KEY
    assert "0.0.0.0" not in own.sources
    assert str(IPv4Address(MAX_SOURCES_PER_KEY)) in own.sources


def test_a_64_network_is_one_source(attempts: Attempts) -> None:
    for number in range(LIMIT):
        attempts.fail(str(IPv6Address("2001:db8::") + number * 2**60))
    assert attempts.refuses(address="2001:db8::ffff") == WINDOW
    assert attempts.refuses(address="2001:db8:0:1::") is None


def test_nodes_of_a_fleet_divide_the_limit(attempts: Attempts) -> None:
    attempts.fail(times=2)
    attempts.divide(2)
    assert attempts.refuses()
    attempts.fail(THERE)
    assert attempts.refuses(address=THERE)
    attempts.divide(1)
    attempts.fail(times=LIMIT - 2)
    assert attempts.refuses()
    attempts.divide(100)
    with capture_logs() as logs:
        attempts.fail("192.0.2.3")
    assert attempts.refuses(address="192.0.2.3")
    assert [log["source"] for log in logs] == ["192.0.2.3"]
