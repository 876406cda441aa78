"""Requests of the network: the proof that one comes from there, and its body."""

from __future__ import annotations

import base64
import hmac
import re
from collections.abc import Sequence
from typing import Any

from hookgw.kernel.errors import Invalid
from hookgw.records.connectors import IngestRequest, IngestResponse, Session

_CHALLENGE = re.compile("[!-~]{1,1024}")


def is_secret(given: str, secret: str) -> bool:
    """Return whether a text is a secret; nothing is an empty one.

    It compares in constant time: how long it takes must not say how much of a guess is right.
    """
    # On bytes: compare_digest takes no other text than ASCII.
    return bool(secret) and hmac.compare_digest(_bytes(given), _bytes(secret))


def is_signature(
    given: str, secret: str | bytes, body: bytes, *, algorithm: str = "sha256", encoding: str = "hex"
) -> bool:
    """Return whether a text is the HMAC of a body; nothing is with an empty secret.

    Args:
        given: from the request; hexadecimal digits in lower case.
        secret: the key.
        body: the bytes as they came, before they are parsed: the same JSON has many spellings.
        algorithm: in the words of Python's hashlib, such as ``sha512``.
        encoding: of the signature: ``hex`` or ``base64``.
    """
    key = _bytes(secret) if isinstance(secret, str) else secret
    if not key:
        return False
    right = hmac.new(key, body, algorithm).digest()
    return is_secret(given, right.hex() if encoding == "hex" else base64.b64encode(right).decode())


def answer_challenge(request: IngestRequest, verify_token: str) -> IngestResponse:
    """Answer Meta's check of a new URL, a ``GET`` with ``hub.challenge``; 403 if the token is wrong or empty.

    Raises:
        Invalid: it has no challenge.
    """
    is_right = is_secret(request.query.get("hub.verify_token", ""), verify_token)
    if request.query.get("hub.mode") != "subscribe" or not is_right:
        return IngestResponse(status=403, body=b"hub.verify_token is not the verify_token of the instance.")
    challenge = request.query.get("hub.challenge", "")
    if not _CHALLENGE.fullmatch(challenge):
        raise Invalid.of("ingest.challenge_missing", "hub.challenge is missing, or is no plain text.")
    return IngestResponse(body=challenge.encode())


async def read_object(session: Session, body: bytes, *, events: Sequence[str] = ("",)) -> dict[str, Any]:
    """Return the body of a request, which is a JSON object.

    Args:
        session: of the instance.
        body: of the request.
        events: see :meth:`hookgw.Session.decode_json`; by default, the body is one event.

    Raises:
        Invalid: it is none.
        EventLeftOut: it is too large to be read.
    """
    try:
        found = await session.decode_json(body, events=events)
    except ValueError as error:
        raise Invalid.of("ingest.body_refused", "The body {reason}.", reason=error) from None
    if not isinstance(found, dict):
        raise Invalid.of("ingest.body_not_object", "The body is not a JSON object.")
    return found


def _bytes(text: str) -> bytes:
    # No other text has the same bytes: not even one with half of a surrogate pair, which JSON can express.
    return text.encode("utf-8", "surrogatepass")
