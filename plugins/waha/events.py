"""What WAHA reports, as events of hookgw. No I/O.

WAHA has four engines, which fill the same fields differently, and passes on what people on WhatsApp wrote:
any field may be missing or have another type. So every field is read through a function that checks its type,
and a report that hookgw knows no kind for, or that lacks a field, is a NETWORK_EVENT.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from hookgw import NewEvent, event_id_of
from hookgw.connectors import (
    MediaUrl,
    Recent,
    any_number,
    found_at,
    items,
    mapping,
    message_data,
    network_event,
    raw_at,
    seconds,
    strings,
    text,
)

from .content import content_of, edited_content_of
from .fields import id_text
from .ids import (
    AUTHORS,
    CALLERS,
    RECEIPTS,
    RECIPIENTS,
    SENDERS,
    device_of,
    is_group,
    jid_of,
    number_behind,
    parse_message_id,
)

_STATUSES: dict[float, str] = {
    -1: "ERROR",
    0: "PENDING",
    1: "SERVER_ACK",
    2: "DELIVERY_ACK",
    3: "READ",
    4: "PLAYED",
}
_STATUS_NAMES = {
    "ERROR": "ERROR",
    "PENDING": "PENDING",
    "SERVER": "SERVER_ACK",
    "DEVICE": "DELIVERY_ACK",
    "READ": "READ",
    "PLAYED": "PLAYED",
}
_PRESENCES = {
    "online": "available",
    "offline": "unavailable",
    "typing": "composing",
    "recording": "recording",
    "paused": "paused",
}
_ACTIONS = {"join": "add", "leave": "remove", "promote": "promote", "demote": "demote"}
_CALLS = {"call.received": "offer", "call.accepted": "accept", "call.rejected": "reject"}
WAITING = "WhatsApp has not sent the key of this message yet: it may arrive later."
"""What the event of a message that cannot be read yet says."""


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """What the translation has to know of the account.

    Attributes:
        jid: its id; empty while it is not known.
        media_url: makes links to files.
        report: the id of the report that is translated: all attempts to deliver it have the same.
        sent: the chats of the messages that were sent through WAHA, by their ids.
        done: the edits and reactions of this instance, and the report of each, once it came.
    """

    jid: str
    media_url: MediaUrl
    report: str
    sent: Recent[str, str]
    done: Recent[tuple[str, ...], str]

    def has_done(self, *what: str) -> bool:
        """Return whether this report tells of something that the instance itself has done.

        The gateway has raised an event for it. A second report of the same kind tells of somebody else, who
        did it again on the phone.
        """
        report = self.done.get(what)
        if report == "":
            self.done.put(what, self.report)
        return report in ("", self.report)


def translate(envelope: Mapping[str, Any], account: Account, body: bytes) -> NewEvent | None:
    """Return the event of hookgw for one of WAHA.

    Args:
        envelope: the body of its request, decoded.
        account: whose report it is.
        body: the same, as WAHA wrote it.

    Returns:
        ``None`` if it is no news: this instance itself has done it, or only devices need it.
    """
    name, payload = text(envelope.get("event")), mapping(envelope.get("payload"))
    translator = _TRANSLATORS.get(name)
    found = translator(name, payload, account) if translator is not None else None
    if found is None:
        return unknown(envelope, account, body) if name else None
    kind, data, ids = found
    if not kind:
        return None
    # A message is one event, whether WAHA reports it as "message" or as "message.any". Where WAHA's payload
    # does not identify what happened, the id of the report does.
    return NewEvent(
        kind=kind,
        data=data,
        event_id=event_id_of(*(ids or ("waha", account.report))),
        sender=_me(envelope),
    )


def unknown(envelope: Mapping[str, Any], account: Account, body: bytes) -> NewEvent:
    """Return the NETWORK_EVENT for a report; see :func:`translate`."""
    name, value = text(envelope.get("event")), raw_at(body, "payload")
    return network_event("waha", name, value, account.report, sender=_me(envelope))


def _me(envelope: Mapping[str, Any]) -> str | None:
    me = text(mapping(envelope.get("me")).get("id"))
    return jid_of(me) if me else None


def chats_in(payload: Mapping[str, Any]) -> list[str]:
    """Return the chats that a report of any kind is about."""
    paths = (("from",), ("to",), ("chatId",), ("id",), ("group", "id"), ("vote", "from"), ("vote", "to"))
    return [jid_of(text(found_at(payload, *path))) for path in paths]


Translated = tuple[str, Any, tuple[str, ...] | None]
"""A kind, the data, and the ids that identify the event; ``None`` for that of the report."""
_NO_NEWS: Translated = ("", None, None)


def _message(name: str, payload: dict[str, Any], account: Account) -> Translated | None:
    del name
    key, engine = _key(payload, account), mapping(payload.get("_data"))
    content = content_of(payload, engine, account.media_url)
    if content is None:
        return _NO_NEWS  # keys for devices
    if key is None:
        return None
    status = _status(payload) if key["fromMe"] else ""
    data = _data_of(payload, key, content[:2], context=content.context, status=status)
    chat = account.sent.get(key["id"])
    if key["fromMe"] and (chat is not None or payload.get("source") == "api"):
        # The gateway raises this event for its own sends: the same id makes it one event. Others were sent
        # by somebody else through the same WAHA server. Report and answer of a send may call one chat by its
        # number and by its hidden id; the first one decides.
        if chat is None:
            account.sent.put(key["id"], key["remoteJid"])
        data["key"] = {**key, "remoteJid": chat or key["remoteJid"]}
        if data["key"]["remoteJid"] == key.get("remoteJidAlt"):
            del data["key"]["remoteJidAlt"]
        data.setdefault("status", "PENDING")
        return "SEND_MESSAGE", data, ("SEND_MESSAGE", data["key"]["remoteJid"], key["id"])
    return "MESSAGES_UPSERT", data, ("MESSAGES_UPSERT", key["remoteJid"], key["id"])


def _waiting(name: str, payload: dict[str, Any], account: Account) -> Translated | None:
    del name
    key = _key(payload, account)
    if key is None:
        return None
    # As in payloads of other gateways, where a message that cannot be decrypted is such a stub.
    data = _data_of(payload, key, ("encryptedMessage", {}))
    data |= {"messageStubType": "CIPHERTEXT", "messageStubParameters": [WAITING]}
    return "MESSAGES_UPSERT", data, ("waiting", key["remoteJid"], key["id"])  # the message itself follows


def _reaction(name: str, payload: dict[str, Any], account: Account) -> Translated | None:
    del name
    key, reaction = _key(payload, account), mapping(payload.get("reaction"))
    target = parse_message_id(reaction.get("messageId"))
    if key is None or target is None:
        return None
    emoji = text(reaction.get("text"))
    if key["fromMe"] and account.has_done("reaction", target.id, emoji):
        return _NO_NEWS
    reacted: dict[str, Any] = {"remoteJid": jid_of(target.chat), "fromMe": target.from_me, "id": target.id}
    if target.participant:
        reacted["participant"] = jid_of(target.participant)
    content = {"reactionMessage": {"key": reacted, "text": emoji}}
    return "MESSAGES_UPSERT", _data_of(payload, key, ("reactionMessage", content)), None


def _ack(name: str, payload: dict[str, Any], account: Account) -> Translated | None:
    del name
    key, status = _key(payload, account), _status(payload)
    if key is None or not status:
        return None
    data = {"keyId": key["id"], "remoteJid": key["remoteJid"], "fromMe": key["fromMe"], "status": status}
    # Who has it, which is not who wrote it: what the engine says of the sender is about this person.
    reader, engine = jid_of(text(payload.get("participant"))), mapping(payload.get("_data"))
    said = number_behind(reader or key["remoteJid"], engine, RECEIPTS, account.jid)
    if reader and reader != key["remoteJid"]:
        data["participant"] = reader
        if said:
            data["participantAlt"] = said
    elif number_ := key.get("remoteJidAlt") or said:
        data["remoteJidAlt"] = number_
    ids = ("MESSAGES_UPDATE", key["remoteJid"], key["id"], data.get("participant", ""), status)
    # message.ack and message.ack.group may both report the same.
    return "MESSAGES_UPDATE", data, ids


def _edited(name: str, payload: dict[str, Any], account: Account) -> Translated | None:
    del name
    key = _key(payload, account)
    if key is None:
        return None
    edited = text(payload.get("editedMessageId"))
    # In some versions with all parts, in others the id alone.
    parsed = parse_message_id(edited)
    key["id"] = parsed.id if parsed is not None else edited or key["id"]
    body = text(payload.get("body"))
    if key["fromMe"] and account.has_done("edit", key["id"], body):
        return _NO_NEWS
    engine = mapping(payload.get("_data"))
    content = edited_content_of(payload, engine, account.media_url)
    return "MESSAGES_EDITED", _data_of(payload, key, content[:2], context=content.context, source=""), None


def _revoked(name: str, payload: dict[str, Any], account: Account) -> Translated | None:
    del name
    after, before = mapping(payload.get("after")), mapping(payload.get("before"))
    key = _key({"_data": payload.get("_data"), **after}, account) or _key(before, account)
    if key is None:
        return None
    # Without revokedMessageId (older versions), "before" is the message that was deleted, if WAHA knows it.
    revoked = text(payload.get("revokedMessageId")) or text(before.get("id"))
    parsed = parse_message_id(revoked)
    key["id"] = parsed.id if parsed is not None else revoked or key["id"]
    data = {**key, "status": "DELETED", "messageTimestamp": _time_of(after)}
    # The gateway's event for a deletion of its own has the same id.
    return "MESSAGES_DELETE", data, ("MESSAGES_DELETE", key["remoteJid"], key["id"])


def _group(name: str, payload: dict[str, Any], account: Account) -> Translated | None:
    group = mapping(payload.get("group"))
    id_ = text(group.get("id"))
    if not id_:
        return None
    if name == "group.v2.join":
        return "GROUPS_UPSERT", [_group_info(group)], None
    if name == "group.v2.update":
        return "GROUPS_UPDATE", [_group_info(group)], None
    members: list[dict[str, Any]] = []
    if name == "group.v2.leave":
        action, people = "remove", [account.jid] if account.jid else []
    else:
        action = _ACTIONS.get(text(payload.get("type")), "")
        members = [_participant(person) for person in items(payload.get("participants"))]
        people = [member["id"] for member in members if member["id"]]
        if not action or not people:
            return None
    moment = seconds(payload.get("timestamp"))
    data: dict[str, Any] = {"id": id_, "participants": people, "action": action}
    if numbered := [member for member in members if "phoneNumber" in member]:
        # As Evolution API has them, beside the ids.
        data["participantsData"] = [
            {"jid": member["id"], "phoneNumber": member["phoneNumber"]} for member in numbered
        ]
        if len(people) == 1:
            data["participantAlt"] = numbered[0]["phoneNumber"]
    # That the account itself left comes twice: as group.v2.leave and as group.v2.participants.
    ids = ("GROUP_PARTICIPANTS_UPDATE", id_, action, str(moment), *sorted(people)) if moment else None
    return "GROUP_PARTICIPANTS_UPDATE", data, ids


def _group_info(group: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is said of a group, in the words of other gateways."""
    info: dict[str, Any] = {"id": group["id"]}
    for field, source in (("subject", "subject"), ("desc", "description"), ("invite", "invite")):
        if isinstance(group.get(source), str):
            info[field] = group[source]
    if isinstance(can_send := group.get("membersCanSendMessages"), bool):
        info["announce"] = not can_send
    if isinstance(can_add := group.get("membersCanAddNewMember"), bool):
        info["memberAddMode"] = can_add
    if isinstance(needs_approval := group.get("newMembersApprovalRequired"), bool):
        info["joinApprovalMode"] = needs_approval
    if isinstance(group.get("participants"), list):
        info["participants"] = [_participant(person) for person in items(group["participants"])]
    return info


def _participant(person: Mapping[str, Any]) -> dict[str, Any]:
    role = text(person.get("role"))
    shown = {"id": jid_of(text(person.get("id"))), "admin": role if role.endswith("admin") else None}
    if known := text(person.get("pn")):
        shown["phoneNumber"] = jid_of(known)
    return shown


def _presence(name: str, payload: dict[str, Any], account: Account) -> Translated | None:
    del name, account
    chat = text(payload.get("id"))
    presences: dict[str, dict[str, Any]] = {}
    for shown in items(payload.get("presences")):
        person = text(shown.get("participant")) or chat
        known = _PRESENCES.get(text(shown.get("lastKnownPresence")))
        if person and known is not None:
            presences[jid_of(person)] = {"lastKnownPresence": known}
            if last_seen := seconds(shown.get("lastSeen")):
                presences[jid_of(person)]["lastSeen"] = last_seen
    if not chat or not presences:
        return None
    return "PRESENCE_UPDATE", {"id": jid_of(chat), "presences": presences}, None


def _vote(name: str, payload: dict[str, Any], account: Account) -> Translated | None:
    del name
    vote, poll = mapping(payload.get("vote")), mapping(payload.get("poll"))
    key, poll_key = _key({"_data": payload.get("_data"), **vote}, account), _key(poll, account)
    if key is None or poll_key is None:
        return None
    selected = {"selectedOptions": strings(vote.get("selectedOptions"))}
    content = {"pollUpdateMessage": {"pollCreationMessageKey": poll_key, "vote": selected}}
    data = message_data(key, ("pollUpdateMessage", content), seconds(vote.get("timestamp")))
    return "MESSAGES_UPSERT", data, None


def _archived(name: str, payload: dict[str, Any], account: Account) -> Translated | None:
    del name, account
    chat, archived = text(payload.get("id")), payload.get("archived")
    if not chat or not isinstance(archived, bool):
        return None
    return "CHATS_UPDATE", [{"remoteJid": jid_of(chat), "archived": archived}], None


def _call(name: str, payload: dict[str, Any], account: Account) -> Translated | None:
    id_, caller = text(payload.get("id")), text(payload.get("from"))
    if not id_:
        return None
    call: dict[str, Any] = {
        "id": id_,
        "chatId": jid_of(caller),
        "from": jid_of(caller),
        "status": _CALLS[name],
        "isVideo": payload.get("isVideo") is True,
        "isGroup": payload.get("isGroup") is True,
        "date": seconds(payload.get("timestamp")),
    }
    if known := number_behind(call["from"], mapping(payload.get("_data")), CALLERS, account.jid):
        call["callerPn"] = known
    return "CALL", [call], None


def _label(name: str, payload: dict[str, Any], account: Account) -> Translated | None:
    del account
    label = {field: payload[field] for field in ("id", "name", "color", "colorHex") if field in payload}
    if not text(label.get("id")):
        return None
    return "LABELS_EDIT", {**label, "deleted": name == "label.deleted"}, None


def _labelled(name: str, payload: dict[str, Any], account: Account) -> Translated | None:
    del account
    label, chat = text(payload.get("labelId")), text(payload.get("chatId"))
    if not label or not chat:
        return None
    action = "add" if name == "label.chat.added" else "remove"
    return "LABELS_ASSOCIATION", {"labelId": label, "chatId": jid_of(chat), "type": action}, None


_TRANSLATORS: dict[str, Callable[[str, dict[str, Any], Account], Translated | None]] = {
    "message": _message,
    "message.any": _message,
    "message.waiting": _waiting,
    "message.reaction": _reaction,
    "message.ack": _ack,
    "message.ack.group": _ack,
    "message.edited": _edited,
    "message.revoked": _revoked,
    "group.v2.join": _group,
    "group.v2.leave": _group,
    "group.v2.participants": _group,
    "group.v2.update": _group,
    "presence.update": _presence,
    "poll.vote": _vote,
    "chat.archive": _archived,
    **dict.fromkeys(_CALLS, _call),
    "label.upsert": _label,
    "label.deleted": _label,
    "label.chat.added": _labelled,
    "label.chat.deleted": _labelled,
}


def _key(payload: Mapping[str, Any], account: Account) -> dict[str, Any] | None:
    """Return the key of a message; ``None`` if it cannot be told."""
    id_ = id_text(payload.get("id"))  # some versions of WEBJS pass its own object on
    parsed = parse_message_id(id_)
    from_me = payload.get("fromMe")
    if not isinstance(from_me, bool):
        from_me = parsed is not None and parsed.from_me
    if parsed is not None:
        chat, message = parsed.chat, parsed.id
    else:
        # The other side: "from" is the account itself in what it sent, on engines that fill in "to".
        chat, message = text(payload.get("to")) if from_me else "", id_
        chat = chat or text(payload.get("from"))
    if not chat or not message:
        return None
    key: dict[str, Any] = {"remoteJid": jid_of(chat), "fromMe": from_me, "id": message}
    engine = mapping(payload.get("_data"))
    if is_group(chat) or chat.endswith("@broadcast"):
        author = id_text(payload.get("participant")) or id_text(payload.get("author"))
        author = jid_of(author or (parsed.participant if parsed is not None else ""))
        if author and author != key["remoteJid"]:
            key["participant"] = author
            if known := number_behind(author, engine, AUTHORS, "" if from_me else account.jid):
                key["participantAlt"] = known
    elif known := number_behind(key["remoteJid"], engine, RECIPIENTS if from_me else SENDERS, account.jid):
        key["remoteJidAlt"] = known
    return key


def _time_of(payload: Mapping[str, Any]) -> int:
    """Return when a message was sent; 0 if neither WAHA nor the engine says it."""
    engine = payload.get("_data")
    said = (found_at(engine, *path) for path in (("messageTimestamp",), ("t",), ("Info", "Timestamp")))
    return seconds(payload.get("timestamp")) or next(filter(None, map(seconds, said)), 0)


def _data_of(
    payload: Mapping[str, Any], key: dict[str, Any], content: tuple[str, dict[str, Any]], **more: Any
) -> dict[str, Any]:
    """Return the data of a message, with the sender's name, where an engine has it: NOWEB, WEBJS or GOWS."""
    engine, time = mapping(payload.get("_data")), _time_of(payload)
    said = engine.get("pushName"), engine.get("notifyName"), found_at(engine, "Info", "PushName")
    name = next(filter(None, map(text, said)), "")
    return message_data(key, content, time, push_name=name, **{"source": device_of(key["id"]), **more})


def _status(payload: Mapping[str, Any]) -> str:
    """Return the status of a message; empty if it is not known."""
    if (named := _STATUS_NAMES.get(text(payload.get("ackName")))) is not None:
        return named
    ack = any_number(payload.get("ack"))
    return "" if ack is None else _STATUSES.get(ack, "")
