"""Where plugins are found: folders, module names in the configuration, entry points.

A plugin in a folder is imported as a module of a private package that stands for the folder. So two
folders cannot clash, a plugin called ``json`` hides nothing, and relative imports work, both inside a
plugin that is a package and between the modules of the folder. Each load makes private packages of
its own: two gateways in one process do not share what their plugins keep in module variables.
"""

from __future__ import annotations

import itertools
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.metadata import EntryPoint, entry_points
from importlib.util import module_from_spec
from pathlib import Path
from typing import Any

import msgspec

ENTRY_POINT_GROUP = "hookgw"

_numbers = itertools.count(1)


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A plugin that was found and is not imported yet.

    Attributes:
        name: what ``disabled``, ``optional``, ``order`` and ``options`` call it.
        source: where it was found, for people.
        load: imports it; raises whatever the plugin raises.
        path: the resolved file or folder; ``None`` where it was not found as one.
        version: of the distribution that it comes in; ``None`` where that is unknown.
    """

    name: str
    source: str
    load: Callable[[], Any]
    path: Path | None = None
    version: str | None = None


def first_party_folder() -> Path | None:
    """The folder of hookgw's own plugins: in the installed package, or beside it in a checkout."""
    package = Path(__file__).resolve().parents[1]
    installed = package / "_first_party"
    if installed.is_dir():
        return installed
    checkout = package.parent
    return checkout / "plugins" if (checkout / "pyproject.toml").is_file() else None


def is_of_a_clone(folder: Path) -> bool:
    """Whether a folder is ``plugins`` of a clone of hookgw, which holds hookgw's own plugins again."""
    return (folder.resolve().parent / "hookgw" / "plugins" / Path(__file__).name).is_file()


def in_folder(folder: Path) -> list[Candidate]:
    """Each ``*.py`` module and each package of a folder, by name; ``_…`` and ``.…`` are passed over.

    Raises:
        OSError: the folder cannot be read.
    """
    package = f"_hookgw_plugins_{next(_numbers)}"
    _make_package(package, folder)
    return [
        Candidate(
            name=path.stem if path.is_file() else path.name,
            source=str(path),
            load=_importer(package, path),
            path=path.resolve(),
        )
        for path in sorted(folder.iterdir())
        if _is_plugin(path)
    ]


def by_names(names: Iterable[str]) -> list[Candidate]:
    """The importable modules of those names, as written in the configuration."""
    return [
        Candidate(name=name, source=f"module {name}", load=partial(import_module, name)) for name in names
    ]


def by_entry_points() -> list[Candidate]:
    """What installed distributions offer under the entry point group ``hookgw``, by name."""
    return [_from_entry_point(point) for point in sorted(entry_points(group=ENTRY_POINT_GROUP))]


def unrepeated(candidates: Iterable[Candidate]) -> Iterator[Candidate]:
    """The candidates without those whose file was found before."""
    seen = set()
    for candidate in candidates:
        if candidate.path not in seen:
            yield candidate
        if candidate.path is not None:
            seen.add(candidate.path)


def place_of(error: BaseException, within: Path | None) -> str:
    """Where an import failed, as ``"file, line n: "``; empty where no line of a plugin ran.

    Args:
        error: what importing raised.
        within: the plugin's file or folder; its lines are preferred to those of what it calls.
    """
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}, line {error.lineno}: "
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if not _is_machinery(frame.filename)
    ]
    own = [frame for frame in frames if within and Path(frame.filename).resolve().is_relative_to(within)]
    if not frames:
        return ""
    last = (own or frames)[-1]
    return f"{last.filename}, line {last.lineno}: "


def _is_machinery(filename: str) -> bool:
    path = Path(filename)
    return filename.startswith("<") or path.parent.name == "importlib" or path.parent == Path(__file__).parent


def _is_plugin(path: Path) -> bool:
    if path.name.startswith(("_", ".")):
        return False
    return path.suffix == ".py" if path.is_file() else (path / "__init__.py").is_file()


def _importer(package: str, path: Path) -> Callable[[], Any]:
    def load() -> Any:
        stem = path.stem if path.is_file() else path.name
        if "." in stem:
            raise ImportError(f"{path.name}: a plugin's file name has no dot but that of .py")
        return import_module(f"{package}.{stem}")

    return load


def _make_package(name: str, folder: Path) -> None:
    spec = ModuleSpec(name, None, is_package=True)
    spec.submodule_search_locations = [str(folder)]
    sys.modules[name] = module_from_spec(spec)


def _from_entry_point(point: EntryPoint) -> Candidate:
    distribution = point.dist
    return Candidate(
        name=point.name,
        source=f"entry point of {distribution.name}" if distribution else "entry point",
        load=point.load,
        version=distribution.version if distribution else None,
    )
