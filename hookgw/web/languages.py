"""The language of HTML pages: the reader's choice, else the browser's, else that of ``HOOKGW_LANG``."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from functools import cache

from quart import request

from hookgw.kernel.language import (
    LANGUAGES,
    current_language,
    in_language,
    preferred_language,
    translated,
    usual_language,
)

COOKIE = "hookgw_language"
"""The cookie of the reader's choice, of the dashboard and the manual. Scripts of the manual set it."""
VARY = "cookie, accept-language"
"""What the language of a page depends on."""
_YEAR = 31_536_000
_MARKED = re.compile(rb'\bN?_\("((?:[^"\\]|\\.)*)"')


def requested_language() -> str:
    chosen = request.cookies.get(COOKIE, "")
    if chosen in LANGUAGES:
        return chosen
    return preferred_language(request.headers.get("accept-language", "")) or usual_language()


def choice_of(language: str) -> str:
    """Return the ``Set-Cookie`` header that keeps a choice."""
    return f"{COOKIE}={language}; Path=/; Max-Age={_YEAR}; SameSite=Strict"


def marked_in(script: bytes) -> list[str]:
    """Return the marked texts of a module for browsers."""
    return [json.loads(b'"%b"' % text) for text in _MARKED.findall(script)]


def script_texts(scripts: Iterable[bytes]) -> Callable[[], str]:
    """Return what gives the texts of modules in the current language, as JSON for their page."""
    keys = {key for content in scripts for key in marked_in(content)}

    @cache
    def of(language: str) -> str:
        with in_language(language):
            found = {key: translated(key) for key in sorted(keys)}
        return json.dumps({key: text for key, text in found.items() if text != key}, ensure_ascii=False)

    return lambda: of(current_language())
