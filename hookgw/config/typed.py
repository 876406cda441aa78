"""From what a configuration says to typed settings, with everything that is wrong in it. No I/O."""

from __future__ import annotations

import difflib
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, NamedTuple, get_args, get_origin

import msgspec

from hookgw.config.settings import Section, Settings
from hookgw.config.yaml_reader import join
from hookgw.models.units import DURATION_FORM, SIZE_FORM, Duration, Size, parse_duration, parse_size

Report = Callable[[str, str], None]
"""Takes the path of a key and a sentence that says what is wrong there and what would be right."""

_WANTED: dict[Any, str] = {
    str: "text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    Duration: DURATION_FORM,
    Size: SIZE_FORM,
    types.NoneType: "null",
}
_UNITS: dict[type, Callable[[object], Any]] = {Duration: parse_duration, Size: parse_size}


class KeyInfo(NamedTuple):
    """A key of the settings: its path, the type of its value, and its default."""

    path: str
    kind: Any
    default: Any


def read_settings(raw: Any, report: Report) -> Settings:
    """Typed settings from nested mappings.

    Args:
        raw: what the file and the environment say; ``None`` stands for an empty mapping, here and
            for each section.
        report: called for every unknown key and every value of a wrong type.

    Returns:
        The settings, with the default in the place of each value that was reported.
    """
    settings: Settings = _read_section(Settings, raw, "", report)
    return settings


def known_keys(section: type[Section] = Settings, path: str = "") -> Iterator[KeyInfo]:
    """Every key that can be set, sections left out, in the order of the settings."""
    for field in msgspec.structs.fields(section):
        below = join(path, field.encode_name)
        if _is_section(field.type):
            yield from known_keys(field.type, below)
        else:
            default = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
            yield KeyInfo(below, field.type, default)


def wanted(kind: Any) -> str:
    """What a value of that type is, in words: ``a list, each item text``."""
    if get_origin(kind) is Literal:
        *first, last = get_args(kind)
        return f"{', '.join(first)} or {last}"
    if get_origin(kind) is tuple:
        return f"a list, each item {wanted(get_args(kind)[0])}"
    if kind == dict[str, str]:
        return "a mapping of names to text"
    if get_origin(kind) is types.UnionType:
        return " or ".join(wanted(part) for part in get_args(kind))
    return _WANTED.get(kind, "a mapping")


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that looks most like another; ``None`` where none does."""
    found = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return found[0] if found else None


def _is_section(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Section)


def _read_section(section: type[Section], raw: Any, path: str, report: Report) -> Any:
    if not isinstance(raw, dict):
        if raw is not None:
            report(path, f"expected a mapping of keys, got {_shown(raw)}.")
        return section()
    fields = {field.encode_name: field for field in msgspec.structs.fields(section)}
    for key in raw:
        if key not in fields:
            report(join(path, key), _unknown(key, path, list(fields)))
    values = {
        field.name: value
        for name, field in fields.items()
        if name in raw
        and (value := _read(field.type, raw[name], join(path, name), report)) is not msgspec.UNSET
    }
    return section(**values)


def _read(kind: Any, raw: Any, path: str, report: Report) -> Any:
    """The value as that type; ``UNSET`` where something of it was reported."""
    if _is_section(kind):
        return _read_section(kind, raw, path, report)
    if get_origin(kind) is tuple and isinstance(raw, list):
        items = [
            _read(get_args(kind)[0], item, join(path, number), report) for number, item in enumerate(raw)
        ]
        return msgspec.UNSET if any(item is msgspec.UNSET for item in items) else tuple(items)
    try:
        return msgspec.convert(raw, kind, dec_hook=lambda unit, value: _UNITS[unit](value))
    except msgspec.ValidationError:
        report(path, f"expected {wanted(kind)}, got {_shown(raw, kind)}.")
        return msgspec.UNSET


def _shown(value: Any, kind: Any = None) -> str:
    """A wrong value as a message names it: nothing long, and no number that may be a key."""
    if isinstance(value, str):
        return repr(value if len(value) <= 60 else value[:60] + "…")
    if isinstance(value, (dict, list)):
        return "a mapping" if isinstance(value, dict) else "a list"
    if kind in (str, str | None):
        return "what is no text: write it in quotes"
    return msgspec.json.encode(value).decode()


def _unknown(key: str, path: str, siblings: list[str]) -> str:
    sibling = nearest(key, siblings)
    if sibling is not None:
        return f"this key is not known. Did you mean {join(path, sibling)}?"
    elsewhere = [known.path for known in known_keys() if known.path.rpartition(".")[2] == key]
    if elsewhere:
        return f"this key is not known here. Did you mean {' or '.join(elsewhere)}?"
    return f"this key is not known. Known here: {', '.join(siblings)}."
