"""Proxy handshakes, byte by byte."""

import base64
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.public.config import Proxy, parse_proxy
from tests.public.delivery import MAX_PROXY_HEAD as MAX_HEAD
from tests.public.delivery import ProxyFailed, open_tunnel

HTTP = Proxy(scheme="http", host="p", port=3128)
SOCKS = Proxy(scheme="socks5", host="p", port=1080)
KNOWN = {"user": b"ann", "password": b"hunter2"}


def talk(proxy: Proxy, *answers: bytes, address: str = "8.8.8.8", port: int = 443) -> list[bytes]:
    """Run a handshake with a proxy that sends these bytes, then closes; return the bytes it received."""
    shake = open_tunnel(proxy, address, port)
    sent = [next(shake)]
    for data in (*answers, b"", b""):
        try:
            sent.append(shake.send(data))
        except StopIteration:
            return [data for data in sent if data]
    pytest.fail("it goes on after the end")


@pytest.mark.parametrize(
    ("url", "proxy"),
    [
        ("http://p:3128", HTTP),
        ("HTTP://P:3128/", HTTP),
        ("socks5://p:1080", SOCKS),
        ("socks5://127.0.0.1:1", Proxy(scheme="socks5", host="127.0.0.1", port=1)),
        ("http://[::1]:65535", Proxy(scheme="http", host="::1", port=65535)),
        ("http://ann:hunter2@p:3128", Proxy(scheme="http", host="p", port=3128, **KNOWN)),
        ("http://ann@p:3128", Proxy(scheme="http", host="p", port=3128, user=b"ann")),
        (
            "socks5://a%3Ab:c%40d%2F:e@p:1080",
            Proxy(scheme="socks5", host="p", port=1080, user=b"a:b", password=b"c@d/:e"),
        ),
        ("http://a:b@c@p:3128", Proxy(scheme="http", host="p", port=3128, user=b"a", password=b"b@c")),
        (
            f"socks5://{'a' * 255}:{'b' * 255}@p:1080",
            Proxy(scheme="socks5", host="p", port=1080, user=b"a" * 255, password=b"b" * 255),
        ),
    ],
)
def test_proxy_urls(url: str, proxy: Proxy) -> None:
    assert parse_proxy(url) == proxy


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("", "must be as in http://"),
        ("p:3128", "must be as in http://"),
        ("http://p", "must be as in http://"),
        ("http://p:", "must be as in http://"),
        ("https://p:3128", "must be as in http://"),
        ("socks5h://p:1080", "must be as in http://"),
        ("socks4://p:1080", "must be as in http://"),
        ("http://p:3128/path", "must be as in http://"),
        ("http://p:3128?x", "must be as in http://"),
        ("http://:3128", "must be as in http://"),
        ("http://p:0", "between 1 and 65535"),
        ("http://p:65536", "between 1 and 65535"),
        ("http://a..b:3128", "contains no valid host"),
        ("http://[::g]:3128", "contains no valid host"),
        ("http://:hunter2@p:3128", "but no user"),
        ("http://a%3Ab:hunter2@p:3128", "a colon in its user"),
        ("socks5://ann:" + "hunter2" * 37 + "@p:1080", "more than 255 bytes"),
        ("socks5://" + "hunter2" * 37 + "@p:1080", "more than 255 bytes"),
    ],
)
def test_errors_about_proxy_urls_do_not_show_passwords(url: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=r"\.$") as caught:
        parse_proxy(url)
    assert sentence in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_credentials_are_not_shown() -> None:
    proxy = parse_proxy("http://ann:hunter2@[::1]:3128")
    assert repr(proxy) == "<Proxy http [::1]:3128>"
    assert "ann" not in f"{proxy}"


@pytest.mark.parametrize(
    ("address", "place"),
    [
        ("8.8.8.8", b"8.8.8.8:443"),
        ("2001:4860::8", b"[2001:4860::8]:443"),
        ("fe80::1%eth0", b"[fe80::1]:443"),
    ],
)
def test_an_http_proxy_is_asked_for_the_address(address: str, place: bytes) -> None:
    [sent] = talk(HTTP, b"HTTP/1.1 200 OK\r\n\r\n", address=address)
    assert sent == b"CONNECT %b HTTP/1.1\r\nhost: %b\r\n\r\n" % (place, place)


def test_an_http_proxy_gets_the_credentials() -> None:
    [sent] = talk(Proxy(scheme="http", host="p", port=1, **KNOWN), b"HTTP/1.1 200 OK\r\n\r\n")
    assert b"\r\nproxy-authorization: Basic " + base64.b64encode(b"ann:hunter2") + b"\r\n\r\n" in sent


@pytest.mark.parametrize(
    "answers",
    [
        [b"HTTP/1.1 200 Connection established\r\n\r\n"],
        [b"HTTP/1.0 200\r\nvia: x\r\n\r\n"],
        [b"HTTP/1.1 204 No Content\r\ncontent-length: 5\r\n\r\n"],
        [b"HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"],
        [bytes([byte]) for byte in b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\na: b\r\n\r\n"],
        [b"HTTP/1.1 200 OK\r\na: " + b"x" * (MAX_HEAD - 24), b"\r\n\r\n"],
    ],
)
def test_http_responses_that_open_a_connection(answers: list[bytes]) -> None:
    assert len(talk(HTTP, *answers)) == 1


@pytest.mark.parametrize(
    ("answers", "error", "reason"),
    [
        (
            [b"HTTP/1.1 403 No\r\n\r\n"],
            ConnectionRefusedError,
            "the proxy answered 403 Forbidden: not allowed by its rules$",
        ),
        ([b"HTTP/1.1 502 x\r\n\r\nbody"], ConnectionRefusedError, "the proxy answered 502 Bad Gateway"),
        ([b"HTTP/1.1 799 x\r\n\r\n"], ConnectionRefusedError, "the proxy answered 799"),
        (
            [b"HTTP/1.1 301 x\r\nlocation: y\r\n\r\n"],
            ProxyFailed,
            "answered 301 Moved Permanently to CONNECT: it is no HTTP proxy",
        ),
        (
            [b"HTTP/1.1 400 x\r\n\r\n"],
            ConnectionRefusedError,
            "the proxy answered 400 Bad Request: it may be no HTTP proxy$",
        ),
        (
            [b"HTTP/1.1 404 x\r\n\r\n"],
            ConnectionRefusedError,
            "the proxy answered 404 Not Found: it may be no HTTP proxy$",
        ),
        ([b"HTTP/1.1 405 x\r\n\r\n"], ProxyFailed, "405 Method Not Allowed to CONNECT: it is no HTTP proxy"),
        ([b"HTTP/1.1 501 x\r\n\r\n"], ProxyFailed, "501 Not Implemented to CONNECT: it is no HTTP proxy"),
        (
            [b"HTTP/1.1 407 x\r\n\r\n"],
            ProxyFailed,
            "requires a user and password: add them to delivery.proxy",
        ),
        ([b"HTTP/1.1 200 OK\r\n\r\nx"], ProxyFailed, "sent data after its response"),
        ([b"\x05\x00\r\n\r\n"], ProxyFailed, "is not HTTP"),
        ([b"HTTP/2 200\r\n\r\n"], ProxyFailed, "is not HTTP"),
        ([b"HTTP/1.1 20 OK\r\n\r\n"], ProxyFailed, "is not HTTP"),
        ([b"SSH-2.0-OpenSSH\r\n"], ProxyFailed, "closed the connection before its response was complete"),
        ([], ProxyFailed, "closed the connection before its response was complete"),
        (
            [b"HTTP/1.1 200 OK\r\na: " + b"x" * MAX_HEAD],
            ProxyFailed,
            f"sent more than {MAX_HEAD} bytes without",
        ),
        ([b"HTTP/1.1 100 x\r\n\r\n"] * 1000, ProxyFailed, f"sent more than {MAX_HEAD} bytes without"),
    ],
)
def test_http_responses_that_open_no_connection(
    answers: list[bytes], error: type[Exception], reason: str
) -> None:
    with pytest.raises(error, match=reason):
        talk(HTTP, *answers)


@pytest.mark.parametrize("status", [407, 401])  # Tinyproxy answers 401
def test_the_error_does_not_show_refused_credentials(status: int) -> None:
    proxy = Proxy(scheme="http", host="p", port=1, **KNOWN)
    with pytest.raises(ProxyFailed) as caught:
        talk(proxy, f"HTTP/1.1 {status} x\r\n\r\n".encode())
    assert str(caught.value) == f"rejected the user and password of delivery.proxy ({status})"


OPENED = b"\x05\x00\x00\x01" + bytes(6)


@pytest.mark.parametrize(
    ("address", "asked"),
    [
        ("8.8.4.4", b"\x05\x01\x00\x01\x08\x08\x04\x04\x01\xbb"),
        ("::1", b"\x05\x01\x00\x04" + bytes(15) + b"\x01\x01\xbb"),
        ("fe80::1%eth0", b"\x05\x01\x00\x04\xfe\x80" + bytes(13) + b"\x01\x01\xbb"),
    ],
)
def test_a_socks_proxy_is_asked_for_the_address(address: str, asked: bytes) -> None:
    assert talk(SOCKS, b"\x05\x00", OPENED, address=address) == [b"\x05\x01\x00", asked]


def test_a_socks_proxy_gets_the_credentials_if_it_asks_for_them() -> None:
    proxy = Proxy(scheme="socks5", host="p", port=1, **KNOWN)
    sent = talk(proxy, b"\x05\x02", b"\x01\x00", OPENED)
    assert sent[:2] == [b"\x05\x02\x00\x02", b"\x01\x03ann\x07hunter2"]
    assert talk(proxy, b"\x05\x00", OPENED)[0] == b"\x05\x02\x00\x02"


@pytest.mark.parametrize(
    "answers",
    [
        [b"\x05\x00", b"\x05\x00\x00\x04" + bytes(18)],
        [b"\x05\x00", b"\x05\x00\x00\x03\x04name\x00\x00"],
        [b"\x05\x00", b"\x05\x00\x00\x03\x00\x00\x00"],
        [b"\x05", b"\x00", *[bytes([byte]) for byte in OPENED]],
    ],
)
def test_socks_replies_that_open_a_connection(answers: list[bytes]) -> None:
    assert len(talk(SOCKS, *answers)) == 2


@pytest.mark.parametrize(
    ("answers", "error", "reason"),
    [
        ([b"\x05\x00", b"\x05\x01\x00\x01"], ConnectionRefusedError, "the proxy reported: general failure"),
        ([b"\x05\x00", b"\x05\x02\x00\x01"], ConnectionRefusedError, "not allowed by ruleset"),
        ([b"\x05\x00", b"\x05\x03\x00\x01"], ConnectionRefusedError, "network unreachable"),
        ([b"\x05\x00", b"\x05\x04\x00\x01"], ConnectionRefusedError, "host unreachable"),
        ([b"\x05\x00", b"\x05\x05\x00\x01"], ConnectionRefusedError, "connection refused"),
        ([b"\x05\x00", b"\x05\x06\x00\x01"], ConnectionRefusedError, "TTL expired"),
        ([b"\x05\x00", b"\x05\x07\x00\x01"], ConnectionRefusedError, "command not supported"),
        ([b"\x05\x00", b"\x05\x08\x00\x01"], ConnectionRefusedError, "address type not supported"),
        ([b"\x05\x00", b"\x05\xee\x00\x01"], ConnectionRefusedError, "the proxy reported: error 238"),
        ([b"\x05\xff"], ProxyFailed, "requires a user and password: add them to delivery.proxy"),
        ([b"\x05\x02"], ProxyFailed, "requires a user and password"),
        ([b"HTTP/1.1 400 Bad Request\r\n\r\n"], ProxyFailed, "is not a SOCKS5 proxy"),
        ([b"\x04\x00"], ProxyFailed, "is not a SOCKS5 proxy"),
        ([b"\x05\x00x"], ProxyFailed, "sent data after its response"),
        ([b"\x05\x00", OPENED + b"x"], ProxyFailed, "sent data after its response"),
        ([b"\x05\x00", b"\x04\x00\x00\x01" + bytes(6)], ProxyFailed, "is not SOCKS5"),
        ([b"\x05\x00", b"\x05\x00\x00\x02" + bytes(6)], ProxyFailed, "is not SOCKS5"),
        ([], ProxyFailed, "closed the connection before its response was complete"),
        ([b"\x05"], ProxyFailed, "closed the connection before its response was complete"),
        ([b"\x05\x00", OPENED[:-1]], ProxyFailed, "closed the connection before its response was complete"),
    ],
)
def test_socks_replies_that_open_no_connection(
    answers: list[bytes], error: type[Exception], reason: str
) -> None:
    with pytest.raises(error, match=reason):
        talk(SOCKS, *answers)


@pytest.mark.parametrize("answers", [[b"\x05\xff"], [b"\x05\x02", b"\x01\x01"]])
def test_the_error_does_not_show_refused_socks_credentials(answers: list[bytes]) -> None:
    with pytest.raises(ProxyFailed) as caught:
        talk(Proxy(scheme="socks5", host="p", port=1, **KNOWN), *answers)
    assert str(caught.value) == "rejected the user and password of delivery.proxy"


@given(st.sampled_from([HTTP, SOCKS]), st.lists(st.binary(min_size=1, max_size=40), max_size=6))
def test_any_bytes_end_in_a_connection_or_a_reason(proxy: Proxy, answers: list[bytes]) -> None:
    with suppress(ProxyFailed, ConnectionRefusedError):
        talk(proxy, *answers)


@given(st.text(max_size=60), st.sampled_from(["{}", "http://{}:3128", "socks5://{}@p:1"]))
def test_any_text_is_a_proxy_or_an_error(text: str, form: str) -> None:
    with suppress(ValueError):
        proxy = parse_proxy(form.format(text))
        assert next(open_tunnel(proxy, "8.8.8.8", 1))
