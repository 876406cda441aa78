"""The stylesheet and modules that pages load, read once at start."""

from __future__ import annotations

import hashlib
from importlib.resources import files
from typing import NamedTuple

_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}


class Asset(NamedTuple):
    content: bytes
    content_type: str


def load_assets() -> tuple[str, dict[str, Asset]]:
    """Return the files that pages load, by name, and their version, which changes with the content of any.

    Pages put it into the URLs, so that browsers may keep the files. It is one for all: modules import each
    other by their names alone.
    """
    found, version = {}, hashlib.sha256()
    folder = files("hookgw.site").joinpath("assets")
    for file in sorted(folder.iterdir(), key=lambda one: one.name):
        suffix = file.name[file.name.rfind(".") :]
        if suffix in _TYPES:
            content = file.read_bytes()
            found[file.name] = Asset(content, _TYPES[suffix])
            version.update(content)
    return version.hexdigest()[:12], found
