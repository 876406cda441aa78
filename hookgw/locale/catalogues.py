"""Finds the compiled catalogues: packaged, or in a checkout made of the ``.po`` files."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Iterator
from functools import cache
from gettext import GNUTranslations, NullTranslations
from pathlib import Path

FILE = "LC_MESSAGES/hookgw"
"""The path of a catalogue below the folder of its language, without its suffix."""


def sources(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield each language with its file for translators."""
    for file in sorted(folder.glob(f"*/{FILE}.po")):
        yield file.relative_to(folder).parts[0], file


@cache
def catalogue(language: str) -> NullTranslations:
    """Return the translations into a language. Without a catalogue, every text stays English.

    It is unpacked when it is first used, and stays in memory.
    """
    content = packaged(language) or _of_checkout(language)
    return NullTranslations() if content is None else GNUTranslations(io.BytesIO(content))


@cache
def by_context(language: str) -> dict[str, str]:
    """Return the translations of texts that have a context, such as the id of an error, by their context."""
    return {context: translation for context, _, translation in _with_context(language)}


def texts_in(language: str, context: str) -> list[str]:
    """Return the texts with a context that a catalogue translates."""
    return [text for one, text, _ in _with_context(language) if one == context]


def _with_context(language: str) -> Iterator[tuple[str, str, str]]:
    found: dict[object, str] = getattr(
        catalogue(language), "_catalog", {}
    )  # the only way to ask without the text
    for key, translation in found.items():
        if isinstance(key, str) and "\x04" in key:
            context, _, text = key.partition("\x04")
            yield context, text, translation


@cache
def packaged(language: str) -> bytes | None:
    """Return the file of a catalogue. Call it at the start of a process: an upgrade replaces the files."""
    from importlib.resources import files  # here, because it costs a start 10 ms, which reads no catalogue

    try:
        return files("hookgw.locale").joinpath(f"{language}/{FILE}.mo").read_bytes()
    except FileNotFoundError:
        return None


def _of_checkout(language: str) -> bytes | None:
    """Compile a catalogue, and keep it in ``build`` until its source changes."""
    root = Path(__file__).parents[2]
    source = Path(__file__).parent / language / f"{FILE}.po"
    if not source.is_file() or not (root / "pyproject.toml").is_file():
        return None
    text = source.read_bytes()
    kept = root / "build" / f"locale-{language}-{hashlib.sha256(text).hexdigest()[:16]}.mo"
    if kept.is_file():
        return kept.read_bytes()
    try:
        from hookgw.locale.compiling import compiled  # Babel is for whoever packages or tests hookgw
    except ImportError:
        return None
    content = compiled(text)
    try:
        kept.parent.mkdir(exist_ok=True)
        for old in kept.parent.glob(f"locale-{language}-*.mo"):
            old.unlink(missing_ok=True)
        part = kept.with_suffix(f".{os.getpid()}")
        part.write_bytes(content)
        part.replace(kept)
    except OSError:
        pass  # the checkout cannot be written to: the catalogue is compiled anew in each process
    return content
