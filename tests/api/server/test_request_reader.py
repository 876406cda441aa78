"""The framing of a connection: which requests are read, from bytes in any pieces, and what stops them."""

import random
import tracemalloc

import pytest

from tests.api.server.reading import read, take
from tests.public.kernel import sentence_of
from tests.public.web import MAX_FIELDS, Refused, RequestReader, State

MAX_HEAD = 1024
GET = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"
POST = b"POST /a HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nhello"
CHUNKS = b"POST /a HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
BODY = b"5\r\nhello\r\n00A;x=y\r\n" + b"\r\n" * 5 + b"\r\n0\r\n"
CHUNKED = b"hello" + b"\r\n" * 5


def found(*pieces: bytes) -> list[tuple[str, bytes]]:
    """Return the paths and bodies of the requests; all are complete, and nothing is left."""
    requests, reader = read(*pieces)
    assert all(request.is_whole for request in requests)
    assert (reader.state, reader.refusal, reader.has_unread) == (State.IDLE, None, False)
    return [(request.head.path, request.body) for request in requests]


def refusal_of(*pieces: bytes) -> Refused:
    _, reader = read(*pieces)
    assert reader.state is State.REFUSED
    assert reader.refusal is not None
    return reader.refusal


STREAMS = [
    (GET, [b""]),
    (POST, [b"hello"]),
    (GET + POST + GET, [b"", b"hello", b""]),
    (CHUNKS + BODY + b"\r\n" + GET, [CHUNKED, b""]),
    (CHUNKS + BODY + b"checksum: 1\r\nb: c\r\n\r\n" + POST, [CHUNKED, b"hello"]),
    (CHUNKS + b"0\r\n\r\n" + GET, [b"", b""]),
]


@pytest.mark.parametrize(("stream", "bodies"), STREAMS)
def test_requests_are_read_from_any_pieces(stream: bytes, bodies: list[bytes]) -> None:
    cuts = random.Random(5)
    for size in (1, 2, 3, 7, len(stream)):
        pieces = [stream[at : at + size] for at in range(0, len(stream), size)]
        assert [body for _, body in found(*pieces)] == bodies
    for _ in range(50):
        first, second = sorted(cuts.choices(range(len(stream) + 1), k=2))
        pieces = [stream[:first], stream[first:second], stream[second:]]
        assert [body for _, body in found(*pieces)] == bodies


def test_a_body_may_have_any_bytes() -> None:
    assert found(POST.replace(b"hello", b"\0\r\n\n\xff") + GET) == [
        ("/a", b"\0\r\n\n\xff"),
        ("/healthz", b""),
    ]


def test_repeated_requests() -> None:
    reader = RequestReader(MAX_HEAD)
    other = POST.replace(b"hello", b"world")
    for data, bodies in (
        (POST, [b"hello"]),
        (other, [b"world"]),
        (POST + GET, [b"hello", b""]),
        (GET, [b""]),
        (GET, [b""]),
        (other, [b"world"]),
    ):
        assert [request.body for request in take(reader, [data])] == bodies
    (begun,) = take(reader, [other[:-1]])
    assert (begun.body, begun.is_whole, reader.state) == (b"worl", False, State.LENGTH)
    assert reader.part() == b""


def test_an_idle_connection_keeps_no_body() -> None:
    long = POST.replace(b": 5", b": 60000").replace(b"hello", b"x" * 60_000)
    chunked = CHUNKS + b"%x\r\n%b\r\n0\r\n\r\n" % (60_000, b"x" * 60_000)
    padded = GET[:-2] + b"a: " + b"x" * 60_000 + b"\r\n\r\n"
    readers = []
    tracemalloc.start()
    try:
        for sent in (long, chunked, padded) * 5:
            readers.append(RequestReader(100_000))
            (request,) = take(readers[-1], [bytes(bytearray(sent))])
            assert request.is_whole
            del request
        assert tracemalloc.get_traced_memory()[0] < 15 * 10_000
    finally:
        tracemalloc.stop()


def test_a_body_that_looks_like_the_last_request_is_a_body() -> None:
    head = b"POST /a HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % (len(GET) * 2)
    assert found(GET, head, GET, GET, GET) == [("/healthz", b""), ("/a", GET * 2), ("/healthz", b"")]


def test_the_states_of_a_request_with_a_length() -> None:
    reader = RequestReader(MAX_HEAD)
    assert (reader.head(), reader.state) == (None, State.IDLE)
    reader.feed(POST[:10])
    assert (reader.head(), reader.state) == (None, State.HEAD)
    reader.feed(POST[10:-5])
    head = reader.head()
    assert head is not None
    assert (head.method, head.length) == ("POST", 5)
    assert (reader.state, reader.is_within_body, reader.came_whole) == (State.LENGTH, True, False)
    reader.feed(b"hello" + GET)
    assert (reader.part(), reader.state, reader.has_unread) == (b"hello", State.COMPLETE, True)
    assert reader.head() is not None
    assert (reader.state, reader.is_within_body, reader.has_unread) == (State.COMPLETE, False, False)
    assert reader.came_whole
    assert (reader.head(), reader.state) == (None, State.IDLE)
    reader.feed(POST + GET)
    assert reader.head() is not None
    assert (reader.came_whole, reader.whole_body(), reader.has_unread) == (True, b"hello", True)


def test_the_states_of_a_chunked_request() -> None:
    reader = RequestReader(MAX_HEAD)
    reader.feed(CHUNKS)
    reader.head()
    for data, part, state in (
        (b"5", b"", State.CHUNK_LINE),
        (b"\r\nhe", b"he", State.CHUNK),
        (b"llo", b"llo", State.CHUNK_END),
        (b"\r", b"", State.CHUNK_END),
        (b"\n0", b"", State.CHUNK_LINE),
        (b"\r\n", b"", State.TRAILERS),
        (b"a: b\r\n", b"", State.TRAILERS),
        (b"\r\n", b"", State.COMPLETE),
    ):
        reader.feed(data)
        assert (reader.part(), reader.state) == (part, state)
    assert not reader.came_whole


def test_one_blank_line_before_a_request_is_ignored() -> None:
    for pieces in (
        (b"\r\n" + GET + b"\r\n" + GET,),
        (b"\r", b"\n" + GET, b"\r\n", GET),
        (GET, b"\r\n", GET),
    ):
        assert found(*pieces) == [("/healthz", b"")] * 2


@pytest.mark.parametrize("before", [b"", GET])
def test_a_blank_line_alone_begins_nothing(before: bytes) -> None:
    for pieces in ((b"\r\n",), (b"\r", b"\n")):
        assert read(before, *pieces)[1].state is State.IDLE


@pytest.mark.parametrize("lines", [b"\r\n\r\n", b"\r\n\r", b"\r\n" * 5000, b"\n", b"\rG"])
def test_two_blank_lines_are_refused(lines: bytes) -> None:
    assert refusal_of(lines).status in (400, 431)
    assert refusal_of(GET, lines).status in (400, 431)


def test_nothing_is_read_after_a_refusal() -> None:
    for size in (1, 1000):
        stream = GET + GET.replace(b"host", b"host ") + GET + POST
        requests, reader = read(*(stream[at : at + size] for at in range(0, len(stream), size)))
        assert len(requests) == 1
        assert reader.refusal is not None
        assert reader.refusal.status == 400
        reader.end()
        with pytest.raises(Refused):
            reader.head()
        assert reader.state is State.REFUSED


def test_a_head_has_a_limit() -> None:
    fits = GET[:-2] + b"a: " + b"x" * (MAX_HEAD - len(GET) - 5) + b"\r\n\r\n"
    assert len(fits) == MAX_HEAD
    assert len(found(fits)) == 1
    assert read(fits[:-1])[1].refusal is None
    for pieces in ((fits.replace(b"xx", b"xxx", 1),), (fits[:-4] + b"xxxxx",), (b"G" * 1000, b"G" * 25)):
        refusal = refusal_of(*pieces)
        assert (refusal.status, "max_header" in refusal.message) == (431, True)


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
        assert refusal_of(*pieces).status == 400


@pytest.mark.parametrize("end", [b"XX", b"\n", b"\n\n", b"\rX", b" \r\n", b"0\r\n\r\n"])
def test_a_chunk_ends_with_a_line_break_of_its_own(end: bytes) -> None:
    for pieces in ((CHUNKS + b"1\r\nx" + end,), (CHUNKS + b"1\r\nx", end[:1], end[1:])):
        assert refusal_of(*pieces).status == 400


def test_the_longest_chunk_line() -> None:
    line = b"5;" + b"x" * 252 + b"\r\n"
    assert read(CHUNKS + line + b"hello\r\n")[1].refusal is None
    assert refusal_of(CHUNKS + line.replace(b"x", b"xx", 1) + b"hello\r\n").status == 400


def test_the_extensions_of_a_body_have_a_limit_in_sum() -> None:
    chunk = b"1;" + b"x" * 127 + b"\r\nx\r\n"  # an extension of 128 bytes, with its semicolon
    for _ in range(2):
        (request,), reader = read(CHUNKS + chunk * 32)
        assert (request.body, reader.refusal) == (b"x" * 32, None)
    refusal = refusal_of(CHUNKS + chunk * 32 + b"1;\r\nx\r\n")
    assert (refusal.status, "4KiB" in refusal.message) == (400, True)
    whole = CHUNKS + chunk * 30 + b"0\r\n\r\n"
    assert found(whole, whole) == [("/a", b"x" * 30)] * 2


@pytest.mark.parametrize(
    "chunk", [b"1\r\nx\r\n", b"01\r\nx\r\n", b"001\r\nx\r\n", b"101\r\n" + b"x" * 257 + b"\r\n"]
)
def test_a_step_reads_a_bounded_number_of_chunks(chunk: bytes) -> None:
    """A client must not hold up the others, however small its chunks are."""
    size = int(chunk[:3].split(b"\r")[0], 16)
    reader = RequestReader(MAX_HEAD)
    reader.feed(CHUNKS + chunk * 10_000 + b"0\r\n\r\n" + GET)
    reader.head()
    total = steps = 0
    while reader.is_within_body:
        part = reader.part()
        assert len(part) <= 2000 * size
        assert part or not reader.is_within_body
        total += len(part)
        steps += 1
    assert (total, reader.state, steps >= 5) == (10_000 * size, State.COMPLETE, True)


def test_chunks_of_every_short_size() -> None:
    body = bytes(range(256))
    for spelling in ("{:x}", "{:X}", "{:02x}", "{:03X}"):
        chunks = b"".join(
            b"%b\r\n%b\r\n" % (spelling.format(size).encode(), body[:size]) for size in range(1, 256)
        )
        assert found(CHUNKS + chunks + b"0\r\n\r\n")[0][1] == b"".join(body[:size] for size in range(1, 256))


def test_headers_and_trailers_are_counted() -> None:
    """Within the bytes of a head there is room for 4,000 headers, and the routes would look at each."""
    line = b"a:\r\n"
    for before, most in ((GET[:-2], MAX_FIELDS - 1), (CHUNKS + b"0\r\n", MAX_FIELDS)):
        assert len(found(before + line * most + b"\r\n")) == 1
        refusal = refusal_of(before + line * (most + 1) + b"\r\n")
        assert (refusal.status, f"{MAX_FIELDS} headers" in refusal.message) == (431, True)


def test_trailers_are_checked_and_have_a_limit() -> None:
    assert refusal_of(CHUNKS + b"0\r\na : b\r\n\r\n").status == 400
    for long in (b"a: " + b"x" * MAX_HEAD, b"a: " + b"x" * MAX_HEAD + b"\r\n\r\n"):
        assert refusal_of(CHUNKS + b"0\r\n" + long).status == 431


def test_the_end_of_the_stream() -> None:
    for begun, state, status in (
        (b"", State.ENDED, 0),
        (GET, State.ENDED, 0),
        (GET[:5], State.ENDED, 0),
        (POST[:-1], State.REFUSED, 400),  # a body that is cut off
        (CHUNKS + b"0\r\n", State.REFUSED, 400),
    ):
        _, reader = read(begun)
        reader.end()
        assert reader.state is state
        assert (reader.refusal.status if reader.refusal else 0) == status


def test_a_refusal_from_outside() -> None:
    for begun in (GET, GET[:5], POST[:-1], CHUNKS, CHUNKS + b"0\r\na"):
        _, reader = read(begun)
        refusal = Refused(408, sentence_of("Too slow."))
        reader.refuse(refusal)
        reader.feed(GET)
        reader.end()
        assert (reader.state, reader.refusal, reader.is_within_body) == (State.REFUSED, refusal, False)
