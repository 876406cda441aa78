"""Answers from bytes: how they are framed, and every limit at its edge."""

from __future__ import annotations

import gzip
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookgw.delivery.http.errors import AnswerFailed
from hookgw.delivery.http.response import MAX_HEAD, MAX_HEADERS, MAX_INTERIM, Answer, AnswerParser

LIMIT = 1000
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


def read(
    data: bytes, *, step: int = 1 << 20, eof: bool = True, bodiless: bool = False
) -> tuple[Answer, bool]:
    """Feed the bytes in steps; gives the answer and whether the connection is good for another."""
    parser = AnswerParser(LIMIT)
    parser.begin(bodiless=bodiless)
    for start in range(0, len(data), step):
        if parser.feed(data[start : start + step]):
            break
    else:
        assert eof, "the answer should have been over"
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
def test_answers_that_are_complete(data: bytes, body: bytes, reusable: bool, step: int) -> None:
    answer, good = read(data, step=step)
    assert (answer.body, answer.complete, good) == (body, True, reusable)


@pytest.mark.parametrize(
    "behind",
    [b"hello", OK, b"\x00", b"HTTP/1.1 100 Continue\r\n\r\n"],
    ids=["text", "answer", "zero", "interim"],
)
@pytest.mark.parametrize("answer", [OK, b"HTTP/1.1 204 No Content\r\n\r\n"], ids=["200", "204"])
def test_bytes_behind_an_answer_are_no_part_of_it(answer: bytes, behind: bytes) -> None:
    first, good = read(answer + behind, eof=False)
    assert (first.status, first.complete) == (read(answer)[0].status, True)
    assert first.body == read(answer)[0].body
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
def test_a_body_that_is_cut_off_or_malformed_leaves_the_status(data: bytes) -> None:
    answer, good = read(data)
    assert (answer.status, answer.body, answer.complete, good) == (200, b"ok", False, False)


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
def test_lengths_that_contradict_each_other_leave_the_status(lines: bytes) -> None:
    answer, good = read(b"HTTP/1.1 200 OK\r\nserver: x\r\n%b\r\n\r\nok" % lines)
    assert (answer.status, answer.body, answer.complete, good) == (200, b"", False, False)
    assert answer.header("server") == "x"


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
def test_what_is_not_http_is_named_by_its_beginning(data: bytes) -> None:
    with pytest.raises(AnswerFailed, match="not an answer in HTTP/1") as caught:
        read(data, eof=False)
    assert repr(data[:48]) in caught.value.message
    assert len(caught.value.message) < 250
    with pytest.raises(AnswerFailed, match="not an answer in HTTP/1"):
        read(b"\r\n" + data, step=1, eof=False)


def test_the_beginning_is_named_when_it_came_in_pieces() -> None:
    with pytest.raises(AnswerFailed, match=r"HTTP/1\.1 200 OK"):
        read(b"HTTP/1.1 200 OK\r\nserver: x\r\nbad name: x\r\n\r\n", step=20)


@pytest.mark.parametrize("lines", [b"upgrade: websocket\r\nconnection: upgrade\r\n", b""])
def test_a_change_of_protocol_is_a_failure(lines: bytes) -> None:
    with pytest.raises(AnswerFailed, match="101"):
        read(b"HTTP/1.1 101 Switching Protocols\r\n%b\r\n" % lines)


@pytest.mark.parametrize("status", [*range(200, 600), 600, 999])
def test_every_status_is_passed_on(status: int) -> None:
    answer, good = read(b"HTTP/1.1 %d x\r\ncontent-length: 0\r\n\r\n" % status, eof=False)
    assert (answer.status, answer.complete, good) == (status, True, True)


def test_a_head_request_is_answered_by_a_head() -> None:
    answer, good = read(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n", eof=False, bodiless=True)
    assert (answer.status, answer.body, answer.complete, good) == (200, b"", True, False)


def test_a_body_after_a_head_request_is_not_kept() -> None:
    answer, _ = read(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello", eof=False, bodiless=True)
    assert answer.body == b""


@pytest.mark.parametrize(
    "framing", [b"content-length: %d\r\n\r\n%b", b"transfer-encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n"]
)
@pytest.mark.parametrize("step", [300, 1 << 20])
def test_the_body_is_cut_at_its_limit(framing: bytes, step: int) -> None:
    for size in (LIMIT, LIMIT + 1):
        answer, good = read(b"HTTP/1.1 200 OK\r\n" + framing % (size, b"x" * size), step=step, eof=False)
        assert (len(answer.body), answer.complete, good) == (LIMIT, size == LIMIT, size == LIMIT)


def test_a_large_body_is_not_read_to_its_end() -> None:
    parser = AnswerParser(LIMIT)
    parser.begin()
    parser.feed(b"HTTP/1.1 200 OK\r\ncontent-length: 100000000\r\n\r\n")
    fed = [parser.feed(b"x" * 500) for _ in range(3)]
    assert fed == [False, False, True]


@pytest.mark.parametrize(
    "piece", [b"1;%b\r\nx\r\n" % (b"e" * 200), b"x-trailer: 1\r\n" * 10], ids=["chunks", "trailers"]
)
def test_what_carries_no_body_is_limited_too(piece: bytes) -> None:
    parser = AnswerParser(LIMIT)
    parser.begin()
    parser.feed(
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + (b"0\r\n" if b"trailer" in piece else b"")
    )
    most = 2 * (LIMIT + MAX_HEAD) // len(piece) + 1
    assert any(parser.feed(piece) for _ in range(most))
    assert not parser.finish().complete
    assert parser.finish().headers == [(b"transfer-encoding", b"chunked")]


def test_the_head_is_limited() -> None:
    start = b"HTTP/1.1 200 OK\r\nx: "
    parser = AnswerParser(LIMIT)
    parser.begin()
    assert not parser.feed(start + b"x" * (MAX_HEAD - len(start)))
    with pytest.raises(AnswerFailed, match=f"longer than {MAX_HEAD} bytes"):
        parser.feed(b"x")


def test_the_number_of_headers_is_limited() -> None:
    line = b"x: 1\r\n"
    answer, _ = read(b"HTTP/1.1 204 OK\r\n" + line * MAX_HEADERS + b"\r\n")
    assert len(answer.headers) == MAX_HEADERS
    with pytest.raises(AnswerFailed, match=f"more than {MAX_HEADERS} headers"):
        read(b"HTTP/1.1 204 OK\r\n" + line * (MAX_HEADERS + 1) + b"\r\n")


def test_the_number_of_1xx_answers_is_limited() -> None:
    interim = b"HTTP/1.1 102 Processing\r\nx: 1\r\n\r\n"
    answer, good = read(interim * MAX_INTERIM + OK, step=len(interim))
    assert (answer.headers, good) == ([(b"content-length", b"2")], True)
    for step in (len(interim), 1 << 20):
        with pytest.raises(AnswerFailed, match=f"More than {MAX_INTERIM} answers"):
            read(interim * (MAX_INTERIM + 1) + OK, step=step)


@pytest.mark.parametrize(
    ("coding", "encode"),
    [(b"gzip", gzip.compress), (b"X-GZip", gzip.compress), (b"deflate", zlib.compress)],
)
def test_content_codings_are_undone(coding: bytes, encode: type[bytes]) -> None:
    body = encode(b"hello")
    data = b"HTTP/1.1 200 OK\r\ncontent-encoding: %b\r\ncontent-length: %d\r\n\r\n%b" % (
        coding,
        len(body),
        body,
    )
    answer, good = read(data, step=5)
    assert (answer.body, answer.complete, good) == (b"hello", True, True)


@pytest.mark.parametrize(
    "body",
    [gzip.compress(b"x" * 100_000), gzip.compress(b"x" * 500)[:20], b"garbage"],
    ids=["bomb", "cut off", "garbage"],
)
def test_a_bomb_and_bad_gzip_leave_the_status(body: bytes) -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(body)
    answer, good = read(head + body, eof=False)
    assert (answer.status, answer.complete, good) == (200, False, False)
    assert len(answer.body) <= LIMIT


def test_a_parser_reads_one_answer_after_the_other() -> None:
    parser = AnswerParser(LIMIT)
    for status in (200, 404, 204, 304, 500):
        parser.begin()
        assert not parser.started
        assert parser.feed(b"HTTP/1.1 %d x\r\nx-status: %d\r\ncontent-length: 0\r\n\r\n" % (status, status))
        answer = parser.finish()
        assert (answer.status, answer.header("x-status"), parser.reusable) == (status, str(status), True)


def test_headers_are_found_by_name() -> None:
    answer = Answer(200, [(b"retry-after", b" 5 "), (b"retry-after", b"6"), (b"x", b"\xff")], b"", True)
    assert answer.header("retry-after") == "5"
    assert answer.header("x") == "�"
    assert answer.header("none") is None


@given(st.binary(max_size=300), st.integers(1, 50), st.booleans())
def test_no_bytes_raise_anything_else(data: bytes, step: int, with_status: bool) -> None:
    parser = AnswerParser(LIMIT)
    parser.begin()
    data = b"HTTP/1.1 200 OK\r\n" + data if with_status else data
    try:
        for start in range(0, len(data), step):
            if parser.feed(data[start : start + step]):
                break
    except AnswerFailed:
        assert not parser.status or len(parser.finish().headers) > MAX_HEADERS
    else:
        parser.end_of_stream()
        assert not parser.status or parser.finish().status == parser.status
