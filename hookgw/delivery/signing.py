"""Signatures by Standard Webhooks: ``v1`` (HMAC-SHA256) and ``v1a`` (ed25519). No I/O.

See https://github.com/standard-webhooks/standard-webhooks, "Signature scheme".
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping, Sequence
from functools import lru_cache

from hookgw.models.signing_keys import SigningKey, VerifyingKey

_INNER_PAD = bytes(byte ^ 0x36 for byte in range(256))
_OUTER_PAD = bytes(byte ^ 0x5C for byte in range(256))

_V1A = b"v1a,"
MOST_SIGNATURES = 16
"""Of one request that are looked at."""
TOLERANCE = 300.0
"""Seconds that a timestamp may lie in the past or in the future, as the specification has it."""


class SignatureInvalid(ValueError):
    """A request is not signed with any of the keys, or not now; the message says which."""


def sign(keys: Sequence[SigningKey], message_id: str, timestamp: int, body: bytes) -> str:
    """The value of ``webhook-signature``.

    Args:
        keys: those in force, the newest first, as :func:`hookgw.models.signing_keys.signing_key` gives them.
        message_id: the value of ``webhook-id``; it has no ``.`` in it.
        timestamp: the value of ``webhook-timestamp``: whole Unix seconds of this attempt.
        body: the bytes that are sent.

    Returns:
        ``v1,<base64 of the HMAC-SHA256>`` or ``v1a,<base64 of the ed25519 signature>`` for each key, in
        their order, separated by one space.
    """
    content = _content(message_id, timestamp, body)
    return " ".join([_signature(key, content) for key in keys])


def verify(
    keys: Sequence[VerifyingKey],
    headers: Mapping[str, str],
    body: bytes,
    *,
    now: float,
    tolerance: float = TOLERANCE,
) -> None:
    """Check a request as a receiver does.

    Args:
        keys: those that are accepted, as :func:`hookgw.models.signing_keys.verifying_key` gives them.
        headers: the request's headers, their names in lower case.
        body: its bytes, as they came.
        now: seconds since the epoch.
        tolerance: how far the timestamp may lie from ``now``, in seconds.

    Raises:
        SignatureInvalid: a header is missing or malformed, the timestamp is too old or too new, or
            no signature is one of these keys'.
    """
    message_id, timestamp, signatures = (
        _header(headers, name) for name in ("webhook-id", "webhook-timestamp", "webhook-signature")
    )
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= 18):
        raise SignatureInvalid("webhook-timestamp is no whole number of Unix seconds.")
    age = now - int(timestamp)
    if abs(age) > tolerance:
        raise SignatureInvalid(
            f"webhook-timestamp is {abs(age):.0f} s in the {'past' if age > 0 else 'future'}."
        )
    content = _content(message_id, int(timestamp), body)
    given = [text.encode() for text in signatures.split(" ", MOST_SIGNATURES)[:MOST_SIGNATURES]]
    if not any(_fits(key, content, text) for key in keys for text in given):
        raise SignatureInvalid("webhook-signature holds no signature of this body by a known secret.")


def _content(message_id: str, timestamp: int, body: bytes) -> bytes:
    return b"%b.%d.%b" % (message_id.encode(), timestamp, body)


def _fits(key: VerifyingKey, content: bytes, given: bytes) -> bool:
    if isinstance(key, bytes):
        return hmac.compare_digest(_hmac(key, content).encode(), given)
    from cryptography.exceptions import InvalidSignature

    try:
        key.verify(base64.b64decode(given.removeprefix(_V1A), validate=True), content)
    except (InvalidSignature, ValueError):
        return False
    return given.startswith(_V1A)


def _signature(key: SigningKey, content: bytes) -> str:
    if isinstance(key, bytes):
        return _hmac(key, content)
    return "v1a," + base64.b64encode(key.sign(content)).decode("ascii")


def _hmac(key: bytes, content: bytes) -> str:
    """HMAC-SHA256 (RFC 2104) by hash states that have taken in the key already.

    ``hmac.digest`` costs nearly twice as much and, which is worse, gives up Python's lock each time,
    which the thread that writes to the disk then holds for a while.
    """
    inner, outer = (state.copy() for state in _keyed(key))
    inner.update(content)
    outer.update(inner.digest())
    return "v1," + base64.b64encode(outer.digest()).decode("ascii")


@lru_cache(maxsize=4096)
def _keyed(key: bytes) -> tuple[hashlib._Hash, hashlib._Hash]:
    """SHA-256 begun with the inner and with the outer padded key."""
    block = (key if len(key) <= 64 else hashlib.sha256(key).digest()).ljust(64, b"\0")
    return hashlib.sha256(block.translate(_INNER_PAD)), hashlib.sha256(block.translate(_OUTER_PAD))


def _header(headers: Mapping[str, str], name: str) -> str:
    value = headers.get(name)
    if not value:
        raise SignatureInvalid(f"{name} is missing.")
    return value
