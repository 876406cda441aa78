"""Cases of our own, from the sections of RFC 9110 and RFC 9112, for what no suite covers.

An expectation is the classes of the responses, as :mod:`tests.http_suites.servers` and
:mod:`tests.http_suites.clients` name them. Alternatives are separated by ``|``.
"""

from collections.abc import Iterator

from tests.http_suites.cases import ACCEPTED, REFUSED, Case

_H = b"Host: x\r\n"
_GET = b"GET /a HTTP/1.1\r\n" + _H
_POST = b"POST /a HTTP/1.1\r\n" + _H
_CHUNKED = _POST + b"Transfer-Encoding: chunked\r\n\r\n"
_END = b"\r\n"
_TWO = f"{ACCEPTED} {ACCEPTED}"

_REQUESTS: dict[str, tuple[bytes, str]] = {
    # RFC 9112, section 2: messages
    "9112 2.2 a blank line before the request": (_END + _GET + _END, ACCEPTED),
    "9112 2.2 whitespace before the first header": (b"GET /a HTTP/1.1\r\n " + _H + _END, REFUSED),
    "9112 2.2 a bare CR in a header": (_GET + b"a: b\rc\r\n\r\n", REFUSED),
    "9112 2.2 a bare CR behind the request line": (b"GET /a HTTP/1.1\r" + _H + _END, REFUSED),
    "9112 2.3 HTTP/1.0": (b"GET /a HTTP/1.0\r\n\r\n", ACCEPTED),
    "9112 2.3 the version in small letters": (b"GET /a http/1.1\r\n" + _H + _END, REFUSED),
    "9112 2.3 HTTP/2.0": (b"GET /a HTTP/2.0\r\n" + _H + _END, f"{REFUSED} 505"),
    "9112 2.3 HTTP/0.9": (b"GET /a\r\n", REFUSED),
    # Section 3: the request line
    "9112 3 two spaces": (b"GET  /a HTTP/1.1\r\n" + _H + _END, REFUSED),
    "9112 3 a tab": (b"GET\t/a HTTP/1.1\r\n" + _H + _END, REFUSED),
    "9112 3 a space in the target": (b"GET /a b HTTP/1.1\r\n" + _H + _END, REFUSED),
    "9112 3.1 an unknown method": (b"BREW /a HTTP/1.1\r\n" + _H + _END, ACCEPTED),
    "9112 3.1 a method with a bracket": (b"G[T /a HTTP/1.1\r\n" + _H + _END, REFUSED),
    "9112 3.2 no Host": (b"GET /a HTTP/1.1\r\n\r\n", f"{REFUSED} 400"),
    "9112 3.2 two Hosts": (b"GET /a HTTP/1.1\r\n" + _H + _H + _END, f"{REFUSED} 400"),
    "9112 3.2 an invalid Host": (b"GET /a HTTP/1.1\r\nHost: a b\r\n\r\n", f"{REFUSED} 400"),
    "9112 3.2 an empty Host": (b"GET /a HTTP/1.1\r\nHost:\r\n\r\n", ACCEPTED),
    "9112 3.2.1 a fragment": (b"GET /a#b HTTP/1.1\r\n" + _H + _END, REFUSED),
    "9112 3.2.1 a query": (b"GET /a?b=c%20d&e HTTP/1.1\r\n" + _H + _END, ACCEPTED),
    "9112 3.2.2 absolute-form": (b"GET http://y/a HTTP/1.1\r\n" + _H + _END, ACCEPTED),
    "9112 3.2.2 absolute-form without a path": (b"GET http://y HTTP/1.1\r\n" + _H + _END, ACCEPTED),
    "9112 3.2.2 absolute-form of https": (b"GET https://y:443/a HTTP/1.1\r\n" + _H + _END, ACCEPTED),
    "9112 3.2.2 absolute-form without Host": (b"GET http://y/a HTTP/1.1\r\n\r\n", f"{REFUSED} 400"),
    "9110 4.2.1 an empty host": (b"GET http:///a HTTP/1.1\r\n" + _H + _END, REFUSED),
    "9110 4.2.4 a user in the target": (b"GET http://u:p@y/a HTTP/1.1\r\n" + _H + _END, REFUSED),
    # Section 5: headers
    "9112 5 no space behind the colon": (_GET + b"a:b\r\n\r\n", ACCEPTED),
    "9112 5 tabs around the value": (_GET + b"a:\t b \t\r\n\r\n", ACCEPTED),
    "9112 5 an empty value": (_GET + b"a:\r\n\r\n", ACCEPTED),
    "9112 5.1 a space before the colon": (_GET + b"a : b\r\n\r\n", f"{REFUSED} 400"),
    "9112 5.1 a line without a colon": (_GET + b"a\r\n\r\n", REFUSED),
    "9112 5.1 an empty name": (_GET + b": b\r\n\r\n", REFUSED),
    "9112 5.2 a folded value": (_GET + b"a: b\r\n c\r\n\r\n", f"{REFUSED} 400|{ACCEPTED}"),
    "9110 5.1 every letter of a name": (_GET + b"!#$%&'*+-.^_`|~09az: b\r\n\r\n", ACCEPTED),
    "9110 5.5 a NUL": (_GET + b"a: b\0c\r\n\r\n", REFUSED),
    "9110 5.5 bytes beyond ASCII": (_GET + b"a: \xe9\xff\r\n\r\n", ACCEPTED),
    "6585 5 a large head": (_GET + b"a: " + b"x" * 100_000 + b"\r\n\r\n", f"{REFUSED} 431|{REFUSED} 400"),
    # Section 6: bodies
    "9112 6.1 chunked in HTTP/1.0": (
        b"POST /a HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        REFUSED,
    ),
    "9112 6.1 an unknown coding": (_POST + b"Transfer-Encoding: x\r\n\r\n", f"{REFUSED} 501|{REFUSED} 400"),
    "9112 6.1 chunked and then another": (
        _POST + b"Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
        REFUSED,
    ),
    "9112 6.1 chunked twice": (_POST + b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", REFUSED),
    "9112 6.1 chunked in capitals": (_POST + b"Transfer-Encoding: CHUNKED\r\n\r\n0\r\n\r\n", ACCEPTED),
    "9112 6.1 a length and chunked": (
        _POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        f"{REFUSED} 400",
    ),
    "9112 6.3 two lengths": (_POST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", f"{REFUSED} 400"),
    "9112 6.3 a length with a sign": (_POST + b"Content-Length: +1\r\n\r\na", f"{REFUSED} 400"),
    "9112 6.3 a length of words": (_POST + b"Content-Length: one\r\n\r\na", f"{REFUSED} 400"),
    "9112 6.3 an empty length": (_POST + b"Content-Length:\r\n\r\na", f"{REFUSED} 400"),
    "9112 6.3 a huge length": (_POST + b"Content-Length: " + b"9" * 30 + b"\r\n\r\n", REFUSED),
    "9112 6.3 no length": (_POST + _END, ACCEPTED),
    "9112 6.3 a body of a GET": (_GET + b"Content-Length: 3\r\n\r\nabc", ACCEPTED),
    "9112 6.3 a body and the next request": (_POST + b"Content-Length: 3\r\n\r\nabc" + _GET + _END, _TWO),
    # Section 7: chunks
    "9112 7.1 chunks": (_CHUNKED + b"3\r\nabc\r\n0\r\n\r\n", ACCEPTED),
    "9112 7.1 many small chunks": (_CHUNKED + b"1\r\na\r\n" * 5000 + b"0\r\n\r\n", ACCEPTED),
    "9112 7.1 chunks and the next request": (_CHUNKED + b"1\r\na\r\n0\r\n\r\n" + _GET + _END, _TWO),
    "9112 7.1 a size in capitals": (_CHUNKED + b"A\r\n0123456789\r\n0\r\n\r\n", ACCEPTED),
    "9112 7.1 leading zeros": (_CHUNKED + b"0003\r\nabc\r\n000\r\n\r\n", ACCEPTED),
    "9112 7.1 a size with 0x": (_CHUNKED + b"0x3\r\nabc\r\n0\r\n\r\n", REFUSED),
    "9112 7.1 a negative size": (_CHUNKED + b"-1\r\nabc\r\n0\r\n\r\n", REFUSED),
    "9112 7.1 a size that overflows": (_CHUNKED + b"f" * 17 + b"\r\nabc\r\n0\r\n\r\n", REFUSED),
    "9112 7.1 a chunk longer than its size": (_CHUNKED + b"3\r\nabcd\r\n0\r\n\r\n", REFUSED),
    "9112 7.1 a size that ends in LF": (_CHUNKED + b"3\nabc\r\n0\r\n\r\n", REFUSED),
    "9112 7.1.1 an extension": (_CHUNKED + b"3;a=b\r\nabc\r\n0\r\n\r\n", ACCEPTED),
    "9112 7.1.1 a quoted extension": (_CHUNKED + b'3;a="b c"\r\nabc\r\n0;d\r\n\r\n', ACCEPTED),
    "9112 7.1.1 long extensions": (
        _CHUNKED + b"1;a=%b\r\na\r\n" % (b"x" * 200) * 1000 + b"0\r\n\r\n",
        REFUSED,
    ),
    "9112 7.1.1 one endless extension": (_CHUNKED + b"1;" + b"x" * 200_000 + b"\r\na\r\n0\r\n\r\n", REFUSED),
    "9112 7.1.2 trailers": (_CHUNKED + b"0\r\na: b\r\nc: d\r\n\r\n", ACCEPTED),
    "9112 7.1.2 a malformed trailer": (_CHUNKED + b"0\r\na b\r\n\r\n", REFUSED),
    "9112 8 a body that is cut off": (_POST + b"Content-Length: 5\r\n\r\nabc", f"{REFUSED} 400|closed"),
    "9112 8 chunks that are cut off": (_CHUNKED + b"3\r\nab", f"{REFUSED} 400|closed"),
    "9112 8 a head that is cut off": (_GET + b"a: b", f"closed|{REFUSED} 400"),
    # Section 9: connections
    "9112 9.3 two requests": (_GET + _END + _GET + _END, _TWO),
    "9112 9.3 HTTP/1.0 is the last": (b"GET /a HTTP/1.0\r\n\r\n" + _GET + _END, ACCEPTED),
    "9112 9.6 close is the last": (_GET + b"Connection: close\r\n\r\n" + _GET + _END, ACCEPTED),
    "9112 9.6 close among others": (_GET + b"Connection: a, Close\r\n\r\n" + _GET + _END, ACCEPTED),
    "9110 7.8 an upgrade that is not offered": (
        _GET + b"Connection: upgrade\r\nUpgrade: h2c\r\n\r\n",
        ACCEPTED,
    ),
    "9110 9.3.2 HEAD": (b"HEAD /a HTTP/1.1\r\n" + _H + _END, ACCEPTED),
    "9110 9.3.2 a refused HEAD": (b"HEAD /a HTTP/1.1\r\n\r\n", f"{REFUSED} 400"),
    "9110 9.3.7 OPTIONS": (b"OPTIONS /a HTTP/1.1\r\n" + _H + _END, ACCEPTED),
    "9110 9.3.7 OPTIONS of the server": (b"OPTIONS * HTTP/1.1\r\n" + _H + _END, f"{ACCEPTED}|{REFUSED}"),
    "9110 10.1.1 the body comes unasked": (
        _POST + b"Expect: 100-continue\r\nContent-Length: 3\r\n\r\nabc",
        f"{ACCEPTED}|100 {ACCEPTED}",
    ),
    "9110 10.1.1 Expect in HTTP/1.0": (
        b"POST /a HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc",
        ACCEPTED,
    ),
    "9110 10.1.1 Expect without a body": (_GET + b"Expect: 100-continue\r\n\r\n", ACCEPTED),
    "9110 10.1.1 no 100 where the request is refused": (
        b"POST /a HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n",
        f"{REFUSED} 400",
    ),
}

_OK = b"HTTP/1.1 200 OK\r\n"
_BODY = b"Content-Length: 2\r\n\r\nok"

_RESPONSES: dict[str, tuple[bytes, str]] = {
    "9112 2.3 HTTP/1.0": (b"HTTP/1.0 200 OK\r\n\r\nok", "200"),
    "9112 2.3 HTTP/1.2": (b"HTTP/1.2 200 OK\r\n" + _BODY, "200"),
    "9112 2.3 HTTP/2.0": (b"HTTP/2.0 200 OK\r\n" + _BODY, "failed"),
    "9112 2.2 bare line feeds": (b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok", "200"),
    "9112 4 no reason": (b"HTTP/1.1 200 \r\n" + _BODY, "200"),
    "9112 4 no reason and no space": (b"HTTP/1.1 200\r\n" + _BODY, "200"),
    "9112 4 a reason beyond ASCII": (b"HTTP/1.1 200 \xe9t\xe9\r\n" + _BODY, "200"),
    "9112 4 two digits": (b"HTTP/1.1 20 OK\r\n" + _BODY, "failed"),
    "9112 4 no status": (b"HTTP/1.1 OK\r\n" + _BODY, "failed"),
    "9112 4 no HTTP": (b"SSH-2.0-OpenSSH_9\r\n", "failed"),
    "9112 4 nothing": (b"", "failed"),
    "9110 15 an unknown status": (b"HTTP/1.1 299 Odd\r\n" + _BODY, "299"),
    "9110 15 a status beyond 599": (b"HTTP/1.1 600 Odd\r\n" + _BODY, "600|failed"),
    "9112 5 a line without a colon": (_OK + b"nonsense\r\n" + _BODY, "200"),
    "9112 5.1 a space in a name": (_OK + b"X Powered By: PHP\r\n" + _BODY, "200"),
    "9112 5.1 a space before the colon": (_OK + b"X-A : 1\r\n" + _BODY, "200"),
    "9112 5.2 a folded value": (_OK + b"a: b\r\n c\r\n" + _BODY, "200"),
    "9112 6.1 chunked": (_OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", "200"),
    "9112 6.1 chunked and a tab": (_OK + b"Transfer-Encoding: chunked\t\r\n\r\n2\r\nok\r\n0\r\n\r\n", "200"),
    "9112 6.1 chunked in HTTP/1.0": (
        b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        "200",
    ),
    "9112 6.3 no length": (_OK + b"\r\nok", "200"),
    "9112 6.3 a 204 with a length": (b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", "204"),
    "9112 6.3 two lengths": (_OK + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\nok", "200|failed"),
    "9112 6.3 an invalid length": (_OK + b"Content-Length: x\r\n\r\nok", "200|failed"),
    "9112 7.1 a malformed chunk": (_OK + b"Transfer-Encoding: chunked\r\n\r\nx\r\nok", "200"),
    "9112 7.1.2 trailers": (
        _OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\na: b\r\n\r\n",
        "200",
    ),
    "9112 8 a head that is cut off": (b"HTTP/1.1 200 OK\r\nContent-Length: x", "failed"),
    "9112 8 a status line that is cut off": (b"HTTP/1.1 20", "failed"),
    "9112 8 a body that is cut off": (_OK + b"Content-Length: 5\r\n\r\nok", "200"),
    "9112 9.6 close": (_OK + b"Connection: close\r\n" + _BODY, "200"),
    "9110 15.2 a 100": (b"HTTP/1.1 100 Continue\r\n\r\n" + _OK + _BODY, "200"),
    "9110 15.2 a 100 of HTTP/1.0": (b"HTTP/1.0 100 Continue\r\n\r\n" + _OK + _BODY, "200"),
    "9110 15.2 a 103 that says close": (
        b"HTTP/1.1 103 Early Hints\r\nConnection: close\r\nLink: </a>\r\n\r\n" + _OK + _BODY,
        "200",
    ),
    "9110 15.2 three interim responses": (b"HTTP/1.1 102 Processing\r\n\r\n" * 3 + _OK + _BODY, "200"),
    "9110 15.2 an interim response alone": (b"HTTP/1.1 100 Continue\r\n\r\n", "failed"),
    "9110 15.2.2 a switch that nobody asked for": (
        b"HTTP/1.1 101 Switching\r\nUpgrade: a\r\nConnection: upgrade\r\n\r\n",
        "failed",
    ),
    "9112 11.1 a second response behind the first": (_OK + _BODY + b"HTTP/1.1 500 No\r\n\r\n", "200"),
}


def requests() -> Iterator[Case]:
    """Yield what a client sends, with the class that the RFC demands."""
    for name, (sent, expected) in _REQUESTS.items():
        yield Case("RFC 9110, 9112", name, sent, expected)


def responses() -> Iterator[Case]:
    """Yield what a receiver answers, with the status that must come of it, or ``failed``."""
    for name, (sent, expected) in _RESPONSES.items():
        yield Case("RFC 9110, 9112", name, sent, expected)
