"""The body of a delivery: the event in its envelope. No I/O."""

from __future__ import annotations

import msgspec

from hookgw.kernel.times import rfc3339
from hookgw.records.events import Event

_encode = msgspec.json.Encoder().encode

MOST_BEGINNINGS = 16
"""So many beginnings of envelopes, or of heads, are kept: a global webhook gets the events of all
instances."""


class Envelope:
    """Encodes the envelopes of one registration as JSON in UTF-8. What they share is encoded once.

    The keys are, in this order: ``event``, ``instance``, ``data``, ``destination``, ``date_time``,
    ``sender``, ``server_url``; the last two only if they are known.

    Args:
        server_url: this gateway's address, for events that do not name another.
    """

    __slots__ = ("_beginnings", "_end", "_middle", "_server_url")

    def __init__(self, destination: str, server_url: str | None) -> None:
        self._server_url = server_url
        # By kind and instance.
        self._beginnings: dict[tuple[str, str], bytes] = {}
        self._middle = b',"destination":%b,"date_time":"' % _encode(destination)
        self._end = _end(server_url)

    def encode(self, event: Event) -> bytes:
        kind = event.kind, event.instance
        beginning = self._beginnings.get(kind)
        if beginning is None:
            if len(self._beginnings) >= MOST_BEGINNINGS:
                self._beginnings.clear()
            beginning = b'{"event":%b,"instance":%b,"data":' % (_encode(event.kind), _encode(event.instance))
            self._beginnings[kind] = beginning
        url, sender = event.server_url, event.sender
        # data_json is inserted as it arrived. Decoding and encoding it again would cost the most of all here,
        # and change numbers that Python cannot represent (1e400, -0).
        return b"".join(
            (
                beginning,
                event.data_json,
                self._middle,
                rfc3339(event.time).encode("ascii"),
                b'"' if sender is None else b'","sender":' + _encode(sender),
                self._end if url is None or url == self._server_url else _end(url),
            )
        )


def _end(server_url: str | None) -> bytes:
    return b"}" if server_url is None else b',"server_url":%b}' % _encode(server_url)
