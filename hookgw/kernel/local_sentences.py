"""Sentences of errors in the reader's language."""

from __future__ import annotations

from collections.abc import Mapping
from string import Formatter
from typing import Any

from hookgw.kernel.language import current_language, translated_in
from hookgw.kernel.local_formats import swap_signs
from hookgw.kernel.sentences import Sentence
from hookgw.locale.catalogues import by_context


def local_text(sentence: str) -> str:
    """Return a sentence in the current language; a text without an id as it is."""
    if not isinstance(sentence, Sentence):
        return sentence
    return _filled(translated_in(sentence.id, sentence.template), sentence.values)


def local_text_of(id_: str, values: Mapping[str, Any], english: str) -> str:
    """Return the text for an id that another process has sent; the English one if there is no translation.

    That process may be of another version, so its values may not fit.
    """
    template = by_context(current_language()).get(id_)
    if template is None:
        return english
    try:
        return _filled(template, values)
    except (KeyError, ValueError, TypeError, AttributeError, IndexError):
        return english


class _LocalNumbers(Formatter):
    def format_field(self, value: Any, spec: str) -> str:
        text = format(value, spec)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return swap_signs(text, current_language()) if is_number else text


_FORMATTER = _LocalNumbers()


def _filled(template: str, values: Mapping[str, Any]) -> str:
    return str(values.get("at", "")) + _FORMATTER.vformat(template, (), values)
