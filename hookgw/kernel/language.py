"""Texts for people, in their language.

The code has the English text, marked with one of these functions, imported so::

    from hookgw.kernel.language import N_, gettext as _, ngettext, pgettext

    _("The key {name} is revoked.", name=key.name)
    ngettext("{n} delivery", "{n} deliveries", count)
    TITLES = {"dead": N_("Dead letters")}  # marked where it is written, and _(TITLES[…]) where it is shown

Templates have the same names without an import: ``{{ _("…") }}``. A mark takes the text itself, never an
f-string or a variable that nothing marks; what varies is a placeholder with a name. Whole numbers and
fractions are written as the language does; what is no number for people (a status, a port) is passed as a
string. ``pgettext("of a job", "paused")`` tells texts apart that are the same in English only.

``nox -s texts`` collects the marked texts into ``hookgw/locale/``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from hookgw.kernel.local_formats import number_text
from hookgw.locale.catalogues import catalogue

ENGLISH = "en"
LANGUAGES = {ENGLISH: "English", "pt_BR": "Português", "es": "Español"}
"""The languages by the name of their catalogue, as they call themselves."""
VARIABLE = "HOOKGW_LANG"
"""The environment variable with the default language."""
_current: ContextVar[str | None] = ContextVar("hookgw_language", default=None)
_PART = re.compile(r"\s*([A-Za-z]{1,8}(?:-[A-Za-z0-9]{1,8})*)\s*(?:;\s*q=([01](?:\.\d{1,3})?)\s*)?", re.ASCII)
_MOST_ASKED = 50


def language_of(tag: str) -> str | None:
    """Return the language of a tag or a locale, such as ``pt-PT`` or ``es_MX.UTF-8``; ``None`` if unknown."""
    base = re.split(r"[-_.@]", tag.strip().lower(), maxsplit=1)[0]
    return next((name for name in LANGUAGES if name.partition("_")[0] == base), None)


def preferred_language(accept_language: str) -> str | None:
    """Return the language that a browser likes best of those that there are (RFC 9110, section 12.5.4)."""
    liked: dict[str, float] = {}
    for part in accept_language.split(",", _MOST_ASKED)[:_MOST_ASKED]:
        found = _PART.fullmatch(part)
        language = language_of(found[1]) if found else None
        if found and language:
            liked.setdefault(language, min(1.0, float(found[2] or 1)))
    best = max(liked, key=lambda name: liked[name], default=None)  # the first of several
    return best if best and liked[best] else None


def usual_language() -> str:
    """Return the language that ``HOOKGW_LANG`` names; English for any other value."""
    return language_of(os.environ.get(VARIABLE, "")) or ENGLISH


def current_language() -> str:
    """Return the language of the texts that this task makes."""
    return _current.get() or usual_language()


def use_language(language: str | None) -> None:
    """Let this task, and those that it starts, make texts in a language; ``None`` for the usual one."""
    _current.set(language)


@contextmanager
def in_language(language: str) -> Iterator[None]:
    token = _current.set(language)
    try:
        yield
    finally:
        _current.reset(token)


def html_language(language: str) -> str:
    """Return the tag of a language, as HTML and HTTP write it."""
    return language.replace("_", "-")


def N_(text: str) -> str:  # noqa: N802 - its name in all of gettext
    """Mark a text that is translated later, by :func:`gettext`, when it is shown."""
    return text


def translated(text: str) -> str:
    """Return a text in the current language, with its placeholders."""
    return catalogue(current_language()).gettext(text) if text else ""


def translated_plural(one: str, many: str, n: int) -> str:
    return catalogue(current_language()).ngettext(one, many, n)


def translated_in(context: str, text: str) -> str:
    return catalogue(current_language()).pgettext(context, text)


def local_number(value: float) -> str:
    """Return a number as the current language writes it."""
    return number_text(value, current_language())


def written(values: Mapping[str, object]) -> dict[str, object]:
    """Return the values of placeholders, with numbers as the current language writes them."""
    return {name: _written(value) for name, value in values.items()}


def _written(value: object) -> object:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return local_number(value) if is_number else value  # type: ignore[arg-type]


def gettext(text: str, /, **values: object) -> str:
    found = translated(text)
    return found.format_map(written(values)) if values else found


def ngettext(one: str, many: str, n: int, /, **values: object) -> str:
    """Return the form for a number, which is also the value of the placeholder ``n``."""
    return translated_plural(one, many, n).format_map(written({"n": n, **values}))


def pgettext(context: str, text: str, /, **values: object) -> str:
    found = translated_in(context, text)
    return found.format_map(written(values)) if values else found
