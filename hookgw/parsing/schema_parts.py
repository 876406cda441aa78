"""What the schemas of many bodies are made of. No I/O."""

from __future__ import annotations

from typing import Any

from hookgw.models.events import EVENT_ID
from hookgw.models.units import DURATION_PATTERN
from hookgw.parsing.registrations import MAX_URL

Schema = dict[str, Any]

NAME_SCHEMA: Schema = {"type": "string", "pattern": r"^(?!\.{1,2}$)[A-Za-z0-9._-]{1,128}$"}
"""Names of instances and labels."""
URL_SCHEMA: Schema = {
    "type": "string",
    "format": "uri",
    "pattern": "^[Hh][Tt][Tt][Pp][Ss]?://",
    "maxLength": MAX_URL,
    "description": "Absolute http or https, with a host, without a fragment.",
    "examples": ["https://crm.example/hook"],
}
TIME_SCHEMA: Schema = {
    "type": "string",
    "format": "date-time",
    "description": "RFC 3339 with any offset; none means UTC.",
}

EVENT_ID_SCHEMA: Schema = {"type": "string", "pattern": f"^{EVENT_ID.pattern}$"}

DURATION_SCHEMA: Schema = {
    "type": "string",
    "format": "duration-with-unit",
    "pattern": DURATION_PATTERN,
    "examples": ["15s"],
}
ZERO: Schema = {"enum": [0, "0"]}
"""No time at all, which needs no unit."""


def ref(name: str) -> Schema:
    """A component of the document."""
    return {"$ref": f"#/components/schemas/{name}"}


def or_null(schema: Schema, description: str = "") -> Schema:
    """A field that may be ``null``, which means the same as leaving it out."""
    return {"anyOf": [schema, {"type": "null"}]} | ({"description": description} if description else {})


def length(low: str, high: str, description: str) -> Schema:
    """A duration between two bounds."""
    forms = [*([ZERO] if low == "0s" else []), DURATION_SCHEMA, {"type": "null"}]
    return {"anyOf": forms, "description": f"{description} From {low} to {high}."}


def flag(description: str) -> Schema:
    """A switch that may be left out."""
    return {"type": ["boolean", "null"], "description": description}
