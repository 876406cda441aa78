"""Validation of payloads against the schemas of their kinds. No I/O.

The schemas belong to the catalog: plugins add theirs together with their kinds.

The check itself takes microseconds, whatever the payload. A message about a violation is expensive: it
repeats the offending value, which may be 1 MiB, and a payload can have 100,000 violations. So only the first
violation is described, and that of a large payload by means of a small extract.
"""

from __future__ import annotations

import gc
import json
from typing import Any

import jsonschema_rs
import msgspec

from hookgw.kernel.json_decoding import LARGE, decode_json, no_collection
from hookgw.kernel.nearest import nearest
from hookgw.kernel.sentences import Sentence
from hookgw.records.events import Catalog, Event

_MAX_MESSAGE = 200
# Of a payload with at most this many bytes, all is described; of a larger one, an extract.
_DESCRIBED = 4096
# What an extract has of each object, list and text, and how many levels.
_FIELDS = 32
_ITEMS = 8
_CHARACTERS = 256
_LEVELS = 8
# Of more values, a message names the nearest.
_MOST_VALUES = 20
# A violation of these keywords in an extract is one in the whole payload.
_SURE = frozenset({"type", "required", "enum", "const"})


class SchemaBook:
    """The schemas of a catalog, each compiled at its first use."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._schemas: dict[str, _Schema | None] = {}

    def problem(self, event: Event) -> Sentence | None:
        """Return the first violation in a payload, as a sentence with its path; ``None`` if it is valid."""
        if len(event.data_json) >= LARGE and gc.isenabled():
            with no_collection():
                return self.problem(event)  # goes on from here, because the collector is off
        try:
            # Not event.data, which would keep the decoded payload in memory as long as the event.
            data = decode_json(event.data_json)
        except (msgspec.DecodeError, RecursionError) as error:
            return Sentence("event.data_not_json", "data: it is not JSON: {reason}", reason=error)
        return self.violation(event.kind, data, len(event.data_json))

    def violation(self, kind: str, data: Any, size: int) -> Sentence | None:
        """Do what :meth:`problem` does, for a decoded payload of so many bytes."""
        try:
            schema = self._schemas[kind]
        except KeyError:
            found = self._catalog.get(kind)
            schema = self._schemas[kind] = _Schema(found.schema) if found else None
        if schema is None or schema.validator.is_valid(data):
            return None
        return schema.describe(data, is_large=size > _DESCRIBED)


class _Schema:
    def __init__(self, schema: dict[str, Any]) -> None:
        self.validator = compile_schema(schema)
        # An extract without these could lack what the payload has.
        self._names = _names_in(schema)

    def describe(self, data: Any, *, is_large: bool) -> Sentence:
        try:
            self.validator.validate(self._extract(data, _LEVELS) if is_large else data)
        except jsonschema_rs.ValidationError as error:
            parts, message = error.instance_path, reason_of(error)
            # An extract has nothing in its innermost objects.
            is_sure = error.schema_path[-1] in _SURE and len(parts) < _LEVELS
            if is_sure or not is_large:
                path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)
                room = _MAX_MESSAGE - len(f"data{path}: ")
                reason = message if len(message) <= room else message[: max(0, room)] + "…"
                return Sentence(
                    "event.schema_violated",
                    "{where}: {reason}",
                    where=f"data{path}",
                    reason=reason,
                    rule="".join(f"/{part}" for part in error.schema_path),
                )
        return Sentence("event.schema_violated_somewhere", "data: it violates the schema of its kind.")

    def _extract(self, value: Any, levels: int) -> Any:
        if isinstance(value, str):
            return value[:_CHARACTERS]
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            return 2**63 if value > 0 else -(2**63)
        if isinstance(value, list):
            return [self._extract(item, levels - 1) for item in value[:_ITEMS]] if levels else []
        if isinstance(value, dict):
            names = [name for name in self._names if name in value]
            for name in value:
                if len(names) >= _FIELDS:
                    break
                names.append(name)
            return {n[:_CHARACTERS]: self._extract(value[n], levels - 1) for n in names} if levels else {}
        return value


def _names_in(schema: Any) -> frozenset[str]:
    """Return every text in a schema, which includes the names of all fields that it knows."""
    names, nodes = set(), [schema]
    for node in nodes:  # the list grows meanwhile
        if isinstance(node, str):
            names.add(node)
        elif isinstance(node, dict):
            nodes += [*node, *node.values()]
        elif isinstance(node, list):
            nodes += node
    return frozenset(names)


def reason_of(error: jsonschema_rs.ValidationError) -> str:
    """Return why a value violates a schema, with all right values, or the nearest of many."""
    values = getattr(error.kind, "options", None)
    # The library names three of them. A message about an extract, or with a mask, begins in its own way.
    if not isinstance(values, list) or len(values) <= 3:
        return error.message
    if len(values) <= _MOST_VALUES:
        beginning, said, _ = error.message.rpartition(" is not one of ")
        *texts, last = map(json.dumps, values)
        return f"{beginning}{said}{', '.join(texts)} or {last}"
    given, texts = error.instance, [value for value in values if isinstance(value, str)]
    near = nearest(given, texts) if isinstance(given, str) else None
    return error.message if near is None else f"{error.message}, such as {json.dumps(near)}"


def check_schema(schema: dict[str, Any]) -> str | None:
    """Return why a kind's schema is not a JSON Schema; ``None`` if it is one."""
    try:
        compile_schema(schema)
    except jsonschema_rs.ValidationError as error:
        return error.message  # str(error) has several lines
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        return str(error)
    return None


def compile_schema(schema: dict[str, Any], *, mask: str | None = None) -> Any:
    """Return a validator for a schema, which fetches nothing.

    Args:
        mask: replaces values in messages, because they may be secrets.

    Raises:
        ValueError, jsonschema_rs.ReferencingError: it is not a JSON Schema, or refers to another document.
    """
    # By default, jsonschema-rs reads files and makes requests past the address guard, and blocks meanwhile.
    return jsonschema_rs.validator_for(schema, retriever=_refuse_to_fetch, mask=mask)


def _refuse_to_fetch(uri: str) -> Any:
    raise ValueError(f"hookgw fetches no schemas: copy {uri} into $defs")
