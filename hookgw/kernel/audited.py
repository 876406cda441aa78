"""The fields in which two states of a record differ, as the audit shows them: without secrets. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

import msgspec


class FieldChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """A changed field.

    Attributes:
        field: its name in the HTTP API, with dots, for example ``headers.authorization``.
        before, after: its values as text. Both are ``None`` if the values are not kept: most may be secrets.
            One is ``None`` if the field was added or removed.
    """

    field: str
    before: str | None = None
    after: str | None = None


Audited = Mapping[str, tuple[str, Callable[[Any], str] | None]]
"""The fields of a record that clients write: the name in the HTTP API, and the function that makes a text of
the value; ``None`` if the audit shows no value, as for everything that can hold a secret."""

MOST_FIELDS = 50
"""The most fields that an entry names."""
LONGEST = 512
"""Characters of a value, or of a field's name. Tenants choose both."""


def text_of(value: Any) -> str:
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def changes_of(old: Any, new: Any, audited: Audited) -> list[FieldChange]:
    """Return the fields that differ, in the order of the record."""
    found = list(islice(_differences(old, new, audited), MOST_FIELDS + 1))
    return found if len(found) <= MOST_FIELDS else [*found[:MOST_FIELDS], FieldChange("…")]


def _differences(old: Any, new: Any, audited: Audited | None, prefix: str = "") -> Iterator[FieldChange]:
    for field in new.__struct_fields__:
        before, after = getattr(old, field), getattr(new, field)
        if before == after or (audited is not None and field not in audited):
            continue
        name, text = (camel(field), None) if audited is None else audited[field]
        name = prefix + name
        if text is not None:
            yield FieldChange(name, text(before)[:LONGEST] or None, text(after)[:LONGEST] or None)
        elif isinstance(after, dict):
            # The names of headers and options, and none of their values.
            for key in sorted(before.keys() | after.keys()):
                if key not in before or key not in after or before[key] != after[key]:
                    yield FieldChange(f"{name}.{key}"[:LONGEST])
        elif isinstance(after, msgspec.Struct) and isinstance(before, msgspec.Struct):
            yield from _differences(before, after, None, f"{name}.")
        else:
            yield FieldChange(name)


def camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(part.capitalize() for part in others)
