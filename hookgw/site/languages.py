"""The language of pages: the reader's choice, else the browser's, else that of ``HOOKGW_LANG``."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import cache

from jinja2 import Environment
from markupsafe import Markup, escape
from quart import request

from hookgw.kernel.language import (
    LANGUAGES,
    current_language,
    in_language,
    preferred_language,
    translated,
    translated_in,
    translated_plural,
    usual_language,
    written,
)
from hookgw.locale.catalogues import packaged
from hookgw.records.told_sentences import sentence_text
from hookgw.site.assets import Asset

COOKIE = "hookgw_language"
"""The cookie of the reader's choice. The manual has it, too."""
VARY = "cookie, accept-language"
"""What the language of a page depends on."""
_YEAR = 31_536_000
_MARKED = re.compile(rb'\bN?_\("((?:[^"\\]|\\.)*)"')


def requested_language() -> str:
    """Return the language for the current request."""
    chosen = request.cookies.get(COOKIE, "")
    if chosen in LANGUAGES:
        return chosen
    return preferred_language(request.headers.get("accept-language", "")) or usual_language()


def choice_of(language: str) -> str:
    """Return the ``Set-Cookie`` header that keeps a choice. Scripts of the manual set it, too."""
    return f"{COOKIE}={language}; Path=/; Max-Age={_YEAR}; SameSite=Strict"


def marked_in(script: bytes) -> list[str]:
    """Return the marked texts of a module."""
    return [json.loads(b'"%b"' % text) for text in _MARKED.findall(script)]


def script_texts(assets: Mapping[str, Asset]) -> Callable[[], str]:
    """Return what gives the texts of the modules in the current language, as JSON for ``texts.js``."""
    scripts = [asset.content for name, asset in assets.items() if name.endswith(".js")]
    keys = {key for content in scripts for key in marked_in(content)}

    @cache
    def of(language: str) -> str:
        with in_language(language):
            found = {key: translated(key) for key in sorted(keys)}
        return json.dumps({key: text for key, text in found.items() if text != key}, ensure_ascii=False)

    return lambda: of(current_language())


def install_texts(environment: Environment) -> None:
    """Let templates mark texts.

    A translation is text: what it has of HTML is shown, as is that of values, unless these are ``Markup``.
    """
    for language in LANGUAGES:
        packaged(language)
    environment.globals.update(
        _=_marked(translated),
        ngettext=_marked_plural,
        pgettext=_marked(translated_in),
        sentence=sentence_text,
        languages=LANGUAGES,
    )


def _marked(look_up: Callable[..., str]) -> Callable[..., Markup]:
    def text(*key: str, **values: object) -> Markup:
        found = escape(look_up(*key))
        return found.format(**written(values)) if values else found

    return text


def _marked_plural(one: str, many: str, n: int, /, **values: object) -> Markup:
    return escape(translated_plural(one, many, n)).format(**written({"n": n, **values}))
