"""Remove the secrets that a receiver repeats in its response before the response is stored. No I/O."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import unquote

from hookgw.models.masking import MASK, SHORTEST, spellings, user_of
from hookgw.models.registrations import Registration
from hookgw.models.target_url import Target


def secrets_sent(
    registration: Registration, target: Target, options: Iterable[str] = ()
) -> tuple[bytes, ...]:
    """Return the secrets in a registration's requests, in all spellings, the longest first.

    They are the values of its headers and each further word in them (the token of ``Bearer …``), the user
    and password of its URL in every spelling in which they are sent, and secret options of plugins.
    """
    texts = list(options)
    texts += [word for value in registration.headers.values() for word in (value, *value.split()[1:])]
    for text in user_of(registration.url).split(":", 1):
        texts += [text, unquote(text)]
    if target.authorization is not None:
        texts.append(target.authorization.removeprefix("Basic "))
    found = {form.encode() for text in texts if len(text) >= SHORTEST for form in spellings(text)}
    # Longest first: masking a word inside a longer secret would leave the rest of that secret readable.
    return tuple(sorted(found, key=lambda secret: (-len(secret), secret)))


def redact(body: bytes, secrets: tuple[bytes, ...]) -> bytes:
    """Return the body with each secret replaced by a mask."""
    for secret in secrets:
        if secret in body:
            body = body.replace(secret, MASK.encode())
    return body
