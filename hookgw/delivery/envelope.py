"""The body of a delivery: the event in its envelope. No I/O."""

from __future__ import annotations

import msgspec

from hookgw.models.events import Event

_encode = msgspec.json.Encoder().encode


def encode_envelope(event: Event, *, destination: str, server_url: str | None) -> bytes:
    """Encode the envelope as JSON in UTF-8.

    The keys are, in this order: ``event``, ``instance``, ``data``, ``destination``, ``date_time``,
    ``sender``, ``server_url``; the last two only if they are known.

    Args:
        event: the event to deliver; its ``data_json`` must be one JSON value.
        destination: the registered URL.
        server_url: this gateway's address, for events that do not name another.
    """
    # data_json goes in as the bytes that came. Decoding and encoding it again would cost the most of all
    # here, and change numbers that Python cannot represent (1e400, -0).
    parts = [
        b'{"event":%b,"instance":%b,"data":%b,"destination":%b,"date_time":"%b"'
        % (
            _encode(event.kind),
            _encode(event.instance),
            event.data_json,
            _encode(destination),
            event.date_time.encode("ascii"),
        )
    ]
    if event.sender is not None:
        parts.append(b',"sender":' + _encode(event.sender))
    known_url = event.server_url if event.server_url is not None else server_url
    if known_url is not None:
        parts.append(b',"server_url":' + _encode(known_url))
    parts.append(b"}")
    return b"".join(parts)
