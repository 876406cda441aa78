"""The connections to brokers: one for each broker, user and virtual host, kept while lanes use it."""

from __future__ import annotations

import trio

from hookgw import OutgoingDelivery

from .connection import Connection
from .frames import FrameReader
from .handshake import open_connection
from .options import Broker, broker_of

Key = tuple[str, str, int, Broker, object]
"""Scheme, host, port, credentials with virtual host, and the registration's identity in TLS."""


class Connections:
    """Opens connections in attempts, and runs them in its own nursery: an attempt may end at any time."""

    def __init__(self) -> None:
        self._open: dict[Key, Connection] = {}
        self._locks: dict[Key, trio.Lock] = {}
        self._nursery: trio.Nursery | None = None

    async def run(self) -> None:
        """Run the connections until cancelled, then close them."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            try:
                await trio.sleep_forever()
            finally:
                self._nursery = None

    async def get(self, outgoing: OutgoingDelivery) -> Connection:
        """Return the connection for an attempt. Attempts that need the same one wait for each other.

        Raises:
            OSError: there is none, and none can be opened.
        """
        broker, scheme = broker_of(outgoing.url), outgoing.url.partition(":")[0].lower()
        key = (scheme, outgoing.host, outgoing.port, broker, outgoing.registration.tls)
        if (found := self._open.get(key)) is not None and found.is_usable:
            return found
        lock = self._locks.setdefault(key, trio.Lock())
        try:
            async with lock:
                if (found := self._open.get(key)) is not None and found.is_usable:
                    return found
                stream = await outgoing.connect(tls=scheme == "amqps", keep=True)
                try:
                    has_certificate = scheme == "amqps" and bool(outgoing.registration.tls.client_certificate)
                    reader = FrameReader(stream)
                    tuned = await open_connection(reader, broker, has_certificate=has_certificate)
                    if self._nursery is None:
                        raise ConnectionAbortedError("hookgw is stopping.")
                except BaseException:
                    stream.close()
                    raise
                self._open[key] = connection = Connection(reader, tuned)
                self._nursery.start_soon(self._keep, key, connection)
                return connection
        finally:
            if not lock.locked() and self._locks.get(key) is lock:
                del self._locks[key]

    async def _keep(self, key: Key, connection: Connection) -> None:
        try:
            await connection.run()
        finally:
            if self._open.get(key) is connection:
                del self._open[key]
