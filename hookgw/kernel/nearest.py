"""Suggestions for misspelled names. No I/O."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the most similar known name; ``None`` if none is similar."""
    # Cut: the comparison is quadratic in the length, and clients choose the names.
    near = difflib.get_close_matches(name[:64], list(known), n=1)
    return near[0] if near else None


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return ``" Did you mean …?"`` with the most similar known name, or ``""`` if none is similar."""
    near = nearest(name, known)
    return f" Did you mean {near}?" if near else ""
