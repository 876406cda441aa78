"""The framing of a connection: which bytes pass, in any pieces, and what stops them."""

from __future__ import annotations

import random

import pytest

from hookgw.api.server.request_framing import POISON, RequestFilter
from hookgw.api.server.request_head import MAX_FIELDS, Refused

MAX_HEAD = 1024
GET = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"
POST = b"POST /a HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nhello"
CHUNKS = b"POST /a HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
BODY = b"5\r\nhello\r\n00A;x=y\r\n" + b"\r\n" * 5 + b"\r\n0\r\n"


def request_filter() -> RequestFilter:
    return RequestFilter(MAX_HEAD)


def feed(*pieces: bytes) -> tuple[bytes, RequestFilter]:
    one = request_filter()
    return b"".join(one.feed(piece) for piece in pieces), one


STREAMS = [
    GET,
    POST,
    GET + POST + GET,
    CHUNKS + BODY + b"\r\n" + GET,
    CHUNKS + BODY + b"checksum: 1\r\nb: c\r\n\r\n" + POST,
    CHUNKS + b"0\r\n\r\n" + GET,
    POST.replace(b"hello", b"\0\r\n\n") + GET,
]


@pytest.mark.parametrize("stream", STREAMS)
def test_requests_pass_in_any_pieces(stream: bytes) -> None:
    cuts = random.Random(5)
    for size in (1, 2, 3, 7, len(stream)):
        pieces = [stream[at : at + size] for at in range(0, len(stream), size)]
        passed, one = feed(*pieces)
        assert (passed, one.refusal, one.is_within_head, one.is_within_body) == (stream, None, False, False)
    for _ in range(50):
        first, second = sorted(cuts.choices(range(len(stream) + 1), k=2))
        assert feed(stream[:first], stream[first:second], stream[second:])[0] == stream


def test_a_repeated_request_in_one_piece_passes_unchanged() -> None:
    one = request_filter()
    other = POST.replace(b"hello", b"world")
    for data in (POST, other, POST + GET, GET, GET, other):
        assert one.feed(data) == data
    assert one.feed(other[:-1]) == other[:-1]
    assert one.is_within_body
    assert one.feed(POST[:1] + GET) == POST[:1] + GET  # the last byte of that body, and a request


def test_a_body_that_looks_like_the_last_request_is_a_body() -> None:
    one = request_filter()
    hidden = GET.replace(b"\r\n\r\n", b"\r\nupgrade: websocket\r\n\r\n")
    one.feed(GET)
    head = b"POST /a HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % (len(GET) * 2)
    assert one.feed(head) == head
    assert one.feed(GET) == GET
    assert one.is_within_body
    assert one.feed(GET) == GET
    assert one.feed(hidden) == POISON


def test_a_head_passes_once_it_is_complete() -> None:
    one = request_filter()
    assert one.feed(GET[:-1]) == b""
    assert (one.is_within_head, one.is_within_body) == (True, False)
    assert one.feed(GET[-1:]) == GET
    assert (one.is_within_head, one.is_within_body) == (False, False)


def test_one_blank_line_before_a_request_is_ignored() -> None:
    for pieces in ((b"\r\n" + GET + b"\r\n" + GET,), (b"\r", b"\n" + GET, b"\r\n", GET)):
        passed, one = feed(*pieces)
        assert (passed, one.refusal) == (GET + GET, None)


@pytest.mark.parametrize("lines", [b"\r\n\r\n", b"\r\n\r", b"\r\n" * 5000, b"\n", b"\rG"])
def test_two_blank_lines_are_refused(lines: bytes) -> None:
    passed, one = feed(lines)
    assert passed == POISON
    assert one.refusal is not None


def test_nothing_passes_after_a_refusal() -> None:
    for size in (1, 1000):
        stream = GET + GET.replace(b"host", b"host ") + GET + POST
        passed, one = feed(*(stream[at : at + size] for at in range(0, len(stream), size)))
        assert passed == GET + POISON
        assert one.refusal is not None
        assert one.refusal.status == 400
        assert (one.feed(GET), one.feed(GET), one.end()) == (b"", b"", b"")


def test_a_head_has_a_limit() -> None:
    fits = GET[:-2] + b"a: " + b"x" * (MAX_HEAD - len(GET) - 5) + b"\r\n\r\n"
    assert len(fits) == MAX_HEAD
    assert feed(fits)[0] == fits
    assert feed(fits[:-1])[1].refusal is None
    for pieces in ((fits.replace(b"xx", b"xxx", 1),), (fits[:-4] + b"xxxxx",), (b"G" * 1000, b"G" * 25)):
        passed, one = feed(*pieces)
        assert passed == POISON
        assert one.refusal is not None
        assert (one.refusal.status, "max_header" in one.refusal.message) == (431, True)


@pytest.mark.parametrize(
    "line",
    [
        b"\r\n",
        b"+5\r\n",
        b"-5\r\n",
        b" 5\r\n",
        b"5 \r\n",
        b"5 ;a\r\n",
        b"0x5\r\n",
        b"5_0\r\n",
        b"g\r\n",
        b"5\n\r\n",
        b"5;a\nb\r\n",
        b"5;a\x00b\r\n",
        b"5\rb\r\n",
        b"f" * 16 + b"\r\n",
        b"5;" + b"x" * 300 + b"\r\n",
        b"5;" + b"x" * 300,
        b"5" * 300,
    ],
)
def test_chunk_lines_that_are_refused(line: bytes) -> None:
    for pieces in ((CHUNKS + b"1\r\nx\r\n" + line + b"hello\r\n0\r\n\r\n",), (CHUNKS + b"1\r\nx\r\n", line)):
        passed, one = feed(*pieces)
        assert passed == CHUNKS + b"1\r\nx\r\n" + POISON
        assert one.refusal is not None
        assert one.refusal.status == 400


@pytest.mark.parametrize("end", [b"XX", b"\n", b"\n\n", b"\rX", b" \r\n", b"0\r\n\r\n"])
def test_a_chunk_ends_with_a_line_break_of_its_own(end: bytes) -> None:
    for pieces in ((CHUNKS + b"1\r\nx" + end,), (CHUNKS + b"1\r\nx", end[:1], end[1:])):
        passed, one = feed(*pieces)
        assert passed == CHUNKS + b"1\r\nx" + POISON
        assert one.refusal is not None


def test_the_longest_chunk_line() -> None:
    line = b"5;" + b"x" * 252 + b"\r\n"
    assert feed(CHUNKS + line + b"hello\r\n")[1].refusal is None
    assert feed(CHUNKS + line.replace(b"x", b"xx", 1) + b"hello\r\n")[1].refusal is not None


def test_headers_and_trailers_are_counted() -> None:
    """Within the bytes of a head there is room for 4,000 headers, which cost 25 ms to read."""
    line = b"a:\r\n"
    for before, most in ((GET[:-2], MAX_FIELDS - 1), (CHUNKS + b"0\r\n", MAX_FIELDS)):
        stream = before + line * most + b"\r\n"
        assert feed(stream)[0] == stream
        passed, one = feed(before + line * (most + 1) + b"\r\n")
        assert passed.endswith(POISON)
        assert one.refusal is not None
        assert (one.refusal.status, f"{MAX_FIELDS} headers" in one.refusal.message) == (431, True)


def test_trailers_are_checked_and_have_a_limit() -> None:
    assert feed(CHUNKS + b"0\r\na : b\r\n\r\n")[0] == CHUNKS + b"0\r\n" + POISON
    for long in (b"a: " + b"x" * MAX_HEAD, b"a: " + b"x" * MAX_HEAD + b"\r\n\r\n"):
        refusal = feed(CHUNKS + b"0\r\n" + long)[1].refusal
        assert refusal is not None
        assert refusal.status == 431


def test_an_upgrade_is_removed_each_time() -> None:
    asked = GET.replace(b"host", b"upgrade: h2c\r\nhost")
    assert feed(asked, asked, asked + asked)[0] == GET * 4


def test_the_end_of_the_stream_is_passed_on() -> None:
    for begun in (b"", GET, GET[:5], POST[:-1]):
        _, one = feed(begun)
        assert one.end() == b""


def test_a_refusal_from_outside_within_a_head_or_between_requests() -> None:
    for begun in (GET, GET[:5]):
        _, one = feed(begun)
        one.refuse(Refused(408, "Too slow."))
        assert (one.feed(GET), one.end(), one.end()) == (b"", POISON, b"")


def test_a_refusal_from_outside_within_a_body_needs_no_more_than_the_end() -> None:
    for begun in (POST[:-1], CHUNKS, CHUNKS + b"0\r\na"):
        _, one = feed(begun)
        one.refuse(Refused(408, "Too slow."))
        assert (one.feed(b"o" + GET), one.end()) == (b"", b"")


def test_a_blank_line_is_skipped_before_each_request_that_is_the_same() -> None:
    request_filter = RequestFilter(1000)
    request = b"GET /a HTTP/1.1\r\nhost: x\r\n\r\n"
    for given, passed in (
        (request, request),
        (b"\r\n", b""),
        (request, request),
        (b"\r\n" + request, request),
    ):
        assert request_filter.feed(given) == passed
    assert request_filter.refusal is None
