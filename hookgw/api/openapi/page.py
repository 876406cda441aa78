"""The document as a page shows it: what the template of ``/docs`` is given. No I/O."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

Node = Mapping[str, Any]
_LABEL = "/{label}"
_MARGIN = 80
"""Characters from which an example in JSON goes over several lines."""


class Piece(msgspec.Struct, frozen=True):
    """A part of what a schema is in words: text, a value (``is_code``), or the name of another schema."""

    text: str
    is_code: bool = False
    link: str = ""


class Field(msgspec.Struct, frozen=True):
    """A row of a table: a parameter, a field of an object, an answer."""

    name: str
    kind: list[Piece]
    meaning: str
    note: str = ""


class Example(msgspec.Struct, frozen=True):
    """A call to copy."""

    title: str
    curl: str


class Call(msgspec.Struct, frozen=True):
    """An operation; ``takes_label`` where its path also exists with a trailing label."""

    anchor: str
    method: str
    path: str
    summary: str
    description: str
    takes_label: bool
    parameters: list[Field]
    bodies: list[Field]
    answers: list[Field]
    examples: list[Example]


class Group(msgspec.Struct, frozen=True):
    """Operations under one tag."""

    name: str
    calls: list[Call]


class Shape(msgspec.Struct, frozen=True):
    """A named schema."""

    name: str
    meaning: str
    kind: list[Piece]
    fields: list[Field]


def groups_of(document: Node) -> list[Group]:
    """The operations by their tags, in the document's order."""
    calls: dict[str, list[Call]] = {tag["name"]: [] for tag in document["tags"]}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            if not path.endswith(_LABEL):
                calls[operation["tags"][0]].append(_call(document, path, method.upper(), operation))
    return [Group(name, found) for name, found in calls.items()]


def shapes_of(document: Node) -> list[Shape]:
    """The named schemas, by name."""
    return [
        Shape(name, schema.get("description", ""), list(kind_of(schema)), list(_properties(schema)))
        for name, schema in sorted(document["components"]["schemas"].items())
    ]


def _call(document: Node, path: str, method: str, operation: Node) -> Call:
    bodies = operation.get("requestBody", {}).get("content", {})
    is_open = operation.get("security") == []
    return Call(
        anchor=operation["operationId"],
        method=method,
        path=path,
        summary=operation["summary"],
        description=operation.get("description", ""),
        takes_label=path + _LABEL in document["paths"],
        parameters=[_parameter(one) for one in operation.get("parameters", ())],
        bodies=[
            Field(media, list(kind_of(told["schema"])), told["schema"].get("description", ""))
            for media, told in bodies.items()
        ],
        answers=[_answer(document, *one) for one in operation["responses"].items()],
        examples=list(_examples(path, method, operation, bodies, is_open)),
    )


def _parameter(told: Node) -> Field:
    note = "" if told["in"] == "path" else told["in"]
    return Field(told["name"], list(kind_of(told["schema"])), told.get("description", ""), note)


def _answer(document: Node, status: str, told: Node) -> Field:
    if "$ref" in told:
        told = document["components"]["responses"][_name(told)]
    kinds: list[Piece] = []
    for media, content in told.get("content", {}).items():
        kinds += kind_of(content["schema"]) if media == "application/json" else [Piece(media)]
    own = [name for name in told.get("headers", ()) if name != "x-hookgw-version"]
    return Field(status, kinds, told["description"], ", ".join(own))


def _examples(path: str, method: str, operation: Node, bodies: Node, is_open: bool) -> Iterator[Example]:
    address = _filled(path, operation)
    key = [] if is_open else ['-H "apikey: $KEY"']
    start = [f'curl {"" if method == "GET" else f"-X {method} "}"$HOOKGW{address}"', *key]
    known = {
        (media, title): example["value"]
        for media, told in bodies.items()
        for title, example in told.get("examples", {}).items()
    }
    if not known:
        yield Example("", " \\\n  ".join(start))
    for (media, title), value in known.items():
        sent = [f"-H 'content-type: {media}'", f"-d {shlex.quote(_json(value))}"]
        yield Example(title, " \\\n  ".join([*start, *sent]))


def _filled(path: str, operation: Node) -> str:
    for one in operation.get("parameters", ()):
        examples = one["schema"].get("examples")
        if one["in"] == "path" and examples:
            path = path.replace("{" + one["name"] + "}", str(examples[0]))
    return path


def _json(value: Any) -> str:
    text = msgspec.json.format(msgspec.json.encode(value), indent=0).decode()
    return text if len(text) < _MARGIN else msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def _properties(schema: Node) -> Iterator[Field]:
    required = schema.get("required", ())
    for name, told in schema.get("properties", {}).items():
        yield Field(
            name, list(kind_of(told)), told.get("description", ""), "" if name in required else "optional"
        )


def kind_of(schema: Node) -> Iterator[Piece]:
    """What fits a schema, in words."""
    if "$ref" in schema:
        name = _name(schema)
        yield Piece(name, link=name)
    elif "anyOf" in schema and "properties" not in schema:
        yield from _joined([kind_of(one) for one in schema["anyOf"]])
    elif "allOf" in schema:
        yield from _joined([kind_of(one) for one in schema["allOf"]])
    elif "enum" in schema or "const" in schema:
        values = schema.get("enum", [schema.get("const")])
        yield from _joined([[Piece(_literal(value), is_code=True)] for value in values])
    else:
        yield from _of_types(schema)


def _of_types(schema: Node) -> Iterator[Piece]:
    types = schema.get("type", "anything" if "not" not in schema else "nothing")
    given = [types] if isinstance(types, str) else types
    yield from _joined([_of_type(schema, name) for name in given])


def _of_type(schema: Node, name: str) -> Iterator[Piece]:
    if name == "array":
        yield Piece("list of ")
        yield from kind_of(schema.get("items", {}))
    elif name == "object" and set(schema.get("properties", ())) == {"webhook"}:
        yield Piece("object with ")
        yield Piece("webhook", is_code=True)
        yield Piece(", ")
        yield from kind_of(schema["properties"]["webhook"])
    else:
        yield Piece(schema.get("format", name) if name == "string" else name)
        yield from _limits(schema, name)


def _limits(schema: Node, name: str) -> Iterator[Piece]:
    if name == "integer" and "maximum" in schema:
        yield Piece(f" from {schema['minimum']} to {schema['maximum']}")
    if name == "string" and "maxLength" in schema:
        yield Piece(f" of at most {schema['maxLength']:,} characters")
    if name == "string" and "pattern" in schema and "format" not in schema:
        yield Piece(" like ")
        yield Piece(schema["pattern"], is_code=True)


def _joined(kinds: Iterable[Iterable[Piece]]) -> Iterator[Piece]:
    for index, kind in enumerate(kinds):
        if index:
            yield Piece(" or ")
        yield from kind


def _literal(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _name(node: Node) -> str:
    name: str = node["$ref"].rpartition("/")[2]
    return name
