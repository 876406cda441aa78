"""Templates as they were at the start of the process.

An upgrade replaces the files of a package under a running process, and a cleaner of temporary folders removes
those of the single binary. A template that is read late would then be another version's, or missing.
"""

from __future__ import annotations

from importlib.resources import files
from importlib.resources.abc import Traversable

from jinja2 import DictLoader


def load_templates(*packages: str) -> DictLoader:
    """Return a loader of all files in the folders ``templates`` of packages, which are read now."""
    found: dict[str, str] = {}
    for package in packages:
        folder = files(package).joinpath("templates")
        if folder.is_dir():
            _read(folder, "", found)
    return DictLoader(found)


def _read(folder: Traversable, prefix: str, found: dict[str, str]) -> None:
    for entry in folder.iterdir():
        if entry.is_dir():
            _read(entry, f"{prefix}{entry.name}/", found)
        else:
            found[prefix + entry.name] = entry.read_text(encoding="utf-8")
