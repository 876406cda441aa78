"""Strict YAML: values without surprises, and the line of every key. No I/O.

This reads a part of YAML 1.2 from PyYAML's events. Values that YAML readers commonly misread (``no``,
``012``, ``12:30``) are text. Duplicate keys, keys that are not text, anchors, tags and further documents are
errors. Reading continues after an error, so that one run reports all of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import yaml

# libyaml parses a file at the size limit in 0.3 s; the Python parser, for platforms without it, takes 6 s.
# This module reads events and not nodes because PyYAML's C composer recurses: 100,000 opening brackets
# overflow the stack and kill the process.
LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# Far below Python's recursion limit, far above any real configuration.
_MAX_DEPTH = 32
# int() refuses more than 4,300 digits; a longer number is text, and the type check reports it.
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]{0,99})", re.ASCII)
# The exponent has two digits because 1e999 would be infinity.
_NUMBER = re.compile(r"[-+]?(0|[1-9][0-9]{0,99})(\.[0-9]{1,99})?([eE][-+]?[0-9]{1,2})?", re.ASCII)
_WORDS: dict[str, Any] = {"": None, "~": None, "null": None, "true": True, "false": False}


class Problem(NamedTuple):
    """A mistake in a configuration.

    Attributes:
        path: the key's path (``server.bind[0]``); empty for the whole file.
        line: counts from 1; ``None`` if unknown.
        sentence: what is wrong and what to write instead.
    """

    path: str
    line: int | None
    sentence: str


class Document(NamedTuple):
    """The content of a YAML text: its value, the line of every key and item by path, and the mistakes."""

    value: Any
    lines: dict[str, int]
    problems: list[Problem]


Expand = Callable[[str], str]
"""Replaces ``${NAME}`` in a text; raises ``ValueError`` with a sentence."""


def read_yaml(text: str, expand: Expand = str) -> Document:
    """Read one YAML document, or nothing; the value is ``None`` if the text is empty or not YAML.

    Args:
        expand: applied to every scalar that is not a key. A plain scalar is converted (to a number, …) after
            it, a quoted one stays text.
    """
    events = yaml.parse(text, LOADER)
    reader = _Reader(expand, events)
    value, documents = None, 0
    try:
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    reader.report("", event, "this is a second document; a configuration has one.")
                    break
                value = reader.value(next(events), "", 0)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        return Document(None, {}, [Problem("", line, f"this is not YAML: {error.problem}.")])
    except yaml.YAMLError as error:
        # A control character in the text: this error has no line.
        return Document(None, {}, [Problem("", None, f"this is not YAML: {str(error).splitlines()[0]}.")])
    return Document(value, reader.lines, reader.problems)


def read_scalar(text: str) -> Any:
    """Convert a plain scalar: to null, true or false, a number, or else to the text itself."""
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) else text


def join(path: str, key: str | int) -> str:
    """Return the path of a key or an item: ``server.bind``, ``server.bind[0]``."""
    if isinstance(key, int):
        return f"{path}[{key}]"
    return f"{path}.{key}" if path else key


class _Reader:
    def __init__(self, expand: Expand, events: Iterator[Any]) -> None:
        self.lines: dict[str, int] = {}
        self.problems: list[Problem] = []
        self._expand = expand
        self._events = events

    def report(self, path: str, event: Any, sentence: str) -> None:
        self.problems.append(Problem(path, event.start_mark.line + 1, sentence))

    def value(self, event: Any, path: str, depth: int) -> Any:
        self.lines.setdefault(path, event.start_mark.line + 1)
        # No anchors at all, rather than a limit on their expansion: ten lines of aliases can mean a billion
        # values, and a configuration does not need them.
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            self.report(
                path, event, "anchors and aliases (&name, *name) are not supported: write out the value."
            )
        if isinstance(event, yaml.AliasEvent):
            return None
        if event.tag is not None:
            self.report(
                path, event, f"tags such as {event.tag} are not supported: remove it, or quote the text."
            )
        if isinstance(event, yaml.ScalarEvent):
            try:
                text = self._expand(event.value)
            except ValueError as error:
                self.report(path, event, str(error))
                return None
            return read_scalar(text) if event.implicit[0] else text
        if depth == _MAX_DEPTH:
            self.report(path, event, f"this is nested more than {_MAX_DEPTH} levels deep.")
            self._skip()
            return None
        if isinstance(event, yaml.MappingStartEvent):
            return self._mapping(path, depth + 1)
        items: list[Any] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            items.append(self.value(event, join(path, len(items)), depth + 1))
        return items

    def _mapping(self, path: str, depth: int) -> dict[str, Any]:
        values: dict[str, Any] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            if isinstance(event, yaml.ScalarEvent) and event.tag is None and event.anchor is None:
                key = str(event.value)
                # "on: x" is text here, but "true: x" or "5: x" would silently become a text key.
                if event.implicit[0] and not isinstance(read_scalar(key), str):
                    self.report(join(path, key), event, f'a key must be text: write "{key}" in quotes.')
            else:
                key = "?"
                self.report(path, event, "a key must be text, without an anchor or a tag.")
                if isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
                    self._skip()
            below = join(path, key)
            if key in values:
                self.report(
                    below, event, f"this key appears twice, first in line {self.lines[below]}: keep one."
                )
            self.lines.setdefault(below, event.start_mark.line + 1)
            values[key] = self.value(next(self._events), below, depth)
        return values

    def _skip(self) -> None:
        """Skip the rest of a list or mapping whose start event was read, without recursion."""
        open_blocks = 1
        while open_blocks:
            event = next(self._events)
            open_blocks += isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent))
            open_blocks -= isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent))
