"""Public names of a package, loaded at the first use."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
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


def names_of(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package whose names are in modules elsewhere.

    Args:
        package: its name.
        homes: the module of each name. A module is imported at the first use of one of its names.
    """

    def find(name: str) -> Any:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(home), name)
        setattr(sys.modules[package], name, value)
        return value

    return find
