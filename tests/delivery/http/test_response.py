"""Responses from bytes: framing, decoding, and every limit at its edge."""

from __future__ import annotations

import gzip
import re
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookgw.delivery.http.errors import ResponseFailed
from hookgw.delivery.http.response import (
    MAX_HEAD,
    MAX_HEADERS,
    MAX_INTERIM,
    Response,
    ResponseParser,
    decode_content,
)

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


@pytest.mark.parametrize("step", [1, 2, 7, 1 << 20])
@pytest.mark.parametrize(
    ("data", "body", "reusable"),
    [
        (OK, b"ok", True),
        (b"HTTP/1.1 200\r\ncontent-length: 2\r\n\r\nok", b"ok", True),
        (
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2;a=b\r\nok\r\n0\r\nx-t: 1\r\n\r\n",
            b"ok",
            True,
        ),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b"", True),
        (b"HTTP/1.1 204 No Content\r\ncontent-length: 0\r\n\r\n", b"", True),
        (b"HTTP/1.1 304 Not Modified\r\ncontent-length: 2\r\n\r\n", b"", True),
        (b"HTTP/1.1 200 OK\ncontent-length: 2\n\nok", b"ok", True),
        (b"HTTP/1.1 200 OK\r\nx: a\r\n b\r\ncontent-length: 2\r\n\r\nok", b"ok", True),
        (b"\r\n" + OK, b"ok", True),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + OK, b"ok", True),
        (b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok", b"ok", False),
        (b"HTTP/1.1 200 OK\r\nconnection: x, Close\r\ncontent-length: 2\r\n\r\nok", b"ok", False),
        (b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok", b"ok", False),
        (b"HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 2\r\n\r\nok", b"ok", True),
        (b"HTTP/1.0 200 OK\r\n\r\nok", b"ok", False),
        (b"HTTP/1.1 200 OK\r\n\r\nok", b"ok", False),
        (
            b"HTTP/1.1 200 OK\r\nupgrade: h2c\r\nconnection: upgrade\r\ncontent-length: 2\r\n\r\nok",
            b"ok",
            True,
        ),
    ],
)
def test_complete_responses(data: bytes, body: bytes, reusable: bool, step: int) -> None:
    response, good = read(data, step=step)
    assert (response.body, response.complete, good) == (body, True, reusable)


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
        b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, Chunked\r\n\r\n2\r\nok\r\n",
    ],
    ids=["short", "no last chunk", "bad chunk", "two codings"],
)
def test_a_truncated_or_malformed_body_keeps_the_status(data: bytes) -> None:
    response, good = read(data)
    assert (response.status, response.body, response.complete, good) == (200, b"ok", False, False)


@pytest.mark.parametrize(
    "lines",
    [
        b"content-length: 2\r\ncontent-length: 2",
        b"content-length: 2\r\ncontent-length: 3",
        b"content-length: 2, 2",
        b"content-length: -2",
        b"content-length: 99999999999999999999999",
        b"content-length: 2\r\ntransfer-encoding: chunked",
        b"transfer-encoding: chunked\r\ncontent-length: 2",
    ],
)
def test_contradicting_lengths_keep_the_status(lines: bytes) -> None:
    response, good = read(b"HTTP/1.1 200 OK\r\nserver: x\r\n%b\r\n\r\nok" % lines)
    assert (response.status, response.body, response.complete, good) == (200, b"", False, False)
    assert response.header("server") == "x"


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
        b"HTTP/1.2 200 OK\r\n\r\n",
        b"HTTP/1.1 20 OK\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/1.1 two OK\r\n\r\n",
        b"HTTP/1.1 099 OK\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 000 OK\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nbad name: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"POST / HTTP/1.1\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n" + OK,
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


@pytest.mark.parametrize("status", [*range(200, 600), 600, 999])
def test_every_status_is_passed_on(status: int) -> None:
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
    ("coding", "encode"),
    [(b"gzip", gzip.compress), (b"X-GZip", gzip.compress), (b"deflate", zlib.compress)],
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
        assert not parser.status or len(parser.finish().headers) > MAX_HEADERS
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
