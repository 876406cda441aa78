"""Nothing that is read may run as code: no pickle, no ``eval``, no YAML that makes objects.

``shelve`` is the exception: :class:`hookgw.store.sqlite.shelves.RecordShelf` overrides every method in
which it would pickle, and a test here holds it to that.
"""

import ast
import re
import shelve
from pathlib import Path

import pytest

import hookgw
from tests.public.plugins import first_party_folder
from tests.public.store import RecordShelf

PACKAGE = Path(hookgw.__file__).parent
FOLDERS = [PACKAGE, first_party_folder() or PACKAGE]
FILES = sorted({path for folder in FOLDERS for path in folder.rglob("*.py")})

MODULES = {"pickle", "_pickle", "cPickle", "cloudpickle", "dill", "marshal", "code", "codeop", "jsonpickle"}
CALLS = {"eval", "exec", "compile", "__import__"}
# In shelve; from Python 3.15 on, a shelf calls what pickles by another name.
PICKLES = re.compile(r"[pP]ickle|serializer")
YAML = {"load", "load_all", "unsafe_load", "unsafe_load_all", "full_load", "full_load_all"}
YAML_LOADERS = {"Loader", "UnsafeLoader", "FullLoader", "CLoader", "CUnsafeLoader", "CFullLoader"}
WORDS = re.compile(rf"\b({'|'.join(MODULES | CALLS | {'yaml', 'shelve'})})\b")


def findings(source: str) -> list[str]:
    """What a module does that could run data as code."""
    return [found for node in ast.walk(ast.parse(source)) if (found := finding(node))]


def finding(node: ast.AST) -> str | None:
    match node:
        case ast.Import(names=names):
            return next((n.name for n in names if n.name.partition(".")[0] in MODULES), None)
        case ast.ImportFrom(module=str(module), names=names):
            bad = {n.name for n in names} & (YAML | YAML_LOADERS) if module.startswith("yaml") else set()
            return module if module.partition(".")[0] in MODULES else ", ".join(sorted(bad)) or None
        case ast.Name(id=name) if name in CALLS:
            return name
        case ast.Attribute(value=ast.Name(id="builtins" | "__builtins__"), attr=name) if name in CALLS:
            return name
        case ast.Attribute(value=ast.Name(id="yaml"), attr=name) if name in YAML | YAML_LOADERS:
            return f"yaml.{name}"
        case ast.Attribute(value=ast.Name(id="shelve"), attr="open" | "DbfilenameShelf" | "BsdDbShelf"):
            return "shelve.open"
        case _:
            return None


def test_there_is_something_to_look_at() -> None:
    assert len(FILES) > 100
    assert any("simulator" in str(path) for path in FILES)


def test_no_module_runs_data_as_code() -> None:
    texts = {path.as_posix(): path.read_text("utf-8") for path in FILES}
    # Parsing a file takes twenty times as long as searching it.
    found = {path: findings(text) for path, text in texts.items() if WORDS.search(text)}
    assert {path: what for path, what in found.items() if what} == {}


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "import os, marshal",
        "from pickle import loads",
        "from dill.source import x",
        "eval('1')",
        "f = exec",
        "import builtins\nbuiltins.eval('1')",
        "import yaml\nyaml.load(x, Loader=L)",
        "import yaml\nclass A(yaml.FullLoader): pass",
        "from yaml import unsafe_load",
        "from yaml.loader import UnsafeLoader",
        "import shelve\nshelve.open('x')",
    ],
)
def test_what_is_looked_for_is_found(source: str) -> None:
    assert findings(source)


@pytest.mark.parametrize(
    "source", ["import re\nre.compile('x')", "yaml.safe_load(x)", "class A(yaml.SafeLoader): ..."]
)
def test_what_is_harmless_is_passed_over(source: str) -> None:
    assert findings(source) == []


def test_the_shelves_override_every_method_that_pickles() -> None:
    pickling = set()
    for node in ast.walk(ast.parse(Path(shelve.__file__).read_text())):
        if isinstance(node, ast.ClassDef) and node.name == "Shelf":
            for method in node.body:
                if isinstance(method, ast.FunctionDef) and PICKLES.search(ast.unparse(method)):
                    pickling.add(method.name)
    # __init__ keeps the protocol's number, or what pickles; get() reads through the item method.
    assert {"__getitem__", "__setitem__"} <= pickling
    assert pickling - {"__init__"} <= vars(RecordShelf).keys()
