"""Remove the secrets that a receiver repeats in its response before the response is stored. No I/O."""

from __future__ import annotations

from urllib.parse import quote, unquote

from hookgw.models.masking import MASK, user_of
from hookgw.models.registrations import Registration
from hookgw.models.target_url import Target

SHORTEST = 6
"""Characters that a secret must have: a shorter text would be masked wherever it occurs by chance."""


def secrets_sent(registration: Registration, target: Target) -> tuple[bytes, ...]:
    """Return the secrets in a registration's requests, the longest first.

    They are the values of its headers and each further word in them (the token of ``Bearer …``), and the user
    and password of its URL in every spelling in which they are sent.
    """
    texts = [word for value in registration.headers.values() for word in (value, *value.split()[1:])]
    for text in user_of(registration.url).split(":", 1):
        texts += [text, unquote(text), quote(unquote(text), safe="")]
    if target.authorization is not None:
        texts.append(target.authorization.removeprefix("Basic "))
    found = {text.encode() for text in texts if len(text) >= SHORTEST}
    # Longest first: masking a word inside a longer secret would leave the rest of that secret readable.
    return tuple(sorted(found, key=lambda secret: (-len(secret), secret)))


def redact(body: bytes, secrets: tuple[bytes, ...]) -> bytes:
    """Return the body with each secret replaced by a mask."""
    for secret in secrets:
        if secret in body:
            body = body.replace(secret, MASK.encode())
    return body
