"""Tests know little of how hookgw is built inside: few modules, and hardly any private names.

A test that goes through the public names of a package (``tests/public``), or over HTTP, keeps its worth when
modules move.
"""

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parents[1]
PUBLIC = {"hookgw", "hookgw.testing"}
MOST_MODULES = 136
MOST_PRIVATE = 50
"""How many uses of private names of hookgw and its plugins are in the tests."""


PUBLIC_NAMES = ROOT / "tests/public"
# Parsing a file takes twenty times as long as searching it, so what cannot matter is not parsed.
NAMES_A_MODULE = re.compile(r"(from|import) hookgw(\.(?!testing import)| import )")
PRIVATE = re.compile(r"\b_(?!_)\w+")


def texts(*folders: str) -> dict[str, str]:
    """Return the text of each file of Python, by path."""
    paths = sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in paths}


def module_names() -> set[str]:
    paths = [path.relative_to(ROOT).with_suffix("") for path in (ROOT / "hookgw").rglob("*.py")]
    return {".".join(path.parts).removesuffix(".__init__") for path in paths}


def imported(tree: ast.Module, modules: set[str]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names if one.name in modules)
        elif isinstance(node, ast.ImportFrom) and node.module in modules:
            names = {f"{node.module}.{one.name}" for one in node.names}
            yield from names & modules or {node.module}


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in {"_", "_replace", "_asdict"}


def defined(tree: ast.Module) -> Iterator[str]:
    """Yield the private names that a file defines: of functions, classes, variables and ``self``."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                pass
            case ast.Name(id=name, ctx=ast.Store()):
                pass
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                pass
            case _:
                continue
        if is_private(name):
            yield name


def root(node: ast.expr) -> str:
    """Return the first name of an expression such as ``trio.lowlevel``."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def private_uses(tree: ast.Module, product: set[str]) -> Iterator[tuple[int, str]]:
    """Yield the line and the name of each use of a private name of the product.

    A name that the file defines itself is its own. Strings count: ``monkeypatch.setattr(thing, "_name", …)``.
    """
    known = product - set(defined(tree))
    foreign = {
        (one.asname or one.name).split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for one in node.names
        if one.name.split(".")[0] != "hookgw"
    }
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=owner, attr=name, lineno=line):
                if name in known and root(owner) not in foreign:
                    yield line, name
            case ast.ImportFrom(module=str(module), names=names, lineno=line) if module.startswith("hookgw"):
                yield from ((line, one.name) for one in names if is_private(one.name))
            case ast.Call(args=[first, *rest], lineno=line):
                for given in (first, *rest[:1]):
                    match given:
                        case ast.Constant(value=str(text)) if (name := text.rpartition(".")[2]) in known:
                            yield line, name


def test_tests_import_few_modules() -> None:
    modules = module_names()
    used = {
        name
        for path, text in texts("tests").items()
        if not path.startswith("tests/public/") and NAMES_A_MODULE.search(text)
        for name in imported(ast.parse(text), modules)
    }
    assert len(used - PUBLIC) <= MOST_MODULES, sorted(used - PUBLIC)


def test_tests_use_few_private_names() -> None:
    tests, product = texts("tests"), texts("hookgw", "plugins")
    words = {path: set(PRIVATE.findall(text)) for path, text in (product | tests).items()}
    mentioned = set().union(*(words[path] for path in tests))
    names = {
        name for path, text in product.items() if words[path] & mentioned for name in defined(ast.parse(text))
    }
    private = names | {Path(path).stem for path in product}
    found = [
        (path, *use)
        for path, text in tests.items()
        if words[path] & private
        for use in private_uses(ast.parse(text), names)
    ]
    assert len(found) <= MOST_PRIVATE, found


HIDDEN = {"add_plugin_commands", "prepare"}
"""Names that two modules of a package define; no test takes them from the package."""


def test_no_public_name_hides_another_one() -> None:
    """``tests/public`` has its names by stars, and a module that imports a name passes that on, too."""
    hidden = set()
    for path in sorted(PUBLIC_NAMES.glob("*.py")):
        public = import_module(f"tests.public.{path.stem}")
        for node in ast.parse(path.read_text("utf-8")).body:
            if not isinstance(node, ast.ImportFrom) or node.module in (None, "__future__"):
                continue
            module = import_module(str(node.module))
            given = [one.name for one in node.names]
            names = [name for name in vars(module) if name[0] != "_"] if given == ["*"] else given
            own = (name for name in names if getattr(vars(module)[name], "__module__", "") == node.module)
            hidden |= {name for name in own if getattr(public, name) is not vars(module)[name]}
    assert hidden == HIDDEN
