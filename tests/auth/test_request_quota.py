import pytest

from tests.public.auth import RequestQuota
from tests.public.kernel import TooManyRequests


def test_the_requests_of_an_instance_are_limited() -> None:
    limits: list[str] = []
    quota = RequestQuota(2, limits.append)
    for _ in range(2):
        quota.enter("a")
    for _ in range(2):
        with pytest.raises(
            TooManyRequests, match=r"^2 requests of this instance are in progress, the maximum"
        ):
            quota.enter("a")
    quota.enter("b")
    quota.give("a")
    quota.enter("a")
    assert limits == ["instance_share"] * 2
    for instance in "aab":
        quota.give(instance)
    assert not list(quota)
