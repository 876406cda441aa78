"""The HTML of an example: its commands, the same calls in other languages, and what **Try it** sends."""

from __future__ import annotations

import html
import json
from collections.abc import Callable

from hookgw.manual.curl import ADDRESS, calls_of, in_javascript, in_python


def example(text: str, paint: Callable[[str, str], str]) -> str | None:
    """Return a block with a part for each language, or None if the commands do more than call a gateway.

    Args:
        text: commands of a shell.
        paint: returns the HTML of code in a language.
    """
    calls = calls_of(text)
    if not calls:
        return None
    programs = {
        "curl": ("sh", text),
        "Python": ("python", in_python(calls)),
        "JavaScript": ("js", in_javascript(calls)),
    }
    tried = [
        {
            "method": one.method,
            "path": one.path,
            "type": one.headers.get("content-type", ""),
            "body": one.body,
        }
        for one in calls
    ]
    parts = "".join(
        f'<details data-language="{title}"{" open" if title == "curl" else ""}><summary>{title}</summary>'
        f"{paint(program, language)}</details>"
        for title, (language, program) in programs.items()
    )
    return f'<div class="code example" data-calls="{html.escape(json.dumps(tried))}">{parts}</div>\n'


def block(shown: str, label: str) -> str:
    """Return a block of code of HTML, with the gateway's address marked."""
    shown = shown.replace(ADDRESS, f'<span class="at">{ADDRESS}</span>')
    return f'<pre tabindex="0" role="group" aria-label="{html.escape(label)}"><code>{shown}</code></pre>'


def plain_block(text: str, language: str) -> str:
    """Return a block of code in one colour."""
    return block(html.escape(text, quote=False), language)


def shown_example(text: str) -> str:
    """Return an example of the HTTP reference, which is made while the gateway runs: in one colour."""
    return example(text, plain_block) or f'<div class="code">{plain_block(text, "curl")}</div>'
