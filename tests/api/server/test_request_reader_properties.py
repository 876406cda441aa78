"""Compares the request reader with an independent one: both see the same requests, whatever comes."""

from itertools import pairwise

import h11
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.api.server.reading import Read, read

LINES = [
    b"GET / HTTP/1.1\r\n",
    b"POST /a HTTP/1.1\r\n",
    b"GET /b HTTP/1.0\r\n",
    b"PRI * HTTP/2.0\r\n",
    b"host: x\r\n",
    b"Host: y\r\n",
    b"content-length: 5\r\n",
    b"Content-Length: 0\r\n",
    b"content-length: 5, 5\r\n",
    b"content-length : 5\r\n",
    b"transfer-encoding: chunked\r\n",
    b"Transfer-Encoding: identity\r\n",
    b"upgrade: h2c\r\n",
    b"expect: 100-continue\r\n",
    b"connection: close\r\n",
    b" folded: line\r\n",
    b"bare: line feed\n",
    b"\r\n",
    b"\n",
    b"5\r\n",
    b"5;x=y\r\n",
    b"+5\r\n",
    b"0\r\n",
    b"00000000000000005\r\n",
    b"hello",
    b"hello\r\n",
    b"trailer: x\r\n",
    b"\x00",
    b"\r",
]
HEAD = b"POST /a HTTP/1.1\r\nhost: x\r\n"
STARTS = [b"", HEAD + b"content-length: 5\r\n\r\n", HEAD + b"transfer-encoding: chunked\r\n\r\n", HEAD]

streams = st.builds(
    lambda start, lines: start + b"".join(lines),
    st.sampled_from(STARTS),
    st.lists(st.sampled_from(LINES), max_size=14),
)


def cut(data: bytes, cuts: list[int]) -> tuple[list[Read], int | None]:
    """Return the requests in these pieces, and the status of a refusal."""
    edges = sorted({0, len(data), *(at % (len(data) + 1) for at in cuts)})
    requests, reader = read(*(data[a:b] for a, b in pairwise(edges)))
    return requests, reader.refusal.status if reader.refusal else None


@settings(max_examples=300, deadline=None)
@given(streams, st.lists(st.integers(0, 10_000), max_size=6))
def test_the_cuts_make_no_difference(data: bytes, cuts: list[int]) -> None:
    assert cut(data, []) == cut(data, cuts) == cut(data, list(range(len(data))))


def seen_by_h11(data: bytes) -> list[tuple[bytes, bytes]]:
    """Return the targets and bodies of the complete requests that h11 reads, until it refuses something."""
    requests: list[tuple[bytes, bytes]] = []
    target = body = b""
    while True:
        server = h11.Connection(h11.SERVER)
        # One blank line before a request is ignored (RFC 9112, section 2.2), which h11 does not do.
        server.receive_data(data.removeprefix(b"\r\n"))
        while server.our_state is not h11.DONE:
            try:
                event = server.next_event()
            except h11.RemoteProtocolError:
                return requests
            if isinstance(event, h11.Request):
                target, body = event.target, b""
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                requests.append((target, body))
                server.send(h11.Response(status_code=200, headers=[("content-length", "0")]))
                server.send(h11.EndOfMessage())
                if server.our_state is not h11.DONE:
                    return requests
            else:
                return requests
        data = server.trailing_data[0]


@settings(max_examples=500, deadline=None)
@given(streams)
@example(b"\r\nGET /b HTTP/1.0\r\n\r\n")
def test_another_reader_finds_the_same_requests(data: bytes) -> None:
    """h11 finds every request that hookgw finds, with the same body. hookgw may stop earlier."""
    requests, _ = cut(data, [])
    ours = [(request.head.raw_path, request.body) for request in requests if request.is_whole]
    last = next((at + 1 for at, request in enumerate(requests) if request.head.is_last), len(ours))
    theirs = seen_by_h11(data)
    assert theirs[: len(ours[:last])] == ours[:last]
