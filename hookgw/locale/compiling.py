"""Compiles catalogues when hookgw is packaged, and in a checkout when a language is first asked for.

It imports nothing of hookgw, because a build has none of hookgw's dependencies.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po

FILE = "LC_MESSAGES/hookgw"
"""The path of a catalogue below the folder of its language, without its suffix."""


def sources(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield each language with its file for translators."""
    for file in sorted(folder.glob(f"*/{FILE}.po")):
        yield file.relative_to(folder).parts[0], file


def compiled(source: bytes) -> bytes:
    """Return the ``.mo`` of a ``.po``, without fuzzy and obsolete entries."""
    out = io.BytesIO()
    write_mo(out, read_po(io.BytesIO(source), abort_invalid=True))
    return out.getvalue()
