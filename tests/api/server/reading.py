"""Requests as the request reader finds them in a client's bytes."""

from collections.abc import Iterable
from typing import NamedTuple

from tests.public.web import Head, Refused, RequestReader, State


class Read(NamedTuple):
    """A request, and as much of its body as has arrived."""

    head: Head
    body: bytes
    is_whole: bool


def take(reader: RequestReader, pieces: Iterable[bytes]) -> list[Read]:
    """Feed the pieces, and take each request as soon as it can be taken; stop at a refusal.

    A request whose body is refused is not among them.
    """
    requests: list[Read] = []
    try:
        for piece in pieces:
            if piece:
                reader.feed(piece)
            _take_all(reader, requests)
    except Refused:
        return [request for request in requests if request.is_whole]
    return requests


def read(*pieces: bytes, max_head: int = 1024) -> tuple[list[Read], RequestReader]:
    reader = RequestReader(max_head)
    return take(reader, pieces), reader


def _take_all(reader: RequestReader, requests: list[Read]) -> None:
    while True:
        if reader.is_within_body:
            head, body, _ = requests[-1]
            body += reader.part()
            requests[-1] = Read(head, body, reader.state is State.COMPLETE)
            if reader.is_within_body:
                return
        begun = reader.head()
        if begun is None:
            return
        requests.append(Read(begun, b"", reader.state is State.COMPLETE))
