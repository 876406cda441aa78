"""Reads the fields of JSON objects that clients spell in many ways. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from typing import Any, TypeVar

from hookgw.kernel.errors import Invalid, WrongFields
from hookgw.kernel.nearest import nearest
from hookgw.kernel.sentences import Sentence
from hookgw.kernel.units import DURATION_FORM, Duration, parse_duration

T = TypeVar("T")
U = TypeVar("U")

# In the problems and in the warnings of a request. A body of 1 MiB can have 200,000 unknown fields, and a
# sentence for each would make the response many times larger than the request.
MAX_SENTENCES = 100

REFUSED = Sentence.declared("field.refused", "{where}: {reason}.")
MISSING = Sentence.declared("field.missing", "{where} is missing.")
NOT_STRING = Sentence.declared("field.not_string", "{where} must be a string, not {kind}.")
NOT_ONE_OF = Sentence.declared("field.not_one_of", "{where} must be one of {choices}.")
TOO_LONG = Sentence.declared(
    "field.too_long", "{where} must have at most {most:,} characters, not {count:,}."
)
MASKED = Sentence.declared("field.masked", "{where} is masked, but no value is stored: send one.")

MAX_BAD_ITEMS = 20
"""Wrong items of a list after which the rest is not checked: suggesting a kind takes 0.3 ms."""

Check = Callable[[Any, str], T]
"""Takes a value and its path. Returns the parsed value, or raises Invalid with the path in the message."""


class Fields:
    """The fields of a request, from one or more of its objects.

    A field may have several spellings and may be in any of the objects. The first object that has it wins,
    and within that object the first spelling; another spelling there with another value gets a warning, or is
    a mistake where unknown fields are. ``null`` counts as missing. Mistakes are collected until
    :meth:`finish`, so that the caller sees all of them at once.

    Args:
        layers: the objects, each with its path in the request (``""`` for the outermost).
    """

    def __init__(self, *layers: tuple[str, dict[str, Any]]) -> None:
        self._layers = layers
        # Each spelling, with the field's first one. Every other field is unknown, and gets a warning: most of
        # them are typing errors.
        self._asked: dict[str, str] = {}
        # Pairs of spellings of one field with different values: first the spelling that counts.
        self._contradictions: list[tuple[str, str]] = []
        self.problems: list[Sentence] = []
        self.warnings: list[str] = []

    @classmethod
    def of_body(cls, body: Any) -> Fields:
        """Return the fields of a request's body; raise ``Invalid`` if that is no object."""
        return cls(("", as_object(body, "The body")))

    def find(self, *spellings: str) -> tuple[str, Any] | None:
        """Return the path and value of a field; ``None`` if it is missing or ``null``."""
        found = self._spelled(spellings)
        return found[0] if found else None

    def _spelled(self, spellings: Sequence[str]) -> list[tuple[str, Any]]:
        for spelling in spellings:
            self._asked[spelling] = spellings[0]
        for path, layer in self._layers:
            given = [spelling for spelling in spellings if layer.get(spelling) is not None]
            if given:
                return [(place(path, spelling), layer[spelling]) for spelling in given]
        return []

    def pick(self, check: Check[T], *spellings: str) -> T | None:
        """Return the parsed value of a field; ``None`` if it is missing or wrong."""
        return self.read(check, None, *spellings)

    def read(self, check: Check[T], default: U, *spellings: str) -> T | U:
        """Return the parsed value of a field; the default if it is missing or wrong."""
        taken: list[tuple[str, T]] = []
        # Further spellings in the same object are checked too: the JSON schemas have no order of spellings.
        for where, value in self._spelled(spellings):
            try:
                taken.append((where, check(value, where)))
            except Invalid as error:
                self.problems.extend(error.messages)
        if not taken:
            return default
        counts, found = taken[0]
        self._contradictions += ((counts, where) for where, value in taken[1:] if value != found)
        return found

    def need(self, check: Check[T], default: U, *spellings: str) -> T | U:
        """Like :meth:`read`, for a required field; the default is only used until :meth:`finish` raises."""
        if self.find(*spellings) is None:
            self.problems.append(MISSING(where=place(self._layers[0][0], spellings[0])))
        return self.read(check, default, *spellings)

    def is_null(self, name: str) -> bool:
        """Return whether a field is ``null`` in the first object that has it."""
        self._asked[name] = name
        return next((layer[name] is None for _, layer in self._layers if name in layer), False)

    def warn(self, warnings: Iterable[str]) -> None:
        self.warnings.extend(warnings)

    def ignore(self, *names: str) -> None:
        """Do not warn of fields that known clients send and that mean nothing here."""
        self._asked.update((name, name) for name in names)

    def refuse_unknown(self, whole: str, *, only_misspelled: bool = False) -> None:
        """Make mistakes of the unknown and contradicting fields of ``whole`` ("a replay").

        Call it after all fields are read.

        It is for objects without a response that could warn, where a misspelt field would do harm: more would
        be selected than meant, or a secret would stay valid.

        Args:
            whole: the object, with its article.
            only_misspelled: whether only a field that is similar to a known one is a mistake: for objects to
                which known clients add fields of their own.
        """
        if not only_misspelled:
            self.problems += (
                Sentence(
                    "field.contradiction",
                    "{where} and {other} mean the same, but have different values. Send one of them.",
                    where=where,
                    other=other,
                )
                for where, other in self._contradictions
            )
        known = {spelling.lower(): field for spelling, field in self._asked.items()}
        for index, (path, name) in enumerate(self._unknown()):
            # The comparison takes long, and cut_short omits what comes after these.
            near = nearest(name.lower(), known) if index < MAX_SENTENCES else None
            if near is None and only_misspelled:
                continue
            where = place(path, name)
            self.problems.append(
                Sentence(
                    "field.misspelled",
                    "{where} is not a field of {whole}. Did you mean {near}?",
                    where=where,
                    whole=whole,
                    near=known[near],
                )
                if near
                else Sentence("field.unknown", "{where} is not a field of {whole}.", where=where, whole=whole)
            )

    def finish(self) -> list[str]:
        """Return the warnings, those of unknown and contradicting fields too.

        Raises:
            WrongFields: with every mistake.
        """
        if self.problems:
            raise WrongFields(*cut_short(self.problems))
        contradictions = [
            f"{where} and {other} mean the same, but have different values; {other} was ignored."
            for where, other in self._contradictions
        ]
        unknown = [unknown_field(place(path, name)) for path, name in self._unknown()]
        return [*map(str, cut_short(self.warnings + contradictions + unknown))]

    def unknown(self) -> list[str]:
        return [name for _, name in self._unknown()]

    def _unknown(self) -> Iterator[tuple[str, str]]:
        return ((path, name) for path, layer in self._layers for name in layer if name not in self._asked)


def cut_short(sentences: Sequence[str]) -> list[str]:
    """Return the first :data:`MAX_SENTENCES` and the number of omitted ones."""
    if len(sentences) <= MAX_SENTENCES:
        return [*sentences]
    omitted = Sentence(
        "messages.omitted", "{count:,} further messages were omitted.", count=len(sentences) - MAX_SENTENCES
    )
    return [*sentences[:MAX_SENTENCES], omitted]


def place(path: str, name: str) -> str:
    return f"{path}.{show_name(name)}" if path else show_name(name)


def show_name(name: str) -> str:
    """Return a client's field name for messages: short, and without the line breaks that forge log lines.

    It is in quotation marks if it is empty, or begins or ends with a space.
    """
    shown = name[:65]  # before anything that takes longer for a name of a megabyte
    if not shown or shown != shown.strip():
        shown = repr(shown)
    elif not shown.isprintable():
        shown = repr(shown)[1:-1]
    return shown if len(shown) <= 64 else shown[:64] + "…"


def unknown_field(where: str) -> str:
    return f"{where} is an unknown field; it was ignored."


def as_object(value: Any, where: str) -> dict[str, Any]:
    """Return an object. ``[]`` is one without fields: PHP has one type for both, and writes it so.

    Raises:
        WrongFields: it is something else.
    """
    if value == []:
        return {}
    if not isinstance(value, dict):
        raise WrongFields.of(
            "field.not_object", "{where} must be an object, not {kind}.", where=where, kind=kind_of(value)
        )
    return value


def as_list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise Invalid.of(
            "field.not_list", "{where} must be a list, not {kind}.", where=where, kind=kind_of(value)
        )
    return value


def as_bool(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise Invalid.of(
            "field.not_boolean",
            "{where} must be true or false, not {kind}.",
            where=where,
            kind=kind_of(value),
        )
    return value


def as_text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise Invalid(NOT_STRING(where=where, kind=kind_of(value)))
    return value


def check_count(items: Sized, most: int, where: str, complaint: Callable[..., Sentence]) -> None:
    """Raise ``Invalid`` with a sentence of ``where``, ``count`` and ``most`` if there are too many items."""
    if len(items) > most:
        raise Invalid(complaint(where=where, count=len(items), most=most))


def text_at_most(longest: int) -> Check[str]:
    """Return a check for a string of at most so many characters; it may be empty."""

    def check(value: Any, where: str) -> str:
        text = as_text(value, where)
        check_count(text, longest, where, TOO_LONG)
        return text

    return check


def text_up_to(longest: int) -> Check[str]:
    """Return a check for a string of 1 to ``longest`` characters."""

    def check(value: Any, where: str) -> str:
        text = as_text(value, where)
        if not 1 <= len(text) <= longest:
            raise Invalid.of(
                "field.length",
                "{where} must have 1 to {longest:,} characters, not {count:,}.",
                where=where,
                longest=longest,
                count=len(text),
            )
        return text

    return check


def name_up_to(longest: int) -> Check[str]:
    """Return a check for the name of a person or a chat, which payloads are searched for.

    It has 1 to ``longest`` characters, none of them NUL: SQLite ends the strings of a payload there, so an
    erasure would report that it found nothing.
    """

    def check(value: Any, where: str) -> str:
        text = text_up_to(longest)(value, where)
        if "\0" in text:
            raise Invalid.of("field.nul", "{where} must not contain the character NUL.", where=where)
        return text

    return check


def whole_number(low: int, high: int) -> Check[int]:
    """Return a check for an integer between two inclusive bounds."""

    def check(value: Any, where: str) -> int:
        if not is_whole(value) or not low <= value <= high:
            raise Invalid.of(
                "field.not_whole_number",
                "{where} must be a whole number from {low} to {high}.",
                where=where,
                low=low,
                high=high,
            )
        return int(value)

    return check


def is_whole(value: Any) -> bool:
    """Return whether a value is a whole number. JavaScript's 5 may arrive as ``5.0``."""
    return (isinstance(value, int) and not isinstance(value, bool)) or (
        isinstance(value, float) and value.is_integer()
    )


def one_of(choices: Sequence[str]) -> Check[str]:
    """Return a check for one of several words."""

    def check(value: Any, where: str) -> str:
        if value not in choices:
            raise Invalid(NOT_ONE_OF(where=where, choices=", ".join(choices)))
        return str(value)

    return check


def duration(low: float, high: float) -> Check[float]:
    """Return a check for a duration with a unit (``"15s"``) between two inclusive bounds, in seconds."""

    def check(value: Any, where: str) -> float:
        # Before parse_duration, whose message would repeat the whole object.
        if isinstance(value, dict | list):
            raise Invalid.of(
                "field.not_duration",
                "{where} must be {form}, not {kind}.",
                where=where,
                form=DURATION_FORM,
                kind=kind_of(value),
            )
        try:
            length = parse_duration(value)
        except ValueError as error:
            raise Invalid(REFUSED(where=where, reason=error)) from None
        if not low <= length <= high:
            raise Invalid.of(
                "field.duration_range",
                "{where} must be from {low} to {high}, not {length}.",
                where=where,
                low=Duration(low),
                high=Duration(high),
                length=length,
            )
        return float(length)

    return check


def list_of(check: Check[T], longest: int) -> Check[tuple[T, ...]]:
    def check_all(value: Any, where: str) -> tuple[T, ...]:
        items = as_list(value, where)
        if len(items) > longest:
            raise Invalid.of(
                "field.too_many_items",
                "{where} has {count:,} items; at most {longest:,} are allowed.",
                where=where,
                count=len(items),
                longest=longest,
            )
        return checked_items(check, items, where)

    return check_all


def not_empty(check: Check[T], complaint: Callable[..., Sentence]) -> Check[T]:
    """Return a check for what may not be empty, or else ``complaint`` says so, with ``where``."""

    def check_some(value: Any, where: str) -> T:
        found = check(value, where)
        if not found:
            raise Invalid(complaint(where=where))
        return found

    return check_some


def checked_items(check: Check[T], items: Sequence[Any], where: str) -> tuple[T, ...]:
    """Check the items. Raise ``Invalid`` with the mistakes of the first :data:`MAX_BAD_ITEMS` wrong ones."""
    taken: list[T] = []
    problems: list[Sentence] = []
    bad = 0
    for index, item in enumerate(items):
        try:
            taken.append(check(item, f"{where}[{index}]"))
        except Invalid as error:
            problems.extend(error.messages)
            bad += 1
            if bad == MAX_BAD_ITEMS and index + 1 < len(items):
                problems.append(
                    Sentence(
                        "field.items_unchecked",
                        "The items after {where}[{index}] were not checked.",
                        where=where,
                        index=index,
                    )
                )
                break
    if problems:
        raise Invalid(*problems)
    return tuple(taken)


def kind_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return "a string"
    return "an object" if isinstance(value, dict) else "a list" if isinstance(value, list) else "a number"
