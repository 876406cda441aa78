"""User and password in URLs: taken out, or masked, of whatever is shown or stored beside the URL. No I/O."""

from __future__ import annotations

import re

MASK = "********"
"""What is shown for a secret; sent back in a ``set``, it means the stored value."""
_USER_INFO = re.compile(r"^([^/?#@]*://)([^/?]*)@")


def without_user(url: str) -> str:
    """The URL without user and password; any other text as it is."""
    return _USER_INFO.sub(r"\1", url, count=1) if "@" in url else url


def with_masked_user(url: str) -> str:
    """The URL with :data:`MASK` in the place of user and password, where it has any."""
    return _USER_INFO.sub(rf"\1{MASK}@", url, count=1) if "@" in url else url


def user_of(url: str) -> str:
    """User and password as they stand in the URL, ``user:password``; empty where it has none."""
    match = _USER_INFO.match(url)
    return match[2] if match else ""


def is_masked(url: str) -> bool:
    """Whether :data:`MASK` stands where user and password were."""
    return user_of(url) == MASK
