"""Which chats a payload is about, by the payload alone. No I/O.

The one rule for lanes, filters, lists of chats and erasures. A person on WhatsApp has several names: devices
(``5511988887777:90@s.whatsapp.net``), the spelling of some gateways (``5511988887777@c.us``), and an id that
hides the number (``…@lid``). A payload may have that id beside the number, in one of the fields of
:class:`ChatFields`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

NUMBER = "@s.whatsapp.net"
HIDDEN = "@lid"
"""The ends of the names of people on WhatsApp: with the number, and without it."""
GROUP = "@g.us"
"""The end of the name of a group on WhatsApp."""

SPELLINGS = {"s.whatsapp.net": (NUMBER, "@c.us", "@hosted"), "lid": (HIDDEN, "@hosted.lid")}
"""The ends with which gateways spell these names, the plain one first."""

USER_ID = re.compile(r"[A-Z]{2}\.(?:ENT\.)?[A-Za-z0-9]{1,128}")
"""A business-scoped user id of the Cloud API: the name of people who hide their number behind a username.
As the name of a chat or a person, it has :data:`HIDDEN` behind it."""

MOST_PARTS = 100
"""A list about more chats is not split: it would be a flood of events."""

_TWILIO = "whatsapp:"
_PEOPLE = tuple(spelling for ends in SPELLINGS.values() for spelling in ends)
_ENDS = {spelling[1:]: ends[0] for ends in SPELLINGS.values() for spelling in ends}
# Behind the user may be an agent (_1; .0 in libraries in Go) and a device (:90).
_PERSON = re.compile(rf"(\d+)(?:[_.]\d+)?(?::\d+)?@({'|'.join(map(re.escape, _ENDS))})", re.ASCII)


def plain_jid(jid: str) -> str:
    """Return the plain name of a person on WhatsApp: without a device, and never with ``@c.us``.

    Names of everything else, and of other networks, are returned as they are.
    """
    found = _PERSON.fullmatch(jid)
    return jid if found is None else found[1] + _ENDS[found[2]]


def person_names(identifier: str) -> tuple[str, ...]:
    """Return the texts that name a person as a whole, the plain name first.

    A phone number also stands there alone: the Cloud API writes people so (``"wa_id": "5511988887777"``), and
    its own ids of people (``"user_id": "US.13491208655302741918"``), and Twilio has ``whatsapp:`` before it.
    So do the digits of a ``…@lid``, in statuses from linked devices that an Evolution API 2.4 posts.
    Digits alone are taken for a phone number; of a network that has none, no payload has the plain
    name.
    """
    if USER_ID.fullmatch(user := identifier.removesuffix(HIDDEN)):
        return user + HIDDEN, user
    number = identifier.removeprefix(_TWILIO).removeprefix("+")
    plain = number + NUMBER if number.isdecimal() else plain_jid(identifier)
    user, _, server = plain.partition("@")
    if not user.isdecimal() or server not in SPELLINGS:
        return (plain,)
    return (plain, user) if plain.endswith(HIDDEN) else (plain, user, f"+{user}", f"{_TWILIO}+{user}")


class ChatFields(msgspec.Struct):
    """The fields of a payload, or of the ``key`` in it, that say which chat it is about, and who wrote it.

    Derive a struct with what else you need, and decode with it: the rest of a payload, which may be large, is
    not decoded. :func:`chat_names` and :func:`jids_of` take it as ``msgspec.structs.asdict`` returns it.

    Attributes:
        remoteJid: the chat.
        remoteJidAlt, remoteJidLid: other names of it, if it is a person; beside a broadcast, such as a status
            post, of who wrote it.
        senderPn, senderLid, previousRemoteJid: other names of it, if it is a person who wrote to the account:
            in events of Baileys 6 and Evolution API 2.3.
        participant: who wrote it in a group.
        participantAlt, participantPn, participantLid: other names of the participant.
        fromMe: whether the account wrote it.
        chatId, id: the chat, if there is no ``remoteJid``.
        callerPn: another name of ``chatId``, if it is a person: in calls of Baileys 7.
        phoneNumber, lid: other names of ``id``, if it is a person: in contacts of Baileys 7.
    """

    remoteJid: Any = None  # noqa: N815 -- the names in the payload
    remoteJidAlt: Any = None  # noqa: N815
    remoteJidLid: Any = None  # noqa: N815
    senderPn: Any = None  # noqa: N815
    senderLid: Any = None  # noqa: N815
    previousRemoteJid: Any = None  # noqa: N815
    participant: Any = None
    participantAlt: Any = None  # noqa: N815
    participantPn: Any = None  # noqa: N815
    participantLid: Any = None  # noqa: N815
    fromMe: Any = None  # noqa: N815
    chatId: Any = None  # noqa: N815
    callerPn: Any = None  # noqa: N815
    phoneNumber: Any = None  # noqa: N815
    lid: Any = None
    id: Any = None


_OTHER_NAMES = {
    "remoteJid": ("remoteJidAlt", "remoteJidLid"),
    "participant": ("participantAlt", "participantPn", "participantLid"),
    "chatId": ("callerPn",),
    "id": ("phoneNumber", "lid"),
}
# What the account wrote has the account's own number there.
_NAMES_OF_WRITER = ("senderPn", "senderLid", "previousRemoteJid")


def jids_of(key: Mapping[str, Any], field: str = "remoteJid") -> tuple[str, ...]:
    """Return all names that a payload has for one chat or person, the one to know it by first.

    That is the plain one (:func:`plain_jid`), and the number before an ``@lid``. The others are as plain
    names and as the payload spells them.

    Args:
        key: the ``key`` of a message, or another object of a payload. Fields of wrong types count as missing.
        field: has the name. Others of the same chat or person are in the fields that begin with it, such as
            ``remoteJidAlt``, and in ``senderPn``, ``senderLid`` and ``previousRemoteJid`` of what a person
            wrote to the account.
    """
    fields = (field, *_OTHER_NAMES.get(field, (f"{field}Alt",)))
    chat = key.get("remoteJid")
    if field == "participant" and isinstance(chat, str) and chat.endswith("@broadcast"):
        # Baileys 7 has the number behind the writer's "@lid" there, which is no name of the broadcast.
        fields += _OTHER_NAMES["remoteJid"]
    elif field in ("chatId", "id") and not (isinstance(one := key.get(field), str) and one.endswith(_PEOPLE)):
        fields = (field,)
    elif field == "remoteJid" and isinstance(chat, str) and chat:
        if not chat.endswith(_PEOPLE):
            fields = (field,)
        elif key.get("fromMe") is not True:
            fields += _NAMES_OF_WRITER
    given = [jid for jid in map(key.get, fields) if jid and isinstance(jid, str)]
    plain = [plain_jid(jid) for jid in given]
    if plain and plain[0].endswith(HIDDEN):
        plain[:0] = [jid for jid in plain if jid.endswith(NUMBER)][:1]
    return tuple(dict.fromkeys([*plain, *given]))


def chat_names(payload: Mapping[str, Any]) -> tuple[str, ...]:
    """Return all names of the chat that a payload is about, as :func:`jids_of` does; empty if there is none.

    The chat is ``remoteJid``, in ``key`` or at the top; or else ``chatId``, or an ``id`` with an ``@``.

    Args:
        payload: the ``data`` of an event, or an entry of it if it is a list.
    """
    key = payload.get("key")
    if (
        names := (jids_of(key) if isinstance(key, dict) else ())
        or jids_of(payload)
        or jids_of(payload, "chatId")
    ):
        return names
    # Of a message, or of a record of the sender's, "id" is something else.
    id_ = payload.get("id")
    return jids_of(payload, "id") if isinstance(id_, str) and "@" in id_ else ()


class _Payload(ChatFields):
    """A payload, or an entry of a list. The rest of it is not decoded."""

    key: Any = None
    keyId: Any = None  # noqa: N815


# Of a message, without the id: the same for many messages.
_NAMED = [name for name in ChatFields.__struct_fields__ if name not in ("phoneNumber", "lid", "id")]
# No network has longer ones, and all of them are remembered.
_Name = Annotated[str, Meta(max_length=255)] | None
_TYPES = {"id": (str, ""), "fromMe": (bool | None, None)}
_Key = msgspec.defstruct(
    "_Key", [(name, *_TYPES.get(name, (_Name, None))) for name in ("id", *_NAMED)], gc=False
)
_Message = msgspec.defstruct("_Message", [("key", _Key)], gc=False)
_decode_message: Callable[[bytes | memoryview], Any] = msgspec.json.Decoder(_Message, float_hook=float).decode


@lru_cache(maxsize=10_000)
def _chat_and_sender(account: str | None, named: tuple[Any, ...]) -> tuple[str, str]:
    key = dict(zip(_NAMED, named, strict=True))
    names = jids_of(key)
    return (names[0], _sender_of(key, names[0], account)) if names else ("", "")


_Value = str | bool | int | float | None
# float: msgspec's own takes 20 µs for a number such as 1.5e300.
_Entry = _Payload | list[Any] | _Value
_decode = msgspec.json.Decoder(_Payload | list[_Entry] | _Value, float_hook=float).decode
_decode_entry = msgspec.json.Decoder(_Entry, float_hook=float).decode
_entries_of = msgspec.json.Decoder(list[msgspec.Raw]).decode


def chats_in(data_json: bytes) -> tuple[str, ...]:
    """Return the chats that a payload is about, each once: of a list, those of its entries in order.

    An entry may be the name of the chat itself.
    """
    # Not the whole payload: that takes much longer for a large one.
    try:
        decoded = _decode(data_json)
    except msgspec.ValidationError:  # a number of thousands of digits
        return ()
    if isinstance(decoded, list):
        return tuple(dict.fromkeys(chat for entry in decoded if (chat := _chat_of(entry))))
    chat = _chat_of(decoded) if isinstance(decoded, _Payload) else ""
    return (chat,) if chat else ()


class Subjects(NamedTuple):
    """What a payload is about, each name once: of a list, those of its entries in order.

    Attributes:
        chats: as :func:`chats_in` returns them.
        senders: who wrote or did it, by the plain names of :func:`jids_of`.
        messages: the network's ids of messages.
    """

    chats: tuple[str, ...] = ()
    senders: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()


def subjects_in(data_json: bytes | memoryview, account: str | None) -> Subjects:
    """Return the chats, senders and messages that a payload is about.

    A message is ``id`` in ``key``; without a key, ``keyId``, or an ``id`` without an ``@``. The sender is the
    ``participant`` beside it; or else the account itself, of what is ``fromMe``; or else the chat.

    Args:
        account: the one that the instance is connected as, if that is known.
    """
    if (found := message_subjects(data_json, account)) is not None:
        return Subjects(*((name,) if name else () for name in found))
    try:
        decoded = _decode(data_json)
    except msgspec.ValidationError:
        return Subjects()
    if not isinstance(decoded, list):
        return Subjects(*((name,) if name else () for name in _subjects_of(decoded, account)))
    entries = [_subjects_of(entry, account) for entry in decoded]
    return Subjects(*(tuple(dict.fromkeys(filter(None, names))) for names in zip(*entries, strict=True)))


def message_subjects(data_json: bytes | memoryview, account: str | None) -> tuple[str, str, str] | None:
    """Return what :func:`subjects_in` does, each as one name or empty, for a message alone.

    Nearly all payloads are one, and the index of the log has to read each payload: it takes a quarter of the
    time. ``None`` for other payloads.
    """
    try:
        key = _decode_message(data_json).key
    except msgspec.ValidationError:
        return None
    values = msgspec.structs.astuple(key)
    chat, sender = _chat_and_sender(account, values[1:])
    return (chat, sender, values[0]) if chat else None


def _subjects_of(entry: Any, account: str | None) -> tuple[str, str, str]:
    """Return the chat, the sender and the message of a payload, or of an entry of a list."""
    chat = _chat_of(entry)
    if not isinstance(entry, _Payload):
        return chat, chat, ""
    key = entry.key
    named = key if isinstance(key, dict) else msgspec.structs.asdict(entry)
    message = named.get("id") if named is key else entry.keyId or entry.id
    if not isinstance(message, str) or (named is not key and "@" in message):
        message = ""
    return chat, _sender_of(named, chat, account), message


def _sender_of(named: Mapping[str, Any], chat: str, account: str | None) -> str:
    if senders := jids_of(named, "participant"):
        return senders[0]
    if named.get("fromMe") is True:
        return plain_jid(account) if account else ""
    return chat


def split_by_chat(data_json: bytes) -> dict[str, bytes]:
    """Return the parts of a list about several chats, by chat, with the bytes of its entries, in order.

    Entries without a chat are a part of their own, under an empty name. The result is empty if the payload is
    no such list, or is about more than :data:`MOST_PARTS` chats.
    """
    if not 1 < len(chats_in(data_json)) <= MOST_PARTS:
        return {}
    parts: dict[str, list[bytes]] = {}
    for raw in _entries_of(data_json):
        entry = bytes(raw)
        parts.setdefault(_chat_of(_decode_entry(entry)), []).append(entry)
    return {chat: b"[" + b",".join(entries) + b"]" for chat, entries in parts.items()}


def _chat_of(entry: Any) -> str:
    if isinstance(entry, str):
        return plain_jid(entry) if "@" in entry else ""
    if not isinstance(entry, _Payload):
        return ""
    # Most payloads: quicker than all names of the chat.
    jid = entry.key.get("remoteJid") if isinstance(entry.key, dict) else None
    if isinstance(jid, str) and jid and not (plain := plain_jid(jid)).endswith(HIDDEN):
        return plain
    names = chat_names(msgspec.structs.asdict(entry))
    return names[0] if names else ""
