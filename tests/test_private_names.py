"""No private name of a library is used: a library may change it in any version.

A name is private if it begins with an underscore, or if it is in a module whose name does. Ruff finds private
attributes of any object in hookgw and its plugins. This test reads what can be said of a name without running
anything: imports, attributes of what was imported, names in strings, and what a class takes from its bases.
"""

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
OURS = {"hookgw", "plugins", "tests", "__future__"}
DOCUMENTED = {"os._exit", "sys._current_frames", "sys._getframe"}
"""Names of Python's standard library that its documentation describes, in spite of the underscore."""
EXEMPT = {
    "tests/simulation/trio_internals.py": "Trio has no public name for it; the file says why",
    "tests/test_patterns.py": "Python's parser of patterns; its former name, sre_parse, is deprecated",
}
PRIVATE = re.compile(r"\b_(?!_)")
DOTTED = re.compile(r"[A-Za-z_]\w*(\.\w+)+")


def is_private(name: str) -> bool:
    return any(part.startswith("_") and not part.startswith("__") for part in name.split("."))


def is_foreign(name: str) -> bool:
    return name.split(".", 1)[0] not in OURS and name not in DOCUMENTED


def dotted(node: ast.expr, imported: dict[str, str]) -> str | None:
    """Return the full name of an expression such as ``module.name``; ``None`` if it is not imported."""
    match node:
        case ast.Name(id=name):
            return imported.get(name)
        case ast.Attribute(value=value, attr=attribute):
            owner = dotted(value, imported)
            return owner and f"{owner}.{attribute}"
    return None


def found_in(name: str) -> object | None:
    """Return what has a full name, if it can be imported."""
    module, _, rest = name.partition(".")
    try:
        found: object = importlib.import_module(module)
        for part in filter(None, rest.split(".")):
            if not hasattr(found, part):
                module = f"{module}.{part}"
                importlib.import_module(module)
            found = getattr(found, part)
    except (ImportError, AttributeError):
        return None
    return found


def private_names(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the full name of each private name of a library."""
    nodes = list(ast.walk(ast.parse(source)))
    imported, names = imports_of(nodes)
    for node in nodes:
        names += uses_in(node, imported)
    yield from sorted({(line, name) for line, name in names if is_private(name) and is_foreign(name)})


def imports_of(nodes: list[ast.AST]) -> tuple[dict[str, str], list[tuple[int, str]]]:
    """Return the full name of each name that is imported, and the line of each."""
    imported: dict[str, str] = {}
    names: list[tuple[int, str]] = []
    for node in nodes:
        if isinstance(node, ast.Import):
            for one in node.names:
                first = one.name.split(".")[0]
                imported[one.asname or first] = one.name if one.asname else first
                names.append((node.lineno, one.name))
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            for one in node.names:
                imported[one.asname or one.name] = f"{node.module}.{one.name}"
                names.append((node.lineno, f"{node.module}.{one.name}"))
    return imported, names


def uses_in(node: ast.AST, imported: dict[str, str]) -> Iterator[tuple[int, str]]:
    """Yield the names that an expression or a class uses, public ones too."""
    match node:
        case ast.Attribute(lineno=line):
            if (name := dotted(node, imported)) is not None:
                yield line, name
        case ast.Call(args=[owner, ast.Constant(value=str(attribute)), *_], lineno=line):
            # getattr, monkeypatch.setattr, mock.patch.object
            if (name := dotted(owner, imported)) is not None and attribute.isidentifier():
                yield line, f"{name}.{attribute}"
        case ast.Call(args=[ast.Constant(value=str(text)), *_], lineno=line) if DOTTED.fullmatch(text):
            # mock.patch, importlib.import_module
            if is_private(text) and found_in(text.split(".")[0]) is not None:
                yield line, text
        case ast.ClassDef(bases=bases):
            for base in filter(None, (dotted(one, imported) for one in bases)):
                if is_foreign(base):
                    yield from ((at, f"{base}.{name}") for at, name in taken_from(node, found_in(base)))


def taken_from(node: ast.ClassDef, base: object | None) -> Iterator[tuple[int, str]]:
    """Yield the private names of a base that a class uses, or overrides."""
    for inner in ast.walk(node):
        match inner:
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name, lineno=line):
                pass
            case ast.FunctionDef(name=name, lineno=line) | ast.AsyncFunctionDef(name=name, lineno=line):
                pass
            case _:
                continue
        if is_private(name) and hasattr(base, name):
            yield line, name


SOURCES = sorted(
    path.relative_to(ROOT).as_posix()
    for folder in ("hookgw", "plugins", "tests")
    for path in (ROOT / folder).rglob("*.py")
)


def test_no_file_uses_a_private_name_of_a_library() -> None:
    texts = {name: (ROOT / name).read_text("utf-8") for name in SOURCES if name not in EXEMPT}
    # Parsing a file takes twenty times as long as searching it.
    found = {name: list(private_names(text)) for name, text in texts.items() if PRIVATE.search(text)}
    assert {name: names for name, names in found.items() if names} == {}


@pytest.mark.parametrize("name", sorted(EXEMPT))
def test_each_exemption_is_needed(name: str) -> None:
    assert list(private_names((ROOT / name).read_text("utf-8")))


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("import trio._core._run", ["trio._core._run"]),
        ("from trio._core import GLOBAL", ["trio._core.GLOBAL"]),
        ("from httpx import _client", ["httpx._client"]),
        ("import trio\ntrio.Cancelled._create()", ["trio.Cancelled._create"]),
        ("import trio as t\nt._core.x", ["trio._core", "trio._core.x"]),
        ("import trio\nsetattr(trio.Lock, '_lot', 1)", ["trio.Lock._lot"]),
        ("from unittest import mock\nmock.patch('random._urandom')", ["random._urandom"]),
        ("import logging\nclass X(logging.Logger):\n    def _log(self): ...", ["logging.Logger._log"]),
        ("import logging\nclass X(logging.Logger):\n    def f(self): self._log()", ["logging.Logger._log"]),
        ("import logging\nclass X(logging.Logger):\n    def f(self): self._mine = 1", []),
        ("import sys\nsys._getframe()", []),
        ("from hookgw.records import _private", []),
        ("from __future__ import annotations", []),
        ("import collections\ncollections.namedtuple('a', 'b').__doc__", []),
    ],
)
def test_what_counts(source: str, names: list[str]) -> None:
    assert [name for _, name in private_names(source)] == names
