"""Collects the marked texts of the code into the catalogues: ``nox -s texts``.

It prints what is not translated. With ``es=FILE`` it takes what is missing from another version of the
catalogue: after a conflict of branches, keep one side, and take the other one so.

``tests/locale/test_catalogues.py`` fails while the catalogues differ from the code, or lack a translation.
"""

from __future__ import annotations

import ast
import datetime
import io
import re
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from babel.messages import Catalog, Message
from babel.messages.extract import extract
from babel.messages.pofile import read_po, write_po

from hookgw.keys import fields as key_fields
from hookgw.webhooks import fields as webhook_fields
from tests.public.kernel import ENGLISH, LANGUAGES, Choice, Field, Parts
from tests.public.locale import FILE
from tests.public.records import BUILT_IN_KINDS, MEANINGS, OPERATIONAL_KINDS, SAID
from tests.public.site import inputs_of
from tests.public.web import marked_in

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "hookgw" / "locale"
KEYWORDS: dict[str, Any] = {
    "_": None,
    "N_": None,
    "gettext": None,
    "ngettext": (1, 2),
    "pgettext": ((1, "c"), 2),
    # Sentences of errors, with their id as the context: Sentence, Sentence.declared and HookgwError.of.
    "Sentence": ((1, "c"), 2),
    "declared": ((1, "c"), 2),
    "of": ((1, "c"), 2),
}
_SOURCES = (
    ("hookgw/**/*.py", "python"),
    ("plugins/**/*.py", "python"),
    ("hookgw/**/templates/**/*.html", "jinja2.ext:babel_extract"),
)
_IMPORTS = re.compile(
    r"^from hookgw\.kernel\.(language|sentences) import|^from hookgw\.kernel\.errors|^from hookgw import",
    re.MULTILINE,
)
"""What a module with marked texts has."""
_NO_DATE = datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)  # what changes each time would be noise


def messages() -> Catalog:
    """Return all marked texts of the code."""
    found = Catalog(domain="hookgw", charset="utf-8")
    for pattern, method in _SOURCES:
        for file in sorted(ROOT.glob(pattern)):
            for line, text, comments, context in _texts_of(file, method):
                place = (str(file.relative_to(ROOT)), line)
                found.add(text, locations=[place], auto_comments=comments, context=context)
    for file in sorted(ROOT.glob("hookgw/*/assets/*.js")):
        for text in marked_in(file.read_bytes()):
            found.add(text, locations=[(str(file.relative_to(ROOT)), 1)])
    for module, texts in _tables():
        for text in texts:
            found.add(text, locations=[(module, 1)])
    for one in (one for name in translated_languages() for one in kept(name)):
        if one.context == SAID and _is_said(str(one.id)):
            found.add(one.id, locations=[("hookgw/records/told_sentences.py", 1)], context=SAID)
    return found


# What the operating system says, and sentences whose beginning is made apart, which have tests of their own.
_SAID_BY_SYSTEM = {
    *("Connection refused", "Connection reset by peer", "Network is unreachable", "No route to host"),
    "Name or service not known",
}
_COMPOSED = re.compile(
    r"^(The receiver|The head|The target|The registration was|No connection|Looking up|Connecting to|Not con)"
    r"|^\{host\}"
)


def _is_said(template: str) -> bool:
    """Return whether the code makes a sentence that only the catalogues have as a template."""
    pieces = [piece.strip(" .:") for piece in re.split(r"\{\w+\}", template)]
    return (
        template in _SAID_BY_SYSTEM
        or _COMPOSED.match(template) is not None
        or all(piece in _texts_of_code() for piece in pieces)
    )


@cache
def _texts_of_code() -> str:
    """Return all texts in the code, with a hole for each of their values."""
    files = (file for pattern, method in _SOURCES if method == "python" for file in ROOT.glob(pattern))
    nodes = (node for file in files for node in ast.walk(ast.parse(file.read_bytes())))
    return "\n".join(_made(node) for node in nodes if isinstance(node, ast.Constant | ast.JoinedStr))


def _made(node: ast.expr) -> str:
    if isinstance(node, ast.JoinedStr):
        return "".join(map(_made, node.values))
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else "\0"


def _tables() -> Iterator[tuple[str, list[str]]]:
    """Yield the texts of tables, which declare what pages show once, without marks."""
    for module, table in (("webhooks", webhook_fields.FIELDS), ("keys", key_fields.FIELDS)):
        yield f"hookgw/{module}/fields.py", [*dict.fromkeys(_texts_of_table(table))]
    shown = [field.heading for field in webhook_fields.FIELDS if field.shows]
    yield "hookgw/command/words.py", [*dict.fromkeys([*_headings(), *shown])]
    yield "hookgw/records/api_keys.py", [*MEANINGS.values()]
    yield "hookgw/records/event_kinds.py", [kind.meaning for kind in BUILT_IN_KINDS]
    yield "hookgw/records/operational_kinds.py", [kind.meaning for kind in OPERATIONAL_KINDS]


def _headings() -> Iterator[str]:
    """Yield the headings of tables that commands write as literals."""
    files = sorted((ROOT / "hookgw").rglob("*.py"))
    for node in (node for file in files for node in ast.walk(ast.parse(file.read_bytes()))):
        name = getattr(node.func, "id", "") if isinstance(node, ast.Call) else ""
        if name in ("Column", "show_table", "show_fields") and isinstance(node, ast.Call) and node.args:
            first = node.args[0]
            texts: Sequence[ast.expr | None] = [first]
            if isinstance(first, ast.List | ast.Tuple | ast.Dict):
                texts = first.keys if isinstance(first, ast.Dict) else first.elts
            yield from (str(one.value) for one in texts if isinstance(one, ast.Constant) and one.value)


def _texts_of_table(table: Sequence[Field]) -> Iterator[str]:
    for field, part, one in inputs_of(table):
        if isinstance(field.kind, Parts) and field.kind.legend:
            yield from (field.heading, field.kind.legend)
        yield from filter(None, (one.label, one.placeholder, one.note))
        if isinstance(part.kind, Choice):
            yield from (meaning for _, meaning in part.kind.words)


def _texts_of(file: Path, method: str) -> Iterator[tuple[int, Any, list[str], str | None]]:
    if method == "python" and not _IMPORTS.search(file.read_text(encoding="utf-8")):
        return
    options = {"silent": "false", "trimmed": "true"}
    with file.open("rb") as content:
        yield from extract(method, content, KEYWORDS, ("Translators:",), options)


def source_of(language: str) -> Path:
    return FOLDER / language / f"{FILE}.po"


def kept(language: str) -> Catalog:
    """Return the catalogue of a language as it is."""
    return read_po(io.BytesIO(source_of(language).read_bytes()), locale=language)


def updated(language: str, found: Catalog) -> Catalog:
    """Return a catalogue with all texts and no other one. A text that was changed has no translation."""
    catalogue = kept(language)
    catalogue.update(found, no_fuzzy_matching=True, update_creation_date=False)
    catalogue.obsolete.clear()
    return catalogue


def text_of(catalogue: Catalog) -> str:
    """Return a catalogue as its file has it: sorted, and without line numbers, which would change often."""
    catalogue.creation_date = catalogue.revision_date = _NO_DATE
    catalogue.project, catalogue.version = "hookgw", "1"
    out = io.BytesIO()
    write_po(out, catalogue, width=110, include_lineno=False, sort_output=True, ignore_obsolete=True)
    return re.sub(r'"Generated-By: .*\n', "", out.getvalue().decode(), count=1)


def untranslated(catalogue: Catalog) -> list[str]:
    """Return the texts without a translation, or with one that needs to be looked at."""
    return [str(one.id) for one in catalogue if one.id and (one.fuzzy or not all(strings_of(one)))]


def ids_of(message: Message) -> list[str]:
    """Return a text, or its forms for one and for many."""
    return [message.id] if isinstance(message.id, str) else [*message.id]


def strings_of(message: Message) -> list[str]:
    """Return the translations of a text, one for each plural form."""
    return [message.string or ""] if isinstance(message.string, str | None) else [*message.string]


def translated_languages() -> list[str]:
    return [name for name in LANGUAGES if name != ENGLISH]


def take(catalogue: Catalog, other: Path) -> None:
    """Fill what has no translation from another version of a catalogue, as of a branch."""
    theirs = read_po(io.BytesIO(other.read_bytes()), locale=catalogue.locale)
    for message in catalogue:
        known = theirs.get(message.id, message.context) if message.id else None
        if known is not None and not known.fuzzy and not all(strings_of(message)):
            message.string = known.string


def main() -> None:
    found = messages()
    others = dict(argument.split("=", 1) for argument in sys.argv[1:])
    for language in translated_languages():
        catalogue = updated(language, found)
        if language in others:
            take(catalogue, Path(others[language]))
        source_of(language).write_text(text_of(catalogue), encoding="utf-8")
        left = untranslated(catalogue)
        print(f"{language}: {len(catalogue)} texts, {len(left)} of them to be translated")
        for one in left:
            sys.stdout.write(f"  {one}\n")


if __name__ == "__main__":
    main()
