"""A request that a receiver recorded. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """One request.

    Attributes:
        position: its number, from 0, in the order in which requests were complete on all connections.
        connection: the number of its connection, from 1.
        method: for example ``POST``.
        target: the request target as sent: path and query.
        headers: names in lower case and values, in the order sent.
        body: without any transfer coding; empty if an early answer did not wait for it.
        http_version: ``1.0`` or ``1.1``.
        at: Trio's time when the request was complete.
    """

    position: int
    connection: int
    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    http_version: str
    at: float

    @property
    def path(self) -> str:
        """The target without its query."""
        return self.target.partition("?")[0]

    @property
    def json(self) -> Any:
        """The body, decoded from JSON. Key order and big integers are preserved.

        Raises:
            msgspec.DecodeError: the body is not JSON.
        """
        return msgspec.json.decode(self.body)

    @property
    def event_id(self) -> str | None:
        """The ``webhook-id`` header."""
        return self.header("webhook-id")

    def header(self, name: str) -> str | None:
        """Return the first value of a header (in any case), or ``None``."""
        return next((value for key, value in self.headers if key == name.lower()), None)
