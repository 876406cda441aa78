"""Which heads are valid, and which are refused."""

import pytest

from tests.public.web import CHUNKED, Refused, check_begun, check_trailers, read_head


def head(*lines: str, first: str = "POST /event/emit/loja1 HTTP/1.1", host: str | None = "x:80") -> bytes:
    hosts = [] if host is None else [f"Host: {host}"]
    return "".join(f"{line}\r\n" for line in (first, *hosts, *lines, "")).encode("latin-1")


def length(given: bytes) -> int:
    read = read_head(given)
    first, *lines = given[:-4].split(b"\r\n")
    expected = [
        (name.lower(), value.strip(b" \t")) for name, _, value in (line.partition(b":") for line in lines)
    ]
    assert list(read.fields) == expected
    target = read.raw_path.decode() + ("?" + read.query.decode() if read.query else "")
    assert first.decode() == f"{read.method} {target} HTTP/{read.version}"
    return read.length


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (head(), 0),
        (head("Content-Length: 0"), 0),
        (head("content-length:12"), 12),
        (head("Content-Length: \t 012 \t"), 12),
        (head("Content-Length: " + "9" * 18), 10**18 - 1),
        (head("Transfer-Encoding: chunked"), CHUNKED),
        (head("TRANSFER-ENCODING: Chunked "), CHUNKED),
        (head("content-lengths: 5", "x-content-length: 6", "a: content-length: 7"), 0),
        (head(first="GET / HTTP/1.0", host=None), 0),
        (head(first="GET / HTTP/1.0"), 0),
        (head(first="M-SEARCH /a?b=[c]|{d}&e=/f;g:@!$'()*+,~%20\"<>\\^` HTTP/1.1"), 0),
        (head("empty:", "latin: é", "tab: a\tb", "!#$%&'*+-.^_`|~: odd"), 0),
        (head(host=""), 0),
        (head(host="[2001:db8::1]:443"), 0),
        (head(host="a_b.example-1.org:"), 0),
        (head("Connection: upgrade"), 0),
    ],
)
def test_valid_heads_pass(given: bytes, expected: int) -> None:
    assert length(given) == expected


@pytest.mark.parametrize(
    ("target", "host", "expected"),
    [
        ("http://h/a?b=c", b"h", (b"/a", b"b=c")),
        ("http://h:80/a", b"h:80", (b"/a", b"")),
        ("hTTpS://[::1]:443/", b"[::1]:443", (b"/", b"")),
        ("http://h", b"h", (b"/", b"")),
        ("http://h?b", b"h", (b"/", b"b")),
        ("http://h//a@b:c", b"h", (b"//a@b:c", b"")),
    ],
)
def test_the_host_of_an_absolute_target_counts(
    target: str, host: bytes, expected: tuple[bytes, bytes]
) -> None:
    for given in (
        head("a: b", first=f"GET {target} HTTP/1.1"),
        head(first=f"GET {target} HTTP/1.0", host=None),
    ):
        read = read_head(given)
        assert (read.raw_path, read.query) == expected
        assert [value for name, value in read.fields if name == b"host"] == [host]


FIRST_LINES = [
    "get / HTTP/1.1",
    "GET  / HTTP/1.1",
    "GET /  HTTP/1.1",
    "GET\t/ HTTP/1.1",
    " GET / HTTP/1.1",
    "GET / HTTP/1.1 ",
    "GET / http/1.1",
    "GET / HTTP/1.1\rx: y",
    "GET / HTTP/1,1",
    "GET / HTTP/11",
    "GET / HTTP/+1.1",
    "GET /",
    "GET",
    "",
    "G@T / HTTP/1.1",
    "-GET / HTTP/1.1",
    "A" * 33 + " / HTTP/1.1",
    "GET http://x/healthz#a HTTP/1.1",
    "GET http:x HTTP/1.1",
    "GET ftp://x/ HTTP/1.1",
    "GET http:// HTTP/1.1",
    "GET healthz HTTP/1.1",
    "GET /a#b HTTP/1.1",
    "GET /\x7f HTTP/1.1",
    "GET /é HTTP/1.1",
    "GET /\x00 HTTP/1.1",
    "OPTIONS * HTTP/1.1",
    "CONNECT x:80 HTTP/1.1",
]


@pytest.mark.parametrize("first", FIRST_LINES)
def test_first_lines_that_are_refused(first: str) -> None:
    assert refused(head(first=first)) == (400, "The first line")


@pytest.mark.parametrize("url", ["http:///healthz", "http://:80/", "http://a@x/", "http://x:a/", "http://?a"])
def test_urls_that_are_refused(url: str) -> None:
    assert refused(head(first=f"GET {url} HTTP/1.1")) == (
        400,
        "The URL in the first line must have a host, and no user (RFC 9110, section 4.2).",
    )


@pytest.mark.parametrize("version", ["0.9", "1.2", "1.10", "2", "2.0", "3.0", "9.9"])
def test_other_versions(version: str) -> None:
    status, said = refused(head(first=f"GET / HTTP/{version}"))
    assert (status, said) == ((400, "The first line") if version == "1.10" else (505, "hookgw speaks"))


def test_the_preface_of_http2() -> None:
    assert refused(b"PRI * HTTP/2.0\r\n\r\n") == (505, "hookgw speaks")


@pytest.mark.parametrize(
    "line",
    [
        "a : b",
        "a\t: b",
        " a: b",
        "\ta: b",
        ": b",
        "a",
        "a b: c",
        "a(): b",
        "ä: b",
        "a: b\x00c",
        "a: b\x01c",
        "a: b\x7fc",
        "a: b\rc",
        "a: b\nc: d",
        "a: b\x0bc",
        "a\r: b",
        "a: b\r\n c",
        "a: b\r\n\tc: d",
        "Content-Length : 5",
        "Content-Length\n: 5",
    ],
)
def test_header_lines_that_are_refused(line: str) -> None:
    assert refused(head(line)) == (400, "Each header")
    assert refused(head(line, "host: y", host=None)) == (400, "Each header")


@pytest.mark.parametrize(
    "value",
    ["", "+5", "-5", "5,5", "5, 5", "5 5", "0x5", "5.0", "5e1", "five", "5;", "1" * 19, "٥", "_5", "5_0"],
)
def test_lengths_that_are_refused(value: str) -> None:
    if value.isascii():
        assert refused(head(f"Content-Length: {value}")) == (400, "The content-length")
    else:
        arabic = head("Content-Length: ?").replace(b"?", value.encode())
        assert refused(arabic) == (400, "The content-length")


def test_two_lengths_are_refused_though_they_agree() -> None:
    assert refused(head("Content-Length: 5", "content-length: 5")) == (400, "The content-length")
    assert refused(head("Content-Length: 5", "content-length: 6")) == (400, "The content-length")


@pytest.mark.parametrize(
    "lines",
    [
        ("Transfer-Encoding: xchunked",),
        ("Transfer-Encoding: chunked, identity",),
        ("Transfer-Encoding: identity",),
        ("Transfer-Encoding: gzip, chunked",),
        ("Transfer-Encoding: chunked;q=1",),
        ("Transfer-Encoding: \x0bchunked",),
        ("Transfer-Encoding:",),
        ("Transfer-Encoding: chunked", "Transfer-Encoding: chunked"),
        ("Transfer-Encoding: chunked", "Transfer-Encoding: identity"),
        ("Transfer-Encoding: chunked", "Content-Length: 5"),
        ("Content-Length: 5", "transfer-encoding: chunked"),
    ],
)
def test_codings_that_are_refused(lines: tuple[str, ...]) -> None:
    status, said = refused(head(*lines))
    assert (status, said) == (400, "Each header" if "\x0b" in lines[0] else "The only transfer-encoding")


def test_chunks_are_refused_in_http_1_0() -> None:
    assert refused(head("Transfer-Encoding: chunked", first="GET / HTTP/1.0"))[1].startswith("The only")


@pytest.mark.parametrize(
    "host",
    ["a b", "a,b c", "x/y", "x@y", "user@x:80", "x:8a", "x:800000", "[::1", "::1", "a\\b", "x?", '"x"'],
)
def test_hosts_that_are_refused(host: str) -> None:
    assert refused(head(host=host)) == (400, "There must be one host")


def test_none_and_two_hosts_are_refused() -> None:
    assert refused(head(host=None)) == (400, "There must be one host")
    assert refused(head("host: x:80")) == (400, "There must be one host")
    assert refused(head("host: y", first="GET / HTTP/1.0")) == (400, "There must be one host")


def test_an_upgrade_is_removed_from_the_head() -> None:
    given = head("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk")
    assert read_head(given) == read_head(given.replace(b"Upgrade: h2c\r\n", b""))
    twice = head("upgrade: h2c", "a: b", "UPGRADE: TLS/1.0, x", "content-length: 3")
    assert read_head(twice) == read_head(head("a: b", "content-length: 3"))


@pytest.mark.parametrize(
    ("lines", "first", "is_last"),
    [
        ((), "GET / HTTP/1.1", False),
        ((), "GET / HTTP/1.0", True),
        (("connection: keep-alive",), "GET / HTTP/1.0", True),
        (("Connection: Close",), "GET / HTTP/1.1", True),
        (("connection: x,close , y",), "GET / HTTP/1.1", True),
        (("connection: x", "connection: close"), "GET / HTTP/1.1", True),
        (("connection: closed",), "GET / HTTP/1.1", False),
    ],
)
def test_the_last_request_of_a_connection(lines: tuple[str, ...], first: str, is_last: bool) -> None:
    assert read_head(head(*lines, first=first)).is_last is is_last


def test_a_client_that_awaits_continue() -> None:
    assert read_head(head("Expect: 100-Continue", "content-length: 3")).awaits_continue
    assert not read_head(head("Expect: 100-continue", first="PUT / HTTP/1.0")).awaits_continue
    assert not read_head(head("Expect: something")).awaits_continue


def test_a_path_is_decoded() -> None:
    read = read_head(head(first="GET /a%20b/%C3%A9/%ff?c=%20&d=? HTTP/1.1"))
    assert (read.path, read.raw_path, read.query) == ("/a b/é/\ufffd", b"/a%20b/%C3%A9/%ff", b"c=%20&d=?")


@pytest.mark.parametrize("value", ["websocket", "WebSocket", "h2c, websocket", "websocket/13"])
def test_websocket_is_refused(value: str) -> None:
    assert refused(head(f"Upgrade: {value}")) == (400, "hookgw does not speak WebSocket")


def test_the_proxy_protocol_is_named() -> None:
    sent = b"PROXY TCP4 192.0.2.1 192.0.2.2 5 80\r\nGET / HTTP/1.1\r\nhost: x\r\n\r\n"
    assert refused(sent) == (400, "This is the PROXY protocol")


@pytest.mark.parametrize("begun", [b"G", b"GET / HT", b"GET / HTTP/1.1\r\na: b\r", b"PRI * HTTP/2.0\r\n"])
def test_a_beginning_that_may_become_a_head(begun: bytes) -> None:
    check_begun(begun)


@pytest.mark.parametrize(
    ("begun", "said"),
    [
        (b"\x16\x03\x01", "This is a TLS handshake"),
        (b"\r\n\0\r\nQUIT\n!\x11\0\x0c", "This is the PROXY protocol"),
        (b"\x00", "The first line"),
        (b"\r\n", "The first line"),
        (b" GET", "The first line"),
        (b"get", "The first line"),
        (b"GET / HTTP/1.1\n", "Each header"),
        (b"GET / HTTP/1.1\r\nhost: x\n", "Each header"),
        (b"PRI * HTTP/2.0\r\nhost: x\n", "hookgw speaks"),
    ],
)
def test_a_beginning_that_cannot_become_a_head(begun: bytes, said: str) -> None:
    with pytest.raises(Refused, match=said) as raised:
        check_begun(begun)
    assert raised.value.status == (505 if said == "hookgw speaks" else 400)


def test_trailers() -> None:
    check_trailers(b"\r\n")
    check_trailers(b"checksum: 1\r\nb:\r\n\r\n")
    for wrong in (b"a : b\r\n\r\n", b"a: b\n\r\n", b"a: b\r\n c\r\n\r\n", b"\x00\r\n\r\n"):
        with pytest.raises(Refused):
            check_trailers(wrong)


def refused(given: bytes) -> tuple[int, str]:
    """Return the status, and the beginning of the message."""
    with pytest.raises(Refused) as raised:
        read_head(given)
    message = raised.value.message
    known = (
        "The first line",
        "This is the PROXY protocol",
        "Each header",
        "The content-length",
        "The only transfer-encoding",
        "There must be one host",
        "The URL in the first line must have a host, and no user (RFC 9110, section 4.2).",
        "hookgw speaks",
        "hookgw does not speak WebSocket",
    )
    return raised.value.status, next((start for start in known if message.startswith(start)), message)
