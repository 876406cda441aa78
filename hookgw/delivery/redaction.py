"""Secrets that a receiver repeats in its answer: taken out before the answer is kept. No I/O."""

from __future__ import annotations

from urllib.parse import quote, unquote

from hookgw.models.masking import MASK, user_of
from hookgw.models.registrations import Registration
from hookgw.models.target_url import Target

SHORTEST = 6
"""Characters that a secret must have to be looked for: a shorter one would be found in any text."""


def secrets_sent(registration: Registration, target: Target) -> tuple[bytes, ...]:
    """What a registration's requests carry that nobody else is to read, the longest first.

    These are the values of its headers and the words in them behind the first (of ``Bearer …`` the token
    too), and the password of its URL, also as it is sent.
    """
    texts = [word for value in registration.headers.values() for word in (value, *value.split()[1:])]
    for text in user_of(registration.url).split(":", 1):
        texts += [text, unquote(text), quote(unquote(text), safe="")]
    if target.authorization is not None:
        texts.append(target.authorization.removeprefix("Basic "))
    found = {text.encode() for text in texts if len(text) >= SHORTEST}
    return tuple(sorted(found, key=lambda secret: (-len(secret), secret)))


def redact(answer: bytes, secrets: tuple[bytes, ...]) -> bytes:
    """An answer with a mask in the place of every one of the secrets."""
    for secret in secrets:
        if secret in answer:
            answer = answer.replace(secret, MASK.encode())
    return answer
