"""Signatures by Standard Webhooks, version 1 (symmetric). No I/O.

See https://github.com/standard-webhooks/standard-webhooks, "Signature scheme".
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping, Sequence
from functools import lru_cache

_INNER_PAD = bytes(byte ^ 0x36 for byte in range(256))
_OUTER_PAD = bytes(byte ^ 0x5C for byte in range(256))

TOLERANCE = 300.0
"""Seconds that a timestamp may lie in the past or in the future, as the specification has it."""


class SignatureInvalid(ValueError):
    """A request is not signed with any of the keys, or not now; the message says which."""


def sign(keys: Sequence[bytes], message_id: str, timestamp: int, body: bytes) -> str:
    """The value of ``webhook-signature``.

    Args:
        keys: the raw keys in force (the decoded part behind ``whsec_``), the newest first.
        message_id: the value of ``webhook-id``; it has no ``.`` in it.
        timestamp: the value of ``webhook-timestamp``: whole Unix seconds of this attempt.
        body: the bytes that are sent.

    Returns:
        ``v1,<base64 of the HMAC-SHA256>`` for each key, in their order, separated by one space.
    """
    content = b"%b.%d.%b" % (message_id.encode(), timestamp, body)
    return " ".join([_signature(key, content) for key in keys])


def verify(
    keys: Sequence[bytes],
    headers: Mapping[str, str],
    body: bytes,
    *,
    now: float,
    tolerance: float = TOLERANCE,
) -> None:
    """Check a request as a receiver does.

    Args:
        keys: the raw keys that are accepted.
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
    expected = sign(keys, message_id, int(timestamp), body).split(" ")
    given = [text.encode() for text in signatures.split(" ")]
    if not any(hmac.compare_digest(wanted.encode(), text) for wanted in expected for text in given):
        raise SignatureInvalid("webhook-signature holds no signature of this body by a known secret.")


def _signature(key: bytes, content: bytes) -> str:
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
