"""No pattern tries each way to divide a text: that takes a time that grows with the square of its length."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
PARSER: Any = importlib.import_module("re._parser")
CHARACTERS = [chr(code) for code in range(256)]
MANY = 256
"""Repetitions up to this number do no harm."""
OF_THE_USER = {"hookgw.app.init._ASSIGNMENT"}
"""Patterns that read what the user of a command has written for it."""

Node = Iterable[tuple[Any, Any]]


def characters_of(node: Node, flags: int) -> set[str] | None:
    """Return which characters match a node; ``None`` if it matches more than one character."""
    parts = list(node)
    if len(parts) != 1:
        return None
    (operation, value) = parts[0]
    name = str(operation)
    if name == "SUBPATTERN":
        return characters_of(value[-1], flags)
    if name == "BRANCH":
        sets = [characters_of(branch, flags) for branch in value[1]]
        return set().union(*(one or set() for one in sets)) if None not in sets else None
    if name not in ("IN", "LITERAL", "NOT_LITERAL", "ANY"):
        return None
    tests = value if name == "IN" else [(operation, value)]
    found = {one for one in CHARACTERS if any(matches(op, of, one, flags) for op, of in tests)}
    is_negated = name == "IN" and str(value[0][0]) == "NEGATE"
    return set(CHARACTERS) - found if is_negated else found


def matches(operation: Any, value: Any, character: str, flags: int) -> bool:
    match str(operation):
        case "LITERAL":
            return bool(ord(character) == value)
        case "NOT_LITERAL":
            return bool(ord(character) != value)
        case "ANY":
            return character != "\n" or bool(flags & re.DOTALL)
        case "RANGE":
            return bool(value[0] <= ord(character) <= value[1])
        case "CATEGORY":
            letter = {"SPACE": r"\s", "DIGIT": r"\d", "WORD": r"\w"}[str(value).rpartition("_")[2]]
            return bool(re.match(letter, character)) is not ("NOT" in str(value))
    return False


def flat(node: Node) -> Iterator[tuple[Any, Any]]:
    for operation, value in node:
        if str(operation) == "SUBPATTERN":
            yield from flat(value[-1])
        else:
            yield operation, value


def shared(node: Node, flags: int) -> Iterator[set[str]]:
    """Yield what two neighbouring repetitions may both take, unless the first is possessive."""
    # What the repetitions take that reach the present place.
    reaching: list[set[str]] = []
    for operation, value in flat(node):
        match str(operation):
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT" as kind:
                least, most, inner = value
                taken = characters_of(inner, flags)
                yield from shared(inner, flags)
                if taken is not None and most > MANY:
                    yield from (one & taken for one in reaching if one & taken)
                if least:
                    reaching = [one for one in reaching if taken is not None and one & taken]
                if taken is not None and most > MANY and kind != "POSSESSIVE_REPEAT":
                    reaching.append(taken)
            case "AT" | "ASSERT" | "ASSERT_NOT":
                pass
            case "BRANCH":
                for branch in value[1]:
                    yield from shared(branch, flags)
                reaching = []
            case _:
                taken = characters_of([(operation, value)], flags)
                reaching = [one for one in reaching if taken is not None and one & taken]


def parsed(pattern: re.Pattern[Any]) -> tuple[Node, int]:
    text, flags = pattern.pattern, pattern.flags
    if isinstance(text, bytes):
        text, flags = text.decode("latin-1"), flags & ~re.UNICODE
    return PARSER.parse(text, flags), flags


def patterns() -> dict[str, re.Pattern[Any]]:
    found: dict[str, re.Pattern[Any]] = {}
    for path in sorted([*ROOT.glob("hookgw/**/*.py"), *ROOT.glob("plugins/**/*.py")]):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        if not name.endswith("__main__"):
            found |= {
                f"{name}.{of}": value
                for of, value in vars(importlib.import_module(name)).items()
                if isinstance(value, re.Pattern)
            }
    return found


def test_no_text_can_be_divided_in_many_ways() -> None:
    found = patterns()
    assert len(found) > 100
    divided = {
        name: [sorted(one)[:3] for one in shared(*parsed(pattern))]
        for name, pattern in found.items()
        if name not in OF_THE_USER
    }
    assert {name: taken for name, taken in divided.items() if taken} == {}


@pytest.mark.parametrize(
    "pattern",
    [
        rb"x:[ \t]*([^\r\n\0]*)",
        r"\s*(?:a\s+)?([\w ]+)b",
        r"([^/?]*)([^?]*)!",
        r"a+[ab]*c",
        r"(?:(?:x.*.*y)|z)",
        r"\d+\d?\w*-",
    ],
)
def test_such_a_pattern_is_found(pattern: str | bytes) -> None:
    assert [*shared(*parsed(re.compile(pattern)))]


@pytest.mark.parametrize(
    "pattern", [rb"x:[ \t]*+([^\r\n\0]*)", r"a+-a*", r"\d+[a-z]*", r"a{1,9}a*", r"[a-f]*(?:;a*)?x"]
)
def test_others_are_not(pattern: str | bytes) -> None:
    assert not [*shared(*parsed(re.compile(pattern)))]
