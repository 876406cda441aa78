"""The language of pages: the reader's choice, else the browser's, else that of ``HOOKGW_LANG``."""

from __future__ import annotations

from collections.abc import Callable

from jinja2 import Environment
from markupsafe import Markup, escape
from quart import request

from hookgw.kernel.language import (
    LANGUAGES,
    preferred_language,
    translated,
    translated_in,
    translated_plural,
    usual_language,
    written,
)
from hookgw.locale.catalogues import packaged

COOKIE = "hookgw_language"
"""The cookie of the reader's choice. The manual has it, too."""
VARY = "cookie, accept-language"
"""What the language of a page depends on."""
_YEAR = 31_536_000


def requested_language() -> str:
    """Return the language for the current request."""
    chosen = request.cookies.get(COOKIE, "")
    if chosen in LANGUAGES:
        return chosen
    return preferred_language(request.headers.get("accept-language", "")) or usual_language()


def choice_of(language: str) -> str:
    """Return the ``Set-Cookie`` header that keeps a choice. Scripts of the manual set it, too."""
    return f"{COOKIE}={language}; Path=/; Max-Age={_YEAR}; SameSite=Strict"


def install_texts(environment: Environment) -> None:
    """Let templates mark texts.

    A translation is text: what it has of HTML is shown, as is that of values, unless these are ``Markup``.
    """
    for language in LANGUAGES:
        packaged(language)
    environment.globals.update(
        _=_marked(translated), ngettext=_marked_plural, pgettext=_marked(translated_in), languages=LANGUAGES
    )


def _marked(look_up: Callable[..., str]) -> Callable[..., Markup]:
    def text(*key: str, **values: object) -> Markup:
        found = escape(look_up(*key))
        return found.format(**written(values)) if values else found

    return text


def _marked_plural(one: str, many: str, n: int, **values: object) -> Markup:
    return escape(translated_plural(one, many, n)).format(**written({"n": n, **values}))
