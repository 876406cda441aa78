"""Reads and verifies a request as a receiver does. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from hookgw.delivery.signing import SignatureInvalid, verify
from hookgw.kernel.signing_keys import VerifyingKey
from hookgw.testing.received import Received

TEXT_KEYS = ("conversation", "text", "caption")
MAX_SEARCHED = 1000
"""How many values of a payload :func:`first_text` looks at: a payload may be 16 MiB."""


class ReceivedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A request, as far as it can be read as a delivery. Missing fields are ``None``.

    Attributes:
        attempt: its number, from 1.
        verified: whether the signature is valid; ``None`` without keys.
        problem: why the signature is not valid.
        text: the first text in the payload, or an empty string.
    """

    id: str | None
    kind: str | None
    instance: str | None
    attempt: str | None
    verified: bool | None
    problem: str | None
    text: str


def read_received_event(request: Received, keys: Sequence[VerifyingKey], now: float) -> ReceivedEvent:
    """Read and verify a request. Never fails, whatever the request contains.

    The signed timestamp may differ by five minutes from ``now``, in seconds since the epoch.
    """
    problem = None
    if keys:
        try:
            verify(keys, dict(request.headers), request.body, now=now)
        except SignatureInvalid as error:
            problem = str(error)
    try:
        envelope = request.json
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # deep nesting raises RecursionError
        envelope = None
    return ReceivedEvent(
        id=request.event_id,
        kind=request.header("x-event-type"),
        instance=request.header("x-instance-name"),
        attempt=request.header("x-attempt"),  # not a number: anyone may send anything
        verified=problem is None if keys else None,
        problem=problem,
        # A plugin may encode the payload without the envelope, and an alert has none.
        text=first_text(envelope.get("data", envelope) if isinstance(envelope, dict) else envelope),
    )


def first_text(payload: Any) -> str:
    # Breadth first: the message's own text is above the texts of a quoted message.
    queue = [payload]
    for value in queue:
        if isinstance(value, dict):
            found = next((value[key] for key in TEXT_KEYS if isinstance(value.get(key), str)), None)
            if found is not None:
                return str(found)
            queue += value.values()
        elif isinstance(value, list):
            queue += value
        if len(queue) > MAX_SEARCHED:
            break
    return ""
