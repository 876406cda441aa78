"""What clients send: the gate in front of the HTTP server, beside the server's own reader (h11)."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

import h11

from hookgw.api.server.request_framing import POISON, RequestFilter
from hookgw.auth.client_address import TrustedProxies, rate_limit_key
from tests.fuzz.pieces import even, odd

MAX_HEAD = 200
PROXIES = TrustedProxies(["127.0.0.0/8", "10.0.0.0/8", "::1/128", "unix"])


def gate(data: bytes) -> None:
    """However a client's bytes are cut, the same of them pass, and the server reads them as the gate did.

    The first byte says how they are cut.
    """
    cut, sent = data[0] if data else 0, data[1:]
    front, passed = _through([sent] if sent else [])
    for pieces in (even(sent, 1), even(sent, 1 + cut % 64), odd(sent, cut)):
        other, same = _through(pieces)
        assert same == passed
        assert (other.refusal is None) == (front.refusal is None)
        assert other.is_between == front.is_between
    if front.refusal is None:
        assert _is_whole(passed) == (front.is_between or front.is_within_head)
    else:
        assert front.refusal.status in (400, 431, 505)
        assert not _is_taken(passed + front.end())


def forwarded(data: bytes) -> None:
    """Lines of ``x-forwarded-for``, the first one the peer: the client is an address, or the peer.

    Whom nobody trusts is not believed.
    """
    first, *values = data.decode("latin-1").split("\n")
    peer = first or None
    client = PROXIES.client_of(peer, values)
    assert client == peer or ipaddress.ip_address((client or "").partition("%")[0])
    assert client == peer or PROXIES.trusts(peer)
    assert client is None or rate_limit_key(client)


def _through(pieces: Iterable[bytes]) -> tuple[RequestFilter, bytes]:
    front = RequestFilter(MAX_HEAD)
    return front, b"".join([front.feed(piece) for piece in pieces])


def _is_taken(passed: bytes) -> bool:
    """Whether the server finds nothing wrong, nor a body that is cut off."""
    try:
        return _is_whole(passed)
    except h11.RemoteProtocolError:
        assert POISON in passed
        return False


def _is_whole(passed: bytes) -> bool:
    """Whether the server has read whole requests to the end.

    Raises:
        RemoteProtocolError: it found something wrong.
    """
    rest = passed
    while rest:
        server = h11.Connection(h11.SERVER, max_incomplete_event_size=2**16)
        server.receive_data(rest)
        while not isinstance(event := server.next_event(), h11.EndOfMessage):
            if event is h11.NEED_DATA:
                return False
        rest = server.trailing_data[0]
    return True
