"""The YAML that a configuration is written in, read strictly and with the line of every key. No I/O.

A part of YAML 1.2, read from PyYAML's events: what surprises people is not read as something else
(``no``, ``012`` and ``12:30`` are text) or is refused (duplicate keys, keys that are not text,
anchors, tags, several documents).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import yaml

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DEEPEST = 32
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]{0,99})", re.ASCII)
_NUMBER = re.compile(r"[-+]?(0|[1-9][0-9]{0,99})(\.[0-9]{1,99})?([eE][-+]?[0-9]{1,2})?", re.ASCII)
_WORDS: dict[str, Any] = {"": None, "~": None, "null": None, "true": True, "false": False}


class Problem(NamedTuple):
    """Something wrong with a configuration.

    ``path`` is the key's path (``server.bind[0]``, empty for the whole file), ``line`` counts from 1
    and is ``None`` where it is not known, ``sentence`` says what is wrong and what would be right.
    """

    path: str
    line: int | None
    sentence: str


class Document(NamedTuple):
    """What a YAML text says: its value, the line of every key and item by path, and what is wrong."""

    value: Any
    lines: dict[str, int]
    problems: list[Problem]


Expand = Callable[[str], str]
"""Puts values in the place of ``${NAME}``; raises ``ValueError`` with a sentence."""


def read_yaml(text: str, expand: Expand = str) -> Document:
    """Read a YAML text.

    Args:
        text: one document, or nothing.
        expand: what to do with every scalar that is not a key. A plain scalar is read as a number and
            so on after it, a quoted one stays text.

    Returns:
        The document, whose value is ``None`` where the text is empty or cannot be parsed.
    """
    reader = _Reader(expand)
    try:
        value = reader.document(yaml.parse(text, _LOADER))
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        return Document(None, {}, [Problem("", line, f"this is not YAML: {error.problem}.")])
    except yaml.YAMLError as error:
        return Document(None, {}, [Problem("", None, f"this is not YAML: {str(error).splitlines()[0]}.")])
    return Document(value, reader.lines, reader.problems)


def read_scalar(text: str) -> Any:
    """What a plain scalar means: null, true or false, a number, or the text that it is."""
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) else text


def join(path: str, key: str | int) -> str:
    """The path of a key or of an item: ``server.bind``, ``server.bind[0]``."""
    if isinstance(key, int):
        return f"{path}[{key}]"
    return f"{path}.{key}" if path else key


class _Reader:
    def __init__(self, expand: Expand) -> None:
        self.lines: dict[str, int] = {}
        self.problems: list[Problem] = []
        self._expand = expand
        self._events: Iterator[Any] = iter(())

    def document(self, events: Iterator[Any]) -> Any:
        self._events = events
        value, documents = None, 0
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    self._report("", event, "this is a second document; a configuration is one.")
                    break
                value = self._value(next(events), "", 0)
        return value

    def _value(self, event: Any, path: str, depth: int) -> Any:
        self.lines.setdefault(path, event.start_mark.line + 1)
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            self._report(
                path, event, "anchors and aliases (&name, *name) are not read: write the value itself."
            )
        if isinstance(event, yaml.AliasEvent):
            return None
        if event.tag is not None:
            self._report(
                path, event, f"tags such as {event.tag} are not read: leave it out, or quote the text."
            )
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(event, path)
        inner = self._list if isinstance(event, yaml.SequenceStartEvent) else self._mapping
        if depth < _DEEPEST:
            return inner(path, depth + 1)
        self._report(path, event, f"this is nested more than {_DEEPEST} levels deep.")
        self._skip()
        return None

    def _scalar(self, event: Any, path: str) -> Any:
        try:
            text = self._expand(event.value)
        except ValueError as error:
            self._report(path, event, str(error))
            return None
        return read_scalar(text) if event.implicit[0] else text

    def _list(self, path: str, depth: int) -> list[Any]:
        items: list[Any] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            items.append(self._value(event, join(path, len(items)), depth))
        return items

    def _mapping(self, path: str, depth: int) -> dict[str, Any]:
        values: dict[str, Any] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key = self._key(event, path)
            below = join(path, key)
            if key in values:
                self._report(
                    below, event, f"this key is there twice, first in line {self.lines[below]}: keep one."
                )
            self.lines.setdefault(below, event.start_mark.line + 1)
            values[key] = self._value(next(self._events), below, depth)
        return values

    def _key(self, event: Any, path: str) -> str:
        if not isinstance(event, yaml.ScalarEvent) or event.tag is not None or event.anchor is not None:
            self._report(path, event, "a key must be text, without an anchor or a tag.")
            if isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
                self._skip()
            return "?"
        if event.implicit[0] and not isinstance(read_scalar(event.value), str):
            self._report(
                join(path, event.value), event, f'a key must be text: write "{event.value}" in quotes.'
            )
        return str(event.value)

    def _skip(self) -> None:
        """Pass over the rest of the list or mapping that has just begun."""
        open_blocks = 1
        while open_blocks:
            event = next(self._events)
            open_blocks += isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent))
            open_blocks -= isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent))

    def _report(self, path: str, event: Any, sentence: str) -> None:
        self.problems.append(Problem(path, event.start_mark.line + 1, sentence))
