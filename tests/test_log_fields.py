"""Each field of the log has one type: a store of logs refuses lines that give it another one."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
TYPES = {"str": "text", "repr": "text", "len": "number", "int": "number", "round": "number", "sorted": "list"}
LEVELS = {"debug", "info", "warning", "error", "exception"}


def type_of(value: ast.expr) -> str | None:
    """Return the type of a field as far as its expression tells."""
    match value:
        case ast.Constant():
            return "text" if isinstance(value.value, str) else "number"
        case ast.JoinedStr():
            return "text"
        case ast.List() | ast.ListComp():
            return "list"
        case ast.Name(id="VERSION"):
            return "number"
        case ast.Call(func=ast.Name(id=name)):
            return TYPES.get(name)
        case ast.Attribute(attr="id" | "name" | "label" | "instance"):
            return "text"
    return None


def test_each_field_has_one_type() -> None:
    found = defaultdict[str, dict[str, str]](dict)
    for folder in ("hookgw", "plugins"):
        for file in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                match node:
                    case ast.Call(
                        func=ast.Attribute(value=ast.Name(id="logger"), attr=level), keywords=given
                    ) if level in LEVELS:
                        for one in given:
                            if one.arg and (type_ := type_of(one.value)):
                                found[one.arg][type_] = f"{file.relative_to(ROOT)}:{one.value.lineno}"
    assert len(found) > 30  # those of which the code tells the type
    assert {name: places for name, places in found.items() if len(places) > 1} == {}
