"""Proofs that a request comes from the network. No I/O."""

from __future__ import annotations

import hmac


def is_secret(given: str, secret: str) -> bool:
    """Return whether a text is a secret; nothing is an empty one.

    It compares in constant time: how long it takes must not say how much of a guess is right.
    """
    # On bytes: compare_digest takes no other text than ASCII.
    return bool(secret) and hmac.compare_digest(_bytes(given), _bytes(secret))


def is_signature(given: str, secret: str | bytes, body: bytes, *, algorithm: str = "sha256") -> bool:
    """Return whether a text is the HMAC of a body in hexadecimal digits; nothing is with an empty secret.

    Args:
        given: from the request, in lower case.
        secret: the key.
        body: the bytes as they came, before they are parsed: the same JSON has many spellings.
        algorithm: in the words of Python's hashlib, such as ``sha512``.
    """
    key = _bytes(secret) if isinstance(secret, str) else secret
    return bool(key) and is_secret(given, hmac.new(key, body, algorithm).hexdigest())


def _bytes(text: str) -> bytes:
    # No other text has the same bytes: not even one with half of a surrogate pair, which JSON can express.
    return text.encode("utf-8", "surrogatepass")
