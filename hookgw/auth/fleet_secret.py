"""How nodes of a fleet know each other's requests. No I/O.

A node signs what it forwards: the method, the target, the client's address and the time. The secret itself is
never sent, so that no proxy and no log on the way learns it.
"""

from __future__ import annotations

import hashlib
import hmac

HEADER = b"hookgw-fleet"
"""The header of a forwarded request: ``<time>;<client's address>;<signature>``."""

VALID_FOR = 300.0
"""Seconds for which a signature is valid, before and after: the nodes' clocks may differ."""


class FleetSecret:
    """Signs and checks forwarded requests.

    Args:
        secret: all nodes of the fleet have the same.
    """

    __slots__ = ("_key",)

    def __init__(self, secret: str) -> None:
        self._key = hashlib.sha256(b"hookgw fleet\0" + secret.encode()).digest()

    def sign(self, method: str, target: bytes, client: str, now: float) -> bytes:
        """Return the value of the header for a request.

        Args:
            method, target: of the request, as they are sent.
            client: the address of the client that made the request; empty if it has none.
            now: seconds since the epoch.
        """
        signed = f"{int(now)};{client}".encode("latin-1", "replace")
        return signed + b";" + self._signature(method, target, signed)

    def client_of(self, value: bytes, method: str, target: bytes, now: float) -> str | None:
        """Return the client's address of a request that a node has forwarded.

        Returns:
            Empty if the client has none; ``None`` if no node of the fleet has sent this, or not lately.
        """
        signed, _, signature = value.rpartition(b";")
        time, _, client = signed.partition(b";")
        if not hmac.compare_digest(signature, self._signature(method, target, signed)):
            return None
        return client.decode("latin-1") if abs(now - int(time)) <= VALID_FOR else None

    def _signature(self, method: str, target: bytes, signed: bytes) -> bytes:
        text = b"\n".join((method.encode("latin-1", "replace"), target, signed))
        return hmac.new(self._key, text, hashlib.sha256).hexdigest().encode()
