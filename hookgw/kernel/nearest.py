"""Suggestions for misspelled names. No I/O."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from hookgw.kernel.sentences import Sentence

MOST_LOOKED_UP = 10
"""Unknown parameters of a query that are looked up: it may have thousands, and each takes 10 µs or more."""


def nearest(name: str, known: Iterable[str], least: float = 0.6) -> str | None:
    """Return the most similar known name; ``None`` if none is similar.

    Args:
        least: how similar it must be, from 0 to 1, as :func:`difflib.get_close_matches` measures it.
    """
    # Cut: the comparison is quadratic in the length, and clients choose the names.
    near = difflib.get_close_matches(name[:64], list(known), n=1, cutoff=least)
    return near[0] if near else None


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return ``" Did you mean …?"`` with the most similar known name, or ``""`` if none is similar."""
    near = nearest(name, known)
    return f" Did you mean {near}?" if near else ""


def misspelled_parameter(name: str, known: Iterable[str]) -> Sentence | None:
    """Return what is wrong with a parameter that is similar to a known one; ``None`` for any other."""
    # To difflib, two words that differ only in case are not similar.
    lower = {one.lower().replace("_", ""): one for one in known}
    word = name.lower().replace("_", "")
    near = nearest(word, lower)
    if len(word) > 3 and word not in (near or ""):  # name is similar to number, and a part of instanceName
        near = next((one for one in lower if word in one), near)
    if near is None:
        return None
    return Sentence(
        "query.misspelled",
        "{name!r} in the query is not known. Did you mean {near}?",
        name=name[:64],
        near=lower[near],
    )
