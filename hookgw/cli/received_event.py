"""What a receiver makes of a request: is it ours, is it genuine, what does it say. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from hookgw.delivery.signing import SignatureInvalid, verify
from hookgw.models.signing_keys import VerifyingKey
from hookgw.testing.received import Received

TEXT_KEYS = ("conversation", "text", "caption")
SEARCHED = 1000
"""How many values of a payload are looked at for a text."""


class ReceivedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A request, as far as it can be read as a delivery.

    Attributes:
        id: the event's id.
        kind: the event kind.
        instance: the instance's name.
        attempt: 1 and up.
        verified: whether a key fits the signature; ``None`` where there is no key to check with.
        problem: why it is not verified.
        text: the first text in the payload.
    """

    id: str | None
    kind: str | None
    instance: str | None
    attempt: str | None
    verified: bool | None
    problem: str | None
    text: str


def read_received_event(request: Received, keys: Sequence[VerifyingKey], now: float) -> ReceivedEvent:
    """Read and verify a request.

    Args:
        request: any request, also one that hookgw did not send.
        keys: of those that may have signed it, see :func:`~hookgw.models.signing_keys.verifying_key`.
        now: seconds since the epoch; a timestamp may be five minutes off.
    """
    problem = _problem(request, keys, now) if keys else None
    return ReceivedEvent(
        id=request.event_id,
        kind=request.header("x-event-type"),
        instance=request.header("x-instance-name"),
        attempt=request.header("x-attempt"),
        verified=problem is None if keys else None,
        problem=problem,
        text=first_text(_payload(request)),
    )


def _problem(request: Received, keys: Sequence[VerifyingKey], now: float) -> str | None:
    try:
        verify(keys, dict(request.headers), request.body, now=now)
    except SignatureInvalid as error:
        return str(error)
    return None


def _payload(request: Received) -> Any:
    try:
        envelope = request.json
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return envelope.get("data") if isinstance(envelope, dict) else envelope


def first_text(payload: Any) -> str:
    """The first text that a person wrote, in breadth; empty where there is none."""
    waiting = [payload]
    for value in waiting:
        if isinstance(value, dict):
            found = next((value[key] for key in TEXT_KEYS if isinstance(value.get(key), str)), None)
            if found is not None:
                return str(found)
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
        if len(waiting) > SEARCHED:
            break
    return ""
