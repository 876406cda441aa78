import pytest

from tests.public.site import refusal_of


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
        ({"host": "hooks.example", "origin": "http://["}, False),
        ({"host": "hooks.example", "origin": "hooks.example"}, False),
        ({"host": "10.0.0.7:8080", "origin": "https://public.example"}, True),
    ],
)
def test_a_request_is_our_own(headers: dict[str, str], is_own: bool) -> None:
    assert (refusal_of(headers, "https://public.example/hooks") is None) is is_own


def test_a_refusal_names_both_hosts_and_the_settings() -> None:
    refusal = refusal_of({"host": "10.0.0.7:8080", "origin": "http://gw.lan:8000"}, None)
    assert refusal is not None
    for named in ("gw.lan:8000", "10.0.0.7:8080", "server.trusted_proxies", "server.public_url"):
        assert named in refusal
