"""Public names of a package, loaded at the first use."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any


def public_names(package: str) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package: it finds the names of the package's module ``public``.

    A command that imports one module of a package must not load all others, so the package does not either.
    """

    def find(name: str) -> Any:
        # Python asks here for a module of the package, too, before it imports it.
        if not name.startswith("_") and find_spec(f"{package}.{name}") is None:
            public = import_module(f"{package}.public")
            if hasattr(public, name):
                return getattr(public, name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return find


def names_of_stub(package: str) -> tuple[Callable[[str], Any], list[str]]:
    """Return the ``__getattr__`` and ``__all__`` of a package whose stub imports its names from elsewhere.

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

    return find, sorted(homes)


def homes_of(package: str) -> dict[str, str]:
    """Return the module of each name of a package, from its stub."""
    stub = Path(str(sys.modules[package].__file__)).with_name("__init__.pyi").read_text("utf-8")
    return {name: home for home, name in re.findall(r"^from (\S+) import (\w+) as \2$", stub, re.MULTILINE)}
