from __future__ import annotations

import pytest

from hookgw.auth.request_quota import RequestQuota
from hookgw.models.errors import TooManyRequests


@pytest.fixture
def limits() -> list[str]:
    """Which limits refused something."""
    return []


@pytest.fixture
def shares(limits: list[str]) -> RequestQuota:
    return RequestQuota(2, 100, limits.append)


def test_an_instance_has_so_many_requests_at_a_time(shares: RequestQuota, limits: list[str]) -> None:
    one, _ = shares.enter("a"), shares.enter("a")
    for _ in range(2):
        with pytest.raises(
            TooManyRequests, match=r"^2 requests of this instance are under way, which is the"
        ):
            shares.enter("a")
    shares.enter("b")
    one.leave()
    shares.enter("a")
    assert limits == ["instance_share"] * 2


def test_their_bodies_have_so_many_bytes_together(shares: RequestQuota, limits: list[str]) -> None:
    one, two, other = shares.enter("a"), shares.enter("a"), shares.enter("b")
    for size in (10, 60, 60):
        one.hold(size)
    two.hold(40)
    other.hold(100)
    with pytest.raises(TooManyRequests, match="100B of bodies of this instance are under way"):
        two.hold(41)
    two.leave()
    shares.enter("a").hold(40)
    assert limits == ["instance_share"]


def test_what_has_ended_leaves_nothing_behind(shares: RequestQuota) -> None:
    for _ in range(3):
        parts = [shares.enter("a"), shares.enter("a")]
        for part in parts:
            part.hold(50)
        for part in parts:
            part.leave()
    assert not shares._taken
