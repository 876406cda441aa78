"""Responses from bytes: framing, decoding, and every limit at its edge."""

import gzip
import re
import zlib
from collections.abc import Callable, Iterable
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.public.delivery import MAX_CHUNKS, Response, ResponseFailed, ResponseParser, decode_content
from tests.public.delivery import MAX_INTERIM_RESPONSES as MAX_INTERIM
from tests.public.delivery import MAX_RESPONSE_HEAD as MAX_HEAD
from tests.public.delivery import MAX_RESPONSE_HEADERS as MAX_HEADERS

LIMIT = 1000
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


def read(
    data: bytes, *, step: int = 1 << 20, eof: bool = True, bodiless: bool = False
) -> tuple[Response, bool]:
    """Feed the bytes in steps; return the response and whether the connection is reusable."""
    parser = ResponseParser(LIMIT)
    parser.begin(bodiless=bodiless)
    for start in range(0, len(data), step):
        if parser.feed(data[start : start + step]):
            break
    else:
        assert eof, "the response should have been over"
        parser.end_of_stream()
    assert parser.status, "the head should have been complete"
    return parser.finish(), parser.reusable


CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
CHUNKS = b"2\r\nok\r\n0\r\n\r\n"


def sized(lines: bytes = b"", *, status_line: bytes = b"HTTP/1.1 200 OK") -> bytes:
    """Return a response with the body ``ok`` and further lines of headers, each with its end."""
    return status_line + b"\r\n" + lines + b"content-length: 2\r\n\r\nok"


# A section of an RFC (9112 if none is named), a response, and what hookgw makes of it: its body, whether that
# is all of it, and whether the connection may be used again. The last column names those of curl 7.88 and
# Node 20 that fail instead.
CASES = [
    # What is right.
    ("6.3 (6)", OK, b"ok", True, True, ""),
    ("6.3 (4)", CHUNKED + CHUNKS, b"ok", True, True, ""),
    ("6.3 (8)", b"HTTP/1.1 200 OK\r\n\r\nok", b"ok", True, False, ""),
    ("6.3 (1)", b"HTTP/1.1 204 No Content\r\n\r\n", b"", True, True, ""),
    ("6.3 (1)", b"HTTP/1.1 304 Not Modified\r\ncontent-length: 2\r\n\r\n", b"", True, True, ""),
    ("4 (no reason)", sized(status_line=b"HTTP/1.1 200 "), b"ok", True, True, ""),
    ("4 (no space)", sized(status_line=b"HTTP/1.1 200"), b"ok", True, True, ""),
    ("4 (obs-text)", sized(status_line=b"HTTP/1.1 200 \xff"), b"ok", True, True, ""),
    ("9110 2.5", sized(status_line=b"HTTP/1.2 200 OK"), b"ok", True, True, "curl and Node"),
    ("9110 2.5", sized(status_line=b"HTTP/1.9 200 OK"), b"ok", True, True, "curl and Node"),
    ("9110 7.8", sized(b"upgrade: h2c\r\nconnection: upgrade\r\n"), b"ok", True, True, ""),
    ("9110 5.5", sized(b"x: \xff\x01\x7f\r\nempty:\r\n"), b"ok", True, True, "Node"),
    ("9110 8.6", b"HTTP/1.1 200 OK\r\nCONTENT-LENGTH:2\t\r\n\r\nok", b"ok", True, True, "Node"),
    # Interim responses: skipped, whatever they say.
    ("9110 15.2", b"HTTP/1.1 100 Continue\r\n\r\n" + OK, b"ok", True, True, ""),
    ("9110 15.2", b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" * 2 + OK, b"ok", True, True, ""),
    ("9110 15.2", b"HTTP/1.1 199 x\r\n\r\n" + OK, b"ok", True, True, ""),
    ("9.6", b"HTTP/1.1 103 x\r\nconnection: close\r\n\r\n" + OK, b"ok", True, False, "Node"),
    ("9110 15.2", b"HTTP/1.0 100 Continue\r\n\r\n" + OK, b"ok", True, False, "Node"),
    ("6.2", b"HTTP/1.1 103 x\r\ncontent-length: 9\r\n\r\n" + OK, b"ok", True, False, ""),
    ("6.2", b"HTTP/1.1 103 x\r\ncontent-length: 2, 3\r\n\r\n" + OK, b"ok", True, False, "Node"),
    ("6.1", b"HTTP/1.1 103 x\r\ntransfer-encoding: chunked\r\n\r\n" + OK, b"ok", True, False, ""),
    ("5", b"HTTP/1.1 103 x\r\nno colon\r\n\r\n" + OK, b"ok", True, False, "curl and Node"),
    ("2.2", b"HTTP/1.1 100 x\n\n\r\n" + OK, b"ok", True, False, "curl and Node"),
    # Whether the connection persists.
    ("9.6", sized(b"connection: close\r\n"), b"ok", True, False, ""),
    ("9.6", sized(b"connection: x ,\tClose\r\n"), b"ok", True, False, ""),
    ("9.6", sized(b"connection: keep-alive\r\nConnection: close\r\n"), b"ok", True, False, ""),
    ("9.3", sized(status_line=b"HTTP/1.0 200 OK"), b"ok", True, False, ""),
    ("9.3", sized(b"connection: Keep-Alive\r\n", status_line=b"HTTP/1.0 200 OK"), b"ok", True, True, ""),
    ("9.3", b"HTTP/1.0 200 OK\r\n\r\nok", b"ok", True, False, ""),
    # Lines that are malformed: ignored, and the connection ends.
    ("5.1", sized(b"X Powered By: PHP\r\n"), b"ok", True, False, "Node"),
    ("5.1", sized(b"X-A : 1\r\n"), b"ok", True, False, "Node"),
    ("5", sized(b"no colon\r\n"), b"ok", True, False, "curl and Node"),
    ("5", sized(b": no name\r\n"), b"ok", True, False, "Node"),
    ("5", sized(b"<html>: x\r\n\xc3\xa9: y\r\n"), b"ok", True, False, "Node"),
    ("2.2", sized(b"x: a\rb\r\n"), b"ok", True, False, "Node"),
    ("9110 5.5", sized(b"x: a\0b\r\n"), b"ok", True, False, "curl and Node"),
    ("2.2 (blank)", b"\r\n" + OK, b"ok", True, False, "curl"),
    ("2.2 (blank)", b"\n\r\n\n" + OK, b"ok", True, False, "curl"),
    ("2.2 (bare LF)", OK.replace(b"\r\n", b"\n"), b"ok", True, False, "Node"),
    ("2.2 (bare LF)", sized(b"x: 1\ny: 2\r\n"), b"ok", True, False, "Node"),
    ("2.2 (bare LF)", b"HTTP/1.1 200 OK\ncontent-length: 2\r\n\nok", b"ok", True, False, "Node"),
    ("2.2 (space first)", sized(b" x: 1\r\n"), b"ok", True, False, "curl and Node"),
    ("5.2", sized(b"x: a\r\n b\r\n\tc\r\n"), b"ok", True, False, "Node"),
    ("3 (two spaces)", sized(status_line=b"HTTP/1.1  200 OK"), b"ok", True, False, "Node"),
    # Where the body ends.
    ("6.3 (5)", sized(b"content-length: 2\r\n"), b"ok", True, False, "Node"),
    ("6.3 (5)", sized(b"content-length: 2, 2\r\n"), b"ok", True, False, "Node"),
    ("6.3 (5)", b"HTTP/1.1 200 OK\r\ncontent-length: 02\r\n\r\nok", b"ok", True, True, ""),
    (
        "6.3 (3)",
        sized(b"transfer-encoding: chunked\r\n")[:-2] + CHUNKS,
        b"ok",
        True,
        False,
        "Node",
    ),
    ("6.1 (HTTP/1.0)", CHUNKED.replace(b"1.1", b"1.0") + CHUNKS, b"ok", True, False, ""),
    (
        "6.1 (HTTP/1.0)",
        b"HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ntransfer-encoding: chunked\r\n\r\n" + CHUNKS,
        b"ok",
        True,
        False,
        "",
    ),
    ("9110 5.6.3", CHUNKED.replace(b"ked", b"KED\t \t") + CHUNKS, b"ok", True, True, "Node"),
    ("6.1 (twice)", CHUNKED.replace(b": ", b": chunked, ") + CHUNKS, b"ok", True, False, ""),
    ("2616 3.6", sized(b"transfer-encoding: identity\r\n"), b"ok", True, False, "Node"),
    ("9110 8.6", b"HTTP/1.1 204 No Content\r\ncontent-length: 0\r\n\r\n", b"", True, True, ""),
    ("9110 8.6", b"HTTP/1.1 204 No Content\r\ncontent-length: 2\r\n\r\n", b"", True, False, ""),
    ("6.1", b"HTTP/1.1 204 No Content\r\ntransfer-encoding: chunked\r\n\r\n", b"", True, False, ""),
    # Chunked bodies.
    ("7.1.1", CHUNKED + b'2;a=b;c="d;e"\r\nok\r\n0;f\r\n\r\n', b"ok", True, True, ""),
    ("7.1.1 (spaces)", CHUNKED + b"2 ;a=b\r\nok\r\n0   \r\n\r\n", b"ok", True, True, "Node"),
    ("7.1.2", CHUNKED + b"2\r\nok\r\n0\r\nx-t: 1\r\nstatus: 500\r\n\r\n", b"ok", True, True, ""),
    ("7.1", CHUNKED + b"00002\r\nok\r\n000\r\n\r\n", b"ok", True, True, ""),
    # Heads that say where the body ends, and cannot be believed: the status stands, and the body is not read.
    ("6.3 (5)", sized(b"content-length: 3\r\n"), b"", False, False, "Node"),
    ("6.3 (5)", sized(b"content-length: 2, 3\r\n"), b"", False, False, "Node"),
    ("6.3 (5)", sized(b"content-length: -2\r\n"), b"", False, False, "curl and Node"),
    ("6.3 (5)", sized(b"content-length: 99999999999999999999999\r\n"), b"", False, False, "Node"),
    ("6.3 (5)", sized(b"content-length: x\r\n"), b"", False, False, "curl and Node"),
    ("6.3 (5)", sized(b"content-length:\r\n"), b"", False, False, "curl and Node"),
    ("5.1", sized(b"Content-Length : 2\r\n"), b"", False, False, "Node"),
    ("5.1", sized(b"Transfer-Encoding : chunked\r\n"), b"", False, False, "Node"),
    ("5.2", sized(b"content-length: 2\r\n 2\r\n"), b"", False, False, "Node"),
    (
        "6.3 (4)",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n2\r\nok",
        b"",
        False,
        False,
        "curl and Node",
    ),
    (
        "6.3 (4)",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked, gzip\r\n\r\n2\r\nok",
        b"",
        False,
        False,
        "curl",
    ),
    ("6.3 (4)", sized(b"transfer-encoding: xchunked\r\n"), b"", False, False, "curl and Node"),
    # Bodies that are cut off, or malformed: the status stands, with as much of the body as was sound.
    ("8", b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nok", b"ok", False, False, "curl and Node"),
    ("8", CHUNKED, b"", False, False, "curl and Node"),
    ("8", CHUNKED + b"2\r\nok\r\n", b"ok", False, False, "curl and Node"),
    ("8", CHUNKED + b"2\r\nok\r\n0\r\n", b"ok", False, False, "curl and Node"),
    ("7.1", CHUNKED + b"2\r\nok\r\nzz\r\n", b"ok", False, False, "curl and Node"),
    ("7.1", CHUNKED + b"2\r\nokk\r\n0\r\n\r\n", b"ok", False, False, "curl and Node"),
    ("7.1", CHUNKED + b"2\nok\n0\n\n", b"", False, False, "Node"),
    ("7.1", CHUNKED + b"ffffffffffffffffff\r\nok", b"", False, False, "curl and Node"),
    ("7.1.1", CHUNKED + b"2;\nok\r\n0\r\n\r\n", b"", False, False, "Node"),
    ("7.1.2", CHUNKED + b"2\r\nok\r\n0\r\nx y: 1\r\n\r\n", b"ok", False, False, "Node"),
]


@pytest.mark.parametrize("step", [1, 2, 7, 1 << 20])
@pytest.mark.parametrize(
    ("data", "body", "complete", "reusable"),
    [
        pytest.param(*case, id=f"RFC {section if section[4:5] == ' ' else '9112 ' + section}, {number}")
        for number, (section, *case, _) in enumerate(CASES)
    ],
)
def test_a_complete_head_decides_whatever_it_says(
    data: bytes, body: bytes, complete: bool, reusable: bool, step: int
) -> None:
    response, good = read(data, step=step)
    assert (response.body, response.complete, good) == (body, complete, reusable)
    assert response.status in (200, 204, 304)


@pytest.mark.parametrize("start", [b"", b"HTTP/1.1 103 Early Hints\r\n\r\n", b"\r\n"])
@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: x",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r",
        b"HTTP/1.1 200 OK\r\nno colon\r\n",
        b"HTTP/1.1 200 OK\n",
        b"HTTP/1.1 200 OK",
    ],
)
def test_nothing_is_reported_before_the_head_is_complete(head: bytes, start: bytes) -> None:
    for step in (1, 1 << 20):
        parser, data = ResponseParser(LIMIT), start + head
        assert not any(parser.feed(data[at : at + step]) for at in range(0, len(data), step))
        parser.end_of_stream()
        assert (parser.status, parser.started) == (0, True)
        parser.begin()
        parser.feed(data)
        parser.feed(b"\n" if head.endswith(b"\r") else b"\n\n")
        assert parser.status == 200


@pytest.mark.parametrize(
    "behind",
    [b"hello", OK, b"\x00", b"HTTP/1.1 100 Continue\r\n\r\n"],
    ids=["text", "response", "zero", "interim"],
)
@pytest.mark.parametrize("response", [OK, b"HTTP/1.1 204 No Content\r\n\r\n"], ids=["200", "204"])
def test_bytes_behind_a_response_are_not_part_of_it(response: bytes, behind: bytes) -> None:
    first, good = read(response + behind, eof=False)
    assert (first.status, first.complete) == (read(response)[0].status, True)
    assert first.body == read(response)[0].body
    assert not good


@pytest.mark.parametrize(
    "data",
    [
        b"hello world\r\n",
        b"hi",
        b"\x15\x03\x01\x00\x02\x02\x46",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"ICY 200 OK\r\n\r\n",
        b"RTSP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/2.0 200 OK\r\n\r\n",
        b"HTTP/0.9 200 OK\r\n\r\n",
        b"HTTP/1.10 200 OK\r\n\r\n",
        b"HTTP/1. 200 OK\r\n\r\n",
        b"http/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200OK\r\n\r\n",
        b"HTTP/1.1 200\rOK\r\n\r\n",
        b"HTTP/1.1 20 OK\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/1.1 two OK\r\n\r\n",
        b"HTTP/1.1 099 OK\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 000 OK\r\ncontent-length: 0\r\n\r\n",
        b"POST / HTTP/1.1\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 20 OK\r\n\r\n",
    ],
)
def test_what_is_not_http_is_an_error_without_its_bytes(data: bytes) -> None:
    """A URL may lead to another service in the network, and its owner must not read that service's banner."""
    for sent, step in ((data, 1 << 20), (b"\r\n" + data, 1), (data, 5)):
        with pytest.raises(ResponseFailed, match=r"did not respond with (valid )?HTTP/1") as caught:
            read(sent, step=step, eof=False)
        shown = set(re.findall(r"\w+", caught.value.message.replace("HTTP/1", "").lower()))
        sent_words = set(re.findall(r"\w+", data.decode("latin-1").lower()))
        # The protocol and this header are named by hookgw and llhttp themselves.
        assert not shown & (sent_words - {"http", "content", "length"})


def test_a_receiver_that_speaks_tls_is_recognised() -> None:
    for data in (b"\x15\x03\x01\x00\x02\x02\x46", b"\x16\x03\x03"):
        with pytest.raises(ResponseFailed, match=r"but with TLS\. Use https://"):
            read(data, eof=False)


@pytest.mark.parametrize("lines", [b"upgrade: websocket\r\nconnection: upgrade\r\n", b""])
def test_a_change_of_protocol_is_a_failure(lines: bytes) -> None:
    with pytest.raises(ResponseFailed, match="101"):
        read(b"HTTP/1.1 101 Switching Protocols\r\n%b\r\n" % lines)


def test_every_status_is_passed_on() -> None:
    for status in (*range(200, 600), 600, 999):
        response, good = read(b"HTTP/1.1 %d x\r\ncontent-length: 0\r\n\r\n" % status, eof=False)
        assert (response.status, response.complete, good) == (status, True, True)


def test_the_response_to_a_head_request_is_a_head() -> None:
    response, good = read(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n", eof=False, bodiless=True)
    assert (response.status, response.body, response.complete, good) == (200, b"", True, False)


def test_a_body_after_a_head_request_is_not_kept() -> None:
    response, _ = read(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello", eof=False, bodiless=True)
    assert response.body == b""


@pytest.mark.parametrize(
    "framing", [b"content-length: %d\r\n\r\n%b", b"transfer-encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n"]
)
@pytest.mark.parametrize("step", [300, 1 << 20])
def test_the_body_is_cut_at_the_limit(framing: bytes, step: int) -> None:
    for size in (LIMIT, LIMIT + 1):
        response, good = read(b"HTTP/1.1 200 OK\r\n" + framing % (size, b"x" * size), step=step, eof=False)
        assert (len(response.body), response.complete, good) == (LIMIT, size == LIMIT, size == LIMIT)


def test_a_large_body_is_not_read_to_its_end() -> None:
    parser = ResponseParser(LIMIT)
    parser.begin()
    parser.feed(b"HTTP/1.1 200 OK\r\ncontent-length: 100000000\r\n\r\n")
    fed = [parser.feed(b"x" * 500) for _ in range(3)]
    assert fed == [False, False, True]


@pytest.mark.parametrize(("count", "whole"), [(MAX_CHUNKS - 1, True), (MAX_CHUNKS, False)])
def test_chunks_are_counted(count: int, whole: bool) -> None:
    """The last, empty one is counted, too."""
    parser = ResponseParser(64 * 1024)
    assert parser.feed(CHUNKED + b"1\r\nx\r\n" * count + b"0\r\n\r\n")
    response = parser.finish()
    assert (response.status, response.body, response.complete) == (200, b"x" * count, whole)
    assert parser.reusable is whole


@pytest.mark.parametrize(
    "piece", [b"1;%b\r\nx\r\n" % (b"e" * 200), b"x-trailer: 1\r\n" * 10], ids=["chunks", "trailers"]
)
def test_chunk_extensions_and_trailers_are_limited(piece: bytes) -> None:
    parser = ResponseParser(LIMIT)
    parser.begin()
    parser.feed(
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + (b"0\r\n" if b"trailer" in piece else b"")
    )
    most = 2 * (LIMIT + MAX_HEAD) // len(piece) + 1
    assert any(parser.feed(piece) for _ in range(most))
    response = parser.finish()
    assert not response.complete
    assert response.headers == [(b"transfer-encoding", b"chunked")]


def test_the_head_is_limited() -> None:
    start = b"HTTP/1.1 200 OK\r\nx: "
    parser = ResponseParser(LIMIT)
    parser.begin()
    assert not parser.feed(start + b"x" * (MAX_HEAD - len(start)))
    with pytest.raises(ResponseFailed, match=f"longer than {MAX_HEAD} bytes"):
        parser.feed(b"x")


def test_the_number_of_headers_is_limited() -> None:
    line = b"x: 1\r\n"
    response, _ = read(b"HTTP/1.1 204 OK\r\n" + line * MAX_HEADERS + b"\r\n")
    assert len(response.headers) == MAX_HEADERS
    with pytest.raises(ResponseFailed, match=f"more than {MAX_HEADERS} headers"):
        read(b"HTTP/1.1 204 OK\r\n" + line * (MAX_HEADERS + 1) + b"\r\n")


def test_the_number_of_interim_responses_is_limited() -> None:
    interim = b"HTTP/1.1 102 Processing\r\nx: 1\r\n\r\n"
    response, good = read(interim * MAX_INTERIM + OK, step=len(interim))
    assert (response.headers, good) == ([(b"content-length", b"2")], True)
    for step in (len(interim), 1 << 20):
        with pytest.raises(ResponseFailed, match=f"more than {MAX_INTERIM} interim"):
            read(interim * (MAX_INTERIM + 1) + OK, step=step)


@pytest.mark.parametrize(
    ("coding", "encode"), [(b"gzip", gzip.compress), (b"X-GZip", gzip.compress), (b"deflate", zlib.compress)]
)
def test_the_body_is_decoded(coding: bytes, encode: type[bytes]) -> None:
    body = encode(b"hello")
    data = b"HTTP/1.1 200 OK\r\ncontent-encoding: %b\r\ncontent-length: %d\r\n\r\n%b" % (
        coding,
        len(body),
        body,
    )
    response, good = read(data, step=5)
    assert (response.body, response.complete, good) == (b"hello", True, True)


@pytest.mark.parametrize(
    "body",
    [gzip.compress(b"x" * 100_000), gzip.compress(b"x" * 500)[:20], b"garbage"],
    ids=["bomb", "cut off", "garbage"],
)
def test_a_bomb_or_bad_gzip_keeps_the_status(body: bytes) -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(body)
    response, good = read(head + body, eof=False)
    assert (response.status, response.complete, good) == (200, False, False)
    assert len(response.body) <= LIMIT


def test_one_parser_reads_several_responses() -> None:
    parser = ResponseParser(LIMIT)
    for status in (200, 404, 204, 304, 500):
        parser.begin()
        assert not parser.started
        assert parser.feed(b"HTTP/1.1 %d x\r\nx-status: %d\r\ncontent-length: 0\r\n\r\n" % (status, status))
        response = parser.finish()
        assert (response.status, response.header("x-status"), parser.reusable) == (status, str(status), True)


@pytest.mark.parametrize(
    "data",
    [
        OK,
        b"HTTP/1.1 204 No Content\r\nx: 1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        b"HTTP/1.1 429 Busy\r\nretry-after: 5\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n" + b"x" * 1000,
    ],
    ids=["sized", "empty", "chunked", "busy", "too large to be kept"],
)
def test_the_same_response_again_and_again_in_one_piece_or_in_several(data: bytes) -> None:
    parser, (expected, _) = ResponseParser(LIMIT), read(data)
    for step in (1 << 20, 1 << 20, 7, 1 << 20, len(data) - 1, 1 << 20, 1 << 20):
        parser.begin()
        fed = [parser.feed(data[start : start + step]) for start in range(0, len(data), step)]
        assert fed == [False] * (len(fed) - 1) + [True]
        assert parser.started
        assert parser.status == expected.status
        assert (parser.finish(), parser.reusable) == (expected, True)
        if step == 7:
            parser.rest()


def test_the_bytes_of_the_last_response_are_only_a_part_of_this_one() -> None:
    parser = ResponseParser(LIMIT)
    for data, reusable in ((OK, True), (OK, True), (OK + OK, False)):
        parser.begin()
        assert parser.feed(data)
        assert (parser.finish().body, parser.reusable) == (b"ok", reusable)
    parser = ResponseParser(LIMIT)
    empty = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
    for data in (empty, b"HTTP/1.1 200 OK\r\nx: 1\r\n" + empty[17:]):
        parser.begin()
        assert parser.feed(data)
        assert len(parser.finish().headers) == data.count(b": ")


def test_the_same_bytes_in_answer_to_head_are_another_response() -> None:
    parser = ResponseParser(LIMIT)
    for bodiless, body in ((False, b"ok"), (True, b"")):
        parser.begin(bodiless=bodiless)
        assert parser.feed(OK)
        assert parser.finish().body == body


def test_headers_are_found_by_name() -> None:
    response = Response(200, [(b"retry-after", b" 5 "), (b"retry-after", b"6"), (b"x", b"\xff")], b"", True)
    assert response.header("retry-after") == "5"
    assert response.header("x") == "�"
    assert response.header("none") is None


Result = str | tuple[Response, bool]


def result(data: bytes, cuts: Iterable[int], limit: int = 8) -> Result:
    """Return what becomes of bytes that are cut at these places: the error, or the response and its reuse."""
    parser = ResponseParser(limit)
    places = [0, *sorted({cut for cut in cuts if 0 < cut < len(data)}), len(data)]
    try:
        for start, end in pairwise(places):
            if start < end and parser.feed(data[start:end]):
                break
        else:
            end = len(data)
            reusable = parser.reusable
            parser.end_of_stream()
            assert not reusable
    except ResponseFailed as error:
        assert not parser.status
        return error.message
    if not parser.status:
        return "no head"
    response = parser.finish()
    # What is behind a response and was not fed is found before the connection is used again.
    return response, parser.reusable and end == len(data)


PIECES = st.sampled_from(
    [
        *(
            b"HTTP/1.1 200 OK",
            b"HTTP/1.0 200 OK",
            b"HTTP/1.1 103 x",
            b"HTTP/1.1 204",
            b"HTTP/1.1 101 x",
            b"HTTP/1.1 2",
        ),
        *(
            b"\r\n",
            b"\r\n\r\n",
            b"\n",
            b"\r",
            b" ",
            b":",
            b"\0",
            b"\x16\x03",
            b"\x15",
            b"x: 1\r\n",
            b"x y: 1\r\n",
        ),
        *(b"content-length: 2\r\n", b"content-length: 9\r\n", b"Transfer-Encoding: chunked\r\n"),
        *(
            b"connection: close\r\n",
            b"content-encoding: gzip\r\n",
            b"2\r\nok\r\n",
            b"2;x\r\nok\r\n",
            b"0\r\n\r\n",
            b"ok",
        ),
    ]
)


@settings(max_examples=500)
@given(
    st.lists(PIECES, max_size=12).map(b"".join), st.lists(st.integers(1, 150), max_size=8), st.integers(0, 20)
)
@example(CHUNKED + b"2\r\nok\r\n0\r\n\r\n\r\n", [], 8)
@example(CHUNKED + b"2\r\nok\r\n0\r\n\r\n\r\n", list(range(1, 80)), 8)
def test_where_the_bytes_are_cut_makes_no_difference(data: bytes, cuts: list[int], limit: int) -> None:
    whole = result(data, (), limit)
    assert result(data, cuts, limit) == whole
    assert result(data, range(1, len(data)), limit) == whole


@pytest.mark.parametrize("behind", [b"", OK])
@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 200 OK\r\n%b\r\n" % (b"x: 1\r\n" * count)
        for count in (MAX_HEADERS - 1, MAX_HEADERS, MAX_HEADERS + 1)
    ]
    + [b"HTTP/1.1 102 x\r\n\r\n" * count + OK for count in (MAX_INTERIM, MAX_INTERIM + 1)]
    + [
        b"HTTP/1.1 102 x\r\nx: %b\r\n\r\n" % (b"x" * (MAX_HEAD + more)) + OK
        for more in (-100, -62, -61, -30, 0)
    ]
    + [b"\r\n" * (MAX_HEAD // 2 + more) + OK for more in (-19, -18, 0)]
    + [
        CHUNKED + b"0\r\n" + b"x: 1\r\n" * ((2 * (8 + MAX_HEAD) + more) // 6) + b"\r\n"
        for more in (-11, -5, 0, 6)
    ],
)
def test_no_limit_depends_on_the_cuts(data: bytes, behind: bytes) -> None:
    whole = result(data + behind, ())
    for step in (1 << 15, 4093, 17):
        assert result(data + behind, range(step, len(data), step)) == whole
    edge = len(data) - 1
    assert result(data + behind, (edge, edge + 1)) == whole


@given(st.binary(max_size=300), st.integers(1, 50), st.booleans())
def test_any_bytes_give_a_response_or_response_failed(data: bytes, step: int, with_status: bool) -> None:
    parser = ResponseParser(LIMIT)
    parser.begin()
    data = b"HTTP/1.1 200 OK\r\n" + data if with_status else data
    try:
        for start in range(0, len(data), step):
            if parser.feed(data[start : start + step]):
                break
    except ResponseFailed:
        assert not parser.status
    else:
        parser.end_of_stream()
        assert not parser.status or parser.finish().status == parser.status


TEXT = b"hello " * 100


def raw_deflate(data: bytes) -> bytes:
    encoder = zlib.compressobj(wbits=-15)
    return encoder.compress(data) + encoder.flush()


@pytest.mark.parametrize(
    ("coding", "body"),
    [
        ("gzip", gzip.compress(TEXT, mtime=0)),
        (" GZIP ", gzip.compress(TEXT, mtime=0)),
        ("x-gzip", gzip.compress(TEXT, mtime=0)),
        ("deflate", zlib.compress(TEXT)),
        ("deflate", raw_deflate(TEXT)),
        ("identity", TEXT),
        ("br", TEXT),
        ("gzip, gzip", TEXT),
    ],
)
def test_known_codings_are_decoded_and_others_are_left_alone(coding: str, body: bytes) -> None:
    assert decode_content(body, coding, len(TEXT)) == (TEXT, True)


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_the_limit_applies_to_the_decoded_body(coding: str) -> None:
    body = gzip.compress(TEXT, mtime=0) if coding == "gzip" else zlib.compress(TEXT)
    assert decode_content(body, coding, len(TEXT) - 1) == (TEXT[:-1], False)


def test_a_bomb_is_cut_at_the_limit() -> None:
    bomb = gzip.compress(b"\0" * 50_000_000, mtime=0)
    assert len(bomb) < 64 * 1024
    assert decode_content(bomb, "gzip", 65536) == (b"\0" * 65536, False)


def test_truncated_or_invalid_bodies_are_not_sound() -> None:
    assert decode_content(gzip.compress(TEXT, mtime=0)[:-4], "gzip", 10_000) == (TEXT, False)
    assert decode_content(b"not gzip", "gzip", 10_000) == (b"", False)
    assert decode_content(b"\xff\xff", "deflate", 10_000) == (b"", False)
    assert decode_content(gzip.compress(TEXT, mtime=0) + b"surplus", "gzip", 10_000) == (TEXT, False)


def test_an_empty_body_is_not_decoded() -> None:
    assert decode_content(b"", "gzip", 10) == (b"", True)


@pytest.mark.parametrize("encode", [gzip.compress, zlib.compress, raw_deflate])
@pytest.mark.parametrize("size", range(2**16 - 1, 2**16 + 9))
def test_where_a_piece_ends_makes_no_difference(encode: Callable[[bytes], bytes], size: int) -> None:
    coding = "gzip" if encode is gzip.compress else "deflate"
    assert decode_content(encode(b"x" * size), coding, 2**20) == (b"x" * size, True)
