"""The phone numbers and chats of WhatsApp, as callers write them. No I/O.

A number that is almost right is another person's number. So an uncertain number is refused with a sentence.
"""

from __future__ import annotations

import re

from hookgw.kernel.errors import Invalid

_PERSON = "s.whatsapp.net"
_PERSONS = (_PERSON, "c.us")
# An international number has at most 15 digits (ITU-T E.164), and no country code begins with 0.
_NUMBER = re.compile(r"[1-9][0-9]{6,14}", re.ASCII)
_SEPARATORS = re.compile(r"[+\s()\[\]-]")
# As events have them; 0 is WhatsApp's own account. Without the device: 5511988887777:12.
_USER = re.compile(r"([1-9][0-9]{4,14}|0)(?::[0-9]{1,5})?", re.ASCII)
# Of newer groups, and of older ones: the number of the creator, and the time.
_GROUP = re.compile(r"[0-9]{18,40}|(?=.{24,40}$)[0-9]+-[0-9]+", re.ASCII)
_LONGEST_SHOWN = 60


def whatsapp_number_of(number: str, where: str = "number") -> str:
    """Return the digits of a phone number that a person or a program wrote.

    It has its country code, 7 to 15 digits, and no zero before them. ``+``, spaces, ``-`` and brackets are
    left out. A dot is no separator: a spreadsheet's ``5511988887777.0`` without it is another person's.

    Args:
        number: such as ``+55 (11) 98888-7777``.
        where: the field that has it, for the error.

    Raises:
        Invalid: it is none; the sentence says why.
    """
    digits = _SEPARATORS.sub("", number)
    if _NUMBER.fullmatch(digits):
        return digits
    why = ""
    if "." in digits:
        why = "; a dot is no separator, and may come from a spreadsheet"
    elif digits.isascii() and digits.isdigit():
        why = f", not {len(digits)}"
        if digits.startswith("0"):
            why = ", without 0, 00 or another prefix before it"
    shown = number if len(number) <= _LONGEST_SHOWN else f"{number[:_LONGEST_SHOWN]}…"
    raise Invalid.of(
        "number.not_phone",
        "{where}: {number!r} is not a phone number; use 7 to 15 digits with the country code{why}.",
        where=where,
        number=shown,
        why=why,
    )


def whatsapp_chat_of(number: str, where: str = "number") -> str:
    """Return the chat that a caller names with ``number``, as events have it in ``remoteJid``.

    Args:
        number: a phone number (see :func:`whatsapp_number_of`); the id of a group without its ``@g.us``: 18
            digits or more, or at least 24 characters with a ``-``; or a chat of events. A person's id may end
            with ``@c.us``, and may name a device, which is left out. Chats that are no person's, such as
            ``…@lid``, are returned as they are, unchecked. An ``@`` before it, as in a mention, is left out.
        where: the field that has it, for the error.

    Raises:
        Invalid: it is none of these; the sentence says why.
    """
    user, at, server = number.strip().removeprefix("@").partition("@")
    if not at:
        return f"{user}@g.us" if _GROUP.fullmatch(user) else f"{whatsapp_number_of(user, where)}@{_PERSON}"
    if server not in _PERSONS:
        return f"{user}@{server}"
    if (found := _USER.fullmatch(user)) is None:
        # The reason is that of the number in it.
        whatsapp_number_of(user.partition(":")[0], where)
        raise Invalid.of(
            "number.not_on_whatsapp",
            "{where}: {number!r} is not a person on WhatsApp.",
            where=where,
            number=number[:_LONGEST_SHOWN],
        )
    return f"{found[1]}@{_PERSON}"


def chat_or_text(number: str) -> str:
    """Return one name for a chat in all spellings of its number; of another network, the text as it is."""
    try:
        return whatsapp_chat_of(number)
    except Invalid:
        return number.strip()
