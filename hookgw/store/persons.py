"""What names a person in payloads and in ids, for erasures: the same for every engine. No I/O."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from hookgw.records.chats import person_names, plain_jid
from hookgw.records.selection import DeliverySelection
from hookgw.store.searches import spellings

IDS = ("id", "user_id", "chat_id", "user_chat_id")
"""The members in which an identifier may be a number: Telegram writes people so."""

_WORD = re.compile(r"[A-Za-z0-9]+", re.ASCII)


class Person(NamedTuple):
    """How a person is named, and how a search finds the payloads that have it.

    Attributes:
        values: a payload has one of them as a string, or as the name of a member, or as the number of a
            member of :data:`IDS`; see :func:`~hookgw.records.chats.person_names`. Or what it has there has
            the first one as its ``plain_jid``.
        part: what every payload has that names the person without escapes: of an identifier of WhatsApp, the
            number, or the id that stands for it.
        escape: what a payload has if its spelling of the value may have escapes.
    """

    values: tuple[str, ...]
    part: str
    escape: str

    @property
    def spellings(self) -> tuple[bytes, bytes]:
        """The bytes of which every payload has some that names the person."""
        return self.part.encode("utf-8", "surrogatepass"), self.escape.encode()

    @property
    def words(self) -> str:
        """The part as it is in ids: they are made of words; see :func:`hookgw.records.events.event_id_of`."""
        return "-".join(_WORD.findall(self.part)).lower()


def person(value: str) -> Person:
    """Return by which texts to look for the person whom an identifier names."""
    names = person_names(value)
    # Few payloads have an escaped character, many an escaped line end, which spells none of these texts.
    escape = "\\" if set('"/\\').intersection(value) or not value.isprintable() else "\\u"
    return Person(names, names[1] if len(names) > 1 else value, escape)


def names_person(data: bytes, named: Person) -> bool:
    """Return whether a payload names a person. If it cannot be parsed, its text decides."""
    try:
        parsed: Any = json.loads(data, object_pairs_hook=_strings_of)
    except (ValueError, RecursionError):
        return named.part.encode("utf-8", "surrogatepass") in data
    left = [parsed]
    while left:
        one = left.pop()
        if isinstance(one, str):
            if one in named.values or plain_jid(one) == named.values[0]:
                return True
        elif isinstance(one, list):
            left.extend(one)
    return False


def sought_bytes(query: DeliverySelection) -> tuple[bytes, bytes]:
    """Return the bytes of which a payload has some if it may match a selection that reads payloads."""
    return person(query.person or "").spellings if query.text is None else spellings(query.text)


def _strings_of(members: list[tuple[str, Any]]) -> list[Any]:
    """Return the names and values of an object as a list: a member may be there twice."""
    found = []
    for name, value in members:
        found += [name, str(value) if name in IDS and type(value) is int else value]
    return found
