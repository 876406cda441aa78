"""Tables of fields: each field of a record is declared once, and all else is made from its row. No I/O.

A :class:`Field` says how clients spell a field, what it means and how it is shown; its :class:`Kind`, which
values it takes. From a table come the reader of requests, the JSON Schema, the type of responses, forms, the
options of commands, and the table in ``docs/http.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from functools import partial
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, Struct

from hookgw.kernel.audited import camel
from hookgw.kernel.json_fields import Fields, as_bool, as_object, duration, one_of, text_up_to, whole_number
from hookgw.kernel.schema_parts import DURATION_SCHEMA, Length, Schema, or_null, ref
from hookgw.models.masking import repr_without
from hookgw.models.units import Duration

S = TypeVar("S", bound=Struct)

REQUIRED: Any = object()
"""For a field without which a ``set`` is refused."""


class Kind:
    """The values that a field takes. In a form it is JSON; the subclasses are kinds that are not.

    Args:
        check: takes a value and its path, and raises ``Invalid``; if ``needs``, the :class:`Reading` as well.
        schema: of requests, without a description.
        shown: the type in responses.
        write: makes JSON of a value of the record, and leaves what is JSON already as it is.
        needs: whether the check needs other fields, or names that depend on the configuration.
        empty: what an empty text in a form means; ``UNSET`` keeps the stored value.
    """

    widget = "textarea"
    legend = ""
    note = ""
    """What is added to a field's meaning."""

    def __init__(
        self,
        check: Callable[..., Any],
        schema: Schema,
        shown: Any,
        write: Callable[[Any], Any] = lambda value: value,
        *,
        needs: bool = False,
        empty: Any = None,
    ) -> None:
        self.check, self.schema, self.shown, self.write = check, schema, shown, write
        self.needs, self.empty = needs, empty

    def present(self, value: Any) -> Any:
        """Return what responses show for a value of the record."""
        return self.write(value)

    def into_form(self, value: Any) -> Any:
        """Return what a form shows for a value of a response."""
        return msgspec.json.format(msgspec.json.encode(value)).decode() if value else ""

    def from_form(self, text: str) -> Any:
        """Return the JSON for what was entered. Raise ``ValueError`` if it cannot be read."""
        try:
            return msgspec.json.decode(text) if text.strip() else self.empty
        except msgspec.DecodeError as error:
            raise ValueError(f": this is not JSON ({error})") from None


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


class Text(Line):
    """A text with a limit. It may be empty, which responses show as ``null``."""

    def __init__(self, longest: int) -> None:
        check = text_up_to(longest)
        super().__init__(
            lambda value, where: "" if value == "" else check(value, where),
            {"type": "string", "maxLength": longest},
            str | None,
            lambda value: value or None,
            empty="",
        )
        self.note = f" At most {longest:,} characters."


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
        super().__init__(duration(low, high), DURATION_SCHEMA, Length | None, write_length)
        self.note = f" From {Duration(low)} to {Duration(high)}."


def write_length(seconds: Any) -> Any:
    """Return a duration with its unit; anything but a number as it is."""
    return str(Duration(seconds)) if isinstance(seconds, int | float) else seconds


class Choice(Line):
    """One of some words, which are a component of the OpenAPI document.

    Args:
        meanings: what a form shows beside each word.
        needs: a further check of the word, which takes its path and the :class:`Reading`.
    """

    widget = "select"

    def __init__(
        self, words: type[StrEnum], *meanings: str, needs: Callable[..., None] | None = None
    ) -> None:
        check = one_of(list(words))

        def check_word(value: Any, where: str, reading: Reading | None = None) -> StrEnum:
            word = words(check(value, where))
            if needs is not None:
                needs(word, where, reading)
            return word

        super().__init__(check_word, ref(words.__name__), words, needs=needs is not None, empty=UNSET)
        self.words = tuple(zip(words, meanings, strict=True))


class Parts(Kind):
    """An object with a table of its own, which the record holds as one value.

    Args:
        name: of its type in responses; the schema of requests is ``<name>Request``.
        doc: of its type in responses.
        table: its fields. One that is missing is ``None`` in ``record``.
        record: the type of the value.
        is_closed: whether unknown fields are refused, and not ignored with a warning.
        whole: checks the value when its parts are right.
        legend: a sentence above its inputs in a form, which are then a group.
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
        super().__init__(self._read, ref(f"{name}Request"), shown, self._write, needs=True)
        self.table, self.record, self.legend = table, record, legend
        self._is_closed, self._whole = is_closed, whole

    def _read(self, value: Any, where: str, reading: Reading) -> Any:
        inner = Fields((where, as_object(value, where)))
        found = Reading(self.table, inner).values()
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
        shown = {part.json: part.shown(value, None) for part in self.table}
        return {name: one for name, one in shown.items() if one is not UNSET}


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


class Field(Struct, kw_only=True):
    """A field that clients write.

    Attributes:
        name: of the change; the record has it under ``attribute``.
        meaning: a sentence for the schema of requests, and for ``docs/http.md``.
        shows: a sentence for the schema of responses; empty if responses do not have the field.
        json: the published spelling.
        spellings: all of them; commands and forms send the first one.
        null: what ``null`` means; by default the same as a missing field.
        when_set: what a ``set`` makes of a missing field; ``UNSET`` keeps the stored value.
        patch_meaning: the sentence for a PATCH, if it is another one.
        show: makes the value in responses of the record and what it is shown with; by default as written.
        unmask: takes what a client sent, the stored value and a context; puts the stored value for a mask.
        audit: the text of a value in the audit; ``None`` if that shows no value.
        is_secret: whether ``repr`` hides it.
        is_optional: whether responses leave it out if it is ``None``.
        heading: in the output of commands.
        form, option: in forms and commands, if it is there.
        default: what ``docs/http.md`` says of a missing field; by default, how a new record is shown.
    """

    name: str
    kind: Kind
    meaning: str
    shows: str = ""
    attribute: str = ""
    json: str = ""
    spellings: tuple[str, ...] = ()
    null: Any = UNSET
    when_set: Any = UNSET
    patch_meaning: str = ""
    show: Callable[[Any, Any], Any] | None = None
    unmask: Callable[[Any, Any, Any], Any] | None = None
    audit: Callable[[Any], str] | None = None
    is_secret: bool = False
    is_optional: bool = False
    heading: str = ""
    form: Input | None = None
    option: Option | None = None
    default: str = ""

    def __post_init__(self) -> None:
        self.attribute = self.attribute or self.name
        self.json = self.json or camel(self.name)
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

    def shown(self, record: Any, context: Any) -> Any:
        """Return the value in responses."""
        show = self.show
        value = show(record, context) if show else self.kind.present(getattr(record, self.attribute))
        return UNSET if self.is_optional and value is None else value


class Shown(Struct):
    """A field that responses have and that clients cannot write.

    Attributes:
        type: of the value.
        shows: a sentence for the schema.
        shown: makes the value of the record and what it is shown with.
        instead: what to do instead of writing it; empty if nobody would expect to.
        is_optional: whether a response may be without it.
    """

    name: str
    type: Any
    shows: str
    shown: Callable[[Any, Any], Any] = lambda _, __: UNSET
    instead: str = ""
    is_optional: bool = False

    @property
    def json(self) -> str:
        return camel(self.name)


class Reading:
    """A request that is being read.

    Args:
        table: the fields.
        given: what the client sent. Mistakes stay there until it is finished.
        context: for checks that need names of the configuration.
        stored: for a change of some fields, values that stand for missing ones in checks of other fields.
    """

    def __init__(
        self,
        table: Iterable[Field],
        given: Fields,
        context: Any = None,
        stored: Mapping[str, Any] | None = None,
    ) -> None:
        self.given, self.context, self._stored = given, context, stored
        self._table = {field.name: field for field in table}
        self._found: dict[str, Any] = {}

    def values(self) -> dict[str, Any]:
        """Read every field; one that keeps its stored value is ``UNSET``."""
        return {name: self._read(name) for name in self._table}

    def value(self, name: str) -> Any:
        """Return what a field will be, for the check of another one."""
        value = self._read(name)
        return value if value is not UNSET or self._stored is None else self._stored.get(name, UNSET)

    def _read(self, name: str) -> Any:
        if name in self._found:
            return self._found[name]
        field, given = self._table[name], self.given
        missing = field.when_set if self._stored is None else UNSET
        check = partial(field.kind.check, reading=self) if field.kind.needs else field.kind.check
        if field.null is not UNSET and given.is_null(field.spellings[0]):
            value = field.null
        elif missing is REQUIRED:
            value = given.need(check, UNSET, *field.spellings)
        else:
            value = given.read(check, missing, *field.spellings)
        self._found[name] = value
        return value


def change_type(name: str, table: Iterable[Field], base: type[Struct]) -> Any:
    """Return a Struct with every field of a table, each as after a ``set`` without it unless it is given."""
    fields = [(one.name, Any) if one.when_set is REQUIRED else (one.name, Any, one.when_set) for one in table]
    return msgspec.defstruct(name, fields, bases=(base,), frozen=True, kw_only=True, module=base.__module__)


def unmask(change: S, table: Iterable[Field], old: Any, context: Any) -> S:
    """Return a change with the stored values in place of masks. Raise ``Invalid`` if one is not stored."""
    for field in table:
        if field.unmask is not None and (given := getattr(change, field.name)) is not UNSET:
            stored = None if old is None else getattr(old, field.attribute)
            change = msgspec.structs.replace(change, **{field.name: field.unmask(given, stored, context)})
    return change


def request_schema(
    table: Iterable[Field], description: str, *, is_patch: bool = False, is_closed: bool = False
) -> Schema:
    """Return the JSON Schema of a request."""
    required = [field.json for field in table if field.when_set is REQUIRED and not is_patch]
    return {
        "type": "object",
        "description": description,
        **({"required": required} if required else {}),
        **({"additionalProperties": False} if is_closed else {}),
        "properties": {field.json: field.schema(is_patch=is_patch) for field in table},
    }


def response_type(name: str, rows: Iterable[Field | Shown], doc: str) -> Any:
    """Return the type of a response. Its docstring is where the OpenAPI document has the sentences from."""
    rows = [row for row in rows if row.shows]
    types: list[Any] = []
    for row in rows:
        kind = row.kind.shown if isinstance(row, Field) else row.type
        types.append((row.name, kind | msgspec.UnsetType, UNSET) if row.is_optional else (row.name, kind))
    text = "".join(f"    {row.name}: {row.shows}\n" for row in rows)
    secrets = [row.name for row in rows if isinstance(row, Field) and row.is_secret]
    return msgspec.defstruct(
        name,
        types,
        namespace={"__doc__": f"{doc}\n\nAttributes:\n{text}", "__repr__": repr_without(*secrets)},
        rename={row.name: row.json for row in rows},
        module=__name__,
        frozen=True,
        kw_only=True,
    )


def present(cls: Any, rows: Iterable[Field | Shown], record: Any, context: Any) -> Any:
    """Return a record as a response."""
    return cls(**{row.name: row.shown(record, context) for row in rows if row.shows})
