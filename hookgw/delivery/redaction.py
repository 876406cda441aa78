"""Masks the secrets that a receiver repeats in its response, before the response is stored. No I/O."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from urllib.parse import unquote

from hookgw.kernel.masking import MASK, SHORTEST, spellings, user_of
from hookgw.kernel.target_url import Target
from hookgw.records.registrations import Registration


def secrets_sent(
    registration: Registration, target: Target, options: Iterable[str] = ()
) -> tuple[bytes, ...]:
    """Return the secrets in a registration's requests, in all spellings, the longest first.

    They are the values of its headers and each later word in them (the token of ``Bearer …``), the user and
    password of its URL in every spelling that is sent, and secret options of plugins.
    """
    texts = [*options, *_words(registration.headers.values())]
    for text in user_of(registration.url).split(":", 1):
        texts += [text, unquote(text)]
    if target.authorization is not None:
        texts.append(target.authorization.removeprefix("Basic "))
    return _forms(texts)


def with_added_headers(
    secrets: tuple[bytes, ...], before: Mapping[str, str], headers: Mapping[str, str]
) -> tuple[bytes, ...]:
    """Return the secrets of one attempt: also headers that plugins added with a name that marks a secret.

    All of a registration's own headers are secrets. Plugins also add harmless ones, such as a time.
    """
    added = [value for name, value in headers.items() if before.get(name) != value and _is_secret(name)]
    return tuple(sorted({*secrets, *_forms(_words(added))}, key=_longest_first)) if added else secrets


def shown_head(head: bytes, own: Collection[str], secrets: tuple[bytes, ...], most: int) -> str:
    """Return a head as it may be shown: the values of secret headers are masked, and so is every secret.

    Args:
        head: lines of HTTP, in UTF-8.
        own: the names of the registration's headers, in lower case: each may be a secret.
        most: bytes, of the UTF-8 text.
    """
    lines = []
    for line in head.decode(errors="replace").rstrip("\r\n").split("\r\n"):
        name, colon, _ = line.partition(":")
        lines.append(f"{name}: {MASK}" if colon and (name.lower() in own or _is_secret(name)) else line)
    return redact("\n".join(lines).encode(), secrets)[:most].decode("utf-8", "ignore")


_SECRET_NAME = re.compile("auth|cookie|token|key|secret|password|signature", re.IGNORECASE)


@lru_cache(maxsize=1024)  # the names are the same in every attempt
def _is_secret(name: str) -> bool:
    return _SECRET_NAME.search(name) is not None


def _words(values: Iterable[str]) -> list[str]:
    return [word for value in values for word in (value, *value.split()[1:])]


def _forms(texts: Iterable[str]) -> tuple[bytes, ...]:
    found = {form.encode() for text in texts if len(text) >= SHORTEST for form in spellings(text)}
    return tuple(sorted(found, key=_longest_first))


def _longest_first(secret: bytes) -> tuple[int, bytes]:
    # Masking a word inside a longer secret would leave the rest of that secret readable.
    return -len(secret), secret


def redact(body: bytes, secrets: tuple[bytes, ...]) -> bytes:
    """Replace each secret in a body by a mask. The longest secret must come first."""
    # Most receivers answer with nothing, or nearly nothing.
    if not secrets or len(body) < len(secrets[-1]):
        return body
    for secret in secrets:
        if secret in body:
            body = body.replace(secret, MASK.encode())
    return body
