"""Payloads against the schemas of their kinds."""

from __future__ import annotations

from typing import Any

import pytest

from hookgw.models.event_kinds import BUILT_IN_KINDS
from hookgw.models.events import Catalog, Event, EventKind
from hookgw.models.payload_schemas import SchemaBook, check_schema

STRICT = EventKind(
    name="ORDER_PLACED",
    meaning="An order.",
    schema={
        "type": "object",
        "properties": {
            "total": {"type": "integer", "minimum": 0},
            "lines": {"type": "array", "items": {"type": "object", "required": ["sku"]}},
        },
        "required": ["total"],
    },
)
LOOSE = EventKind(name="CHATS_SET", meaning="Chats.")
ANYTHING = EventKind(name="CALL", meaning="A call.", schema={})


@pytest.fixture
def book() -> SchemaBook:
    return SchemaBook(Catalog([STRICT, LOOSE, ANYTHING]))


def event(kind: str, data_json: bytes) -> Event:
    return Event(id="e1", kind=kind, instance="shop", data_json=data_json, time=0)


@pytest.mark.parametrize(
    ("kind", "data", "problems"),
    [
        ("ORDER_PLACED", b'{"total": 1, "further": true}', []),
        ("ORDER_PLACED", b'{"total": 123456789012345678901234567890}', []),
        ("ORDER_PLACED", b'{"total": -123456789012345678901234567890}', ["data.total: "]),
        ("ORDER_PLACED", b'{"total": "1"}', ["data.total: "]),
        ("ORDER_PLACED", b'{"total": 1, "lines": [{"sku": 1}, {}]}', ["data.lines[1]: "]),
        ("ORDER_PLACED", b"{}", ['data: "total" is a required property']),
        ("ORDER_PLACED", b"[]", ['data: [] is not of type "object"']),
        ("ORDER_PLACED", b"null", ["data: null is not"]),
        ("ORDER_PLACED", b'"text"', ["data: "]),
        ("ORDER_PLACED", b'{"total"', ["data: it is not JSON: "]),
        ("CHATS_SET", b"{}", []),
        ("CHATS_SET", b"[1]", ["data: "]),
        ("CALL", b"17", []),
        ("UNHEARD_OF", b"17", []),
    ],
)
def test_problems_are_named_with_their_place(
    book: SchemaBook, kind: str, data: bytes, problems: list[str]
) -> None:
    found = book.problems(event(kind, data))
    assert len(found) == len(problems)
    assert all(sentence.startswith(start) for sentence, start in zip(found, problems, strict=True))


def test_few_problems_are_named_and_each_is_short(book: SchemaBook) -> None:
    many = Event.encode({"total": 1, "lines": ["x" * 1000] * 50})
    found = book.problems(event("ORDER_PLACED", many))
    assert len(found) == 5
    assert all(len(sentence) < 250 and sentence.endswith("…") for sentence in found)


def test_a_payload_nested_too_deeply_is_a_problem_not_a_crash(book: SchemaBook) -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    assert book.problems(event("ORDER_PLACED", deep))[0].startswith("data: it is not JSON")


@pytest.mark.parametrize("kind", BUILT_IN_KINDS, ids=lambda kind: kind.name)
def test_examples_of_the_built_in_kinds_satisfy_their_schemas(kind: EventKind) -> None:
    assert check_schema(kind.schema) is None
    found = SchemaBook(Catalog(BUILT_IN_KINDS)).problems(event(kind.name, Event.encode(kind.example)))
    assert found == []


@pytest.mark.parametrize(
    "schema",
    [{"type": "nonsense"}, {"$ref": "#/nowhere"}, {"minimum": "1"}, {"pattern": "("}],
)
def test_check_schema_says_why_a_schema_is_invalid(schema: dict[str, Any]) -> None:
    assert check_schema(schema)
