"""Public names of a package, loaded at the first use."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any


def names_of_stub(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package whose stub imports its names.

    Type checkers read the same stub, ``__init__.pyi``. The first use of a name imports its module.
    """
    homes = homes_of(package)

    def find(name: str) -> Any:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(home), name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    return find, names, sorted(homes)


def homes_of(package: str) -> dict[str, str]:
    """Return the module of each name of a package, from its stub."""
    stub = Path(str(sys.modules[package].__file__)).with_name("__init__.pyi").read_text("utf-8")
    return {name: home for home, name in re.findall(r"^from (\S+) import (\w+) as \2$", stub, re.MULTILINE)}
