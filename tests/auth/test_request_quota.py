from __future__ import annotations

import pytest

from hookgw.auth.request_quota import RequestQuota
from hookgw.models.errors import TooManyRequests


@pytest.fixture
def limits() -> list[str]:
    """The names of the limits that refused a request."""
    return []


@pytest.fixture
def quota(limits: list[str]) -> RequestQuota:
    return RequestQuota(2, 100, limits.append)


def test_the_requests_of_an_instance_are_limited(quota: RequestQuota, limits: list[str]) -> None:
    one, _ = quota.enter("a"), quota.enter("a")
    for _ in range(2):
        with pytest.raises(
            TooManyRequests, match=r"^2 requests of this instance are in progress, the maximum"
        ):
            quota.enter("a")
    quota.enter("b")
    one.leave()
    quota.enter("a")
    assert limits == ["instance_share"] * 2


def test_the_size_of_their_bodies_is_limited(quota: RequestQuota, limits: list[str]) -> None:
    one, two, other = quota.enter("a"), quota.enter("a"), quota.enter("b")
    for size in (10, 60, 60):
        one.hold(size)
    two.hold(40)
    other.hold(100)
    with pytest.raises(TooManyRequests, match="100B of request bodies of this instance are in progress"):
        two.hold(41)
    two.leave()
    quota.enter("a").hold(40)
    assert limits == ["instance_share"]


def test_ended_requests_leave_nothing_behind(quota: RequestQuota) -> None:
    for _ in range(3):
        leases = [quota.enter("a"), quota.enter("a")]
        for lease in leases:
            lease.hold(50)
        for lease in leases:
            lease.leave()
    assert not list(quota.in_progress)
    assert not list(quota.received)
