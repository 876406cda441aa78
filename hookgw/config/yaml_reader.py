"""Strict YAML: values without surprises, and the line of every key. No I/O.

This reads a part of YAML 1.2 from PyYAML's events. Values that YAML readers commonly misread (``no``,
``012``, ``12:30``) are text. Duplicate keys, keys that are not text, tags and further documents are errors,
and so are anchors, unless the caller allows them. Reading continues after an error, so that one run reports
all of them.
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


MOST_VALUES = 1_000_000
"""Values of a text with its aliases written out: a few lines of aliases can mean a billion."""
_MERGE = "<<"


class Problem(NamedTuple):
    """A mistake in a configuration.

    Attributes:
        path: the key's path (``server.bind[0]``); empty for the whole file.
        line, column: count from 1; ``None`` if unknown.
        sentence: what is wrong and what to write instead.
    """

    path: str
    line: int | None
    sentence: str
    column: int | None = None


class Document(NamedTuple):
    """The content of a YAML text.

    Attributes:
        lines: the line of every key and item, by path.
        columns: likewise.
        copies: the path of the anchor's value, by the path of each alias.
    """

    value: Any
    lines: dict[str, int]
    problems: list[Problem]
    columns: dict[str, int]
    copies: dict[str, str]

    def find(self, path: str) -> tuple[int, int] | None:
        """Return the line and the column of the nearest key at a path or above it."""
        rest = path
        for _ in range(_MAX_DEPTH):
            at = rest
            while at not in self.lines and at not in self.copies and at:
                at = at[: max(at.rfind("."), at.rfind("["), 0)]
            if at not in self.copies or at == rest:
                break
            rest = self.copies[at] + rest[len(at) :]  # in what the alias stands for
        return (self.lines[at], self.columns[at]) if at in self.lines else None


Expand = Callable[[str], str]
"""Replaces ``${NAME}`` in a text; raises ``ValueError`` with a sentence."""


def read_yaml(text: str, expand: Expand = str, *, anchors: bool = False) -> Document:
    """Read one YAML document, or nothing; the value is ``None`` if the text is empty or not YAML.

    Args:
        expand: applied to every scalar that is not a key. A plain scalar is converted (to a number, …) after
            it, a quoted one stays text.
        anchors: whether to read anchors, aliases and the merge key ``<<``. An alias is the same object as
            its anchor: do not change the value.
    """
    events = yaml.parse(text, LOADER)
    reader = _Reader(expand, events, anchors=anchors)
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
        mark = error.problem_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (None, None)
        why = str(error.problem)
        first = "".join(text.splitlines()[mark.line : mark.line + 1])[mark.column :][:1] if mark else ""
        if first == "\t":
            why = "a tab cannot begin a text: indent with spaces"
        elif "cannot start any token" in why:
            why = f"{first!r} cannot begin a text: write it in quotes"
        return Document(None, {}, [Problem("", line, f"this is not YAML: {why}.", column)], {}, {})
    except yaml.YAMLError as error:
        # A control character in the text: this error has no line.
        problem = Problem("", None, f"this is not YAML: {str(error).splitlines()[0]}.")
        return Document(None, {}, [problem], {}, {})
    except UnicodeEncodeError:
        # Bytes of a variable, which Python has as lone surrogates: libyaml takes UTF-8.
        return Document(None, {}, [Problem("", None, "this is not UTF-8.")], {}, {})
    return Document(value, reader.lines, reader.problems, reader.columns, reader.copies)


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


class _Anchored(NamedTuple):
    """The value of an anchor: its path, how many values it has, and how deep it is."""

    path: str
    value: Any
    size: int
    height: int


class _Reader:
    def __init__(self, expand: Expand, events: Iterator[Any], *, anchors: bool = False) -> None:
        self.lines: dict[str, int] = {}
        self.columns: dict[str, int] = {}
        self.copies: dict[str, str] = {}
        self.problems: list[Problem] = []
        self._expand = expand
        self._events = events
        self._reads_anchors = anchors
        self._anchored: dict[str, _Anchored] = {}
        self._size = 0
        self._deepest = 0

    def report(self, path: str, event: Any, sentence: str) -> None:
        mark = event.start_mark
        self.problems.append(Problem(path, mark.line + 1, sentence, mark.column + 1))

    def value(self, event: Any, path: str, depth: int) -> Any:
        self._place(path, event)
        if not self._reads_anchors and (isinstance(event, yaml.AliasEvent) or event.anchor is not None):
            # No anchors at all, rather than a limit on their expansion: a configuration does not need them.
            self.report(
                path, event, "anchors and aliases (&name, *name) are not supported: write out the value."
            )
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event, path, depth) if self._reads_anchors else None
        if event.tag is not None:
            self.report(
                path, event, f"tags such as {event.tag} are not supported: remove it, or quote the text."
            )
        before, above = self._size, self._deepest
        self._size, self._deepest = self._size + 1, depth
        value = self._content(event, path, depth)
        if event.anchor is not None:
            anchored = _Anchored(path, value, self._size - before, self._deepest - depth)
            self._anchored[event.anchor] = anchored
        self._deepest = max(self._deepest, above)
        return value

    def _place(self, path: str, event: Any) -> None:
        if path not in self.lines:
            self.lines[path] = event.start_mark.line + 1
            self.columns[path] = event.start_mark.column + 1

    def _content(self, event: Any, path: str, depth: int) -> Any:
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

    def _alias(self, event: Any, path: str, depth: int) -> Any:
        found = self._anchored.get(event.anchor)
        if found is None:  # also of a value that contains the alias: it is not complete yet
            self.report(path, event, f"there is no anchor &{event.anchor} before this alias.")
        elif self._size + found.size > MOST_VALUES:
            self.report(path, event, f"with this alias, the file has more than {MOST_VALUES:,} values.")
        elif depth + found.height > _MAX_DEPTH:
            self.report(path, event, f"with this alias, values are more than {_MAX_DEPTH} levels deep.")
        else:
            self._size += found.size
            self._deepest = max(self._deepest, depth + found.height)
            self.copies[path] = found.path
            return found.value
        return None

    def _mapping(self, path: str, depth: int) -> dict[str, Any]:
        values: dict[str, Any] = {}
        merged: list[tuple[str, Any]] = []
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            if isinstance(event, yaml.ScalarEvent) and event.tag is None and event.anchor is None:
                key = str(event.value)
                if self._reads_anchors and key == _MERGE and event.implicit[0]:
                    merged += self._to_merge(join(path, f"{_MERGE}{len(merged)}"), depth)
                    continue
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
            self._place(below, event)
            values[key] = self.value(next(self._events), below, depth)
        # A mapping's own keys win, wherever the merge key stands; then the first one that is merged.
        for source, mapping in merged:
            for key, value in mapping.items():
                if key not in values:
                    values[key] = value
                    self.copies[join(path, key)] = join(source, key)
        return values

    def _to_merge(self, path: str, depth: int) -> list[tuple[str, Any]]:
        """Return the mappings that the value of a merge key has, each with the path that it is written at."""
        event = next(self._events)
        value = self.value(event, path, depth)
        if isinstance(value, list):
            found = [(join(path, index), one) for index, one in enumerate(value)]
        else:
            found = [(path, value)]
        if not all(isinstance(one, dict) for _, one in found):
            if value is not None:  # or the alias was reported
                self.report(path, event, "<< takes a mapping, or a list of mappings.")
            return []
        return [(self.copies.get(place, place), one) for place, one in found]

    def _skip(self) -> None:
        """Skip the rest of a list or mapping whose start event was read, without recursion."""
        open_blocks = 1
        while open_blocks:
            event = next(self._events)
            open_blocks += isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent))
            open_blocks -= isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent))
