"""Idle connections on real sockets."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from hookgw.delivery.http.connection import IdleConnection
from hookgw.delivery.http.stream import PlainStream


@contextmanager
def idle_connection() -> Iterator[tuple[IdleConnection, socket.socket]]:
    """Open a connection; the second socket is the receiver's end of it."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield IdleConnection(PlainStream(ours), ("http", "127.0.0.1", 9)), theirs


def is_closed(connection: IdleConnection) -> bool:
    """Return whether the gateway closed its end of a connection."""
    stream = connection.stream
    assert isinstance(stream, PlainStream)
    return stream._sock.fileno() < 0
