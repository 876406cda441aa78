"""Forms from a table of fields."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import UNSET

from hookgw.kernel.errors import Invalid
from hookgw.kernel.fields import Field, Flag, Input, Parts
from hookgw.kernel.language import translated
from hookgw.site.payloads import shown_json
from hookgw.site.site import Form


def inputs_of(table: Iterable[Field]) -> Iterator[tuple[Field, Field, Input]]:
    """Yield each field in the form, the part of it that the input is for (or the field), and the input."""
    for field in table:
        for part in field.kind.table if isinstance(field.kind, Parts) else (field,):
            if part.form is not None:
                yield field, part, part.form


def into_form(table: Iterable[Field], shown: Mapping[str, Any]) -> dict[str, Any]:
    """Return the form's values for a response: texts, and for checkboxes whether they are ticked."""
    values = {}
    for field, part, one in inputs_of(table):
        value = shown.get(field.json)  # responses do not have every field
        entry = part.kind.into_form(value if part is field else (value or {}).get(part.json))
        if isinstance(entry, bytes):
            # The form must show all of it; indenting deeply nested values takes too much space.
            indented = shown_json(entry)
            entry = indented.text if indented.is_whole else entry.decode()
        values[one.name] = entry
    return values


def form_values(table: Iterable[Field], form: Form) -> dict[str, Any]:
    """Return the entered values, to show them again."""
    return {
        one.name: form.has(one.name) if isinstance(part.kind, Flag) else form.text(one.name)
        for _, part, one in inputs_of(table)
    }


def from_form(table: Iterable[Field], form: Form) -> dict[str, Any]:
    """Return the entered values as the body of a request. Raise ``Invalid`` if they cannot be read."""
    body: dict[str, Any] = {}
    for field, part, one in inputs_of(table):
        value: Any = form.has(one.name)
        if not isinstance(part.kind, Flag):
            if not value:
                continue
            try:
                value = part.kind.from_form(form.text(one.name))
            except ValueError as error:
                raise Invalid.of(
                    "form.field_refused", "{label}{reason}.", label=translated(one.label), reason=error
                ) from None
        into = body if part is field else body.setdefault(field.spellings[0], {})
        if value is not UNSET:
            into[field.spellings[0] if part is field else part.json] = value
    return body
