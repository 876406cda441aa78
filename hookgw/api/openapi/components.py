"""Types as JSON Schema, with the meanings that their docstrings give to their fields. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from inspect import cleandoc
from typing import Any

import msgspec
from msgspec import inspect

_REF = "#/components/schemas/{name}"
_ATTRIBUTES = "\n\nAttributes:\n"
_FIELD = re.compile(r"^ {4}(\w+(?:, \w+)*): (.*(?:\n {8}.*)*)", re.MULTILINE)


def schemas_of(types: Sequence[Any]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """JSON Schemas of types, and those of the types in them by name, to which the first ones refer."""
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    for struct in structs_in(types):
        component = components[struct.__name__]
        component["description"] = _sections(struct)[0]
        meanings = _meanings(struct)
        for field in msgspec.structs.fields(struct):
            _explain(component["properties"], field.encode_name, meanings.get(field.name))
    for component in components.values():
        component.pop("title", None)
        if "description" in component:
            component["description"] = _plain(component["description"])
    return list(schemas), components


def structs_in(types: Sequence[Any]) -> set[type[msgspec.Struct]]:
    """Every Struct in some types, however deep."""
    found: set[type[msgspec.Struct]] = set()
    waiting: list[Any] = list(inspect.multi_type_info(types))
    while waiting:
        node = waiting.pop()
        if isinstance(node, inspect.StructType):
            if node.cls in found:
                continue
            found.add(node.cls)
        waiting += _parts(node)
    return found


def _parts(node: Any) -> Iterator[Any]:
    for value in msgspec.structs.astuple(node):
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, inspect.Type | inspect.Field):
                yield part


def _meanings(struct: type) -> dict[str, str]:
    """What docstrings say under ``Attributes``, also those of the classes that it is made from."""
    found: dict[str, str] = {}
    for cls in reversed(struct.__mro__):
        for names, meaning in _FIELD.findall(_sections(cls)[1]):
            found |= dict.fromkeys(names.split(", "), _plain(meaning))
    return found


def _sections(cls: type) -> tuple[str, str]:
    """A docstring without its ``Attributes``, and those."""
    text, _, attributes = cleandoc(cls.__doc__ or "").partition(_ATTRIBUTES)
    return text, attributes


def _explain(properties: dict[str, Any], name: str, meaning: str | None) -> None:
    if meaning is not None:
        properties[name] = {**properties[name], "description": meaning[0].upper() + meaning[1:]}


def _plain(text: str) -> str:
    """A docstring's text without its line breaks; its literals as Markdown has them."""
    return " ".join(text.split()).replace("``", "`")
