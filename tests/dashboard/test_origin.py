from __future__ import annotations

import pytest

from hookgw.dashboard.origin import is_own_request


@pytest.mark.parametrize(
    ("headers", "is_own"),
    [
        ({"host": "hooks.example"}, True),
        ({"host": "hooks.example", "sec-fetch-site": "same-origin"}, True),
        ({"host": "hooks.example", "sec-fetch-site": "none"}, True),
        ({"host": "hooks.example", "sec-fetch-site": "same-site"}, False),
        ({"host": "hooks.example", "sec-fetch-site": "cross-site", "origin": "http://hooks.example"}, False),
        ({"host": "hooks.example", "origin": "https://hooks.example"}, True),
        ({"host": "hooks.example:8080", "origin": "http://HOOKS.example:8080"}, True),
        ({"host": "hooks.example:8080", "origin": "http://hooks.example"}, False),
        ({"host": "hooks.example", "origin": "null"}, False),
        ({"host": "", "origin": "file://"}, False),
        ({"host": "10.0.0.7:8080", "origin": "https://public.example"}, True),
    ],
)
def test_a_request_is_our_own(headers: dict[str, str], is_own: bool) -> None:
    assert is_own_request(headers, "https://public.example/hooks") is is_own
