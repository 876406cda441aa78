"""URLs, checked and taken apart."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.public.kernel import MAX_URL, parse_target


@pytest.mark.parametrize(
    ("url", "scheme", "host", "port", "path", "host_header"),
    [
        ("http://example.com", "http", "example.com", 80, "/", "example.com"),
        ("https://example.com/", "https", "example.com", 443, "/", "example.com"),
        ("HTTPS://Example.COM/Hook", "https", "example.com", 443, "/Hook", "example.com"),
        ("http://example.com:8080/a?b=c&d", "http", "example.com", 8080, "/a?b=c&d", "example.com:8080"),
        ("http://example.com:80/", "http", "example.com", 80, "/", "example.com"),
        ("https://example.com:80/", "https", "example.com", 80, "/", "example.com:80"),
        ("http://example.com:/", "http", "example.com", 80, "/", "example.com"),
        ("http://example.com?x=1", "http", "example.com", 80, "/?x=1", "example.com"),
        ("http://example.com.:81/", "http", "example.com.", 81, "/", "example.com:81"),
        ("http://[::1]:8080/", "http", "::1", 8080, "/", "[::1]:8080"),
        ("http://[2001:DB8::1]/", "http", "2001:db8::1", 80, "/", "[2001:db8::1]"),
        ("http://0x7f.1/", "http", "127.0.0.1", 80, "/", "127.0.0.1"),
        (
            "http://bücher.example/ü?ü",
            "http",
            "xn--bcher-kva.example",
            80,
            "/%C3%BC?%C3%BC",
            "xn--bcher-kva.example",
        ),
        ("http://h/a%20b/%zz", "http", "h", 80, "/a%20b/%zz", "h"),
        ('http://h/<">?a[]=b|c', "http", "h", 80, "/%3C%22%3E?a[]=b|c", "h"),
        ("http://h/a\\b", "http", "h", 80, "/a%5Cb", "h"),
        ("http://h/a@b:c?d@e", "http", "h", 80, "/a@b:c?d@e", "h"),
    ],
)
def test_urls(url: str, scheme: str, host: str, port: int, path: str, host_header: str) -> None:
    target = parse_target(url)
    assert target.url == url
    assert (target.scheme, target.host, target.port) == (scheme, host, port)
    assert (target.path, target.host_header, target.authorization) == (path, host_header, None)


@pytest.mark.parametrize(
    ("user_info", "credentials"),
    [
        ("user:pass", "Basic dXNlcjpwYXNz"),
        ("user", "Basic dXNlcjo="),
        ("us%3Aer:p%40ss", "Basic dXM6ZXI6cEBzcw=="),
        ("Aladdin:open%20sesame", "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="),
        ("a@b:c", "Basic YUBiOmM="),
        ("ü:", "Basic w7w6"),
        ("", None),
    ],
)
def test_user_information_becomes_basic_authentication(user_info: str, credentials: str | None) -> None:
    target = parse_target(f"http://{user_info}@127.0.0.1/")
    assert (target.host, target.authorization) == ("127.0.0.1", credentials)


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("", "must begin with http:// or https://"),
        ("vazio", "must begin with http:// or https://"),
        ("/hook", "must begin with http:// or https://"),
        ("//example.com/", "must begin with http:// or https://"),
        ("http:/example.com", "must begin with http:// or https://"),
        ("ftp://example.com/", "must begin with http:// or https://"),
        ("javascript:alert(1)", "must begin with http:// or https://"),
        ("http://", "has no host"),
        ("http:///hook", "has no host"),
        ("http://:8080/", "has no host"),
        ("http://user:pass@/", "has no host"),
        ("http://h/#x", "fragment"),
        ("http://h#", "fragment"),
        ("https://webhook.site/#!/view/1f2c", "address of a page in a browser"),
        ("https://h/app#/hooks", "address of a page in a browser"),
        ("http://h#@evil/", "fragment"),
        ("http://exa mple.com/", "spaces"),
        (" http://example.com/", "spaces"),
        ("http://example.com/\n", "spaces"),
        ("http://example.com/a\r\nx: y", "spaces"),
        ("http://example.com/\x00", "spaces"),
        ("http://example.com/\u00a0", "spaces"),
        ("http://example.com/\ud800", "spaces"),
        ("http://good.example\\@evil.example/", "backslash"),
        ("http://h:0/", "port 0 is not between 1 and 65535"),
        ("http://h:65536/", "port 65536 is not"),
        ("http://h:99999999999999999999/", "port 9999999999999999 is not"),
        ("http://h:-1/", "host and port must be as in"),
        ("http://h:8o/", "host and port must be as in"),
        ("http://h:１/", "host and port must be as in"),
        ("http://::1/", "host and port must be as in"),
        ("http://[::1/", "host and port must be as in"),
        ("http://[::1]x/", "host and port must be as in"),
        ("http://[fe80::1%25eth0]/", "zone"),
        ("http://256.1.1.1/", "not an IPv4 address"),
        ("http://h/" + "x" * MAX_URL, f"has {MAX_URL + 9} characters; at most {MAX_URL} are allowed"),
    ],
)
def test_each_broken_rule_has_a_sentence(url: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=r"\.$") as caught:
        parse_target(url)
    assert sentence in str(caught.value)


def test_the_longest_url() -> None:
    url = "http://h/" + "x" * (MAX_URL - 9)
    assert parse_target(url).path == url[8:]


@pytest.mark.parametrize(
    "url",
    [
        "http://user:hunter2@h:0/",
        "http://user:hunter2@h:x/",
        "http://user:hunter2@a..b/",
        "http://user:hunter2@/",
    ],
)
def test_no_message_repeats_a_password(url: str) -> None:
    with pytest.raises(ValueError, match=r"\.$") as caught:
        parse_target(url)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "expected", "path"),
    [
        ("http://h", "http://h/messages-upsert", "/messages-upsert"),
        ("http://h/", "http://h/messages-upsert", "/messages-upsert"),
        ("http://h/a", "http://h/a/messages-upsert", "/a/messages-upsert"),
        ("http://h/a/", "http://h/a/messages-upsert", "/a/messages-upsert"),
        ("http://h/a?b=/c/", "http://h/a/messages-upsert?b=/c/", "/a/messages-upsert?b=/c/"),
        ("http://h?b", "http://h/messages-upsert?b", "/messages-upsert?b"),
        ("http://h/ü/?ü", "http://h/ü/messages-upsert?ü", "/%C3%BC/messages-upsert?%C3%BC"),
    ],
)
def test_the_kind_goes_into_the_path(url: str, expected: str, path: str) -> None:
    target = parse_target(url).for_kind("messages-upsert")
    assert (target.url, target.path) == (expected, path)
    assert parse_target(expected) == target


def test_names_for_messages_and_certificates() -> None:
    target = parse_target("https://example.com./")
    assert (target.place, target.server_hostname) == ("example.com.:443", "example.com")
    assert parse_target("http://[::1]:81/").place == "[::1]:81"


@given(st.text(max_size=60))
def test_accepted_urls_can_be_sent(rest: str) -> None:
    try:
        target = parse_target("http://" + rest)
    except ValueError:
        return
    for text in (target.host, target.path, target.host_header):
        assert text.isascii()
        assert text.isprintable()
        assert " " not in text
    assert target.path.startswith("/")
    assert parse_target(target.url) == target
