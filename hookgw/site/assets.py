"""The stylesheet and modules that pages load, read once at start."""

from __future__ import annotations

import hashlib
from importlib.resources import files
from typing import NamedTuple

_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}


class Asset(NamedTuple):
    """A file that pages load.

    Attributes:
        version: changes with the content. Pages put it into the URL, so that browsers may keep the file.
    """

    content: bytes
    content_type: str
    version: str


def load_assets() -> dict[str, Asset]:
    found = {}
    for file in files("hookgw.site").joinpath("assets").iterdir():
        suffix = file.name[file.name.rfind(".") :]
        if suffix in _TYPES:
            content = file.read_bytes()
            found[file.name] = Asset(content, _TYPES[suffix], hashlib.sha256(content).hexdigest()[:12])
    return found
