"""What clients send: the reader of requests, beside an independent one (h11)."""

import ipaddress
import re

import h11

from tests.api.server.reading import read
from tests.fuzz.pieces import even, odd
from tests.public.auth import TrustedProxies, rate_limit_key
from tests.public.web import State

MAX_HEAD = 200
_URL = re.compile(rb"\A(?i:https?)://[^/?]*")
_OF_LENGTH = ("Only Transfer-Encoding", "multiple Transfer-Encoding", "bad Content-", "conflicting Content-")
PROXIES = TrustedProxies(["127.0.0.0/8", "10.0.0.0/8", "::1/128", "unix"])


def gate(data: bytes) -> None:
    """However a client's bytes are cut, the same requests are read, and another reader finds them, too.

    The first byte says how they are cut.
    """
    cut, sent = data[0] if data else 0, data[1:]
    requests, reader = read(sent, max_head=MAX_HEAD)
    for pieces in (even(sent, 1), even(sent, 1 + cut % 64), odd(sent, cut)):
        same, other = read(*pieces, max_head=MAX_HEAD)
        assert same == requests
        assert (other.state, other.refusal is None) == (reader.state, reader.refusal is None)
    assert (reader.state is State.REFUSED) == (reader.refusal is not None)
    if reader.refusal is not None:
        assert reader.refusal.status in (400, 431, 505)
    for request in requests:
        if request.is_whole and request.head.length != 0:
            assert request.head.length in (-1, len(request.body))
    whole = [(each.head.raw_path, each.body) for each in requests if each.is_whole]
    assert _found_by_h11(sent)[: len(whole)] == whole


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


def _found_by_h11(data: bytes) -> list[tuple[bytes, bytes]]:
    """Return the paths and bodies of the complete requests, until something is wrong."""
    found: list[tuple[bytes, bytes]] = []
    rest = data
    while rest := rest.removeprefix(b"\r\n"):  # RFC 9112, section 2.2; h11 refuses it
        server = h11.Connection(h11.SERVER, max_incomplete_event_size=2**16)
        server.receive_data(rest)
        path = body = b""
        try:
            while not isinstance(event := server.next_event(), h11.EndOfMessage):
                if isinstance(event, h11.Request):
                    path = _URL.sub(b"", event.target).partition(b"?")[0] or b"/"
                elif isinstance(event, h11.Data):
                    body += event.data
                elif event is h11.NEED_DATA:
                    return found
        except h11.RemoteProtocolError as refusal:
            # Of fields behind a body, h11 reads those for the length, and hookgw ignores all (RFC 9110,
            # section 6.5.1).
            if not path or not str(refusal).startswith(_OF_LENGTH):
                return found
        found.append((path, body))
        rest = server.trailing_data[0]
    return found
