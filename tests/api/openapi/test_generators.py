"""Rules that generators of clients need: each of them once lost a schema, a field or a method.

``nox -s contract`` and ``nox -s generators`` run generators. These tests take no time beside them, and also
hold for the kinds and routes that plugins add.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

import hookgw
from hookgw import Gateway
from tests.public.app import request_schemas
from tests.public.web import AppApplication as Application
from tests.public.web import OpenApiRoutes, Routing, plain
from tests.support.application import create_app

MEDIA = {"application/json", "application/octet-stream", "multipart/form-data"}
"""The content types of requests that every generator knows."""


@pytest.fixture
def document(app: Application, gateway: Gateway) -> dict[str, Any]:
    return OpenApiRoutes(app, gateway, request_schemas).document


def schemas(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every schema of a document, with its place."""
    for name, schema in document["components"]["schemas"].items():
        yield from inside(schema, name)
    for where, operation in operations(document):
        for one in operation.get("parameters", ()):
            yield from inside(one["schema"], f"{where} {one['name']}")
        for one in (operation.get("requestBody", {}), *operation["responses"].values()):
            for content in one.get("content", {}).values():
                yield from inside(content["schema"], where)


def inside(schema: Any, where: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield a schema and those in it."""
    if not isinstance(schema, dict):
        return
    yield where, schema
    for name, inner in schema.get("properties", {}).items():
        yield from inside(inner, f"{where}.{name}")
    for keyword in ("items", "additionalProperties", "propertyNames"):
        yield from inside(schema.get(keyword), f"{where}[{keyword}]")
    for choice in schema.get("anyOf", ()):
        yield from inside(choice, f"{where}?")


def words(name: str) -> str:
    """What is left of a name when generators have made it a name of their language."""
    return re.sub("[^a-z0-9]", "", name.lower())


def collapsed(names: Iterable[str]) -> list[str]:
    return [name for name, count in Counter(map(words, names)).items() if count > 1]


async def test_an_object_has_fields_and_no_alternatives(document: dict[str, Any]) -> None:
    for where, schema in schemas(document):
        assert not {"oneOf", "allOf", "if", "then", "else", "not", "const"} & schema.keys(), where
        if "anyOf" in schema:  # only "this component or enum, or null"
            assert schema.keys() <= {"anyOf", "description"}, where
            given, null = schema["anyOf"]
            assert "$ref" in given or "enum" in given, where
            assert null == {"type": "null"}, where


async def test_a_schema_has_one_type(document: dict[str, Any]) -> None:
    for where, schema in schemas(document):
        kinds = schema.get("type", [])
        assert kinds != "null" or where.endswith("?"), where
        if isinstance(kinds, list):
            assert len(set(kinds) - {"null"}) <= 1, where
        if schema.get("properties") or "additionalProperties" in schema or "required" in schema:
            assert "object" in kinds, where
        if "items" in schema:
            assert "array" in kinds, where


async def test_an_object_that_may_be_null_is_a_component(document: dict[str, Any]) -> None:
    """Otherwise generators name its type themselves, such as ``HeadersType0``."""
    for where, schema in schemas(document):
        assert schema.get("type") != ["object", "null"] or schema["additionalProperties"] is True, where


async def test_fields_have_names_of_their_own(document: dict[str, Any]) -> None:
    for where, schema in schemas(document):
        assert collapsed(schema.get("properties", ())) == [], where


async def test_values_of_enums_have_names_of_their_own(document: dict[str, Any]) -> None:
    for where, schema in schemas(document):
        if schema.get("enum") and schema.get("type") != "integer" and not where.endswith("[propertyNames]"):
            assert schema["type"] == "string", where
            assert collapsed(schema["enum"]) == [], where
            assert all(words(value)[:1].isalpha() for value in schema["enum"]), where


async def test_types_have_names_of_their_own(document: dict[str, Any]) -> None:
    """An object or an enum inside a component gets the component's name and its own."""
    components = document["components"]["schemas"]
    names = [*components, *document["components"]["responses"]]
    for component, schema in components.items():
        for field, inner in schema.get("properties", {}).items():
            if "enum" in inner or inner.get("type") == "object":
                names.append(f"{component}{field}")
    for _, operation in operations(document):
        names += [f"{operation['operationId']}{suffix}" for suffix in ("Params", "Response")]
    assert collapsed(names) == []


async def test_calls_have_names_of_their_own(document: dict[str, Any]) -> None:
    ids = [operation["operationId"] for _, operation in operations(document)]
    assert collapsed(ids) == []
    assert all(re.fullmatch("[a-z][A-Za-z0-9]*", name) for name in ids)
    for where, operation in operations(document):
        assert collapsed(one["name"] for one in operation.get("parameters", ())) == [], where


async def test_components_shadow_no_type_that_every_program_has(document: dict[str, Any]) -> None:
    names = {words(name) for name in document["components"]["schemas"]}
    assert names.isdisjoint({"error", "object", "array", "string", "date", "function", "map", "set", "list"})


async def test_request_bodies_have_content_types_that_generators_know(document: dict[str, Any]) -> None:
    for where, operation in operations(document):
        assert operation.get("requestBody", {"content": {}})["content"].keys() <= MEDIA, where


async def test_responses_have_a_content_type_that_generators_know(document: dict[str, Any]) -> None:
    for where, operation in operations(document):
        for response in operation["responses"].values():
            media = list(response.get("content", ()))
            assert not media or media[0] in MEDIA or media[0].startswith("text/"), where


async def test_what_is_not_json_is_a_text(document: dict[str, Any]) -> None:
    """OpenAPI 3.1 has no schema for one message of a stream: ogen and aiopenapi3 failed over such a one."""
    for where, operation in operations(document):
        for response in operation["responses"].values():
            for media, content in response.get("content", {}).items():
                if media != "application/json":
                    assert content["schema"]["type"] == "string", where
                    assert content["schema"].keys() <= {"type", "description", "format"}, where


async def test_every_error_has_one_schema_or_that_of_networks(document: dict[str, Any]) -> None:
    of_networks = ("BadGateway", "BadRequestOrNumber", "Refused")
    for name, response in document["components"]["responses"].items():
        schema = response["content"]["application/json"]["schema"]
        expected = "NetworkError" if name in of_networks else "ApiError"
        assert schema == {"$ref": f"#/components/schemas/{expected}"}


async def test_every_list_says_what_it_has(document: dict[str, Any]) -> None:
    """openapi-python-client leaves out a type with a list of anything."""

    def lists(schema: Any, where: str) -> Iterator[tuple[str, bool]]:
        if isinstance(schema, dict):
            if schema.get("type") == "array":
                yield where, "items" in schema or "prefixItems" in schema
            for name, inner in schema.items():
                yield from lists(inner, f"{where}/{name}")
        elif isinstance(schema, list):
            for number, inner in enumerate(schema):
                yield from lists(inner, f"{where}/{number}")

    assert [where for where, says in lists(document["components"], "") if not says] == []


async def test_a_call_of_a_network_may_be_refused_with_any_status(document: dict[str, Any]) -> None:
    for where, operation in operations(document):
        if "502" in operation["responses"]:
            assert operation["responses"]["default"] == {"$ref": "#/components/responses/Refused"}, where


async def test_patterns_are_those_of_every_language(document: dict[str, Any]) -> None:
    """Go has no lookahead, and at most 1,000 repetitions; Ruby has no bytes above ``\\x7f``."""
    for where, schema in schemas(document):
        pattern = schema.get("pattern", "")
        assert "(?=" not in pattern, where
        assert "(?!" not in pattern, where
        assert all(int(count) <= 1000 for count in re.findall(r"\d+(?=[,}])", pattern)), where
        assert not re.search(r"\\x[89a-fA-F]", pattern), where
        assert pattern.isprintable(), where


async def test_a_url_is_a_plain_string(document: dict[str, Any]) -> None:
    """hookgw takes ``pull:`` and ``https://crm.example/{id}``, which are no ``uri`` to Java and to ajv."""
    assert [where for where, schema in schemas(document) if schema.get("format") == "uri"] == []


async def test_a_default_is_a_plain_value(document: dict[str, Any]) -> None:
    """A default that is an object becomes Go that no compiler accepts."""
    for where, schema in schemas(document):
        assert not isinstance(schema.get("default"), dict | list), where


async def test_types_are_no_constructors_of_others(document: dict[str, Any]) -> None:
    """In Go, ``NewKey`` is what makes a ``Key``."""
    names = document["components"]["schemas"].keys()
    assert {f"New{name}" for name in names}.isdisjoint(names)


async def test_routes_of_plugins_get_names_of_their_own(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    def add(app: Routing, _: Gateway, _contains: object) -> None:
        @app.get("/report/<instance>")
        @app.get("/report/<instance>/<day>")
        @app.post("/report/<instance>")
        @hookgw.describes("Report", {200: dict[str, int | None]})
        async def report(instance: str, day: str = "") -> str:
            """Report."""
            return ""

    monkeypatch.setattr(gateway.hooks, "routes", add)
    document = OpenApiRoutes(create_app(gateway), gateway, request_schemas).document
    ids = [operation["operationId"] for _, operation in operations(document)]
    assert collapsed(ids) == []
    assert len([name for name in ids if name.startswith("report")]) == 3


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"enum": ["a"]}, {"enum": ["a"], "type": "string"}),
        ({"enum": ["a", 1]}, {"enum": ["a", 1]}),
        ({"enum": [200]}, {"enum": [200], "type": "integer", "format": "int64"}),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, {"type": ["string", "null"]}),
        (
            {"anyOf": [{"type": "null"}, {"type": "number", "minimum": 0}], "description": "x"},
            {"type": ["number", "null"], "minimum": 0, "description": "x", "format": "double"},
        ),
        ({"anyOf": [{"$ref": "#/x"}, {"type": "null"}]}, {"anyOf": [{"$ref": "#/x"}, {"type": "null"}]}),
        ({"type": "null"}, {"type": ["string", "null"]}),
        ({"type": "integer"}, {"type": "integer", "format": "int64"}),
        ({"type": "object"}, {"type": "object", "additionalProperties": True}),
        (
            {"type": "object", "properties": {"enum": {"enum": ["a"]}}, "required": ["enum"]},
            {
                "type": "object",
                "properties": {"enum": {"enum": ["a"], "type": "string"}},
                "required": ["enum"],
            },
        ),
    ],
)
def test_a_plain_schema(schema: dict[str, Any], expected: dict[str, Any]) -> None:
    assert plain(schema) == expected


def operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, item in document["paths"].items():
        for method, operation in item.items():
            yield f"{method.upper()} {path}", operation
