"""Collects the marked texts of the code into the catalogues: ``nox -s texts``.

It prints what is not translated. ``tests/locale/test_catalogues.py`` fails while the catalogues differ from
the code, or lack a translation.
"""

from __future__ import annotations

import datetime
import io
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from babel.messages import Catalog, Message
from babel.messages.extract import extract
from babel.messages.pofile import read_po, write_po

from hookgw.kernel.language import ENGLISH, LANGUAGES
from hookgw.locale.compiling import FILE

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "hookgw" / "locale"
KEYWORDS: dict[str, Any] = {
    "_": None,
    "N_": None,
    "gettext": None,
    "ngettext": (1, 2),
    "pgettext": ((1, "c"), 2),
}
_SOURCES = (
    ("hookgw/**/*.py", "python"),
    ("plugins/**/*.py", "python"),
    ("hookgw/**/templates/**/*.html", "jinja2.ext:babel_extract"),
)
_NO_DATE = datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)  # what changes each time would be noise


def messages() -> Catalog:
    """Return all marked texts of the code."""
    found = Catalog(domain="hookgw", charset="utf-8")
    for pattern, method in _SOURCES:
        for file in sorted(ROOT.glob(pattern)):
            for line, text, comments, context in _texts_of(file, method):
                place = (str(file.relative_to(ROOT)), line)
                found.add(text, locations=[place], auto_comments=comments, context=context)
    return found


def _texts_of(file: Path, method: str) -> Iterator[tuple[int, Any, list[str], str | None]]:
    if (
        method == "python"
        and "_(" not in (text := file.read_text(encoding="utf-8"))
        and "gettext(" not in text
    ):
        return
    options = {"silent": "false", "trimmed": "true"}
    with file.open("rb") as content:
        yield from extract(method, content, KEYWORDS, ("Translators:",), options)


def source_of(language: str) -> Path:
    return FOLDER / language / f"{FILE}.po"


def updated(language: str, found: Catalog) -> Catalog:
    """Return a catalogue with all texts and no other one. What has changed a little is marked fuzzy."""
    file = source_of(language)
    catalogue = read_po(io.BytesIO(file.read_bytes()), locale=language)
    catalogue.update(found, update_creation_date=False)
    catalogue.obsolete.clear()
    return catalogue


def text_of(catalogue: Catalog) -> str:
    """Return a catalogue as its file has it: with the files of each text, which change less than lines."""
    catalogue.creation_date = catalogue.revision_date = _NO_DATE
    catalogue.project, catalogue.version = "hookgw", "1"
    out = io.BytesIO()
    write_po(out, catalogue, width=110, include_lineno=False, sort_by_file=True, ignore_obsolete=True)
    return re.sub(r'"Generated-By: .*\n', "", out.getvalue().decode(), count=1)


def untranslated(catalogue: Catalog) -> list[str]:
    """Return the texts without a translation, or with one that needs to be looked at."""
    return [str(one.id) for one in catalogue if one.id and (one.fuzzy or not all(strings_of(one)))]


def strings_of(message: Message) -> list[str]:
    """Return the translations of a text, one for each plural form."""
    return [message.string or ""] if isinstance(message.string, str | None) else [*message.string]


def translated_languages() -> list[str]:
    return [name for name in LANGUAGES if name != ENGLISH]


def main() -> None:
    found = messages()
    for language in translated_languages():
        catalogue = updated(language, found)
        source_of(language).write_text(text_of(catalogue), encoding="utf-8")
        left = untranslated(catalogue)
        print(f"{language}: {len(catalogue)} texts, {len(left)} of them to be translated")
        for one in left:
            sys.stdout.write(f"  {one}\n")


if __name__ == "__main__":
    main()
