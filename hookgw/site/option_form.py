"""Forms for the options of connectors, generated from their JSON Schemas. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from hookgw.kernel.errors import Invalid
from hookgw.kernel.json_text import decode_strict
from hookgw.kernel.sentences import Sentence
from hookgw.site.site import Form

PREFIX = "option."
"""The names of the fields begin with this."""
Kind = Literal["text", "password", "number", "checkbox", "select", "lines", "json"]


class OptionField(NamedTuple):
    """A field of the form.

    Attributes:
        name: of the option.
        kind: the input. ``lines`` is a list of texts, one on each line.
        value: the stored value, or the entered one.
        default: the meaning of an empty field; empty if it is not known.
        choices: of a ``select``.
    """

    name: str
    kind: Kind
    help: str
    value: str
    default: str
    choices: Sequence[str]
    is_required: bool

    @property
    def field(self) -> str:
        return PREFIX + self.name


def option_fields(
    schema: Mapping[str, Any] | None, stored: Mapping[str, Any], entered: Form | None = None
) -> list[OptionField]:
    """Return the fields for the options of a connector.

    Args:
        schema: ``None`` for a connector that takes any options, which a form cannot show.
        stored: the masked options of an instance; empty for a new one.
        entered: the entered values, to show them again beside an error.
    """
    required = (schema or {}).get("required", ())
    fields = []
    properties = (schema or {}).get("properties", {})
    # What must be entered comes first.
    for name in sorted(properties, key=lambda name: name not in required):
        described = properties[name]
        kind = _kind(described)
        value = stored.get(name)
        text = _text(kind, value)
        if entered is not None:
            text = entered.text(PREFIX + name)
            if kind == "checkbox":
                text = "true" if entered.has(PREFIX + name) else "false"
        elif kind == "checkbox" and value is None:
            text = "true" if described.get("default") is True else "false"
        default = described.get("default")
        fields.append(
            OptionField(
                name,
                kind,
                described.get("description", ""),
                text,
                _text(kind, default),
                [str(choice) for choice in described.get("enum", ())],
                name in required,
            )
        )
    return fields


def _kind(described: Mapping[str, Any]) -> Kind:
    types = described.get("type", "string")
    types = [types] if isinstance(types, str) else types
    if "enum" in described:
        return "select"
    if described.get("writeOnly"):
        return "password"
    if types == ["boolean"]:
        return "checkbox"
    if set(types) <= {"integer", "number", "null"}:
        return "number"
    if types == ["array"] and described.get("items", {}).get("type") == "string":
        return "lines"
    return "text" if "string" in types else "json"


def _text(kind: Kind, value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    if kind == "lines" and isinstance(value, list) and all(isinstance(one, str) for one in value):
        return "\n".join(value)
    return msgspec.json.encode(value).decode()


def read_options(form: Form, schema: Mapping[str, Any] | None, *, for_change: bool) -> dict[str, Any]:
    """Return the options in a form. They are checked by the schema when they are stored.

    Args:
        for_change: whether they change stored options. Then an empty field removes the option.

    Raises:
        Invalid: a number or JSON cannot be read.
    """
    options: dict[str, Any] = {}
    problems = []
    for name, described in (schema or {}).get("properties", {}).items():
        kind, text = _kind(described), form.get(PREFIX + name)
        if kind == "checkbox":
            ticked = form.has(PREFIX + name)
            # Only what differs from the default: a later version of the connector may have another default.
            if for_change or ticked != (described.get("default") is True):
                options[name] = ticked
        elif not text:
            if for_change:
                options[name] = None
        else:
            try:
                options[name] = _value(kind, described, text)
            except ValueError:
                wanted = "a number" if kind == "number" else "JSON"
                problems.append(
                    Sentence(
                        "form.option_form",
                        "{name} must be {wanted}, not {text!r}.",
                        name=name,
                        wanted=wanted,
                        text=text[:64],
                    )
                )
    if problems:
        raise Invalid(*problems)
    return options


def _value(kind: Kind, described: Mapping[str, Any], text: str) -> Any:
    if kind in ("number", "json"):
        return decode_strict(text.encode())
    if kind == "lines":
        return [line.strip() for line in text.splitlines() if line.strip()]
    if kind == "select":
        return next((one for one in described["enum"] if str(one) == text), text)
    return text
