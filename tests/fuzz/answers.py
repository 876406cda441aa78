"""What receivers answer: the bytes of an answer, and ``Retry-After``."""

import math
from collections.abc import Iterable

from tests.fuzz.pieces import even, odd
from tests.fuzz.sentences import check_sentences
from tests.public.delivery import (
    Response,
    ResponseFailed,
    ResponseParser,
    outcome_of_status,
    parse_retry_after,
)

MAX_BODY = 64
NOW = 1_700_000_000.0

Read = Response | None
"""An answer as it was read; ``None`` where there was none, whatever the reason."""


def answer(data: bytes) -> None:
    """However an answer is cut into pieces, it is the same answer or none; its body is within the limit.

    The first byte says how it is cut, and whether the request was a HEAD.
    """
    cut, sent = data[0] if data else 0, data[1:]
    bodiless = cut >= 128
    whole = _read([sent] if sent else [], bodiless)
    for pieces in (even(sent, 1), even(sent, 1 + cut % 64), odd(sent, cut)):
        assert _read(pieces, bodiless) == whole
    if whole is not None:
        assert whole.status >= 200
        assert len(whole.body) <= MAX_BODY
        outcome_of_status(whole.status)


def _read(pieces: Iterable[bytes], bodiless: bool) -> Read:
    parser = ResponseParser(MAX_BODY)
    parser.begin(bodiless=bodiless)
    try:
        if not any(parser.feed(piece) for piece in pieces):
            parser.end_of_stream()
    except ResponseFailed as error:
        check_sentences(error.message)
        return None
    return parser.finish() if parser.status else None


def retry_after(data: bytes) -> None:
    """Any header gives no wait, or one that is a number and not negative."""
    wait = parse_retry_after(data.decode("latin-1"), NOW)
    assert wait is None or (wait >= 0 and not math.isnan(wait))
