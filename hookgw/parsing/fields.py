"""Reading the fields of JSON objects that many clients spell in many ways. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from hookgw.models.errors import Invalid
from hookgw.models.units import DURATION_FORM, Duration, parse_duration

T = TypeVar("T")

MOST_SENTENCES = 100
"""About one request, in its problems and in its warnings."""

Check = Callable[[Any, str], T]
"""Takes a value and the place it was found in; gives what it means, or raises Invalid naming the place."""


class Fields:
    """The fields of a request, gathered from one or more objects of it.

    A field may have several spellings and may be in any of the objects; the first object that has it
    wins, and within an object the first spelling. ``null`` is read as left out.

    Args:
        layers: the objects, each with its path in the request (``""`` for the outermost).
    """

    def __init__(self, *layers: tuple[str, dict[str, Any]]) -> None:
        self._layers = layers
        self._asked: set[str] = set()
        self.problems: list[str] = []
        self.warnings: list[str] = []

    def find(self, *spellings: str) -> tuple[str, Any] | None:
        """Where a field is and what it holds; ``None`` where it is left out or ``null``."""
        return next(self._spelled(spellings), None)

    def _spelled(self, spellings: Iterable[str]) -> Iterator[tuple[str, Any]]:
        """Where a field is in the object that counts, under each of its spellings, and what it holds."""
        self._asked.update(spellings)
        for path, layer in self._layers:
            given = [spelling for spelling in spellings if layer.get(spelling) is not None]
            if given:
                yield from ((place(path, spelling), layer[spelling]) for spelling in given)
                return

    def pick(self, check: Check[T], *spellings: str) -> T | None:
        """What a field means; ``None`` where it is left out, or where it is wrong.

        What is wrong is kept for :meth:`finish`, so that the caller hears of everything at once; also what is
        wrong with further spellings of it in the same object, which count for nothing else.
        """
        taken = []
        for where, value in self._spelled(spellings):
            try:
                taken.append(check(value, where))
            except Invalid as error:
                self.problems.extend(error.messages)
        return taken[0] if taken else None

    def read(self, check: Check[T], default: T, *spellings: str) -> T:
        """As :meth:`pick`, with a default."""
        value = self.pick(check, *spellings)
        return default if value is None else value

    def need(self, check: Check[T], default: T, *spellings: str) -> T:
        """As :meth:`read`, for a field that must be there; the default stands only until :meth:`finish`."""
        if self.find(*spellings) is None:
            self.problems.append(f"{place(self._layers[0][0], spellings[0])} is missing.")
        return self.read(check, default, *spellings)

    def is_null(self, name: str) -> bool:
        """Whether a field is ``null`` in the first object that has it."""
        self._asked.add(name)
        return next((layer[name] is None for _, layer in self._layers if name in layer), False)

    def warn(self, warnings: Iterable[str]) -> None:
        """Keep warnings of an inner object for :meth:`finish`."""
        self.warnings.extend(warnings)

    def ignore(self, *names: str) -> None:
        """Let fields pass that known clients send and that mean nothing here."""
        self._asked.update(names)

    def finish(self) -> list[str]:
        """The warnings, one for each field that nobody asked for among them.

        Raises:
            Invalid: with everything that was wrong.
        """
        if self.problems:
            raise Invalid(*cut_short(self.problems))
        unknown = [unknown_field(place(path, name)) for path, name in self._unknown()]
        return cut_short(self.warnings + unknown)

    def unknown(self) -> list[str]:
        """The names of the fields that nobody asked for, as they came."""
        return [name for _, name in self._unknown()]

    def _unknown(self) -> Iterator[tuple[str, str]]:
        return ((path, name) for path, layer in self._layers for name in layer if name not in self._asked)


def cut_short(sentences: list[str]) -> list[str]:
    """The first :data:`MOST_SENTENCES`, and how many more there are: no answer outgrows its request."""
    if len(sentences) <= MOST_SENTENCES:
        return sentences
    return [*sentences[:MOST_SENTENCES], f"There are {len(sentences) - MOST_SENTENCES:,} more of this kind."]


def place(path: str, name: str) -> str:
    """The path of a field, for sentences."""
    return f"{path}.{show_name(name)}" if path else show_name(name)


def show_name(name: str) -> str:
    """A name of the caller's as it may stand in a sentence: short, without line breaks."""
    shown = name if name.isprintable() else repr(name)[1:-1]
    return shown if len(shown) <= 64 else shown[:64] + "…"


def unknown_field(where: str) -> str:
    """The warning about a field that hookgw does not know."""
    return f"{where} is no field that hookgw knows; it was ignored."


def as_object(value: Any, where: str) -> dict[str, Any]:
    """Check that the value is a JSON object."""
    if not isinstance(value, dict):
        raise Invalid(f"{where} must be an object, not {kind_of(value)}.")
    return value


def as_list(value: Any, where: str) -> list[Any]:
    """Check that the value is a JSON array."""
    if not isinstance(value, list):
        raise Invalid(f"{where} must be a list, not {kind_of(value)}.")
    return value


def as_bool(value: Any, where: str) -> bool:
    """Check that the value is true or false."""
    if not isinstance(value, bool):
        raise Invalid(f"{where} must be true or false, not {kind_of(value)}.")
    return value


def as_text(value: Any, where: str) -> str:
    """Check that the value is a string."""
    if not isinstance(value, str):
        raise Invalid(f"{where} must be a string, not {kind_of(value)}.")
    return value


def text_up_to(longest: int) -> Check[str]:
    """A check for a string of at most so many characters, and at least one."""

    def check(value: Any, where: str) -> str:
        text = as_text(value, where)
        if not 1 <= len(text) <= longest:
            raise Invalid(f"{where} must have 1 to {longest:,} characters, not {len(text):,}.")
        return text

    return check


def whole_number(low: int, high: int) -> Check[int]:
    """A check for an integer between two bounds, both included."""

    def check(value: Any, where: str) -> int:
        if not is_whole(value) or not low <= value <= high:
            raise Invalid(f"{where} must be a whole number from {low} to {high}.")
        return int(value)

    return check


def is_whole(value: Any) -> bool:
    """Whether the value is a whole number, which JSON may also write as ``5.0``."""
    return (isinstance(value, int) and not isinstance(value, bool)) or (
        isinstance(value, float) and value.is_integer()
    )


def one_of(choices: Sequence[str]) -> Check[str]:
    """A check for one of some words."""

    def check(value: Any, where: str) -> str:
        if value not in choices:
            raise Invalid(f"{where} must be one of {', '.join(choices)}.")
        return str(value)

    return check


def duration(low: float, high: float) -> Check[float]:
    """A check for a length of time with a unit (``"15s"``), given in seconds, between two bounds included."""

    def check(value: Any, where: str) -> float:
        if isinstance(value, dict | list):
            raise Invalid(f"{where} must be {DURATION_FORM}, not {kind_of(value)}.")
        try:
            length = parse_duration(value)
        except ValueError as error:
            raise Invalid(f"{where}: {error}.") from None
        if not low <= length <= high:
            raise Invalid(f"{where} must be from {Duration(low)} to {Duration(high)}, not {length}.")
        return float(length)

    return check


def list_of(check: Check[T], longest: int) -> Check[tuple[T, ...]]:
    """A check for a list of at most so many items, each of which passes another check."""

    def check_all(value: Any, where: str) -> tuple[T, ...]:
        items = as_list(value, where)
        if len(items) > longest:
            raise Invalid(f"{where} has {len(items):,} items; at most {longest:,} are taken.")
        return checked_items(check, items, where)

    return check_all


def checked_items(check: Check[T], items: Sequence[Any], where: str) -> tuple[T, ...]:
    """Every item checked.

    Raises:
        Invalid: with everything that is wrong with any of them.
    """
    taken: list[T] = []
    problems: list[str] = []
    for index, item in enumerate(items):
        try:
            taken.append(check(item, f"{where}[{index}]"))
        except Invalid as error:
            problems.extend(error.messages)
    if problems:
        raise Invalid(*problems)
    return tuple(taken)


def kind_of(value: Any) -> str:
    """What a JSON value is, in words."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return "a string"
    return "an object" if isinstance(value, dict) else "a list" if isinstance(value, list) else "a number"
