"""What GOWA reports, as events of hookgw. No I/O.

GOWA passes on what people on WhatsApp wrote, in the shape of its ``docs/webhook-payload.md``: any field may
be missing or have another type. So every field is read through a function that checks its type, and a report
that hookgw knows no kind for, or that lacks a field, is a NETWORK_EVENT.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from hookgw import NewEvent, event_id_of
from hookgw.connectors import MediaUrl, mapping, message_data, network_event, raw_at, seconds, strings, text

from .content import UNKNOWN, content_of

_STATUSES = {"delivered": "DELIVERY_ACK", "read": "READ", "read-self": "READ", "played": "PLAYED"}
_ACTIONS = {"join": "add", "leave": "remove", "promote": "promote", "demote": "demote"}
_DEVICE = re.compile(r"[:.][0-9]+(?=@)", re.ASCII)


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """What the translation has to know of the account.

    Attributes:
        media_url: makes links to files.
        report: identifies the report: all attempts to deliver it have the same.
    """

    media_url: MediaUrl
    report: str


Translated = tuple[str, Any, tuple[str, ...] | None]
"""A kind, the data, and the ids that identify the event; ``None`` for that of the report."""


def translate(envelope: Mapping[str, Any], account: Account, body: bytes) -> list[NewEvent]:
    """Return the events of hookgw for a report of GOWA: the body of its request, decoded and as it came."""
    name, payload = text(envelope.get("event")), mapping(envelope.get("payload"))
    translator = _TRANSLATORS.get(name)
    # Times of what is no message stand beside the payload.
    beside = {"timestamp": envelope.get("timestamp")}
    found = translator({**beside, **payload}, account) if translator is not None else []
    if not found:
        return [unknown(envelope, account, body)] if name else []
    me = jid_of(envelope.get("device_id"))
    return [
        NewEvent(
            kind=kind,
            data=data,
            event_id=event_id_of(*(ids or ("gowa", account.report, str(number)))),
            sender=me or None,
        )
        for number, (kind, data, ids) in enumerate(found)
    ]


def unknown(envelope: Mapping[str, Any], account: Account, body: bytes) -> NewEvent:
    """Return the NETWORK_EVENT for a report, such as what happens to channels; see :func:`translate`."""
    name, value = text(envelope.get("event")), raw_at(body, "payload")
    me = jid_of(envelope.get("device_id"))
    return network_event("gowa", name, value, account.report, sender=me or None)


def jid_of(value: Any) -> str:
    """Return an id of a chat or a person without the device; empty for anything else."""
    found = text(value)
    return _DEVICE.sub("", found) if "@" in found else ""


def is_group(jid: str) -> bool:
    return jid.endswith("@g.us")


def _message(payload: dict[str, Any], account: Account) -> list[Translated]:
    key = _key(payload, text(payload.get("id")))
    if key is None:
        return []
    content = content_of(payload, key["remoteJid"], key["id"], account.media_url)
    data = _data_of(payload, key, content.type, content.value, content.context)
    return [("MESSAGES_UPSERT", data, ("MESSAGES_UPSERT", key["remoteJid"], key["id"]))]


def _reaction(payload: dict[str, Any], account: Account) -> list[Translated]:
    del account
    key, target = _key(payload, text(payload.get("id"))), text(payload.get("reacted_message_id"))
    if key is None or not target:
        return []
    # GOWA does not say who wrote the message.
    reacted = {"remoteJid": key["remoteJid"], "id": target}
    content = {"key": reacted, "text": text(payload.get("reaction"))}
    data = _data_of(payload, key, "reactionMessage", content)
    return [("MESSAGES_UPSERT", data, ("MESSAGES_UPSERT", key["remoteJid"], key["id"]))]


def _edited(payload: dict[str, Any], account: Account) -> list[Translated]:
    del account
    key = _key(payload, text(payload.get("original_message_id")))
    if key is None:
        return []
    body = text(payload.get("body"))  # GOWA does not tell a new caption
    content = ("conversation", body) if body else (UNKNOWN, {})
    return [("MESSAGES_EDITED", _data_of(payload, key, *content), None)]


def _revoked(payload: dict[str, Any], account: Account) -> list[Translated]:
    del account
    key = _key(payload, text(payload.get("revoked_message_id")))
    if key is None:
        return []
    if payload.get("revoked_from_me") is False:
        # Somebody else's message, deleted by an administrator of the group. GOWA does not say whose.
        key = {"remoteJid": key["remoteJid"], "fromMe": False, "id": key["id"]}
    data = {**key, "status": "DELETED", "messageTimestamp": seconds(payload.get("timestamp"))}
    # The gateway's event for a deletion of its own has the same id.
    return [("MESSAGES_DELETE", data, ("MESSAGES_DELETE", key["remoteJid"], key["id"]))]


def _deleted(payload: dict[str, Any], account: Account) -> list[Translated]:
    del account
    chat, id_ = jid_of(payload.get("chat_id")), text(payload.get("deleted_message_id"))
    if not chat or not id_:
        return []
    data = {"remoteJid": chat, "fromMe": payload.get("was_from_me") is True, "id": id_, "forMe": True}
    data |= {"status": "DELETED", "messageTimestamp": seconds(payload.get("timestamp"))}
    return [("MESSAGES_DELETE", data, ("MESSAGES_DELETE", chat, id_, "for me"))]


def _ack(payload: dict[str, Any], account: Account) -> list[Translated]:
    del account
    chat, person = _chat_and_person(payload)
    kind = text(payload.get("receipt_type"))
    status = _STATUSES.get(kind)
    if not chat or status is None:
        return []
    found: list[Translated] = []
    for id_ in strings(payload.get("ids")):
        # What the account has read itself was written by somebody else.
        data: dict[str, Any] = {"keyId": id_, "remoteJid": chat, "fromMe": kind != "read-self"}
        if person and _names_person(chat):
            data["participant"] = person
        data["status"] = status
        ids = ("MESSAGES_UPDATE", chat, id_, text(data.get("participant")), status)
        found.append(("MESSAGES_UPDATE", data, ids))
    return found


def _presence(payload: dict[str, Any], account: Account) -> list[Translated]:
    del account
    chat, person = _chat_and_person(payload)
    state = text(payload.get("state"))
    if not chat or not person or state not in ("composing", "paused"):
        return []
    shown = "recording" if state == "composing" and payload.get("media") == "audio" else state
    data = {"id": chat, "presences": {person: {"lastKnownPresence": shown}}}
    return [("PRESENCE_UPDATE", data, None)]


def _chat_and_person(payload: Mapping[str, Any]) -> tuple[str, str]:
    """Return where somebody reads or types, and who it is; empty if it cannot be told.

    Messages of a chat with a hidden id come under the number, if GOWA knows it. These reports have the number
    as the person alone.
    """
    chat, person = jid_of(payload.get("chat_id")), jid_of(payload.get("from"))
    is_hidden = chat.endswith("@lid") and chat == jid_of(payload.get("from_lid"))
    return person if is_hidden and person else chat, person


def _members(payload: dict[str, Any], account: Account) -> list[Translated]:
    del account
    chat, action = jid_of(payload.get("chat_id")), _ACTIONS.get(text(payload.get("type")))
    people = [jid for jid in map(jid_of, strings(payload.get("jids"))) if jid]
    if not chat or action is None or not people:
        return []
    return [("GROUP_PARTICIPANTS_UPDATE", {"id": chat, "participants": people, "action": action}, None)]


def _joined(payload: dict[str, Any], account: Account) -> list[Translated]:
    del account
    chat = jid_of(payload.get("chat_id"))
    if not chat:
        return []
    group = {"id": chat}
    if subject := text(payload.get("group_name")):
        group["subject"] = subject
    return [("GROUPS_UPSERT", [group], None)]


def _label(payload: dict[str, Any], account: Account) -> list[Translated]:
    del account
    id_ = text(payload.get("label_id"))
    if not id_:
        return []
    label: dict[str, Any] = {"id": id_}
    for field, source in (("name", "name"), ("color", "color"), ("predefinedId", "predefined_id")):
        if payload.get(source) is not None:
            label[field] = payload[source]
    return [("LABELS_EDIT", {**label, "deleted": payload.get("deleted") is True}, None)]


def _labelled(payload: dict[str, Any], account: Account) -> list[Translated]:
    del account
    id_, chat = text(payload.get("label_id")), jid_of(payload.get("chat_id"))
    if not id_ or not chat:
        return []
    action = "add" if payload.get("labeled") is True else "remove"
    return [("LABELS_ASSOCIATION", {"labelId": id_, "chatId": chat, "type": action}, None)]


def _call(payload: dict[str, Any], account: Account) -> list[Translated]:
    del account
    id_, caller, group = (
        text(payload.get("call_id")),
        jid_of(payload.get("from")),
        jid_of(payload.get("group_jid")),
    )
    if not id_ or not caller:
        return []
    status = "reject" if payload.get("auto_rejected") is True else "offer"
    call = {
        "id": id_,
        "chatId": group or caller,
        "from": caller,
        "status": status,
        "isGroup": bool(group),
        "date": seconds(payload.get("timestamp")),
    }
    return [("CALL", [call], ("CALL", id_, status))]


_TRANSLATORS: dict[str, Callable[[dict[str, Any], Account], list[Translated]]] = {
    "message": _message,
    "message.reaction": _reaction,
    "message.edited": _edited,
    "message.revoked": _revoked,
    "message.deleted": _deleted,
    "message.ack": _ack,
    "chat_presence": _presence,
    "group.participants": _members,
    "group.joined": _joined,
    "label.edit": _label,
    "label.association": _labelled,
    "call.offer": _call,
}


def _key(payload: Mapping[str, Any], id_: str) -> dict[str, Any] | None:
    """Return the key of a message; ``None`` if it cannot be told."""
    chat = jid_of(payload.get("chat_id"))
    if not chat or not id_:
        return None
    key: dict[str, Any] = {"remoteJid": chat, "fromMe": payload.get("is_from_me") is True, "id": id_}
    person, hidden = jid_of(payload.get("from")), jid_of(payload.get("from_lid"))
    if _names_person(chat):
        if person:
            key["participant"] = person
        if hidden and hidden != person:
            key["participantLid"] = hidden
    elif (lid := jid_of(payload.get("chat_lid"))) and lid != chat:
        key["remoteJidLid"] = lid
    return key


def _names_person(chat: str) -> bool:
    """Return whether keys and receipts of a chat say which person they are of."""
    return is_group(chat) or chat.endswith("@broadcast")


def _data_of(
    payload: Mapping[str, Any],
    key: dict[str, Any],
    name: str,
    value: Any,
    context: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the data of a message, with the name that the author has chosen."""
    content, author = (name, {name: value}), text(payload.get("from_name"))
    return message_data(key, content, seconds(payload.get("timestamp")), push_name=author, context=context)
