"""Tables of fields: each field of a record is declared once, and all else is made from its row. No I/O.

A :class:`Field` says how clients spell a field, what it means and how it is shown; its :class:`Kind`, which
values it takes. From a table come the reader of requests, the JSON Schema, the type of responses, forms, the
options of commands, and the table in ``docs/http.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any, ClassVar, NamedTuple

import msgspec
from msgspec import UNSET, Struct, UnsetType

from hookgw.kernel.audited import camel
from hookgw.kernel.json_fields import Fields, as_bool, as_object, duration, one_of, whole_number
from hookgw.kernel.json_text import decode_strict
from hookgw.kernel.masking import repr_without
from hookgw.kernel.schema_parts import DURATION_SCHEMA, Length, Schema, object_schema, or_null, ref
from hookgw.kernel.times import rfc3339
from hookgw.kernel.units import Duration

REQUIRED: Any = object()
"""For a field without which a ``set`` is refused."""


def _unchanged(value: Any) -> Any:
    return value


@dataclass(eq=False, repr=False)
class Kind:
    """The values that a field takes. In a form it is JSON; the subclasses are kinds that are not.

    Attributes:
        check: takes a value and its path, and raises ``Invalid``; if ``needs``, the :class:`Reading` as well.
        schema: of requests, without a description.
        shown: the type in responses.
        write: makes JSON of a value of the record, and leaves what is JSON already as it is.
        needs: whether the check needs other fields, or names that depend on the configuration.
        empty: what an empty text in a form means; ``UNSET`` keeps the stored value.
        note: what is added to a field's meaning.
        legend: a sentence above the inputs of its parts in a form, which are then a group.
    """

    check: Callable[..., Any]
    schema: Schema
    shown: Any
    write: Callable[[Any], Any] = _unchanged
    needs: bool = False
    empty: Any = None
    note: str = ""
    legend: str = ""
    widget: ClassVar[str] = "textarea"

    def into_form(self, value: Any) -> Any:
        """Return what a form shows for a value of a response; bytes are JSON, which the form indents."""
        return msgspec.json.encode(value) if value else ""

    def from_form(self, text: str) -> Any:
        """Return the JSON for what was entered. Raise ``ValueError`` if it cannot be read."""
        try:
            return decode_strict(text.encode()) if text.strip() else self.empty
        except ValueError as error:
            raise ValueError(f": this {error}") from None


class Flag(Kind):
    """True or false."""

    widget = "checkbox"

    def __init__(self) -> None:
        super().__init__(as_bool, {"type": "boolean"}, bool)

    def into_form(self, value: Any) -> Any:
        return value


class Line(Kind):
    """A value that people write as a text."""

    widget = "input"

    def into_form(self, value: Any) -> Any:
        return "" if value is None else str(value)

    def from_form(self, text: str) -> Any:
        return text.strip() or self.empty


class Block(Line):
    """A value that people paste as a text of several lines."""

    widget = "textarea"


class Whole(Line):
    """A whole number between two inclusive bounds."""

    def __init__(self, low: int, high: int) -> None:
        schema: Schema = {"type": "integer", "minimum": low, "maximum": high}
        super().__init__(whole_number(low, high), schema, int, empty=UNSET)
        self.low, self.high = low, high

    def from_form(self, text: str) -> Any:
        text = text.strip()
        # Any other text is left for the check to refuse.
        return int(text) if text.isascii() and text.isdecimal() and len(text) <= 6 else text or self.empty


class Period(Line):
    """A duration with a unit, between two inclusive bounds in seconds."""

    def __init__(self, low: float, high: float) -> None:
        note = f" From {Duration(low)} to {Duration(high)}."
        super().__init__(duration(low, high), DURATION_SCHEMA, Length | None, write_length, note=note)


def write_length(seconds: Any) -> Any:
    """Return a duration with its unit; anything but a number as it is."""
    return str(Duration(seconds)) if isinstance(seconds, int | float) else seconds


def write_time(seconds: float | None) -> str | None:
    """Return a time in RFC 3339; ``None`` for no time, which records also write as 0."""
    return rfc3339(seconds) if seconds else None


class Choice(Line):
    """One of some words, a component of the OpenAPI document; a form shows a meaning beside each."""

    widget = "select"

    def __init__(self, words: type[StrEnum], *meanings: str) -> None:
        check = one_of(list(words))
        super().__init__(
            lambda value, where: words(check(value, where)), ref(words.__name__), words, empty=UNSET
        )
        self.words = tuple(zip(words, meanings, strict=True))


class Parts(Kind):
    """An object with a table of its own, which the record holds as one value.

    Args:
        name, doc: of its type in responses; the schema of requests is ``<name>Request``.
        table: its fields. One that is missing is ``None`` in ``record``, the type of the value.
        is_closed: whether unknown fields are refused, and not ignored with a warning.
        whole: checks the value when its parts are right.
    """

    def __init__(
        self,
        name: str,
        doc: str,
        table: tuple[Field, ...],
        record: type[Struct],
        *,
        is_closed: bool = False,
        whole: Callable[[Any, str], None] = lambda _, __: None,
        legend: str = "",
    ) -> None:
        shown = response_type(name, table, doc)
        super().__init__(self._read, ref(f"{name}Request"), shown, self._write, needs=True, legend=legend)
        self.table, self.record = table, record
        self._is_closed, self._whole = is_closed, whole
        self._readers = [(part.json, part.reader()) for part in table]
        self._none = record(**dict.fromkeys(part.attribute for part in table))
        self._shown_none = self._show(self._none)

    def _read(self, value: Any, where: str, reading: Reading) -> Any:
        inner = Fields((where, as_object(value, where)))
        found = read_fields(self.table, inner)
        if self._is_closed:
            inner.refuse_unknown(where.rpartition(".")[2])
        reading.given.warn(inner.finish())
        made = self.record(**{name: None if one is UNSET else one for name, one in found.items()})
        self._whole(made, where)
        return made

    def _write(self, value: Any) -> Any:
        if not isinstance(value, self.record):
            return value
        return {part.json: part.kind.write(getattr(value, part.attribute)) for part in self.table}

    def present(self, value: Any) -> Any:
        """Return what responses show for a value of the record."""
        # Most records have none of the parts.
        return {**self._shown_none} if value == self._none else self._show(value)

    def _show(self, value: Any) -> dict[str, Any]:
        return {name: one for name, read in self._readers if (one := read(value, None)) is not UNSET}


class Input(Struct):
    """A field in a form: its label, an example in place of a value, a sentence below, and another name."""

    label: str
    placeholder: str = ""
    note: str = ""
    name: str = ""


class Option(Struct):
    """An option of a command: its help, what stands for the value, and the default that the help names."""

    help: str
    metavar: str | None = None
    default: str = ""


class Shown(Struct):
    """A field of responses.

    Attributes:
        type: of the value.
        shows: a sentence for the schema; empty if responses do not have the field.
        show: makes the value of the record and what that is shown with; by default the record's attribute.
        instead: what to do instead of writing it, if clients cannot, and may expect to.
        is_optional: whether a response may be without it.
        is_secret: whether ``repr`` hides it.
    """

    name: str
    type: Any = None
    shows: str = ""
    show: Callable[[Any, Any], Any] | None = None
    instead: str = ""
    json: str = ""
    is_optional: bool = False
    is_secret: bool = False

    def __post_init__(self) -> None:
        self.json = self.json or camel(self.name)

    def reader(self) -> Callable[[Any, Any], Any]:
        """Return what makes the value in a response, of the record and of what that is shown with."""
        name = self.name
        return self.show or (lambda record, _: getattr(record, name, UNSET))


class Field(Shown, kw_only=True):
    """A field that clients write.

    Attributes:
        name: of the change; the record has it under ``attribute``.
        meaning: a sentence for the schema of requests, and for ``docs/http.md``.
        patch_meaning: the one for a PATCH, if it is another.
        spellings: all of them; commands and forms send the first one.
        null: what ``null`` means; by default the same as a missing field.
        when_set: what a ``set`` makes of a missing field; ``UNSET`` keeps the stored value.
        default: what ``docs/http.md`` says of a missing field; by default, how a new record is shown.
        unmask: takes what a client sent, the stored value and a context; puts the stored value for a mask.
        audit: the text of a value in the audit; ``None`` if that shows no value.
        heading, form, option: in the output of commands, in forms and in commands.
    """

    kind: Kind
    meaning: str
    patch_meaning: str = ""
    attribute: str = ""
    spellings: tuple[str, ...] = ()
    null: Any = UNSET
    when_set: Any = UNSET
    default: str = ""
    unmask: Callable[[Any, Any, Any], Any] | None = None
    audit: Callable[[Any], str] | None = None
    heading: str = ""
    form: Input | None = None
    option: Option | None = None

    def __post_init__(self) -> None:
        self.json = self.json or camel(self.name)
        self.type = self.kind.shown
        self.attribute = self.attribute or self.name
        self.spellings = self.spellings or tuple(dict.fromkeys((self.json, self.name)))
        self.heading = self.heading or self.name.replace("_", " ")
        if self.form is not None:
            self.form.name = self.form.name or self.name

    def schema(self, *, is_patch: bool = False) -> Schema:
        """Return the JSON Schema of the field in a request."""
        meaning = (is_patch and self.patch_meaning) or self.meaning + self.kind.note
        if self.when_set is REQUIRED and not is_patch:
            return self.kind.schema | {"description": meaning}
        return or_null(self.kind.schema, meaning)

    def reader(self) -> Callable[[Any, Any], Any]:
        # Made once, and without the calls that this field does not need: lists show many records.
        attribute = self.attribute
        present = self.kind.present if isinstance(self.kind, Parts) else self.kind.write
        show = self.show or (
            (lambda record, _: getattr(record, attribute))
            if present is _unchanged
            else (lambda record, _: present(getattr(record, attribute)))
        )
        if not self.is_optional:
            return show
        return lambda record, context: UNSET if (one := show(record, context)) is None else one


class Reading(NamedTuple):
    """The request that is being read, which keeps mistakes and warnings, and what checks need besides."""

    given: Fields
    context: Any


def read_fields(
    table: Iterable[Field], given: Fields, context: Any = None, *, is_set: bool = True
) -> dict[str, Any]:
    """Read every field; one that keeps its stored value is ``UNSET``. Mistakes stay in ``given``."""
    reading = Reading(given, context)
    values = {}
    for field in table:
        kind, missing = field.kind, field.when_set if is_set else UNSET
        check = partial(kind.check, reading=reading) if kind.needs else kind.check
        if field.null is not UNSET and given.is_null(field.spellings[0]):
            values[field.name] = field.null
        elif missing is REQUIRED:
            values[field.name] = given.need(check, UNSET, *field.spellings)
        else:
            values[field.name] = given.read(check, missing, *field.spellings)
    return values


def request_schema(
    table: Iterable[Field], description: str, *, is_patch: bool = False, is_closed: bool = False
) -> Schema:
    return object_schema(
        description,
        {field.json: field.schema(is_patch=is_patch) for field in table},
        required=(field.json for field in table if field.when_set is REQUIRED and not is_patch),
        is_closed=is_closed,
    )


def response_type(name: str, rows: Iterable[Shown], doc: str) -> Any:
    """Return the type of a response. Its docstring is where the OpenAPI document has the sentences from."""
    rows = [row for row in rows if row.shows]
    text = "".join(f"    {row.name}: {row.shows}\n" for row in rows)
    secrets = [row.name for row in rows if row.is_secret]
    return msgspec.defstruct(
        name,
        [(r.name, r.type | UnsetType, UNSET) if r.is_optional else (r.name, r.type) for r in rows],
        namespace={"__doc__": f"{doc}\n\nAttributes:\n{text}", "__repr__": repr_without(*secrets)},
        rename={row.name: row.json for row in rows},
        module=__name__,
        frozen=True,
        kw_only=True,
    )


def presenter(cls: Any, rows: Iterable[Shown]) -> Callable[..., Any]:
    """Return what makes a response of a record and of what that is shown with."""
    readers = [(row.name, row.reader()) for row in rows if row.shows]
    return lambda record, context=None: cls(**{name: read(record, context) for name, read in readers})
