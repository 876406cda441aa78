"""Reads the search of deliveries: words, and qualifiers such as ``state:dead``. No I/O."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import Enum
from typing import NamedTuple

from hookgw.kernel.errors import Invalid
from hookgw.records.deliveries import parse_delivery_id

QUALIFIERS = {
    "state": "state",
    "kind": "kind",
    "event": "kind",
    "instance": "instance",
    "webhook": "label",
    "label": "label",
    "host": "host",
    "status": "status",
    "error": "error",
    "payload": "text",
    "text": "text",
    "person": "person",
    "tag": "tag",
    "since": "since",
    "until": "until",
    "id": "id",
}
"""The words that may stand before a colon, with the filters that they mean."""
_PART = re.compile(r'(?:(?P<name>[A-Za-z]+):(?!//))?(?:"(?P<quoted>(?:[^"]|"")*)"?|(?P<plain>\S+))')
"""Within quotation marks, two of them are one."""
_PHONE = re.compile(r"\+?[0-9][0-9 ().-]{5,22}[0-9]", re.ASCII)
_PERSON = re.compile(r"[0-9A-Za-z.:_-]+@[a-z.]+", re.ASCII)
_URL = re.compile(r"[a-z][a-z0-9+.-]*://(?:[^/@\s]*@)?(\[[^\]]*\](?::[0-9]+)?|[^/\s?#]+)", re.IGNORECASE)


class Words(Enum):
    """What words without a qualifier are, by their form. ``TEXT`` may also be an id."""

    NONE = ""
    DELIVERY = "id"
    PERSON = "person"
    HOST = "host"
    INSTANCE = "instance"
    ERROR = "error"
    NUMBER = "text"
    TEXT = "words"


class Search(NamedTuple):
    """A search.

    Attributes:
        filters: the values of the qualifiers, by the names of their filters.
        words: what has no qualifier.
    """

    filters: dict[str, str]
    words: str


def parse_search(text: str) -> Search:
    """Read a search. A qualifier that is given twice is a mistake: its values would exclude each other."""
    filters, words = dict[str, str](), list[str]()
    for part in _PART.finditer(text):
        value = part["plain"] if part["quoted"] is None else part["quoted"].replace('""', '"')
        name = QUALIFIERS.get((part["name"] or "").casefold())
        if name is None:
            words.append(f"{part['name']}:{value}" if part["name"] else value)
            continue
        if name in filters:
            raise Invalid.of("search.repeated", "The search has {name}: twice.", name=part["name"].casefold())
        filters[name] = value
    return Search(filters, " ".join(words).strip())


def with_words(filters: Mapping[str, str], name: str, words: str) -> str:
    """Return the search with these filters, and words behind a qualifier of their own."""
    quoted = {key: value.replace('"', '""') for key, value in {**filters, name: words}.items()}
    return " ".join(f'{key}:"{value}"' for key, value in quoted.items())


def without(text: str, *names: str) -> str:
    parts = _PART.finditer(text)
    return " ".join(one[0] for one in parts if QUALIFIERS.get((one["name"] or "").casefold()) not in names)


def kind_of_words(words: str, is_instance: Callable[[str], bool]) -> tuple[Words, str]:
    """Return what words are, and what to search for.

    Args:
        is_instance: returns whether there is an instance of a name.
    """
    if not words:
        return Words.NONE, ""
    if parse_delivery_id(words) is not None:
        return Words.DELIVERY, words
    if is_instance(words):
        return Words.INSTANCE, words
    if _PHONE.fullmatch(words):
        # With all spellings of it on any network, and also a part of it.
        return Words.NUMBER, "".join(one for one in words if one.isdigit())
    if _PERSON.fullmatch(words):
        return Words.PERSON, words
    found = _URL.match(words)
    if found is not None:
        return Words.HOST, found[1]
    return Words.TEXT, words


def last_part(text: str) -> tuple[str, str, str]:
    """Return what is to be completed: all before the last part, its qualifier or an empty text, its value."""
    before, space, last = text.rpartition(" ")
    name, colon, value = last.partition(":")
    if colon and name.casefold() in QUALIFIERS:
        return before + space, name.casefold(), value.lstrip('"')
    return before + space, "", last
