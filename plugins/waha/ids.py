"""The ids of chats, people and messages: those of events, and those of WAHA. No I/O.

Events have the ids of WhatsApp gateways: a person is ``5511988887777@s.whatsapp.net``. WAHA writes
``5511988887777@c.us``. Groups (``@g.us``), hidden ids (``@lid``), channels (``@newsletter``) and broadcasts
are the same in both. A message has an id of its own in events, ``3EB0…``; WAHA also puts its direction, its
chat and, in groups, its author into it: ``false_5511988887777@c.us_3EB0…``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from hookgw import Invalid, MessageKey
from hookgw.connectors import found_at, whatsapp_chat_of

from .fields import id_text

_PERSON, _WAHA_PERSON = "s.whatsapp.net", "c.us"
_SERVERS = frozenset((_PERSON, _WAHA_PERSON, "g.us", "lid", "newsletter", "broadcast"))
_USER = re.compile(r"[0-9A-Za-z.:-]{1,64}", re.ASCII)
_DIGITS = re.compile(r"[0-9]{1,20}", re.ASCII)
_MESSAGE = re.compile(r"[0-9A-Za-z.=-]{1,128}", re.ASCII)
_BRAZILIAN = re.compile(r"55[0-9]{10,11}@c\.us", re.ASCII)


class MessageId(NamedTuple):
    """The parts of WAHA's id of a message; ``participant`` is empty where WAHA names no author."""

    from_me: bool
    chat: str
    id: str
    participant: str


def jid_of(chat_id: str) -> str:
    """Return the id that events have for a chat or a person of WAHA."""
    user, at, server = chat_id.partition("@")
    if not at:
        return f"{user}@{_PERSON}" if _DIGITS.fullmatch(user) else chat_id
    if server in (_WAHA_PERSON, _PERSON, "lid"):
        # Some engines name the device, too: 5511988887777:12@c.us.
        return f"{user.partition(':')[0]}@{'lid' if server == 'lid' else _PERSON}"
    return chat_id


def chat_id_of(number: str, where: str = "number") -> str:
    """Return WAHA's id for what a caller calls a chat: a phone number, or a chat of events or of WAHA.

    Raises:
        Invalid: it is none of these.
    """
    user, _, server = whatsapp_chat_of(number, where).partition("@")
    if server not in _SERVERS or not _USER.fullmatch(user):
        raise Invalid.of(
            "waha.number_form", "{where}: {number!r} is not a chat of WhatsApp.", where=where, number=number
        )
    return f"{user}@{_WAHA_PERSON if server == _PERSON else server}"


def is_typed_brazilian_number(number: str, chat: str) -> bool:
    """Return whether a chat was named by a phone number of Brazil.

    Numbers from before 2012 are known to WhatsApp without the 9 that they have today, so the chat of such a
    number must be asked for.
    """
    return "@" not in number[1:] and bool(_BRAZILIAN.fullmatch(chat))


def is_group(jid: str) -> bool:
    return jid.endswith("@g.us")


def parse_message_id(value: Any) -> MessageId | None:
    """Return the parts of WAHA's id of a message; ``None`` if it is not such an id."""
    parts = value.split("_", 3) if isinstance(value, str) else []
    if len(parts) < 3 or parts[0] not in ("true", "false") or "@" not in parts[1] or not parts[2]:
        return None
    return MessageId(parts[0] == "true", parts[1], parts[2], parts[3] if len(parts) > 3 else "")


def message_id_of(key: MessageKey, chat: str, *, from_me: bool, author: str = "", where: str = "key") -> str:
    """Return WAHA's id of a message.

    Args:
        key: the message, in the words of events. Its id may also be one of WAHA's, which is returned as is.
        chat: WAHA's id of the chat, if the key has none.
        from_me: whether the account wrote it.
        author: WAHA's id of who wrote it in a group, if the key does not say.
        where: the field that has the key, for the error.

    Raises:
        Invalid: the key is not one of a message.
    """
    if parse_message_id(key.id) is not None:
        return key.id
    if not _MESSAGE.fullmatch(key.id):
        raise Invalid.of(
            "waha.message_id_form",
            "{where}.id: {id!r} is not the id of a message of WhatsApp.",
            where=where,
            id=key.id,
        )
    if key.remote_jid:
        chat = chat_id_of(key.remote_jid, f"{where}.remoteJid")
    parts = ["true" if from_me else "false", chat, key.id]
    participant = chat_id_of(key.participant, f"{where}.participant") if key.participant else author
    if is_group(chat) and participant:
        parts.append(participant)
    return "_".join(parts)


# Where engines have the phone number of somebody whom WhatsApp shows under a hidden id: NOWEB with the names
# of Baileys 7 and of Baileys 6, then GOWS. What is about the sender of a message is about the chat only if
# the other side wrote it.
AUTHORS = (("key", "participantAlt"), ("key", "participantPn"), ("key", "senderPn"), ("Info", "SenderAlt"))
RECEIPTS = (("SenderAlt",), ("RecipientAlt",))
SENDERS = (("key", "remoteJidAlt"), ("key", "senderPn"), ("senderPn",), ("Info", "SenderAlt"))
RECIPIENTS = (
    *(("key", "remoteJidAlt"), ("key", "recipientPn"), ("key", "peerRecipientPn"), ("recipientPn",)),
    *(("peerRecipientPn",), ("Info", "RecipientAlt")),
)
CALLERS = (("callerPn",), ("CallCreatorAlt",))


def number_behind(
    hidden: str, engine: Mapping[str, Any], paths: tuple[tuple[str, ...], ...], account: str
) -> str:
    """Return the phone number behind a hidden id; empty if it is none, or the engine does not say the number.

    ``account`` is left out: engines give the account's own number for the sender of what it sent itself.
    """
    if not hidden.endswith("@lid"):
        return ""
    said = (jid_of(id_text(found_at(engine, *path))) for path in paths)
    return next((one for one in said if one.endswith("@s.whatsapp.net") and one != account), "")


def device_of(id_: str) -> str:
    """Return what kind of device made a message: WhatsApp's apps make ids of different forms."""
    if re.fullmatch(r"3A.{18}", id_):
        return "ios"
    if re.fullmatch(r"3EB0.{18}|3E.{20}", id_):
        return "web"
    if re.fullmatch(r".{21}|.{32}", id_):
        return "android"
    return "desktop" if re.fullmatch(r"3F.*|.{18}", id_) else "unknown"
