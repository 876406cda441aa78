"""Converts nested mappings to typed settings, and reports every mistake. No I/O."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import msgspec

from hookgw.config.settings import Section, Settings
from hookgw.config.yaml_reader import join
from hookgw.kernel.nearest import nearest
from hookgw.kernel.units import DURATION_FORM, SIZE_FORM, Duration, Size, parse_duration, parse_size

Report = Callable[[str, str], None]
"""Takes the path of a key and a sentence: what is wrong and what to write instead."""

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
    path: str
    kind: Any
    default: Any


def read_settings(raw: Any, report: Report) -> Settings:
    """Convert nested mappings to typed settings, with the default for each mistaken value.

    Args:
        raw: the content of the file, with the overrides of the environment; ``None`` means an empty mapping,
            also for each section.
        report: called for every unknown key and every value of a wrong type.
    """
    settings: Settings = _read_section(Settings, raw, "", report)
    return settings


def known_keys(section: type[Section] = Settings, path: str = "") -> Iterator[KeyInfo]:
    """Yield every key, without the sections themselves, in the order of the settings."""
    kinds = get_type_hints(section)  # without the rules in them
    for field in msgspec.structs.fields(section):
        below, kind = join(path, field.encode_name), kinds[field.name]
        if _is_section(kind):
            yield from known_keys(kind, below)
        else:
            default = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
            yield KeyInfo(below, kind, default)


def wanted(kind: Any) -> str:
    """Describe the values of a type in words: ``a list, each item text``."""
    if get_origin(kind) is Literal:
        *first, last = get_args(kind)
        return f"{', '.join(first)} or {last}"
    if get_origin(kind) is tuple:
        return f"a list, each item {wanted(get_args(kind)[0])}"
    if kind == dict[str, str]:
        return "a mapping of names to text"
    if get_origin(kind) in (Union, types.UnionType):
        return " or ".join(wanted(part) for part in get_args(kind))
    return _WANTED.get(kind, "a mapping")


def _is_section(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Section)


def _read_section(section: type[Section], raw: Any, path: str, report: Report) -> Any:
    # msgspec.convert could read a whole section, but it stops at the first mistake, and without a suggestion.
    if not isinstance(raw, dict):
        if raw is not None:
            report(path, f"expected a mapping of keys, got {_shown(raw)}.")
        return section()
    fields = {field.encode_name: field.name for field in msgspec.structs.fields(section)}
    kinds = get_type_hints(section)
    for key in raw:
        if key in fields:
            continue
        if (sibling := nearest(key, fields)) is not None:
            hint = f"this key is unknown. Did you mean {join(path, sibling)}?"
        # A correct key in the wrong section is the next most common mistake.
        elif elsewhere := [known.path for known in known_keys() if known.path.rpartition(".")[2] == key]:
            hint = f"this key is unknown here. Did you mean {' or '.join(elsewhere)}?"
        else:
            hint = f"this key is unknown. Known here: {', '.join(fields)}."
        report(join(path, key), hint)
    values = {
        field: value
        for name, field in fields.items()
        if name in raw
        # A mapping without keys is as a section without keys: all of them are commented out.
        and not (raw[name] is None and get_origin(kinds[field]) is dict)
        and (value := _read(kinds[field], raw[name], join(path, name), report)) is not msgspec.UNSET
    }
    return section(**values)


def _read(kind: Any, raw: Any, path: str, report: Report) -> Any:
    if _is_section(kind):
        return _read_section(kind, raw, path, report)
    # Item by item, so that each mistake has its own index and line.
    if get_origin(kind) is tuple and isinstance(raw, list):
        items = [
            _read(get_args(kind)[0], item, join(path, number), report) for number, item in enumerate(raw)
        ]
        return msgspec.UNSET if any(item is msgspec.UNSET for item in items) else tuple(items)
    if get_origin(kind) is dict and isinstance(raw, dict):
        named = {
            str(name): _read(get_args(kind)[1], one, join(path, str(name)), report)
            for name, one in raw.items()
        }
        return msgspec.UNSET if any(one is msgspec.UNSET for one in named.values()) else named
    try:
        # Strict, so that true is not 1 and "5" is not 5.
        return msgspec.convert(raw, kind, dec_hook=lambda unit, value: _UNITS[unit](value))
    except msgspec.ValidationError:
        report(path, f"expected {wanted(kind)}, got {_shown(raw, kind)}.")
        return msgspec.UNSET


def _shown(value: Any, kind: Any = None) -> str:
    if isinstance(value, str):
        return repr(value if len(value) <= 60 else value[:60] + "…")
    if isinstance(value, (dict, list)):
        return "a mapping" if isinstance(value, dict) else "a list"
    # Where text is expected, a number may be a key or a password without quotes: do not show it.
    if kind in (str, str | None):
        return "a number, true, false or null: write it in quotes"
    return msgspec.json.encode(value).decode()
