"""Validation of payloads against the schemas of their kinds. No I/O.

The schemas belong to the catalog: plugins add theirs together with their kinds.
"""

from __future__ import annotations

import itertools
from typing import Any

import jsonschema_rs
import msgspec

from hookgw.models.events import Catalog, Event

# A payload of 1 MiB can break a schema in thousands of places; the first few say enough.
_SHOWN = 5
# A message repeats the offending value, which may be the whole payload.
_MAX_MESSAGE = 200


class SchemaBook:
    """The schemas of a catalog, each compiled at its first use."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._validators: dict[str, Any] = {}

    def problems(self, event: Event) -> list[str]:
        """Return what is wrong with a payload, as sentences with paths; empty if it is valid."""
        if event.kind not in self._validators:
            kind = self._catalog.get(event.kind)
            self._validators[event.kind] = jsonschema_rs.validator_for(kind.schema) if kind else None
        validator = self._validators[event.kind]
        try:
            # Not event.data, which would keep the decoded payload in memory as long as the event.
            data = msgspec.json.decode(event.data_json)
        except (msgspec.DecodeError, RecursionError) as error:
            return [f"data: it is not JSON: {error}"]
        # is_valid stops at the first problem and builds no messages: 1 µs for each valid event.
        if validator is None or validator.is_valid(data):
            return []
        sentences = []
        for problem in itertools.islice(validator.iter_errors(data), _SHOWN):
            parts, message = problem.instance_path, problem.message
            path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)
            shown = message if len(message) <= _MAX_MESSAGE else message[:_MAX_MESSAGE] + "…"
            sentences.append(f"data{path}: {shown}")
        return sentences


def check_schema(schema: dict[str, Any]) -> str | None:
    """Return why a kind's schema is not a JSON Schema; ``None`` if it is one."""
    try:
        jsonschema_rs.validator_for(schema)
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        return str(error)
    return None
