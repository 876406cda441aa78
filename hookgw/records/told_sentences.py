"""Translates sentences that are English where they are made. No I/O.

The HTTP API, the log and the audit have them in English, and the store keeps some (why an attempt failed, why
a webhook is disabled). Pages and alerts translate such a sentence by its template: an error brings its own
one; those of other sentences are in the catalogues, with the context ``said``. To have a sentence translated,
add it there to one language; ``nox -s texts`` adds it to the others, and removes what the code says no more.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from string import Formatter
from typing import Any

from hookgw.kernel.language import ENGLISH, current_language, translated_in
from hookgw.kernel.local_formats import number_text, swap_signs
from hookgw.kernel.sentences import TEXT, Sentence
from hookgw.locale.catalogues import by_context, texts_in

SAID = "said"
"""The context of these templates in the catalogues."""
_PLACEHOLDER = re.compile(r"\\\{(\w+)\\\}", re.ASCII)
_VALUE = r"(?:(?![.!?] [A-Z]).)+?"
"""A value in a sentence is within one."""
_GROUPED = re.compile(r"\d{1,3}(,\d{3})+( \w+)?", re.ASCII)
_END = re.compile(r"(?<=[.:;!?]) ")
_MOST_PARTS = 8
_MOST_SENTENCES = 50
_LONGEST = 2_000
"""Characters of a text. Plugins and networks say what they like, and a value in a sentence may be one with a
value in it, and so on."""


def sentence_text(text: str) -> str:
    """Return a sentence, or several with spaces between, in the current language.

    What has no template, as texts of plugins and networks, stays as it is.
    """
    language = current_language()
    if language == ENGLISH or not text:
        return text
    if isinstance(text, Sentence) and text.id != TEXT:
        template = by_context(language).get(text.id)
        return str(text) if template is None else _filled(template, text.values)
    return retold(str(text), language)


def text_of_error(id_: str, values: Mapping[str, Any], english: str) -> str:
    """Return a sentence of an error in the current language, by the id that another process has sent.

    That process may be of another version: it stays English if the values do not fit.
    """
    template = by_context(current_language()).get(id_)
    if template is None:
        return sentence_text(english)
    try:
        return _filled(template, values)
    except (LookupError, ValueError, TypeError, AttributeError):
        return english


def _filled(template: str, values: Mapping[str, Any]) -> str:
    at = str(values.get("at", ""))
    place = at.removesuffix(": ")
    told = retold(place, current_language()) + at.removeprefix(place)
    return told + _Values().vformat(template, (), values)


class _Values(Formatter):
    """Writes numbers with a comma in their format, and phrases of the code, as the language does."""

    def get_value(self, key: int | str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        value = super().get_value(key, args, kwargs)
        # A phrase has spaces; most names that people give have none.
        return retold(value, current_language()) if isinstance(value, str) and " " in value else value

    def format_field(self, value: Any, format_spec: str) -> Any:
        if format_spec == "," and isinstance(value, int | float):
            return number_text(value, current_language())
        text = super().format_field(value, format_spec)
        return swap_signs(text, current_language()) if format_spec.startswith(",") else text


@lru_cache(4_096)
def retold(text: str, language: str) -> str:
    if len(text) > _LONGEST:
        return text
    told, rest = [], text
    for _ in range(_MOST_SENTENCES):
        # All of it, or the longest beginning that is known; otherwise the first sentence stays as it is.
        ends = [*[found.start() for found in _END.finditer(rest)][:_MOST_PARTS], len(rest)]
        known = ((end, _one(rest[:end], language)) for end in reversed(ends))
        end, begin = next((one for one in known if one[1] is not None), (ends[0], rest[: ends[0]]))
        told.append(begin or "")
        if end == len(rest):
            return " ".join(told)
        rest = rest[end + 1 :]
    return " ".join([*told, rest])


def _one(text: str, language: str) -> str | None:
    """Return the translation of one sentence that is known; ``None`` for any other one."""
    if _GROUPED.fullmatch(text):
        return swap_signs(text, language)
    for template, words, pattern in _patterns(language):
        if words in text and (matched := pattern.fullmatch(text)):
            values = {name: retold(value, language) for name, value in matched.groupdict().items()}
            found = translated_in(SAID, template)
            return found.format_map(values) if values else found
    return None


@cache
def _patterns(language: str) -> list[tuple[str, str, re.Pattern[str]]]:
    """Return the templates, the most particular ones first.

    Each comes with its longest words, which tell most sentences apart, and with what finds the values.
    """
    parts = {one: re.split(r"\{\w+\}", one) for one in texts_in(language, SAID)}
    by_words = sorted(parts, key=lambda one: -sum(map(len, parts[one])))
    return [(one, max(parts[one], key=len), re.compile(_pattern(one), re.DOTALL)) for one in by_words]


def _pattern(template: str) -> str:
    seen: set[str] = set()

    def value(found: re.Match[str]) -> str:
        name = found[1]
        if name in seen:
            return f"(?P={name})"
        seen.add(name)
        return f"(?P<{name}>{_VALUE})"

    return _PLACEHOLDER.sub(value, re.escape(template))
