"""Token buckets, on a clock that the test moves."""

import gc
import weakref

import pytest

from tests.public.auth import Pace, RateLimits, TokenBucket


class Time:
    def __init__(self) -> None:
        self.now = 100_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time() -> Time:
    return Time()


def taken(bucket: TokenBucket) -> int:
    """Take all tokens and return their number."""
    count = 0
    while bucket.take() == 0:
        count += 1
    return count


@pytest.mark.parametrize("rate", [1, 3, 1000])
def test_a_burst_and_then_the_rate(rate: int, time: Time) -> None:
    bucket = TokenBucket(Pace(rate, time))
    assert taken(bucket) == 2 * rate
    time.now += 1
    assert taken(bucket) == rate
    time.now += 3600
    assert taken(bucket) == 2 * rate


def test_the_wait_for_a_token(time: Time) -> None:
    bucket = TokenBucket(Pace(4, time))
    taken(bucket)
    assert bucket.take() == pytest.approx(0.25)
    time.now += 0.125
    assert bucket.take() == pytest.approx(0.125)
    time.now += 0.126
    assert bucket.take() == 0


def test_refused_requests_cost_nothing(time: Time) -> None:
    bucket = TokenBucket(Pace(10, time))
    taken(bucket)
    for _ in range(1000):
        assert bucket.take() > 0
    time.now += 1.001
    assert taken(bucket) == 10


def test_each_kind_of_key_has_its_rate_and_0_is_no_limit(time: Time) -> None:
    rates = RateLimits(5, 0, time)
    assert rates.bucket(None, "ops") is None
    bucket = rates.bucket("shop", "default")
    assert bucket is not None
    assert taken(bucket) == 10
    other = RateLimits(0, 7, time)
    assert other.bucket("shop", "default") is None
    assert (found := other.bucket(None, "ops")) is not None
    assert taken(found) == 14


def test_keys_of_one_origin_share(time: Time) -> None:
    rates = RateLimits(5, 5, time)
    shared = rates.bucket("shop", "default")
    assert rates.bucket("shop", "default") is shared
    assert rates.bucket("shop", "crm") is not shared
    assert rates.bucket("bar", "default") is not shared
    assert rates.bucket(None, "default") is not shared
    # Whichever is asked for first: a global key that makes keys with a reach keeps its rate.
    assert rates.bucket(None, "ops", is_limited=True) is not rates.bucket(None, "ops")


def test_a_bucket_lasts_as_long_as_a_key_that_has_it(time: Time) -> None:
    rates = RateLimits(5, 0, time)
    bucket = rates.bucket("shop", "default")
    assert bucket is not None
    taken(bucket)
    assert rates.bucket("shop", "default") is bucket
    known = weakref.ref(bucket)
    del bucket
    gc.collect()
    assert known() is None


@pytest.mark.parametrize("rate", [1, 3, 300])
def test_nodes_of_a_fleet_divide_a_rate(rate: int, time: Time) -> None:
    rates = RateLimits(rate, 0, time)
    rates.divide(3)
    bucket = rates.bucket("shop", "default")
    assert bucket is not None
    assert taken(bucket) == max(1, 2 * rate // 3)
    time.now += 30
    admitted = 0
    for _ in range(300):  # little by little, so that nothing is lost in a full bucket
        time.now += 0.1
        admitted += taken(bucket)
    assert admitted <= 10 * rate + max(1, 2 * rate // 3)
    assert admitted >= 10 * rate


def test_a_change_of_the_nodes_gives_no_tokens(time: Time) -> None:
    rates = RateLimits(30, 0, time)
    used, unused = rates.bucket("shop", "used"), rates.bucket("shop", "unused")
    assert used is not None
    assert unused is not None
    taken(used)
    rates.divide(3)
    assert taken(used) == 0
    assert taken(unused) == 20  # of 60, which is more than this node's part of them
    time.now += 60
    rates.divide(1)
    assert taken(used) == 20  # what was there before
    time.now += 1
    rates.divide(3)  # while the other one was not asked
    rates.divide(1)
    assert taken(used) == 10  # of the 30 of that second: rather too few
    assert taken(unused) == 20
    time.now += 60
    assert taken(used) == taken(unused) == 60
