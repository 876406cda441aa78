"""Masks secrets in the ``repr`` of records, and user information in URLs. No I/O.

Records reach error messages, tracebacks and logs through ``repr``, most of all in plugins.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Iterable
from typing import Any, Protocol, runtime_checkable
from urllib.parse import quote

MASK = "********"
"""Shown instead of a secret. A ``set`` that contains it keeps the stored value."""

SHORTEST = 6
"""Characters that a secret must have: a shorter text would be masked wherever it occurs by chance."""

# The user information ends at the last "@" before the path: parse_target splits there, so nothing that it
# would authenticate with remains. Any scheme counts: a disabled registration may have any string as its URL.
_USER_INFO = re.compile(r"^([^/?#@]*://)([^/?]*)@")


def repr_without(*secret: str) -> Callable[[Any], str]:
    """Return a ``__repr__`` method for a record that masks these fields unless they are empty.

    All other fields are shown, with the user information of URLs masked.
    """

    def show(value: Any) -> str:
        return repr(with_masked_user(value) if isinstance(value, str) else value)

    def masked_repr(self: Any) -> str:
        values = {name: getattr(self, name) for name in self.__struct_fields__}
        # An empty secret stays visible: "no secret is set" is the most common thing to look for in a log.
        shown = (
            f"{name}={MASK if value and name in secret else show(value)}" for name, value in values.items()
        )
        return f"{type(self).__name__}({', '.join(shown)})"

    return masked_repr


def without_user(url: str) -> str:
    """Remove user and password from a URL; return any other text unchanged."""
    return _USER_INFO.sub(r"\1", url, count=1) if "@" in url else url


def with_masked_user(url: str) -> str:
    """Replace user and password in a URL with :data:`MASK`, if it has any."""
    return _USER_INFO.sub(rf"\1{MASK}@", url, count=1) if "@" in url else url


def user_of(url: str) -> str:
    """Return ``user:password`` as written in a URL; empty if it has none."""
    match = _USER_INFO.match(url)
    return match[2] if match else ""


def is_masked(url: str) -> bool:
    return user_of(url) == MASK


def spellings(secret: str) -> set[str]:
    """Return the forms that a secret takes when a program quotes it: in JSON, in a URL, in HTML.

    JSON has several: with or without ``\\u`` for what is not ASCII, with ``\\/`` (PHP), and with ``\\u`` for
    characters that mean something in HTML (Go, Gson).
    """
    plain, ascii_only = json.dumps(secret, ensure_ascii=False)[1:-1], json.dumps(secret)[1:-1]
    return {
        secret,
        plain,
        ascii_only,
        ascii_only.replace("/", "\\/"),
        re.sub("[<>&]", _escaped, plain),
        re.sub("[<>&='\u2028\u2029]", _escaped, plain),
        quote(secret, safe=""),
        html.escape(secret),
    }


@runtime_checkable
class HoldsSecrets(Protocol):
    """An object for plugins that knows secrets which they may repeat in an exception."""

    def secret_texts(self) -> set[str]: ...


def mask_secrets(text: str, secrets: Iterable[str]) -> str:
    """Replace each secret, in each of its :func:`spellings`, by a mask."""
    forms = {form for secret in secrets if len(secret) >= SHORTEST for form in spellings(secret)}
    # Longest first: masking a part of a longer form would leave the rest of it readable.
    for form in sorted(forms, key=len, reverse=True):
        text = text.replace(form, MASK)
    return text


def _escaped(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"
