"""Idle connections on real sockets."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from hookgw.delivery.http.connection import IdleConnection
from hookgw.delivery.http.stream import PlainStream


@contextmanager
def idle_connection() -> Iterator[tuple[IdleConnection, socket.socket]]:
    """A connection, and the receiver's end of it."""
    mine, theirs = socket.socketpair()
    with mine, theirs:
        yield IdleConnection(PlainStream(mine), ("http", "127.0.0.1", 9)), theirs


def is_closed(connection: IdleConnection) -> bool:
    """Whether somebody closed it."""
    stream = connection.stream
    assert isinstance(stream, PlainStream)
    return stream._sock.fileno() < 0
