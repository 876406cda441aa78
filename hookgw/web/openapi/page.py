"""Converts the OpenAPI document for the template of ``/docs/http`` and below. No I/O."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

Node = Mapping[str, Any]
_LABEL = "/{label}"
_LINE = 80
"""Characters from which a JSON example takes several lines."""


class Piece(msgspec.Struct, frozen=True):
    """A part of a schema in words: text, a value (``is_code``), or the name of another schema (``link``)."""

    text: str
    is_code: bool = False
    link: str = ""


class Field(msgspec.Struct, frozen=True):
    """A row of a table: a parameter, a field of an object, a response."""

    name: str
    kind: list[Piece]
    meaning: str
    note: str = ""


class Example(msgspec.Struct, frozen=True):
    """A ``curl`` command to copy."""

    title: str
    curl: str


class Call(msgspec.Struct, frozen=True):
    """An operation. ``takes_label``: its path also exists with a trailing label."""

    anchor: str
    method: str
    path: str
    summary: str
    description: str
    takes_label: bool
    parameters: list[Field]
    bodies: list[Field]
    responses: list[Field]
    examples: list[Example]


class Group(msgspec.Struct, frozen=True):
    name: str
    calls: list[Call]

    @property
    def slug(self) -> str:
        """The name in the address of its page."""
        return self.name.lower().replace(" ", "-")


class Shape(msgspec.Struct, frozen=True):
    name: str
    meaning: str
    kind: list[Piece]
    fields: list[Field]


def groups_of(document: Node) -> list[Group]:
    """Return the operations by tag, in the order of the document.

    Paths with a label are not shown: they mean the same as the path without it.
    """
    calls: dict[str, list[Call]] = {tag["name"]: [] for tag in document["tags"]}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            if not path.endswith(_LABEL):
                calls[operation["tags"][0]].append(_call(document, path, method.upper(), operation))
    return [Group(name, found) for name, found in calls.items()]


def shapes_of(document: Node) -> list[Shape]:
    shapes = []
    for name, schema in sorted(document["components"]["schemas"].items()):
        required = schema.get("required", ())
        fields = [
            _field(field, inner, note="" if field in required else "optional")
            for field, inner in schema.get("properties", {}).items()
        ]
        shapes.append(Shape(name, schema.get("description", ""), list(kind_of(schema)), fields))
    return shapes


def _field(name: str, schema: Node, meaning: str | None = None, note: str = "") -> Field:
    return Field(
        name, list(kind_of(schema)), schema.get("description", "") if meaning is None else meaning, note
    )


def _call(document: Node, path: str, method: str, operation: Node) -> Call:
    parameters = operation.get("parameters", ())
    bodies = operation.get("requestBody", {}).get("content", {})
    responses = []
    for status, response in operation["responses"].items():
        if "$ref" in response:
            response = document["components"]["responses"][_name(response)]
        kinds: list[Piece] = []
        for media, content in response.get("content", {}).items():
            kinds += kind_of(content["schema"]) if media == "application/json" else [Piece(media)]
        headers = [name for name in response.get("headers", ()) if name != "x-hookgw-version"]
        responses.append(Field(status, kinds, response["description"], ", ".join(headers)))
    return Call(
        anchor=operation["operationId"],
        method=method,
        path=path,
        summary=operation["summary"],
        description=operation.get("description", ""),
        takes_label=path + _LABEL in document["paths"],
        parameters=[
            _field(
                one["name"],
                one["schema"],
                one.get("description", ""),
                "" if one["in"] == "path" else one["in"],
            )
            for one in parameters
        ],
        bodies=[_field(media, content["schema"]) for media, content in bodies.items()],
        responses=responses,
        examples=list(_examples(path, method, operation)),
    )


def _examples(path: str, method: str, operation: Node) -> Iterator[Example]:
    for one in operation.get("parameters", ()):
        examples = one["schema"].get("examples")
        if one["in"] == "path" and examples:
            path = path.replace("{" + one["name"] + "}", str(examples[0]))
    words = [f'curl {"" if method == "GET" else f"-X {method} "}"$HOOKGW{path}"']
    if operation.get("security") != []:
        words.append('-H "apikey: $KEY"')
    bodies = [
        (media, title, example["value"])
        for media, content in operation.get("requestBody", {}).get("content", {}).items()
        for title, example in content.get("examples", {}).items()
    ]
    if not bodies:
        yield Example("", " \\\n  ".join(words))
    for media, title, value in bodies:
        encoded = msgspec.json.encode(value)
        text = msgspec.json.format(encoded, indent=0).decode()
        if len(text) >= _LINE:
            text = msgspec.json.format(encoded, indent=2).decode()
        body = [f"-H 'content-type: {media}'", f"-d {shlex.quote(text)}"]
        yield Example(title, " \\\n  ".join([*words, *body]))


def kind_of(schema: Node) -> Iterator[Piece]:
    """Yield the words for the values that match a schema."""
    if "$ref" in schema:
        name = _name(schema)
        yield Piece(name, link=name)
    elif "anyOf" in schema and "properties" not in schema:
        yield from _join(kind_of(one) for one in schema["anyOf"])
    elif "allOf" in schema:
        yield from _join(kind_of(one) for one in schema["allOf"])
    elif "enum" in schema or "const" in schema:
        values = schema.get("enum", [schema.get("const")])
        yield from _join([Piece(msgspec.json.encode(value).decode(), is_code=True)] for value in values)
    else:
        types = schema.get("type", "anything" if "not" not in schema else "nothing")
        yield from _join(
            _kind_of_type(schema, name) for name in ([types] if isinstance(types, str) else types)
        )


def _kind_of_type(schema: Node, name: str) -> Iterator[Piece]:
    if name == "array":
        yield Piece("list of ")
        yield from kind_of(schema.get("items", {}))
    elif name == "object" and isinstance(schema.get("additionalProperties"), Mapping):
        yield Piece("object of ")
        yield from kind_of(schema["additionalProperties"])
    elif name == "string":
        yield Piece(schema.get("format", name))
        if "maxLength" in schema:
            yield Piece(f" of at most {schema['maxLength']:,} characters")
        if "pattern" in schema and "format" not in schema:
            yield Piece(" like ")
            yield Piece(schema["pattern"], is_code=True)
    else:
        yield Piece(name)
        if name == "integer" and "maximum" in schema:
            yield Piece(f" from {schema['minimum']} to {schema['maximum']}")


def _join(kinds: Iterable[Iterable[Piece]]) -> Iterator[Piece]:
    for index, kind in enumerate(kinds):
        if index:
            yield Piece(" or ")
        yield from kind


def _name(node: Node) -> str:
    name: str = node["$ref"].rpartition("/")[2]
    return name
