"""What plugins that send deliveries get and return. No I/O."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias

import msgspec

from hookgw.records.events import Event
from hookgw.records.registrations import Registration


class Response(msgspec.Struct, frozen=True):
    """What a plugin's destination answered.

    Attributes:
        status: as of HTTP, 200 to 599: what it means is in ``docs/http.md``. 200 is a delivery, 400 rejects
            this event for good, 503 lets the lane wait, other failures are retried on the schedule.
        body: shown with the attempt; secrets of the registration are masked in it.
    """

    status: int
    body: bytes = b""


class OutgoingStream(Protocol):
    """A connection to a destination, opened by :meth:`OutgoingDelivery.connect`.

    Each method raises ``OSError`` if the connection is broken or closed. One task may send and one may
    receive at a time. After a cancellation in the middle of sending, close it.

    Attributes:
        use_until: by ``trio.current_time()``; use another connection from then on, so that a host that moved
            is found again (``delivery.connection_age``).
    """

    use_until: float

    async def send_all(self, data: bytes) -> None:
        """Send all of the bytes."""

    async def receive(self) -> bytes:
        """Wait for bytes, and return at most 32 KiB of them; empty at the end of the stream."""

    def close(self) -> None:
        """Close at once. Tasks that wait on the stream get ``OSError``. Idempotent."""


class OutgoingDelivery(Protocol):
    """One attempt that a plugin makes; see ``hookgw_destinations``.

    Attributes:
        url: of the registration, with user and password.
        host, port: of the URL; the port is the scheme's standard one if the URL names none.
        body: the bytes to send: every attempt has the same.
        headers: as a request of HTTP would have them, with lower-case names: the registration's and those of
            hookgw, such as ``webhook-id``, ``webhook-signature``, ``x-attempt``; without ``host`` and
            ``content-length``.
        attempt: counts from 1.
        event: as it was accepted. The body may have another form of it.
        registration: a copy.
    """

    url: str
    host: str
    port: int
    body: bytes
    headers: dict[str, str]
    attempt: int
    event: Event
    registration: Registration

    async def connect(self, *, tls: bool = False, keep: bool = False) -> OutgoingStream:
        """Open a connection to the host and port of the URL.

        The address guard checks the address, the connection counts towards the limits, ``delivery.proxy`` is
        used if it is set, and the end of the attempt cancels this.

        Args:
            tls: whether to do a TLS handshake, by the registration's ``tls`` and ``delivery.ca_file``.
            keep: whether the connection stays open when the attempt ends. The plugin then closes it, at the
                latest when its ``hookgw_run`` is cancelled, and only uses it for registrations with the same
                URL and ``tls``.

        Raises:
            OSError: no connection was established. If the attempt ends with ``OSError``, this is its error.
        """


Send: TypeAlias = Callable[[OutgoingDelivery], Awaitable[Response]]
"""Makes one attempt. It raises ``OSError`` if the destination cannot be reached, or is down or busy."""
