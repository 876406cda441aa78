"""Finds the sentences of errors in the code, with their ids; see ``hookgw/kernel/sentences.py``."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from hookgw.kernel import errors
from tests.public.kernel import HookgwError

ROOT = Path(__file__).parents[2]
IDS = Path(__file__).with_name("error_ids.txt")
"""Every id that there has ever been, one a line."""
_DECLARING = {"Sentence", "declared", "of"}
_ERRORS = {
    name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, HookgwError)
} - {
    # The process does not start: no client sees them.
    *("StartError", "ConfigError"),
    # They make their sentence themselves.
    *("PluginFailed", "LaneElsewhere"),
}


class Declared(NamedTuple):
    id: str
    template: str
    place: str


def declared_sentences() -> list[Declared]:
    """Return what the code declares, by the ids; twice, if it declares one twice."""
    found = [
        Declared(str(call.args[0].value), str(call.args[1].value), place)
        for call, place in _calls()
        if _name(call) in _DECLARING
        and len(call.args) >= 2
        and isinstance(call.args[0], ast.Constant)
        and isinstance(call.args[1], ast.Constant)
    ]
    return sorted(found)


def bare_texts() -> list[str]:
    """Return where the code makes an error, or a class of them its message, of a text without an id."""
    bare = ast.JoinedStr | ast.BinOp | ast.Constant
    bases = _ERRORS | {"Refused", "Unreachable"}  # those of hookgw.connectors
    classes = [
        f"{place}:{call.lineno}: {ast.unparse(call)}"
        for tree, place in _trees()
        for one in ast.walk(tree)
        if isinstance(one, ast.ClassDef) and bases.intersection(map(ast.unparse, one.bases))
        for call in ast.walk(one)
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "super().__init__"
        if any(isinstance(argument, bare) for argument in call.args)
    ]
    return classes + [
        f"{place}: {ast.unparse(call)}"
        for call, place in _calls()
        if _name(call) in (_ERRORS | _DECLARING)
        and any(
            isinstance(argument, ast.JoinedStr if _name(call) in _DECLARING else bare)
            for argument in call.args
        )
    ]


def _calls() -> Iterator[tuple[ast.Call, str]]:
    for tree, place in _trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                yield node, f"{place}:{node.lineno}"


@cache
def _trees() -> list[tuple[ast.Module, Path]]:
    files = [file for folder in ("hookgw", "plugins") for file in sorted((ROOT / folder).rglob("*.py"))]
    return [
        (ast.parse(file.read_text(encoding="utf-8")), file.relative_to(ROOT))
        for file in files
        # Its errors are for those who test plugins.
        if file.relative_to(ROOT).parts[:2] != ("hookgw", "testing")
    ]


def _name(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")


def errors_page() -> str:
    """Return ``docs/reference/errors.md``."""
    lines = [
        "<!-- Made by `nox -s reference` from the sentences in the code: change those. -->",
        "",
        "# The ids of errors",
        "",
        "The body of an error has an id for each entry of `message`, in `response.errors`, with the `values`",
        "of the placeholders; see [the HTTP interface](../http.md#common-rules). Ids stay, and keep their",
        "meaning, within a major version; sentences may be worded better. A placeholder such as `{name!r}`",
        "is shown in quotation marks, and `{count:,}` with groups of thousands. If `at` is among the values,",
        "it stands before the sentence. A sentence of a plugin that is not hookgw's has the id `text`, and",
        "`{text}` is all of it.",
    ]
    group = ""
    for id_, template, _ in declared_sentences():
        if id_.partition(".")[0] != group:
            group = id_.partition(".")[0]
            lines += ["", f"## Errors: {group}", "", "| id | sentence |", "|---|---|"]
        lines.append(f"| `{id_}` | {_cell(template)} |")
    return "\n".join(lines) + "\n"


def _cell(template: str) -> str:
    return (
        "`` " + template.replace("|", "\\|") + " ``"
        if "`" in template
        else f"`{template}`".replace("|", "\\|")
    )
