"""Options of instances: one sentence for the first mistake, without a secret."""

import msgspec
import pytest

from hookgw import Invalid
from hookgw.connectors import (
    check_names,
    check_public_url,
    check_server_url,
    check_token,
    defaults_for,
    read_options,
)


class Options(msgspec.Struct, frozen=True):
    server: str
    limit: int = 3


def test_options_become_a_record_without_other_fields() -> None:
    assert read_options({"server": "x", "webhook": {}}, Options) == Options("x")


@pytest.mark.parametrize("options", [{}, {"server": 1}, {"server": "x", "limit": "y"}])
def test_wrong_options_are_a_sentence(options: dict[str, object]) -> None:
    with pytest.raises(Invalid, match=r"^The options of the instance are not valid: .*\.$"):
        read_options(options, Options)


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    check_names({"a": 1}, ("a", "b"), "chat has no option {}; its options are ")
    with pytest.raises(ValueError, match=r"^chat has no option c; its options are a, b$"):
        check_names({"a": 1, "c": 2}, ("a", "b"), "chat has no option {}; its options are ")


@pytest.mark.parametrize("text", ["https://a.example", "http://10.0.0.5:8080/path", "https://[::1]:1"])
def test_a_server_has_a_url(text: str) -> None:
    check_server_url("base_url", text, "https://chat.example")


@pytest.mark.parametrize(
    "text",
    [
        *("", "x", "ftp://a", "http://", "https://[", "http://[::", "https://x:99999", "https://x:0"),
        *("https://\0", "https://x\r\nA: b", "https://xn--", "https://a b"),
        *("https://u:hunter2@a.example", "https://a.example?x", "https://a.example#y"),
    ],
)
def test_another_text_is_no_server(text: str) -> None:
    with pytest.raises(Invalid, match=r"^base_url: use .* such as https://chat\.example, .*") as refused:
        check_server_url("base_url", text, "https://chat.example")
    assert "hunter2" not in str(refused.value)


def test_a_network_must_reach_hookgw() -> None:
    check_public_url("https://hooks.example", "Chat")
    for url in (None, "", "/ingest/shop/x"):
        with pytest.raises(Invalid, match=r"server\.public_url is not set: .* Chat reaches"):
            check_public_url(url, "Chat")


OPERATORS = {"base_url": "https://chat.example", "api_key": "operator", "mode": "fast"}


@pytest.mark.parametrize(
    "options",
    [{}, {"base_url": ""}, {"base_url": "https://chat.example/"}, {"base_url": "https://CHAT.example:443"}],
)
def test_the_operators_server_gets_the_operators_secrets(options: dict[str, str]) -> None:
    assert defaults_for(options, OPERATORS, ("api_key",)) == OPERATORS


@pytest.mark.parametrize(
    "url",
    [
        "http://chat.example",
        "https://chat.example:8443",
        "https://chat.example/x",
        "https://chat.example.org",
        "x",
        5,
    ],
)
def test_another_server_gets_none_of_them(url: object) -> None:
    found = defaults_for({"base_url": url}, OPERATORS, ("api_key",))
    assert found == {"base_url": "https://chat.example", "mode": "fast"}
    assert defaults_for({"base_url": url}, {"api_key": "operator"}, ("api_key",)) == {}


def test_a_token_fits_into_a_header_and_is_not_repeated() -> None:
    check_token("api_key", "")
    check_token("api_key", "abc-123~")
    for token in ("tok\u0435n", "to ken", "token\n", "“token”"):
        with pytest.raises(Invalid, match=r"^api_key must consist of") as caught:
            check_token("api_key", token)
        assert token not in str(caught.value)
