"""Values and words for people, in the reader's language. JSON has the English ones."""

from __future__ import annotations

from hookgw.kernel.language import ENGLISH, current_language, translated
from hookgw.kernel.language import gettext as _

_WITH_STATES = frozenset({"state", "status", "outcome", "last outcome", "loss"})
"""The headings of columns whose cells are words, not somebody's data."""
_WITH_SENTENCES = frozenset({"error", "found", "last outcome", "problem", "reason"})
"""Those of columns whose cells are sentences of the gateway."""


def printable(value: object) -> str:
    """Return a value as text for people: ``None`` is empty, and booleans are yes and no.

    Control characters, which could manipulate the terminal, become ``�``.
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    if isinstance(value, list | tuple):
        return ", ".join(printable(item) for item in value)
    return "".join(char if char.isprintable() else "�" for char in str(value))


def cell_text(heading: str, cell: str) -> str:
    text = translated(cell) if heading in _WITH_STATES else cell
    return told(text) if heading in _WITH_SENTENCES else text


def told(text: str) -> str:
    """Return sentences that the gateway has sent in English, in the reader's language."""
    if current_language() == ENGLISH:
        return text
    from hookgw.records.told_sentences import sentence_text  # with msgspec: few commands need it

    return sentence_text(text)
