"""What names a person in payloads and in ids, for erasures: the same for every engine. No I/O."""

from __future__ import annotations

import re
from typing import NamedTuple

# "5511…:7@s.whatsapp.net" is a device of "5511…@s.whatsapp.net".
_OF_WHATSAPP = re.compile(r"(\d+)(?::\d+)?@([a-z.]+)", re.ASCII)
_WORD = re.compile(r"[A-Za-z0-9]+", re.ASCII)


class Person(NamedTuple):
    """How a person is named, and how a search finds the payloads that have it.

    Attributes:
        value: a payload has it as a string, or as the name of a member.
        device: the beginning and the end of what the person's devices are called; ``None`` if there are none.
        part: what every payload has that names the person without escapes: of an identifier of WhatsApp, the
            number.
        escape: what a payload has if its spelling of the value may have escapes.
    """

    value: str
    device: tuple[str, str] | None
    part: str
    escape: str

    @property
    def words(self) -> str:
        """The part as it is in ids: they are made of words; see :func:`hookgw.records.events.event_id_of`."""
        return "-".join(_WORD.findall(self.part)).lower()


def person(value: str) -> Person:
    """Return by which texts to look for the person whom an identifier names."""
    match = _OF_WHATSAPP.fullmatch(value)
    # Few payloads have an escaped character, many an escaped line end, which spells none of these texts.
    escape = "\\" if set('"/\\').intersection(value) or not value.isprintable() else "\\u"
    if match is None:
        return Person(value, None, value, escape)
    return Person(f"{match[1]}@{match[2]}", (f"{match[1]}:", f"@{match[2]}"), match[1], escape)
