"""The options of a connector's instances: checked with its JSON Schema, and masked. No I/O."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import msgspec

from hookgw.kernel.errors import Invalid, WrongFields
from hookgw.kernel.json_fields import MASKED, MISSING, REFUSED, cut_short, place
from hookgw.kernel.masking import MASK
from hookgw.kernel.nearest import suggestion
from hookgw.kernel.secret_options import texts_in
from hookgw.kernel.sentences import Sentence
from hookgw.kernel.target_url import Origin, parse_target
from hookgw.records.payload_schemas import compile_schema, reason_of

MAX_OPTIONS = 64 * 2**10
"""Bytes of an instance's options as JSON: those of all instances are in memory."""

# Says "the value" in a message instead of repeating it: it may be a secret.
_UNSHOWN = "the value"


class ConnectorOptions:
    """The rules for the options of one connector's instances.

    Args:
        schema: the JSON Schema of the options, which was checked. Options that it does not describe count as
            secrets; without a schema, all do.
        listed: returns the plugin's servers that the operator lists.
        configured: returns the plugin's options; an option of the same name is the default.
    """

    def __init__(
        self,
        connector: str,
        schema: dict[str, Any] | None,
        *,
        listed: Callable[[], Collection[Origin]] = frozenset,
        configured: Callable[[], Mapping[str, Any]] = dict,
    ) -> None:
        self.schema = schema
        self._connector = connector
        self._listed = listed
        self._configured = configured
        self._properties: dict[str, Any] = (schema or {}).get("properties", {})
        self._validator = None if schema is None else compile_schema(schema, mask=_UNSHOWN)
        # A secret may be deep inside, or behind a reference. Then all of the option is masked.
        definitions = [(schema or {}).get(name, {}) for name in ("$defs", "definitions")]
        self._public = frozenset(
            name
            for name, described in self._properties.items()
            if not _mentions_secret(described, definitions)
        )

    def check(self, options: Mapping[str, Any]) -> list[str]:
        """Return a warning for each option that the schema neither describes nor refuses.

        Raises:
            Invalid: the options are too large, or violate the schema: a sentence for each problem names the
                option, and does not repeat its value.
        """
        size = len(msgspec.json.encode(options))
        if size > MAX_OPTIONS:
            raise Invalid.of(
                "options.too_long",
                "The options of an instance may have {most:,} bytes, not {bytes:,}.",
                most=MAX_OPTIONS,
                bytes=size,
            )
        if self.schema is None or self._validator is None:
            return []
        # Sorted: the validator's order differs from version to version.
        problems = sorted(
            sentence
            for error in self._validator.iter_errors(dict(options))
            for sentence in self._sentences(error)
        )
        if problems:
            raise WrongFields(*cut_short(problems))
        if {"additionalProperties", "patternProperties", "unevaluatedProperties"} & self.schema.keys():
            return []
        unknown = [self._unknown(name) for name in options if name not in self._properties]
        return [*map(str, cut_short(unknown))]

    def described(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options that the schema describes; without a schema all of them."""
        if self.schema is None:
            return dict(options)
        return {name: value for name, value in options.items() if name in self._properties}

    def changed(self, stored: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
        """Return options after a change: given ones replace the stored ones, and ``None`` removes one.

        Objects are merged by the same rules (RFC 7396). A masked secret keeps its stored value.

        Raises:
            Invalid: a secret is masked, but no value is stored.
        """
        masked = {name for name, value in change.items() if value == MASK and self._is_secret(name)}
        if problems := [MASKED(where=place("", name)) for name in change if name in masked - stored.keys()]:
            raise Invalid(*cut_short(problems))
        return _merged(dict(stored), {name: value for name, value in change.items() if name not in masked})

    def servers(self, options: Mapping[str, Any]) -> frozenset[Origin]:
        """Return the listed servers in options that the schema marks with ``"x-server": true``."""
        return frozenset(
            server
            for name in self._properties
            if self._is_marked(name, "x-server")
            for server in self._servers_of(name, options)
        )

    def reserved(self, stored: Mapping[str, Any], options: Mapping[str, Any]) -> list[str]:
        """Return the changed options that only global keys may change.

        These are the options that the schema marks with ``"x-operator": true``, and any that now name a
        server that the operator lists: the operator decides which instance uses it.
        """
        return [
            name
            for name, described in self._properties.items()
            if (
                self._is_marked(name, "x-operator")
                and stored.get(name, described.get("default")) != options.get(name, described.get("default"))
            )
            or (
                self._is_marked(name, "x-server")
                and not self._servers_of(name, options) <= self._servers_of(name, stored)
            )
        ]

    def _is_marked(self, name: str, mark: str) -> bool:
        described = self._properties[name]
        return isinstance(described, dict) and described.get(mark) is True

    def _servers_of(self, name: str, options: Mapping[str, Any]) -> frozenset[Origin]:
        listed = self._listed()
        if not listed:
            return frozenset()
        # Both defaults are the operator's. The schema's was read at start, and the other one may be newer.
        given = (
            [options[name]]
            if options.get(name)
            else [self._configured().get(name), self._properties[name].get("default")]
        )
        found = map(_origin, given)
        return frozenset(server for server in found if server is not None and server in listed)

    def masked(self, options: Mapping[str, Any]) -> dict[str, Any]:
        return {
            # An empty one is shown, as everywhere: "no secret is set" is what people look for.
            name: MASK if self._is_secret(name) and value not in (None, "") else value
            for name, value in options.items()
        }

    def with_defaults(self, options: Mapping[str, Any]) -> dict[str, Any]:
        defaults = {
            name: described["default"]
            for name, described in self._properties.items()
            if isinstance(described, dict) and "default" in described
        }
        return copy.deepcopy({**defaults, **options})

    def secrets(self, options: Mapping[str, Any]) -> set[str]:
        """Return the secret texts in options, also inside objects and lists."""
        return {text for name in options if self._is_secret(name) for text in texts_in(options[name])}

    def _is_secret(self, name: str) -> bool:
        return name not in self._public

    def _unknown(self, name: str) -> Sentence:
        return Sentence(
            "options.unknown",
            "{where} is not an option of the connector {connector}.{hint}",
            where=place("", name),
            connector=self._connector,
            hint=suggestion(name, self._properties),
        )

    def _sentences(self, error: Any) -> Iterator[Sentence]:
        where = ""
        for part in error.instance_path:
            where = f"{where}[{part}]" if isinstance(part, int) else place(where, part)
        keyword = error.schema_path[-1] if error.schema_path else ""
        if keyword == "required":
            yield MISSING(where=place(where, error.kind.property))
        elif keyword in ("additionalProperties", "unevaluatedProperties") and hasattr(
            error.kind, "unexpected"
        ):
            for name in error.kind.unexpected:
                if where:
                    yield Sentence(
                        "options.unknown_field", "{where} is an unknown field.", where=place(where, name)
                    )
                else:
                    yield self._unknown(name)
        elif keyword in ("anyOf", "oneOf") and (choices := self._required_choices(where, keyword)):
            if type(error.kind).__name__.endswith("OneOfMultipleValid"):
                yield Sentence(
                    "options.only_one_of", "Give only one of: {choices}.", choices="; or ".join(choices)
                )
            else:
                yield Sentence("options.one_of", "Give one of: {choices}.", choices="; or ".join(choices))
        else:
            reason, described = reason_of(error).removesuffix("."), self._properties.get(where)
            # A pattern alone does not say what would be right.
            if keyword == "pattern" and isinstance(described, dict) and "description" in described:
                yield Sentence(
                    "options.not_of_pattern",
                    "{where}: {reason}. What belongs there: {meaning}",
                    where=where,
                    reason=reason,
                    meaning=described["description"],
                )
            else:
                yield REFUSED(where=where or "The options", reason=reason)

    def _required_choices(self, where: str, keyword: str) -> list[str]:
        """Return the names of the branches of the schema's own ``anyOf``, if each only requires options."""
        branches = (self.schema or {}).get(keyword)
        if where or not isinstance(branches, list):
            return []
        if not all(isinstance(one, dict) and set(one) == {"required"} for one in branches):
            return []
        return [" and ".join(one["required"]) for one in branches]


def _origin(value: Any) -> Origin | None:
    """Return scheme, host and port of a URL, by the parser that requests use; ``None`` if it is invalid."""
    try:
        return parse_target(value).origin if isinstance(value, str) else None
    except ValueError:
        return None


def _merged(old: Any, new: dict[str, Any]) -> dict[str, Any]:
    """Return an object after a JSON merge patch (RFC 7396)."""
    result = dict(old) if isinstance(old, dict) else {}
    for name, value in new.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = _merged(result.get(name), value) if isinstance(value, dict) else value
    return result


def _nodes(schema: Any) -> Iterator[dict[str, Any]]:
    found = [schema]
    for node in found:  # the list grows meanwhile
        if isinstance(node, dict):
            yield node
            found += node.values()
        elif isinstance(node, list):
            found += node


def _mentions_secret(schema: Any, definitions: list[Any]) -> bool:
    nodes = list(_nodes(schema))
    if any("$ref" in node or "$dynamicRef" in node for node in nodes):
        nodes += _nodes(definitions)
    return any(node.get("writeOnly") is True for node in nodes)
