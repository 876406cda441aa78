"""What WAHA reports, as events of hookgw. No I/O.

WAHA has four engines, which fill the same fields differently, and passes on what people on WhatsApp wrote:
any field may be missing or have another type. So every field is read through a function that checks its type,
and a report without the fields that it needs raises no event.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

import msgspec

from hookgw import NewEvent, Recent, event_id_of

from .ids import is_group, jid_of, parse_message_id

_FILES = "/api/files/"
_NO_MESSAGE = "-"
_LARGEST_TIME = 253_402_300_799  # the last second of the year 9999
_LONGEST_REFERENCE = 1024
_STATUSES = {-1: "ERROR", 0: "PENDING", 1: "SERVER_ACK", 2: "DELIVERY_ACK", 3: "READ", 4: "PLAYED"}
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
# Of WEBJS and WPP, which name the type of a message, for files that WAHA did not download.
_TYPES = {
    "image": "imageMessage",
    "video": "videoMessage",
    "audio": "audioMessage",
    "ptt": "audioMessage",
    "document": "documentMessage",
    "sticker": "stickerMessage",
}
_FILE_MESSAGES = frozenset(_TYPES.values())
WAITING = "WhatsApp has not sent the key of this message yet: it may arrive later."
"""What the event of a message that cannot be read yet says."""


class MediaUrl(Protocol):
    """Makes a link to a file; see ``Session.media_url``."""

    def __call__(self, reference: str, *, mimetype: str = "", file_name: str = "") -> str:
        """Return the link."""


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


def translate(envelope: Mapping[str, Any], account: Account) -> NewEvent | None:
    """Return the event of hookgw for one of WAHA: the body of its request.

    Returns:
        ``None`` if there is no such event in hookgw, or WAHA reports what this instance itself has done.
    """
    name, payload = text(envelope.get("event")), mapping(envelope.get("payload"))
    translator = _TRANSLATORS.get(name)
    if translator is None:
        return None
    found = translator(name, payload, account)
    if found is None:
        return None
    kind, data, ids = found
    # A message is one event, whether WAHA reports it as "message" or as "message.any". Where WAHA's payload
    # does not identify what happened, the id of the report does.
    me = text(mapping(envelope.get("me")).get("id"))
    return NewEvent(
        kind=kind,
        data=data,
        event_id=event_id_of(*(ids or ("waha", account.report))),
        sender=jid_of(me) if me else None,
    )


Translated = tuple[str, Any, tuple[str, ...] | None]
"""A kind, the data, and the ids that identify the event; ``None`` for that of the report."""


def _message(name: str, payload: dict[str, Any], account: Account) -> Translated | None:
    key = _key(payload)
    if key is None:
        return None
    engine = mapping(payload.get("_data"))
    data: dict[str, Any] = {"key": key}
    if push_name := _push_name(engine):
        data["pushName"] = push_name
    if name == "message.waiting":
        # As in payloads of other gateways, where a message that cannot be decrypted is such a stub.
        data["message"], data["messageType"] = {}, "encryptedMessage"
        data["messageStubType"], data["messageStubParameters"] = "CIPHERTEXT", [WAITING]
    else:
        data["messageType"], data["message"] = _content(payload, engine, account.media_url)
    if (context := _context(payload)) is not None:
        data["contextInfo"] = context
    data["messageTimestamp"] = _seconds(payload.get("timestamp"))
    status = _status(payload)
    if key["fromMe"] and status is not None:
        data["status"] = status
    data["source"] = _device_of(key["id"])
    if name == "message.waiting":
        return "MESSAGES_UPSERT", data, ("waiting", key["remoteJid"], key["id"])  # the message itself follows
    chat = account.sent.get(key["id"])
    if key["fromMe"] and (chat is not None or payload.get("source") == "api"):
        # The gateway raises this event for its own sends: the same id makes it one event. Others were sent
        # by somebody else through the same WAHA server. Report and answer of a send may call one chat by its
        # number and by its hidden id; the first one decides.
        if chat is None:
            account.sent.put(key["id"], key["remoteJid"])
        data["key"] = {**key, "remoteJid": chat or key["remoteJid"]}
        data.setdefault("status", "PENDING")
        return "SEND_MESSAGE", data, ("SEND_MESSAGE", data["key"]["remoteJid"], key["id"])
    return "MESSAGES_UPSERT", data, ("MESSAGES_UPSERT", key["remoteJid"], key["id"])


def _reaction(name: str, payload: dict[str, Any], account: Account) -> Translated | None:
    del name
    key, reaction = _key(payload), mapping(payload.get("reaction"))
    target = parse_message_id(reaction.get("messageId"))
    if key is None or target is None:
        return None
    emoji = text(reaction.get("text"))
    if key["fromMe"] and account.has_done("reaction", target.id, emoji):
        return None
    reacted: dict[str, Any] = {"remoteJid": jid_of(target.chat), "fromMe": target.from_me, "id": target.id}
    if target.participant:
        reacted["participant"] = jid_of(target.participant)
    data = {
        "key": key,
        "message": {"reactionMessage": {"key": reacted, "text": emoji}},
        "messageType": "reactionMessage",
        "messageTimestamp": _seconds(payload.get("timestamp")),
        "source": _device_of(key["id"]),
    }
    if push_name := _push_name(mapping(payload.get("_data"))):
        data["pushName"] = push_name
    return "MESSAGES_UPSERT", data, None


def _ack(name: str, payload: dict[str, Any], account: Account) -> Translated | None:
    del name, account
    key, status = _key(payload), _status(payload)
    if key is None or status is None:
        return None
    data = {"keyId": key["id"], "remoteJid": key["remoteJid"], "fromMe": key["fromMe"], "status": status}
    participant = text(payload.get("participant"))
    if participant:
        data["participant"] = jid_of(participant)
    ids = ("MESSAGES_UPDATE", key["remoteJid"], key["id"], data.get("participant", ""), status)
    # message.ack and message.ack.group may both report the same.
    return "MESSAGES_UPDATE", data, ids


def _edited(name: str, payload: dict[str, Any], account: Account) -> Translated | None:
    del name
    key = _key(payload)
    if key is None:
        return None
    edited = text(payload.get("editedMessageId"))
    # In some versions with all parts, in others the id alone.
    parsed = parse_message_id(edited)
    key["id"] = parsed.id if parsed is not None else edited or key["id"]
    body = text(payload.get("body"))
    if key["fromMe"] and account.has_done("edit", key["id"], body):
        return None
    data: dict[str, Any] = {"key": key}
    engine = mapping(payload.get("_data"))
    if push_name := _push_name(engine):
        data["pushName"] = push_name
    data["message"], data["messageType"] = {"conversation": body}, "conversation"
    data["messageTimestamp"] = _seconds(payload.get("timestamp"))
    return "MESSAGES_EDITED", data, None


def _revoked(name: str, payload: dict[str, Any], account: Account) -> Translated | None:
    del name, account
    after, before = mapping(payload.get("after")), mapping(payload.get("before"))
    key = _key(after) or _key(before)
    if key is None:
        return None
    # Without revokedMessageId (older versions), "before" is the message that was deleted, if WAHA knows it.
    revoked = text(payload.get("revokedMessageId")) or text(before.get("id"))
    parsed = parse_message_id(revoked)
    key["id"] = parsed.id if parsed is not None else revoked or key["id"]
    data = {**key, "status": "DELETED", "messageTimestamp": _seconds(after.get("timestamp"))}
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
    if name == "group.v2.leave":
        action, people = "remove", [account.jid] if account.jid else []
    else:
        action = _ACTIONS.get(text(payload.get("type")), "")
        people = [jid_of(text(person.get("id"))) for person in items(payload.get("participants"))]
        people = [person for person in people if person]
        if not action or not people:
            return None
    seconds = _seconds(payload.get("timestamp"))
    data = {"id": id_, "participants": people, "action": action}
    # That the account itself left comes twice: as group.v2.leave and as group.v2.participants.
    ids = ("GROUP_PARTICIPANTS_UPDATE", id_, action, str(seconds), *sorted(people)) if seconds else None
    return "GROUP_PARTICIPANTS_UPDATE", data, ids


def _group_info(group: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is said of a group, in the words of other gateways."""
    info: dict[str, Any] = {"id": group["id"]}
    for field, source in (("subject", "subject"), ("desc", "description")):
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
    if number := text(person.get("pn")):
        shown["phoneNumber"] = jid_of(number)
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
            if last_seen := _seconds(shown.get("lastSeen")):
                presences[jid_of(person)]["lastSeen"] = last_seen
    if not chat or not presences:
        return None
    return "PRESENCE_UPDATE", {"id": jid_of(chat), "presences": presences}, None


def _vote(name: str, payload: dict[str, Any], account: Account) -> Translated | None:
    del name, account
    vote, poll = mapping(payload.get("vote")), mapping(payload.get("poll"))
    key, poll_key = _key(vote), _key(poll)
    if key is None or poll_key is None:
        return None
    options = vote.get("selectedOptions")
    selected = [option for option in options if isinstance(option, str)] if isinstance(options, list) else []
    content = {"pollCreationMessageKey": poll_key, "vote": {"selectedOptions": selected}}
    data = {
        "key": key,
        "message": {"pollUpdateMessage": content},
        "messageType": "pollUpdateMessage",
        "messageTimestamp": _seconds(vote.get("timestamp")),
    }
    return "MESSAGES_UPSERT", data, None


def _archived(name: str, payload: dict[str, Any], account: Account) -> Translated | None:
    del name, account
    chat, archived = text(payload.get("id")), payload.get("archived")
    if not chat or not isinstance(archived, bool):
        return None
    return "CHATS_UPDATE", [{"remoteJid": jid_of(chat), "archived": archived}], None


def _call(name: str, payload: dict[str, Any], account: Account) -> Translated | None:
    del account
    id_, caller = text(payload.get("id")), text(payload.get("from"))
    if not id_:
        return None
    call = {
        "id": id_,
        "chatId": jid_of(caller),
        "from": jid_of(caller),
        "status": _CALLS[name],
        "isVideo": payload.get("isVideo") is True,
        "isGroup": payload.get("isGroup") is True,
        "date": _seconds(payload.get("timestamp")),
    }
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
    "message.waiting": _message,
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


def _key(payload: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the key of a message; ``None`` if it cannot be told."""
    id_ = payload.get("id")
    # Some versions of WEBJS pass its own object on.
    id_ = text(mapping(id_).get("_serialized")) or text(id_)
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
        author = text(payload.get("participant")) or text(payload.get("author"))
        author = author or (parsed.participant if parsed is not None else "")
        if author:
            key["participant"] = jid_of(author)
    elif chat.endswith("@lid"):
        # The phone number behind a hidden id, where the engine says it.
        other = text(mapping(engine.get("key")).get("remoteJidAlt"))
        if not other and not from_me:
            other = text(mapping(engine.get("Info")).get("SenderAlt"))
        if other:
            key["remoteJidAlt"] = jid_of(other)
    return key


def _push_name(engine: Mapping[str, Any]) -> str:
    """Return the sender's name, where an engine has it: NOWEB, WEBJS or GOWS."""
    return (
        text(engine.get("pushName"))
        or text(engine.get("notifyName"))
        or text(mapping(engine.get("Info")).get("PushName"))
    )


def _content(
    payload: Mapping[str, Any], engine: Mapping[str, Any], media_url: MediaUrl
) -> tuple[str, dict[str, Any]]:
    """Return the type and the body of a message, in the words of the payloads."""
    body, media = text(payload.get("body")), mapping(payload.get("media"))
    if payload.get("hasMedia") is True or text(media.get("url")):
        name = _file_type(media, engine)
        return name, {name: _file(name, body, media, payload, media_url)}
    location = mapping(payload.get("location"))
    latitude, longitude = _degrees(location.get("latitude"), 90), _degrees(location.get("longitude"), 180)
    if latitude is not None and longitude is not None:
        place: dict[str, Any] = {"degreesLatitude": latitude, "degreesLongitude": longitude}
        for field, source in (("name", "name"), ("address", "address"), ("url", "url")):
            if found := text(location.get(source)):
                place[field] = found
        if "name" not in place and (described := text(location.get("description"))):
            place["name"] = described
        return "locationMessage", {"locationMessage": place}
    cards = payload.get("vCards")
    cards = [card for card in cards if isinstance(card, str)] if isinstance(cards, list) else []
    if cards:
        contacts = [{"displayName": _name_on(card), "vcard": card} for card in cards]
        if len(contacts) == 1:
            return "contactMessage", {"contactMessage": contacts[0]}
        return "contactsArrayMessage", {"contactsArrayMessage": {"contacts": contacts}}
    raw = mapping(engine.get("message"))
    kinds = [name for name in raw if name.endswith("Message") and isinstance(raw[name], dict)]
    if not body and kinds:
        # Polls and the like, of which WAHA says nothing itself: as the engine (NOWEB) has them.
        return kinds[0], {kinds[0]: raw[kinds[0]]}
    return "conversation", {"conversation": body}


def _file_type(media: Mapping[str, Any], engine: Mapping[str, Any]) -> str:
    for raw in (mapping(engine.get("message")), mapping(engine.get("Message"))):
        for name in raw:
            if name in _FILE_MESSAGES:
                return name
    if (named := _TYPES.get(text(engine.get("type")))) is not None:
        return named
    mimetype, _, detail = text(media.get("mimetype")).partition("/")
    if text(media.get("filename")):
        return "documentMessage"  # WAHA names only files that were sent as such
    if mimetype == "image":
        return "stickerMessage" if detail.startswith("webp") else "imageMessage"
    return {"video": "videoMessage", "audio": "audioMessage"}.get(mimetype, "documentMessage")


def _file(
    name: str, caption: str, media: Mapping[str, Any], payload: Mapping[str, Any], media_url: MediaUrl
) -> dict[str, Any]:
    mimetype = text(media.get("mimetype")) or "application/octet-stream"
    file_name = text(media.get("filename"))
    file: dict[str, Any] = {"mimetype": mimetype}
    url = text(media.get("url")) or text(payload.get("mediaUrl"))
    reference = reference_of(url)
    if reference:
        id_ = text(payload.get("id"))
        # With the message: WAHA deletes files after some minutes, and can fetch them again for a message.
        link = f"{id_ if _is_message_id(id_) else _NO_MESSAGE}/{reference}"
        file["url"] = media_url(link, mimetype=mimetype, file_name=file_name)
    elif url.startswith(("https://", "http://")):
        file["url"] = url  # in a store of the operator's, such as S3: WAHA signed this link itself
    if file_name:
        file["fileName"] = file_name
        if name == "documentMessage":
            file["title"] = file_name
    if caption:
        file["caption"] = caption
    if name == "audioMessage":
        file["ptt"] = "opus" in mimetype or "ogg" in mimetype
    return file


def parts_of_link(link: str) -> tuple[str, list[str]] | None:
    """Return WAHA's id of a message, or an empty text, and its file's path, of what is in a link to a file.

    Returns:
        ``None`` if this would lead elsewhere.
    """
    message, _, reference = link.partition("/")
    path = path_of(reference)
    if path is None or not (message == _NO_MESSAGE or _is_message_id(message)):
        return None
    return "" if message == _NO_MESSAGE else message, path


def _is_message_id(text: str) -> bool:
    return (
        parse_message_id(text) is not None
        and len(text) <= 512
        and text.isprintable()
        and not {*"/\\%"} & {*text}
    )


def reference_of(url: str) -> str:
    """Return what identifies a file on the server, in the URL that WAHA gives for it; empty for none.

    Only the path counts: WAHA often names a host that it cannot be reached by, such as ``localhost``.
    """
    try:
        path = urlsplit(url).path
    except ValueError:
        return ""
    _, found, name = path.partition(_FILES)
    reference = unquote(name)
    return reference if found and path_of(reference) is not None else ""


def path_of(reference: str) -> list[str] | None:
    """Return the parts of a file's path below ``/api/files/``; ``None`` if it would lead elsewhere."""
    parts = reference.split("/")
    if not reference or len(reference) > _LONGEST_REFERENCE or not reference.isprintable():
        return None
    if any(part in ("", ".", "..") or "\\" in part or "%" in part for part in parts):
        return None
    return parts


def file_of(data: Mapping[str, Any], payload: Mapping[str, Any]) -> str:
    """Return the reference of the file in a message; empty for none."""
    if data.get("messageType") not in _FILE_MESSAGES:
        return ""
    return reference_of(text(mapping(payload.get("media")).get("url")) or text(payload.get("mediaUrl")))


def _context(payload: Mapping[str, Any]) -> dict[str, Any] | None:
    answered = mapping(payload.get("replyTo"))
    id_ = text(answered.get("id"))
    parsed = parse_message_id(id_)
    id_ = parsed.id if parsed is not None else id_
    if not id_:
        return None
    context: dict[str, Any] = {"stanzaId": id_}
    if author := text(answered.get("participant")):
        context["participant"] = jid_of(author)
    if body := text(answered.get("body")):
        context["quotedMessage"] = {"conversation": body}
    return context


def _status(payload: Mapping[str, Any]) -> str | None:
    if (named := _STATUS_NAMES.get(text(payload.get("ackName")))) is not None:
        return named
    ack = payload.get("ack")
    return _STATUSES.get(ack) if isinstance(ack, int) and not isinstance(ack, bool) else None


def _device_of(id_: str) -> str:
    """Return what kind of device made a message: WhatsApp's apps make ids of different forms."""
    if re.fullmatch(r"3A.{18}", id_):
        return "ios"
    if re.fullmatch(r"3EB0.{18}|3E.{20}", id_):
        return "web"
    if re.fullmatch(r".{21}|.{32}", id_):
        return "android"
    return "desktop" if re.fullmatch(r"3F.*|.{18}", id_) else "unknown"


def _name_on(card: str) -> str:
    found = re.search(r"^FN[^:\r\n]*:(.*)$", card, re.MULTILINE | re.IGNORECASE)
    return found[1].strip() if found else ""


def _degrees(value: Any, most: int) -> float | None:
    if isinstance(value, str) and len(value) <= 32:
        try:
            value = float(value)
        except ValueError:
            return None
    degrees = _number(value)
    return degrees if degrees is not None and abs(degrees) <= most else None


def _seconds(value: Any) -> int:
    seconds = _number(value) or 0
    if seconds > 100_000_000_000:  # milliseconds
        seconds /= 1000
    return int(min(max(seconds, 0), _LARGEST_TIME))


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not -(2**63) < value < 2**63:
        return None
    return float(value)


def mapping(value: Any) -> dict[str, Any]:
    """Return a JSON object, or an empty one for any other value."""
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[dict[str, Any]]:
    """Return the objects in a JSON array; none for any other value."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def text(value: Any) -> str:
    """Return a text, or an empty one for any other value."""
    return value if isinstance(value, str) else ""
