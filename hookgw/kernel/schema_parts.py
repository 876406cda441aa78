"""Parts that the schemas of several bodies share. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from msgspec import Meta

from hookgw.kernel.schemes import PULL_URL, SCHEME_PATTERN
from hookgw.kernel.target_url import MAX_URL
from hookgw.kernel.units import DURATION_PATTERN

Schema = dict[str, Any]

Time = Annotated[str, Meta(extra_json_schema={"format": "date-time"}, examples=["2026-11-20T12:00:00.000Z"])]
Length = Annotated[str, Meta(pattern=DURATION_PATTERN, examples=["15s"])]
"""A duration with its unit."""

_REST = "[A-Za-z0-9._-]"
# Names of instances and labels, which are not "." and "..". Not every language has a pattern for "but not".
NAME_SCHEMA: Schema = {
    "type": "string",
    "pattern": rf"^([A-Za-z0-9_-]{_REST}{{0,127}}|\.[A-Za-z0-9_-]{_REST}{{0,126}}|\.\.{_REST}{{1,126}})$",
}
URL_SCHEMA: Schema = {
    "type": "string",
    # Not "uri": Java and many validators refuse "pull:" and "https://crm.example/{id}" there.
    "format": "target-url",
    # JSON Schema patterns have no flag for upper and lower case.
    "pattern": "^[Hh][Tt][Tt][Pp][Ss]?://",
    "maxLength": MAX_URL,
    "description": "Absolute http or https, with a host, without a fragment.",
    "examples": ["https://crm.example/hook"],
}
DESTINATION_SCHEMA = URL_SCHEMA | {
    "pattern": f"^{SCHEME_PATTERN}://|^{PULL_URL}$",
    "description": "Absolute, with a host, without a fragment: http or https, or a scheme of a plugin. Or "
    f"`{PULL_URL}` for a receiver that fetches.",
}
TIME_SCHEMA: Schema = {
    "type": "string",
    "format": "date-time",
    "description": "RFC 3339 with any offset; without one, UTC.",
}

WITHOUT_NUL = "^[^\\x00]*$"
"""The pattern of a string that has no NUL."""

DURATION_SCHEMA: Schema = {
    "type": "string",
    # Not "duration": JSON Schema has that format for ISO 8601 (PT15S).
    "format": "duration-with-unit",
    "pattern": DURATION_PATTERN,
    "examples": ["15s"],
}


# A point in time, as such or as how long ago it is. One kind of string: of two, generators make a union.
MOMENT_SCHEMA: Schema = {
    "type": "string",
    "format": "time-or-duration",
    "pattern": rf"^\d{{4}}-\d{{2}}-\d{{2}}[Tt ]|{DURATION_PATTERN}",
    "examples": ["2h", "2026-11-20T12:00:00Z"],
}


def text_schema(most: int, **more: Any) -> Schema:
    """A string of 1 to so many characters."""
    return {"type": "string", "minLength": 1, "maxLength": most, **more}


def object_schema(
    description: str,
    properties: Mapping[str, Schema],
    *,
    required: Iterable[str] = (),
    is_closed: bool = False,
    **more: Any,
) -> Schema:
    """An object. If it ``is_closed``, it must have no other properties."""
    needed = list(required)
    return {
        "type": "object",
        "description": description,
        **({"required": needed} if needed else {}),
        **({"additionalProperties": False} if is_closed else {}),
        **more,
        "properties": properties,
    }


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def enum(values: Iterable[str], description: str) -> Schema:
    """One of some strings, each listed once; if there are none, only the empty string."""
    names = list(dict.fromkeys(str(value) for value in values))
    # JSON Schema does not allow an empty enum.
    allowed: Schema = {"enum": names} if names else {"maxLength": 0}
    # Generators take an enum without a type for anything.
    return {"type": "string", **allowed, "description": description}


def or_null(schema: Schema, description: str = "") -> Schema:
    """Allow ``null``, which means the same as a missing field, in a reference or a schema without enum."""
    if "$ref" in schema:
        nullable: Schema = {"anyOf": [schema, {"type": "null"}]}
    else:
        nullable = schema | {"type": [schema["type"], "null"]}
    return nullable | ({"description": description} if description else {})


def flag(description: str) -> Schema:
    return {"type": ["boolean", "null"], "description": description}
