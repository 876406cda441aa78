"""Signatures by Standard Webhooks: ``v1`` (HMAC-SHA256) and ``v1a`` (ed25519). No I/O.

See https://github.com/standard-webhooks/standard-webhooks, "Signature scheme".
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from binascii import b2a_base64
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Protocol, Self

from hookgw.kernel.signing_keys import SigningKey, VerifyingKey

# RFC 2104, section 2.
_INNER_PAD = bytes(byte ^ 0x36 for byte in range(256))
_OUTER_PAD = bytes(byte ^ 0x5C for byte in range(256))

_V1A = b"v1a,"
MOST_SIGNATURES = 16
"""Signatures of one request that are checked; the rest is ignored."""
SIGNATURE_TOLERANCE = 300.0
"""Seconds that a timestamp may lie in the past or in the future, as in the reference libraries."""


class SignatureInvalid(ValueError):
    """A request has no valid signature by any of the keys, or its timestamp is too far off."""


def sign(keys: Sequence[SigningKey], message_id: str, timestamp: int, body: bytes) -> str:
    """Return the value of ``webhook-signature``.

    Args:
        keys: the keys in force, the newest first, from :func:`hookgw.kernel.signing_keys.signing_key`.
        message_id: the value of ``webhook-id``. It must not contain a ``.``.
        timestamp: the value of ``webhook-timestamp``: whole Unix seconds of this attempt.

    Returns:
        For each key, in their order, ``v1,<base64 of the HMAC-SHA256>`` or ``v1a,<base64 of the ed25519
        signature>``, separated by one space.
    """
    content = b"%b.%d.%b" % (message_id.encode(), timestamp, body)
    signatures = []
    for key in keys:
        if isinstance(key, bytes):
            signatures.append(_hmac(key, content))
        else:
            signatures.append(b"v1a," + base64.b64encode(key.sign(content)))
    return b" ".join(signatures).decode("ascii")


def verify(
    keys: Sequence[VerifyingKey],
    headers: Mapping[str, str],
    body: bytes,
    *,
    now: float,
    tolerance: float = SIGNATURE_TOLERANCE,
) -> None:
    """Check a request as a receiver does.

    Args:
        keys: the accepted keys, from :func:`hookgw.kernel.signing_keys.verifying_key`.
        headers: names in lower case.
        now: seconds since the epoch.
        tolerance: how far the timestamp may lie from ``now``, in seconds.

    Raises:
        SignatureInvalid: a header is missing or malformed, the timestamp is too old or too new, or no
            signature was made with one of the keys.
    """
    for name in ("webhook-id", "webhook-timestamp", "webhook-signature"):
        if not headers.get(name):
            raise SignatureInvalid(f"{name} is missing.")
    timestamp = headers["webhook-timestamp"]
    # int() takes digits of every script, signs, underscores, and as many digits as there are.
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= 18):
        raise SignatureInvalid("webhook-timestamp is not a whole number of Unix seconds.")
    age = now - int(timestamp)
    if abs(age) > tolerance:
        raise SignatureInvalid(
            f"webhook-timestamp is {abs(age):.0f} s in the {'past' if age > 0 else 'future'}."
        )
    content = b"%b.%d.%b" % (headers["webhook-id"].encode(), int(timestamp), body)
    # Anyone can send a long header; each signature in it costs a hash or an ed25519 check.
    given = headers["webhook-signature"].split(" ", MOST_SIGNATURES)[:MOST_SIGNATURES]
    if not any(_matches(key, content, text.encode()) for key in keys for text in given):
        raise SignatureInvalid("webhook-signature has no signature of this body by a known secret.")


def _matches(key: VerifyingKey, content: bytes, given: bytes) -> bool:
    if isinstance(key, bytes):
        return hmac.compare_digest(_hmac(key, content), given)
    # Imported here: it takes 35 ms, and only receivers with a v1a key need it.
    from cryptography.exceptions import InvalidSignature

    try:
        key.verify(base64.b64decode(given.removeprefix(_V1A), validate=True), content)
    except (InvalidSignature, ValueError):
        return False
    return given.startswith(_V1A)


def _hmac(key: bytes, content: bytes) -> bytes:
    # HMAC-SHA256 (RFC 2104) on hash states that have the key already. hmac.digest costs nearly twice as much.
    # Worse, it releases the GIL each time, and the thread that writes to the disk then holds it for a while.
    inner, outer = _keyed(key)
    inner, outer = inner.copy(), outer.copy()
    inner.update(content)
    outer.update(inner.digest())
    return b"v1," + b2a_base64(outer.digest(), newline=False)


class _Hash(Protocol):
    """The type of :mod:`hashlib`'s objects, which has no public name before Python 3.12."""

    def copy(self) -> Self: ...

    def update(self, data: bytes, /) -> None: ...

    def digest(self) -> bytes: ...


@lru_cache(maxsize=4096)
def _keyed(key: bytes) -> tuple[_Hash, _Hash]:
    block = (key if len(key) <= 64 else hashlib.sha256(key).digest()).ljust(64, b"\0")
    return hashlib.sha256(block.translate(_INNER_PAD)), hashlib.sha256(block.translate(_OUTER_PAD))
