"""Which schemes a registration's URL may have, and what follows from its scheme."""

import pytest

from tests.public.delivery import AddressGuard
from tests.public.kernel import (
    HTTP_PORTS,
    PULL_URL,
    RESERVED_SCHEMES,
    Invalid,
    check_destination,
    is_http,
    is_port_of_plugin,
    parse_destination,
    parse_target,
    scheme_of,
    standard_port,
    unmask_url,
    with_masked_user,
    without_user,
)


@pytest.mark.parametrize(
    ("text", "scheme"),
    [
        ("https://example.com", "https"),
        ("AMQP://example.com", "amqp"),
        ("pulsar+ssl://example.com", "pulsar+ssl"),
        ("pull:", "pull"),
        ("vazio", ""),
        ("", ""),
        ("//example.com", ""),
        ("1a://example.com", ""),
        ("é://example.com", ""),
    ],
)
def test_the_scheme_of_any_text(text: str, scheme: str) -> None:
    assert scheme_of(text) == scheme
    assert is_http(text) is (scheme in HTTP_PORTS)


@pytest.mark.parametrize(
    ("url", "port", "path"),
    [
        ("amqp://broker.example/", 5672, "/"),
        ("amqps://user:pass@broker.example/%2Fvhost", 5671, "/%2Fvhost"),
        ("AMQP://broker.example:5673", 5673, "/"),
        ("unheard-of://host.example:99/queue?x=1", 99, "/queue?x=1"),
        ("https://example.com/hook", 443, "/hook"),
    ],
)
def test_urls_of_other_schemes_are_parsed_as_those_of_http(url: str, port: int, path: str) -> None:
    target = parse_destination(url)
    assert (target.scheme, target.port, target.path) == (scheme_of(url), port, path)
    assert target.url == url


@pytest.mark.parametrize("url", ["http://u:p@example.com:81/a?b", "https://[::1]/"])
def test_a_url_of_http_is_the_same_target_for_both_parsers(url: str) -> None:
    assert parse_destination(url) == parse_target(url)


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("unheard-of://host.example/", "must name the port"),
        ("vazio", "must begin with http:// or https://"),
        ("amqp:host", "must begin with http:// or https://"),
        ("amqp://", "has no host"),
        ("amqp://h:0", "port 0 is not"),
        ("amqp://h/#x", "fragment"),
        ("amqp://a b", "spaces"),
        ("pull:x", "must begin with http:// or https://"),
        ("pull://x", "must name the port"),
    ],
)
def test_each_broken_rule_has_a_sentence(url: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        parse_destination(url)
    with pytest.raises(Invalid, match=f"^url: .*{sentence}"):
        check_destination(url, "url")


def test_pull_has_no_host_and_is_reserved() -> None:
    assert (parse_destination(PULL_URL).scheme, parse_destination(PULL_URL).host) == ("pull", "")
    assert "pull" in RESERVED_SCHEMES
    assert check_destination(PULL_URL, "url") == PULL_URL
    with pytest.raises(Invalid, match="The scheme pull is reserved"):
        check_destination("pull://host:80", "url")


@pytest.mark.parametrize("scheme", ["amqp", "http", "unheard-of"])
def test_a_password_is_masked_whatever_the_scheme(scheme: str) -> None:
    url = f"{scheme}://user:s3cret@host.example:99/x"
    assert with_masked_user(url) == f"{scheme}://********@host.example:99/x"
    assert without_user(url) == f"{scheme}://host.example:99/x"
    assert unmask_url(with_masked_user(url), url) == url
    assert "s3cret" not in repr(parse_destination(url)).replace("user:s3cret", "").replace(url, "")


def test_the_standard_port_of_a_plugins_scheme_is_dialled_for_it_alone() -> None:
    guard = AddressGuard()
    for scheme, port in (("amqp", 5672), ("nats", 4222), ("redis", 6379)):
        assert (standard_port(scheme), is_port_of_plugin(scheme, port)) == (port, True)
        assert guard.port_refusal(port, scheme) is None
        assert guard.known_refusal("broker.example", port, scheme) is None
        for other in ("", "http", "https", "smtp"):
            assert f"Port {port} is not dialled" in (guard.port_refusal(port, other) or "")
    assert "Port 22 is not dialled" in (guard.port_refusal(22, "amqp") or "")


@pytest.mark.parametrize("scheme", HTTP_PORTS)
def test_an_operator_may_refuse_the_ports_of_http(scheme: str) -> None:
    port = HTTP_PORTS[scheme]
    assert AddressGuard(refused_ports=[port]).port_refusal(port, scheme) is not None


@pytest.mark.parametrize("url", ["https://https://example.com/hook", "http://https://h", "https://http//h/"])
def test_a_url_pasted_behind_a_scheme_is_refused(url: str) -> None:
    with pytest.raises(Invalid, match="begins with http:// or https:// twice"):
        check_destination(url, "url")


def test_a_host_may_be_named_like_a_scheme() -> None:
    assert check_destination("http://http:8080/hook", "url") == "http://http:8080/hook"
