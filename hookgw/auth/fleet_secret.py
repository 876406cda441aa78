"""Signatures by which nodes of a fleet recognise each other's requests. No I/O.

A node signs the method, the target, the client's address and the time. The secret itself is never sent, so no
proxy and no log learns it.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import NamedTuple
from urllib.parse import quote, unquote

HEADER = b"hookgw-fleet"
"""The header of a node's request: ``<time>;<scheme>;<client's address>;<signature>``, and behind
the address a space and those whom a trusted proxy names, if any: percent-encoded, with commas between."""

FLEET_SECRET_VALID_FOR = 300.0
"""Seconds for which a signature is valid, before and after: the nodes' clocks may differ."""


OF_NODE = "node"


class Origin(NamedTuple):
    """The origin of a node's request.

    Attributes:
        client: the client's address; empty if it has none, and for a request of the node itself.
        scheme: with which the client reached the fleet; :data:`OF_NODE` for a request of the node itself.
        named: what a trusted proxy's header says of who the client is; see
            :class:`~hookgw.auth.proxy_people.ProxyPeople`.
    """

    client: str
    scheme: str
    named: tuple[str, ...] = ()


class FleetSecret:
    """Signs and checks forwarded requests."""

    __slots__ = ("_key",)

    def __init__(self, secret: str) -> None:
        self._key = hashlib.sha256(b"hookgw fleet\0" + secret.encode()).digest()

    def sign(self, method: str, target: bytes, origin: Origin, now: float) -> bytes:
        """Return the value of the header for a request. ``now`` is in seconds since the epoch."""
        text = f"{int(now)};{origin.scheme};{origin.client}"
        if origin.named:
            text += " " + ",".join(quote(one, safe="", errors="surrogateescape") for one in origin.named)
        signed = text.encode("latin-1", "replace")
        return signed + b";" + self._signature(method, target, signed)

    def origin_of(self, value: bytes, method: str, target: bytes, now: float) -> Origin | None:
        """Return the origin of a request; ``None`` if no node of the fleet has sent it, or not lately."""
        signed, _, signature = value.rpartition(b";")
        if not hmac.compare_digest(signature, self._signature(method, target, signed)):
            return None
        time, scheme, rest = signed.decode("latin-1").split(";", 2)
        client, *people = rest.split(" ", 1)
        named = tuple(unquote(one, errors="surrogateescape") for text in people for one in text.split(","))
        return Origin(client, scheme, named) if abs(now - int(time)) <= FLEET_SECRET_VALID_FOR else None

    def _signature(self, method: str, target: bytes, signed: bytes) -> bytes:
        text = b"\n".join((method.encode("latin-1", "replace"), target, signed))
        return hmac.new(self._key, text, hashlib.sha256).hexdigest().encode()
