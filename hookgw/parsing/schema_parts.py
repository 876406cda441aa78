"""Parts that the schemas of several bodies share. No I/O."""

from __future__ import annotations

from typing import Any

from hookgw.models.events import EVENT_ID
from hookgw.models.units import DURATION_PATTERN
from hookgw.parsing.registrations import MAX_URL

Schema = dict[str, Any]

# Names of instances and labels.
NAME_SCHEMA: Schema = {"type": "string", "pattern": r"^(?!\.{1,2}$)[A-Za-z0-9._-]{1,128}$"}
URL_SCHEMA: Schema = {
    "type": "string",
    "format": "uri",
    # JSON Schema patterns have no flag for upper and lower case.
    "pattern": "^[Hh][Tt][Tt][Pp][Ss]?://",
    "maxLength": MAX_URL,
    "description": "Absolute http or https, with a host, without a fragment.",
    "examples": ["https://crm.example/hook"],
}
TIME_SCHEMA: Schema = {
    "type": "string",
    "format": "date-time",
    "description": "RFC 3339 with any offset; without one, UTC.",
}

EVENT_ID_SCHEMA: Schema = {"type": "string", "pattern": f"^{EVENT_ID.pattern}$"}

DURATION_SCHEMA: Schema = {
    "type": "string",
    # Not "duration": JSON Schema has that format for ISO 8601 (PT15S).
    "format": "duration-with-unit",
    "pattern": DURATION_PATTERN,
    "examples": ["15s"],
}
# A duration of zero needs no unit.
ZERO: Schema = {"enum": [0, "0"]}


def ref(name: str) -> Schema:
    """Refer to a component of the OpenAPI document."""
    return {"$ref": f"#/components/schemas/{name}"}


def or_null(schema: Schema, description: str = "") -> Schema:
    """Allow ``null``, which means the same as a missing field."""
    return {"anyOf": [schema, {"type": "null"}]} | ({"description": description} if description else {})


def length(low: str, high: str, description: str) -> Schema:
    """A duration between two inclusive bounds."""
    forms = [*([ZERO] if low == "0s" else []), DURATION_SCHEMA, {"type": "null"}]
    return {"anyOf": forms, "description": f"{description} From {low} to {high}."}


def flag(description: str) -> Schema:
    """An optional boolean."""
    return {"type": ["boolean", "null"], "description": description}
