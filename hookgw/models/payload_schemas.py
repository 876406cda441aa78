"""Payloads held to the schemas of their kinds. No I/O.

The schemas belong to the catalog, so plugins bring theirs along with their kinds.
"""

from __future__ import annotations

import itertools
from typing import Any

import jsonschema_rs
import msgspec

from hookgw.models.events import Catalog, Event

_SHOWN = 5
"""How many problems of one payload are named."""


class SchemaBook:
    """The compiled schemas of a catalog, made as they are needed."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._validators: dict[str, Any] = {}

    def problems(self, event: Event) -> list[str]:
        """What is wrong with the payload, as sentences with the path in it; empty if nothing is."""
        validator = self._validator(event.kind)
        try:
            data = msgspec.json.decode(event.data_json)  # not event.data, which would keep it
        except (msgspec.DecodeError, RecursionError) as error:
            return [f"data: it is no JSON: {error}"]
        if validator is None or validator.is_valid(data):
            return []
        return [
            f"{_path(error.instance_path)}: {_shortened(error.message)}"
            for error in itertools.islice(validator.iter_errors(data), _SHOWN)
        ]

    def _validator(self, kind: str) -> Any:
        if kind not in self._validators:
            known = self._catalog.get(kind)
            self._validators[kind] = jsonschema_rs.validator_for(known.schema) if known else None
        return self._validators[kind]


def check_schema(schema: dict[str, Any]) -> str | None:
    """Why a kind's schema is no JSON Schema; ``None`` if it is one."""
    try:
        jsonschema_rs.validator_for(schema)
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        return str(error)
    return None


def _path(parts: list[str | int]) -> str:
    return "data" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)


def _shortened(message: str) -> str:
    return message if len(message) <= 200 else message[:200] + "…"
