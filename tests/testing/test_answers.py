from typing import Any

import pytest

from hookgw.testing import Answer, Close, Drip, Hang, Pause, Reset, Send, Stream, answer, chunk, raw, redirect


def wire_bytes(what: Answer) -> bytes:
    return b"".join(step.data for step in what.steps if isinstance(step, Send | Drip))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"),
        ({"body": "né"}, "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nné".encode()),
        ({"status": 204, "body": b"x"}, b"HTTP/1.1 204 No Content\r\n\r\nx"),
        ({"status": 304}, b"HTTP/1.1 304 Not Modified\r\n\r\n"),
        ({"status": 799, "version": "1.0"}, b"HTTP/1.0 799 Unknown\r\ncontent-length: 0\r\n\r\n"),
        ({"reason": ""}, b"HTTP/1.1 200 \r\ncontent-length: 0\r\n\r\n"),
        ({"body": b"abc", "framing": "close"}, b"HTTP/1.1 200 OK\r\n\r\nabc"),
        ({"framing": "chunked"}, b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"),
        (
            {"body": b"a" * 17, "framing": "chunked"},
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n11\r\n" + b"a" * 17 + b"\r\n0\r\n\r\n",
        ),
        (
            {"headers": [("a", "1"), ("a", "2")], "keep_alive": False},
            b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\na: 1\r\na: 2\r\nconnection: close\r\n\r\n",
        ),
        (
            {"informational": (103, 199), "headers": {"x": "é"}},
            (
                b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 199 Unknown\r\n\r\n"
                b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nx: \xe9\r\n\r\n"
            ),
        ),
    ],
)
def test_the_bytes_of_an_answer(options: dict[str, Any], expected: bytes) -> None:
    assert wire_bytes(answer(**options)) == expected


def test_waits_become_pauses() -> None:
    what = answer(body=b"x", wait=1, wait_body=2)
    assert [type(step) for step in what.steps] == [Pause, Send, Pause, Send]
    assert [step for step in what.steps if isinstance(step, Pause)] == [Pause(1), Pause(2)]


@pytest.mark.parametrize(("part", "kinds"), [("head", [Drip, Send]), ("body", [Send, Drip])])
def test_head_or_body_can_drip(part: Any, kinds: list[type]) -> None:
    what = answer(body=b"xy", drip=part, every=3, size=2)
    assert [type(step) for step in what.steps] == kinds
    drip = next(step for step in what.steps if isinstance(step, Drip))
    assert (drip.every, drip.size) == (3, 2)


@pytest.mark.parametrize("options", [{"keep_alive": False}, {"framing": "close"}])
def test_an_answer_that_ends_the_connection_closes_it(options: dict[str, Any]) -> None:
    assert answer(**options).steps[-1] == Close()


def test_then_and_after_add_steps() -> None:
    what = raw(b"abc").then(Reset()).after(Pause(1))
    assert what.steps == (Pause(1), Send(b"abc"), Reset())


def test_redirect_sets_the_location() -> None:
    assert b"307 Temporary Redirect" in wire_bytes(redirect(307, "http://other/"))
    assert b"location: http://other/\r\n" in wire_bytes(redirect(307, "http://other/"))


@pytest.mark.parametrize("size", [0, 1, 5, 6])
def test_cut_keeps_the_first_bytes_and_closes(size: int) -> None:
    cut = Answer((Send(b"abc"), Pause(1), Drip(b"def"), Hang())).cut(size)
    assert wire_bytes(cut) == b"abcdef"[:size]
    assert cut.steps[-1] == Close()
    assert (Pause(1) in cut.steps) is (size > 3)
    assert Hang() not in cut.steps


def test_cut_of_an_empty_answer() -> None:
    assert Answer().cut(0).steps == (Close(),)


def test_cut_can_end_with_other_steps() -> None:
    assert raw(b"abc").cut(1, Pause(2), Reset()).steps == (Send(b"a"), Pause(2), Reset())


def test_a_cut_beyond_the_end_is_an_error() -> None:
    with pytest.raises(ValueError, match="the answer ends 2 bytes before the cut"):
        raw(b"abc").cut(5)


def test_a_stream_cannot_be_cut() -> None:
    with pytest.raises(ValueError, match="cannot be cut"):
        Answer((Stream(lambda: [b"x"]),)).cut(1)


def test_an_empty_chunk_ends_the_body() -> None:
    assert chunk(b"") == b"0\r\n\r\n"
    assert chunk(b"x" * 255) == b"ff\r\n" + b"x" * 255 + b"\r\n"
