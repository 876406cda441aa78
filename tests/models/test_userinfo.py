from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookgw.models.target_url import parse_target
from hookgw.models.userinfo import is_masked, user_of, with_masked_user, without_user


@pytest.mark.parametrize(
    ("url", "address", "user"),
    [
        ("https://ann:s3cret@receiver.test/in?x=1", "https://receiver.test/in?x=1", "ann:s3cret"),
        ("HTTP://token@receiver.test", "HTTP://receiver.test", "token"),
        ("https://a:b@c@receiver.test:8443/", "https://receiver.test:8443/", "a:b@c"),
        ("https://@receiver.test/", "https://receiver.test/", ""),
        ("https://:p%40ss@[::1]:80/?a@b", "https://[::1]:80/?a@b", ":p%40ss"),
        ("https://receiver.test/a@b", "https://receiver.test/a@b", ""),
        ("https://receiver.test?to=a@b", "https://receiver.test?to=a@b", ""),
        ("https://receiver.test/?to=ftp://a:b@c", "https://receiver.test/?to=ftp://a:b@c", ""),
        ("vazio", "vazio", ""),
        ("ann@receiver.test", "ann@receiver.test", ""),
        ("ftp://ann:s3cret@receiver.test", "ftp://receiver.test", "ann:s3cret"),
        ("", "", ""),
    ],
)
def test_user_and_password_go(url: str, address: str, user: str) -> None:
    assert without_user(url) == address
    assert user_of(url) == user
    masked = with_masked_user(url)
    assert without_user(masked) == address
    assert is_masked(masked) == (url != address)


@given(st.text(max_size=60).map(lambda text: f"https://{text}@receiver.test/in"))
def test_what_deliveries_would_authenticate_with_is_never_left(url: str) -> None:
    try:
        target = parse_target(url)
    except ValueError:
        return
    address = parse_target(without_user(url))
    assert address.authorization is None
    assert (address.host, address.port, address.path) == (target.host, target.port, target.path)
