"""JSON Schemas of response types, with descriptions from their docstrings. No I/O.

They have the spelling that generators of clients know best; see :func:`plain`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from inspect import cleandoc
from typing import Any

import msgspec
from msgspec import inspect

_REF = "#/components/schemas/{name}"
_NULL = {"type": "null"}
_TYPES = {"string": str, "integer": int}
_SIZES = {"integer": "int64", "number": "double"}
_ATTRIBUTES = "\n\nAttributes:\n"
_FIELD = re.compile(r"^ {4}(\w+(?:, \w+)*): (.*(?:\n {8}.*)*)", re.MULTILINE)


# It takes 40 ms, and a process may open many gateways, whose routes all respond with the same types.
@lru_cache(maxsize=4)
def schemas_of(types: tuple[Any, ...]) -> tuple[list[dict[str, Any]], dict[str, Any]]:  # noqa: C901 -- enums, then structs
    """Return the JSON Schemas of types, and by name the schemas of the structs that they refer to.

    Calls share the result: do not change it.
    """
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    for enum in {node.cls for node in _nodes_in(types) if isinstance(node, inspect.EnumType)}:
        text, _, members = cleandoc(enum.__doc__ or "").partition(_ATTRIBUTES)
        for names, meaning in _FIELD.findall(members):
            # A plugin's enum may have other attributes, too.
            if values := [f"`{enum[one].value}`" for one in names.split(", ") if one in enum.__members__]:
                text += f" {', '.join(values)}: {meaning}"
        components[enum.__name__]["description"] = text
    for struct in structs_in(types):
        component = components[struct.__name__]
        component["description"] = cleandoc(struct.__doc__ or "").partition(_ATTRIBUTES)[0]
        meanings: dict[str, str] = {}
        for cls in reversed(struct.__mro__):  # a field keeps its meaning in derived structs
            for names, meaning in _FIELD.findall(cleandoc(cls.__doc__ or "").partition(_ATTRIBUTES)[2]):
                meanings |= dict.fromkeys(names.split(", "), _markdown(meaning))
        properties = component["properties"]
        for field in msgspec.structs.fields(struct):
            # A copy: msgspec may share one schema between the fields of a type.
            shown = dict(properties[field.encode_name])
            # Clients read responses, and need no defaults. As one, an object does not compile in Go.
            shown.pop("default", None)
            if meaning := meanings.get(field.name):
                shown["description"] = meaning[0].upper() + meaning[1:]
            properties[field.encode_name] = shown
    for component in components.values():
        component.pop("title", None)
        if "description" in component:
            component["description"] = _markdown(component["description"])
    return [plain(schema) for schema in schemas], {name: plain(one) for name, one in components.items()}


def plain(schema: Mapping[str, Any]) -> dict[str, Any]:  # noqa: C901 -- one keyword after the other
    """Return a schema in the form that generators know, with the same meaning.

    An enum gets its type, without which generators take any value. ``anyOf`` a type and ``null`` becomes a
    list of types, for which they make no type of its own. Numbers get their size: otherwise some generators
    choose 32 bits. An object without properties says that it may have any.
    """
    found = dict(schema)
    for keyword in ("items", "additionalProperties"):
        if isinstance(found.get(keyword), dict):
            found[keyword] = plain(found[keyword])
    if "properties" in found:
        found["properties"] = {name: plain(inner) for name, inner in found["properties"].items()}
    if found.get("type") == "null":  # alone, it is a type that few languages have
        found["type"] = ["string", "null"]
    if "anyOf" in found:
        # The null is last: generators name the others after their place.
        choices = [choice if choice == _NULL else plain(choice) for choice in found["anyOf"]]
        found["anyOf"] = sorted(choices, key=_NULL.__eq__)
        given, *others = found["anyOf"]
        if others == [_NULL] and isinstance(given.get("type"), str) and "enum" not in given:
            del found["anyOf"]
            found = given | found | {"type": [given["type"], "null"]}
    if "enum" in found and "type" not in found:
        for kind, cls in _TYPES.items():
            if all(isinstance(value, cls) for value in found["enum"]):
                found["type"] = kind
                break
    kinds = found.get("type", ())
    if found.get("type") == "object" and "properties" not in found:
        found.setdefault("additionalProperties", True)
    for kind, size in _SIZES.items():
        if kind in ([kinds] if isinstance(kinds, str) else kinds):
            found.setdefault("format", size)
    return found


def structs_in(types: Sequence[Any]) -> set[type[msgspec.Struct]]:
    """Return every Struct in the types, at any depth."""
    return {node.cls for node in _nodes_in(types) if isinstance(node, inspect.StructType)}


def _nodes_in(types: Sequence[Any]) -> Iterator[inspect.Type | inspect.Field]:
    found: set[type[msgspec.Struct]] = set()
    queue: list[Any] = list(inspect.multi_type_info(types))
    while queue:
        node = queue.pop()
        yield node
        if isinstance(node, inspect.StructType):
            if node.cls in found:
                continue  # types may refer to themselves
            found.add(node.cls)
        for value in msgspec.structs.astuple(node):
            parts = value if isinstance(value, tuple) else (value,)
            queue += [part for part in parts if isinstance(part, inspect.Type | inspect.Field)]


def _markdown(text: str) -> str:
    return " ".join(text.split()).replace("``", "`")
