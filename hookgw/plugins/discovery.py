"""Finds plugins in folders, by module name, and through entry points.

Each folder becomes a private package, and its plugins become modules of that package. Therefore two folders
cannot clash, a plugin called ``json`` hides nothing, and relative imports work, both inside a plugin that is
a package and between the modules of a folder.
"""

from __future__ import annotations

import itertools
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.metadata import entry_points
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

import msgspec

ENTRY_POINT_GROUP = "hookgw"

# A number per load: two gateways in one process must not share the module variables of their plugins.
_package_numbers = itertools.count(1)


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A plugin that is not imported yet.

    Attributes:
        name: as in ``disabled``, ``optional``, ``order`` and ``options``.
        source: its place, for people.
        load: imports the plugin; raises whatever the plugin raises.
        path: the resolved file or folder; ``None`` if it was not found as one.
        version: of its distribution, or ``None`` if unknown.
        module, attribute: imported, if it was found by name or as an entry point; the attribute is empty for
            the module itself.
    """

    name: str
    source: str
    load: Callable[[], Any]
    path: Path | None = None
    version: str | None = None
    module: str | None = None
    attribute: str = ""

    def would_load(self, plugin: object) -> bool:
        """Return whether an imported plugin is this one, perhaps under another module name.

        The candidate itself is not imported for that.
        """
        file = getattr(plugin, "__file__", None) if isinstance(plugin, ModuleType) else None
        places = set() if file is None else {Path(file).resolve()}
        # A package is found as its folder.
        places |= {place.parent for place in places if place.name == "__init__.py"}
        if self.path is not None:
            return self.path in places
        if self.module is None:
            return False
        loaded = sys.modules.get(self.module)
        if self.attribute:
            # Another object of the same class does the same.
            return loaded is not None and type(getattr(loaded, self.attribute, None)) is type(plugin)
        if loaded is not None:
            return loaded is plugin
        try:
            spec = find_spec(self.module)
        except (ImportError, ValueError):
            return False  # loading it will say what is wrong
        return spec is not None and spec.origin is not None and Path(spec.origin).resolve() in places


def package_folder() -> Path:
    return Path(__file__).resolve().parents[1]


def first_party_folder() -> Path | None:
    """Return the folder of hookgw's own plugins: in the installed package, or beside it in a checkout."""
    package = package_folder()
    installed = package / "_first_party"
    if installed.is_dir():
        return installed
    checkout = package.parent
    # Without this check, an installed hookgw without _first_party would run site-packages/plugins.
    return checkout / "plugins" if (checkout / "pyproject.toml").is_file() else None


def is_in_checkout(folder: Path) -> bool:
    return (folder.resolve().parent / "hookgw" / "plugins" / "discovery.py").is_file()


def find_in_folder(folder: Path) -> list[Candidate]:
    """Return the modules (``*.py``) and packages of a folder, sorted by name, except ``_…`` and ``.…``.

    Raises:
        OSError: the folder cannot be read.
    """
    package = f"_hookgw_plugins_{next(_package_numbers)}"
    spec = ModuleSpec(package, None, is_package=True)
    # Absolute: Python remembers what a relative path meant first, also after a change of directory.
    spec.submodule_search_locations = [str(folder.absolute())]
    # import_module and relative imports look for the parent package here.
    sys.modules[package] = module_from_spec(spec)
    found = []
    for path in sorted(folder.iterdir()):
        # A link to nothing is a plugin, which cannot be loaded: a filter would be missed in silence.
        is_module = path.suffix == ".py" and not path.is_dir()
        is_plugin = is_module or (path / "__init__.py").is_file() or (path.is_symlink() and not path.exists())
        # _shared.py holds code that several plugins of the folder import; it is not a plugin itself.
        if is_plugin and not path.name.startswith(("_", ".")):
            name = path.stem if is_module else path.name
            load = partial(_import_from, package, name, path.name)
            found.append(Candidate(name=name, source=str(path), load=load, path=path.resolve()))
    return found


def _import_from(package: str, name: str, file_name: str) -> Any:
    # For crm.old.py, Python would look for a module "old" in a package "crm", and say that crm is missing.
    if "." in name:
        raise ImportError(f"{file_name}: the name of a plugin must not contain a dot")
    return import_module(f"{package}.{name}")


def find_entry_points() -> list[Candidate]:
    """Return the plugins of installed distributions (entry point group ``hookgw``), sorted by name."""
    return [
        Candidate(
            name=point.name,
            source=f"entry point of {point.dist.name}" if point.dist else "entry point",
            load=point.load,
            version=point.dist.version if point.dist else None,
            module=point.module,
            attribute=point.attr,
        )
        for point in sorted(entry_points(group=ENTRY_POINT_GROUP))
    ]


def without_repeated_files(candidates: Iterable[Candidate]) -> Iterator[Candidate]:
    """Yield the candidates, each file or folder only once."""
    seen = set()
    for candidate in candidates:
        if candidate.path not in seen:
            yield candidate
        # Module names and entry points have no path. load_plugins recognizes those by their object.
        if candidate.path is not None:
            seen.add(candidate.path)


_traceback_of: Callable[[BaseException], TracebackType | None] = vars(BaseException)["__traceback__"].__get__


def location_of(error: BaseException, plugin: Path | None) -> str:
    """Return the file and line where an import failed, as ``"file, line n: "``; ``""`` if unknown.

    Lines of the plugin's file or folder are preferred to lines of libraries that it calls.
    """
    # A syntax error has no frame in the plugin: no line of it ran.
    # Not a class of the plugin's: it may raise when its attributes are read.
    if type(error).__module__ == "builtins" and isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}, line {error.lineno}: "
    # Not of __file__: in the single binary, code has relative file names.
    here = Path(location_of.__code__.co_filename).parent
    frames = []
    for frame in traceback.extract_tb(_traceback_of(error)):
        path = Path(frame.filename)
        # Frames of the import system and of this package mean nothing to a plugin's author.
        if not (frame.filename.startswith("<") or path.parent.name == "importlib" or path.parent == here):
            frames.append(frame)
    in_plugin = [
        frame for frame in frames if plugin and Path(frame.filename).resolve().is_relative_to(plugin)
    ]
    if not frames:
        return ""
    last = (in_plugin or frames)[-1]
    return f"{last.filename}, line {last.lineno}: "
