"""Finds the manual: packaged, or in a checkout made of ``docs``."""

from __future__ import annotations

import hashlib
import os
from importlib.resources import files
from pathlib import Path

from hookgw._version import __version__
from hookgw.manual.archive import Archive
from hookgw.manual.contents import SHARED_ASSETS

ARCHIVE = "manual.zip"
"""The name of the packaged manual, beside this module."""


def open_manual() -> Archive | None:
    """Return the manual, or None if its files are gone, for example after an upgrade of a running process."""
    packaged = files("hookgw.manual").joinpath(ARCHIVE)
    try:
        return Archive(packaged.read_bytes())
    except FileNotFoundError:
        return _of_checkout(Path(__file__).parents[2])


def _of_checkout(root: Path) -> Archive | None:
    """Make the manual, which takes seconds, and keep it in ``build`` until a page changes."""
    here = Path(__file__).parent
    if not (root / "pyproject.toml").is_file() or not (root / "docs").is_dir():
        return None
    digest = hashlib.sha256(__version__.encode())
    pages = (*(root / "docs").rglob("*.md"), *root.glob("*.md"), *root.glob("plugins/*.md"))
    for file in sorted((*pages, root / "config.example.yaml", *here.rglob("*.*"), *SHARED_ASSETS)):
        if file.suffix != ".pyc":
            digest.update(file.read_bytes())
    kept = root / "build" / f"manual-{digest.hexdigest()[:16]}.zip"
    if not kept.is_file():
        from hookgw.manual.make import packed  # what it imports is for whoever packages hookgw

        content = packed(root, __version__)
        try:
            kept.parent.mkdir(exist_ok=True)
            for old in kept.parent.glob("manual-*.zip"):
                old.unlink(missing_ok=True)
            part = kept.with_suffix(f".{os.getpid()}")
            part.write_bytes(content)
            part.replace(kept)
        except OSError:
            pass  # the checkout cannot be written to: the manual is made anew each time
        return Archive(content)
    return Archive(kept.read_bytes())
