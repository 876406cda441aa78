"""The texts around the pages of the manual: marked when the manual is made, translated when it is served.

What is between the marks is text as HTML has it. The marks are characters for private use, which no page has.
It imports nothing of hookgw.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable

_BEGIN, _END = "\ue000", "\ue001"
LANGUAGE, SCRIPT_TEXTS = "\ue002", "\ue003"
"""Stand for the tag of the language, and for the texts of the scripts as JSON."""
_MARKED = re.compile(f"{_BEGIN}([^{_END}]*){_END}")


def marked(text: str) -> str:
    return f"{_BEGIN}{text}{_END}"


def filled(page: str, language: str, script_texts: str, translated: Callable[[str], str]) -> str:
    """Return a page with its marked texts in a language."""
    page = _MARKED.sub(lambda found: html.escape(translated(html.unescape(found[1]))), page)
    return page.replace(LANGUAGE, language).replace(SCRIPT_TEXTS, html.escape(script_texts))
