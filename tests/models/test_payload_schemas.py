"""Payloads against the schemas of their kinds."""

from typing import Any

import pytest

from hookgw import Event, EventKind
from tests.public.records import BUILT_IN_KINDS, Catalog, SchemaBook, check_schema

STRICT = EventKind(
    name="ORDER_PLACED",
    meaning="An order.",
    schema={
        "type": "object",
        "properties": {
            "total": {"type": "integer", "minimum": 0},
            "state": {"enum": ["new", "paid", "sent", "gone"]},
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
    ("kind", "data", "problem"),
    [
        ("ORDER_PLACED", b'{"total": 1, "further": true}', None),
        ("ORDER_PLACED", b'{"total": 123456789012345678901234567890}', None),
        ("ORDER_PLACED", b'{"total": -123456789012345678901234567890}', "data.total: "),
        ("ORDER_PLACED", b'{"total": "1"}', "data.total: "),
        ("ORDER_PLACED", b'{"total": 1, "lines": [{"sku": 1}, {}]}', "data.lines[1]: "),
        (
            "ORDER_PLACED",
            b'{"total": 1, "state": "send"}',
            'data.state: "send" is not one of "new", "paid", "sent" or "gone"',
        ),
        ("ORDER_PLACED", b"{}", 'data: "total" is a required property'),
        ("ORDER_PLACED", b"[]", 'data: [] is not of type "object"'),
        ("ORDER_PLACED", b"null", "data: null is not"),
        ("ORDER_PLACED", b'"text"', "data: "),
        ("ORDER_PLACED", b'{"total"', "data: it is not JSON: "),
        ("CHATS_SET", b"{}", None),
        ("CHATS_SET", b"[1]", "data: "),
        ("CALL", b"17", None),
        ("UNHEARD_OF", b"17", None),
    ],
)
def test_the_first_problem_is_named_with_its_place(
    book: SchemaBook, kind: str, data: bytes, problem: str | None
) -> None:
    found = book.problem(event(kind, data))
    assert (found is None) is (problem is None)
    assert problem is None or (found or "").startswith(problem)


def test_a_message_is_short(book: SchemaBook) -> None:
    found = book.problem(event("ORDER_PLACED", Event.encode({"total": 1, "lines": ["x" * 1000] * 2})))
    assert found is not None
    assert len(found) < 250
    assert found.endswith("…")


BULK = ["x" * 100] * 100
MANY = {f"f{number}": number for number in range(1000)}


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ({"bulk": BULK}, 'data: "total" is a required property'),
        (BULK, 'data: ["xxxxx'),
        ({"bulk": BULK, "total": "1"}, 'data.total: "1" is not of type "integer"'),
        ({"bulk": BULK, "total": 1, "lines": 2}, 'data.lines: 2 is not of type "array"'),
        ({"bulk": BULK, "total": 1, "lines": [{"sku": 1}, {"x": 1}]}, "data.lines[1]: "),
        (MANY | {"total": "1"}, 'data.total: "1" is not of type "integer"'),
        # What an extract does not show is said without a reason, and what is right in it is not blamed.
        ({"bulk": BULK, "total": -1}, "data: it violates the schema of its kind."),
        ({"total": 1, "lines": [{"sku": 1} | MANY] * 50 + [{}]}, "data: it violates the schema of its kind."),
        (MANY | {"total": 1}, None),
        ({"total": 1, "lines": [{"sku": 1} | MANY] * 50}, None),
    ],
)
def test_a_large_payload_is_described_by_an_extract(book: SchemaBook, data: Any, problem: str | None) -> None:
    found = book.problem(event("ORDER_PLACED", Event.encode(data)))
    assert found == problem if problem is None else (found or "").startswith(problem)


def test_a_payload_nested_too_deeply_is_a_problem_not_a_crash(book: SchemaBook) -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    assert (book.problem(event("ORDER_PLACED", deep)) or "").startswith("data: it is not JSON")


@pytest.mark.parametrize("kind", BUILT_IN_KINDS, ids=lambda kind: kind.name)
def test_examples_of_the_built_in_kinds_satisfy_their_schemas(kind: EventKind) -> None:
    assert check_schema(kind.schema) is None
    found = SchemaBook(Catalog(BUILT_IN_KINDS)).problem(event(kind.name, Event.encode(kind.example)))
    assert found is None


@pytest.mark.parametrize(
    "schema",
    [{"type": "nonsense"}, {"$ref": "#/nowhere"}, {"minimum": "1"}, {"pattern": "("}],
)
def test_check_schema_says_why_a_schema_is_invalid(schema: dict[str, Any]) -> None:
    assert len((check_schema(schema) or "").splitlines()) == 1


@pytest.mark.parametrize(
    "uri", ["http://127.0.0.1:9/order.json", "https://order.example/", "file:///etc/passwd"]
)
def test_no_schema_is_fetched(uri: str) -> None:
    assert f"hookgw fetches no schemas: copy {uri} into $defs" in (check_schema({"$ref": uri}) or "")


def test_the_meta_schemas_need_no_network() -> None:
    assert check_schema({"$ref": "https://json-schema.org/draft/2020-12/schema"}) is None
