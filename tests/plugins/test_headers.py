from __future__ import annotations

import pytest

from hookgw.plugins.headers import refusal


@pytest.mark.parametrize("name", ["authorization", "x-event-type", "jwt_key", "user-agent", "content-type"])
def test_headers_that_plugins_may_set(name: str) -> None:
    assert refusal(name, "Bearer abc\tdé") is None
    assert refusal(name, "") is None


@pytest.mark.parametrize(
    "name",
    ["host", "content-length", "transfer-encoding", "connection", "upgrade", "webhook-id", "webhook-x"],
)
def test_headers_of_the_gateway(name: str) -> None:
    assert refusal(name, "1") == f"it set the header {name}, which is the gateway's own"


@pytest.mark.parametrize("name", ["", "X-Upper", "with space", "a:b", "é", "a\r\nb", 3])
def test_names_that_are_no_tokens_in_lower_case(name: object) -> None:
    assert "use a token in lower case" in (refusal(name, "1") or "")


@pytest.mark.parametrize("value", ["a\r\nb: c", "a\n", "\x00", "\x7f", "日本", b"bytes", None, 1])
def test_values_that_cannot_be_sent(value: object) -> None:
    assert "use a string without line breaks" in (refusal("x-own", value) or "")
