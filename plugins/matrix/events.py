"""What Matrix reports, as events of hookgw. No I/O.

A homeserver passes on what members of rooms wrote, and checks little of it: any field may be missing or have
another type. So every field is read through a function that checks its type, and an event without the fields
that it needs is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from hookgw import NewEvent, event_id_of
from hookgw.connectors import MediaUrl, each, found_at, mapping, number, strings, text

SOURCE = "matrix"
TRANSACTION_PREFIX = "hookgw-"
"""Transaction ids of what hookgw sends begin so."""
ENCRYPTED = "End-to-end encrypted rooms are not supported: hookgw cannot read this message."

_ENCRYPTED_EVENT = "m.room.encrypted"
_MEDIA = {
    "m.image": "imageMessage",
    "m.video": "videoMessage",
    "m.audio": "audioMessage",
    "m.file": "documentMessage",
    "m.sticker": "stickerMessage",
}
_GEO_URI = re.compile(r"geo:(-?\d{1,3}(?:\.\d{1,20})?),(-?\d{1,3}(?:\.\d{1,20})?)(?:[,;].*)?", re.ASCII)
_PRESENCES = {"online": "available", "unavailable": "unavailable", "offline": "unavailable"}
_LARGEST_TIME = 253_402_300_799_000  # the last millisecond of the year 9999


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """What the translation has to know of the account.

    Attributes:
        user: its id.
        name_in: returns the name of a user in a room, if it is known.
        author_of: returns who sent an event, if it is known.
        media_url: makes links to files.
    """

    user: str
    name_in: Callable[[str, str], str | None]
    author_of: Callable[[str], str | None]
    media_url: MediaUrl


def translate(event: Any, room: str, account: Account) -> NewEvent | None:
    """Return the event of hookgw for an event of a room's timeline; ``None`` if it raises none.

    What hookgw itself sent raises none here: the gateway has raised SEND_MESSAGE (or MESSAGES_EDITED, or
    MESSAGES_DELETE) for it.
    """
    event = mapping(event)
    sender, id_, kind = text(event.get("sender")), text(event.get("event_id")), text(event.get("type"))
    if not sender or not id_ or is_own_echo(event):
        return None
    content = mapping(event.get("content"))
    key: dict[str, Any] = {
        "remoteJid": room,
        "fromMe": sender == account.user,
        "id": id_,
        "participant": sender,
    }
    if kind in ("m.room.message", "m.sticker", "m.reaction", _ENCRYPTED_EVENT):
        return _message(event, kind, key, content, account)
    if kind == "m.room.redaction":
        target = text(event.get("redacts")) or text(content.get("redacts"))
        if not target:
            return None
        # Matrix does not say whose message it was. If it is not known, it was most likely the sender's own.
        author = account.author_of(target) or sender
        key = {"remoteJid": room, "fromMe": author == account.user, "id": target, "participant": author}
        data = {**key, "status": "DELETED", "deletedBy": sender, "messageTimestamp": _time_of(event)}
        return NewEvent(kind="MESSAGES_DELETE", data=data, event_id=event_id_of(id_))
    if kind == "m.room.member" and isinstance(event.get("state_key"), str):
        return _membership(event, room, sender, content, account)
    return None


def is_own_echo(event: Mapping[str, Any]) -> bool:
    """Return whether hookgw sent an event: homeservers show its transaction id to its own device only."""
    return text(found_at(event, "unsigned", "transaction_id")).startswith(TRANSACTION_PREFIX)


def _message(
    event: dict[str, Any], kind: str, key: dict[str, Any], content: dict[str, Any], account: Account
) -> NewEvent | None:
    relation = mapping(content.get("m.relates_to"))
    relation_type, target = text(relation.get("rel_type")), text(relation.get("event_id"))
    data: dict[str, Any] = {"key": key}
    event_kind = "MESSAGES_UPSERT"
    if (name := account.name_in(key["remoteJid"], key["participant"])) is not None:
        data["pushName"] = name
    if kind == _ENCRYPTED_EVENT:
        # As in payloads of WhatsApp gateways, where a message that cannot be decrypted is such a stub.
        data["message"], data["messageType"] = {}, "encryptedMessage"
        data["messageStubType"], data["messageStubParameters"] = "CIPHERTEXT", [ENCRYPTED]
    elif kind == "m.reaction":
        if relation_type != "m.annotation" or not target:
            return None
        author = account.author_of(target)
        reacted = {"remoteJid": key["remoteJid"], "fromMe": author == account.user, "id": target}
        if author is not None:
            reacted["participant"] = author
        data["message"] = {"reactionMessage": {"key": reacted, "text": text(relation.get("key"))}}
        data["messageType"] = "reactionMessage"
    else:
        if relation_type == "m.replace" and target:
            event_kind = "MESSAGES_EDITED"
            data["key"] = {**key, "id": target}
            content = mapping(content.get("m.new_content")) or content
        body = message_of("m.sticker" if kind == "m.sticker" else "", content, account.media_url)
        if body is None:
            return None  # its content was deleted meanwhile; the deletion follows
        data["messageType"], data["message"] = body
        if (context := _context(content, relation)) is not None:
            data["contextInfo"] = context
    data["messageTimestamp"] = _time_of(event)
    if key["fromMe"]:
        data["status"] = "SERVER_ACK"
    data["source"] = SOURCE
    # Without a time: the sender's homeserver made it up. messageTimestamp shows it.
    return NewEvent(kind=event_kind, data=data, event_id=event_id_of(text(event["event_id"])))


def message_of(
    message_type: str, content: Mapping[str, Any], media_url: MediaUrl
) -> tuple[str, dict[str, Any]] | None:
    """Return the type and the body of a message, in the words of the payloads.

    Args:
        message_type: such as ``m.image``; empty to take the one in the content.
        content: of the event.
        media_url: makes the link to a file.

    Returns:
        ``None`` if the content holds no message.
    """
    message_type = message_type or text(content.get("msgtype"))
    body = content.get("body")
    if not isinstance(body, str):
        return None
    name, reference = _MEDIA.get(message_type), text(content.get("url"))
    if name is not None and reference:
        return name, {name: _file(name, reference, body, content, media_url)}
    if message_type == "m.location" and (place := _GEO_URI.fullmatch(text(content.get("geo_uri")))):
        latitude, longitude = float(place[1]), float(place[2])
        location = {"degreesLatitude": latitude, "degreesLongitude": longitude, "name": body}
        return "locationMessage", {"locationMessage": location}
    # Also for types that hookgw does not know: the body is then a text for people.
    return "conversation", {"conversation": _without_fallback(body, content)}


def file_of(event: Mapping[str, Any]) -> tuple[str, int] | None:
    """Return the address of the file in a message, and its size in bytes as the sender says, or 0.

    Edits are left out: the message that they change had the file.
    """
    content, kind = mapping(event.get("content")), event.get("type")
    if kind not in ("m.room.message", "m.sticker") or "m.new_content" in content:
        return None
    message_type = "m.sticker" if kind == "m.sticker" else text(content.get("msgtype"))
    reference = text(content.get("url"))
    if message_type not in _MEDIA or not reference:
        return None
    return reference, number(found_at(content, "info", "size")) or 0


def _file(
    name: str, reference: str, body: str, content: Mapping[str, Any], media_url: MediaUrl
) -> dict[str, Any]:
    info = mapping(content.get("info"))
    mimetype = text(info.get("mimetype")) or "application/octet-stream"
    # With both, the body is a caption. Older clients put the file's name into the body.
    file_name = text(content.get("filename")) or body
    file: dict[str, Any] = {
        "url": media_url(reference, mimetype=mimetype, file_name=file_name),
        "mimetype": mimetype,
        "fileName": file_name,
    }
    if name == "documentMessage":
        file["title"] = file_name
    if body != file_name:
        file["caption"] = body
    if (size := number(info.get("size"))) is not None:
        file["fileLength"] = str(size)
    for field, source in (("height", "h"), ("width", "w")):
        if (length := number(info.get(source))) is not None:
            file[field] = length
    if (duration := number(info.get("duration"))) is not None:
        file["seconds"] = duration // 1000
    if name == "audioMessage":
        file["ptt"] = "org.matrix.msc3245.voice" in content
    return file


def _context(content: Mapping[str, Any], relation: Mapping[str, Any]) -> dict[str, Any] | None:
    context: dict[str, Any] = {}
    answered = text(found_at(relation, "m.in_reply_to", "event_id"))
    # In a thread, clients add a reply to the previous message for others that know no threads.
    if answered and relation.get("is_falling_back") is not True:
        context["stanzaId"] = answered
    if relation.get("rel_type") == "m.thread" and (thread := text(relation.get("event_id"))):
        context["threadId"] = thread
    users = found_at(content, "m.mentions", "user_ids")
    mentioned = strings(users)
    if mentioned:
        context["mentionedJid"] = mentioned
    return context or None


def _without_fallback(body: str, content: Mapping[str, Any]) -> str:
    """Return a text without the quotation that older clients put before a reply."""
    answered = mapping(found_at(content, "m.relates_to", "m.in_reply_to"))
    if not answered or not body.startswith("> <"):
        return body
    lines = body.split("\n")
    first = next((n for n, line in enumerate(lines) if not line.startswith(">")), len(lines))
    rest = "\n".join(lines[first:])
    return rest.removeprefix("\n") or body


def _membership(
    event: Mapping[str, Any], room: str, author: str, content: Mapping[str, Any], account: Account
) -> NewEvent | None:
    now = text(content.get("membership"))
    unsigned = mapping(event.get("unsigned"))
    before = text(mapping(unsigned.get("prev_content") or event.get("prev_content")).get("membership"))
    if now == before:
        return None  # another name or picture
    action = {"join": "add", "leave": "remove", "ban": "remove", "invite": "invite", "knock": "knock"}.get(
        now
    )
    if action is None or (action == "remove" and before in ("leave", "ban")):
        return None
    if action == "invite" and event["state_key"] == account.user:
        return None  # see invitation
    data = {"id": room, "author": author, "participants": [event["state_key"]], "action": action}
    return NewEvent(
        kind="GROUP_PARTICIPANTS_UPDATE", data=data, event_id=event_id_of(text(event["event_id"]))
    )


def receipts(content: Any, room: str, account: Account) -> Iterator[NewEvent]:
    """Yield the events for the content of an ``m.receipt``."""
    for id_, user in read_by(content):
        author = account.author_of(id_)
        data = {
            "keyId": id_,
            "remoteJid": room,
            "fromMe": author == account.user,
            "participant": user,
            "status": "READ",
        }
        yield NewEvent(kind="MESSAGES_UPDATE", data=data, event_id=event_id_of("read", room, id_, user))


def read_by(content: Any) -> list[tuple[str, str]]:
    """Return the events and users of the receipts in the content of an ``m.receipt``."""
    return [
        (id_, user)
        for id_, by_type in mapping(content).items()
        for receipt in ("m.read", "m.read.private")
        for user in mapping(mapping(by_type).get(receipt))
    ]


def typing(room: str, before: Iterable[str], now: Iterable[str], account: Account) -> NewEvent | None:
    """Return the event for a change of who types in a room."""
    typing_before, typing_now = set(before) - {account.user}, set(now) - {account.user}
    changed = sorted(typing_before ^ typing_now)
    if not changed:
        return None
    presences = {
        user: {"lastKnownPresence": "composing" if user in typing_now else "paused"} for user in changed
    }
    return NewEvent(kind="PRESENCE_UPDATE", data={"id": room, "presences": presences})


def presence(event: Any, account: Account, now: float) -> NewEvent | None:
    """Return the event for an ``m.presence``; ``now`` is in seconds since the epoch."""
    event = mapping(event)
    user, content = text(event.get("sender")), mapping(event.get("content"))
    known = _PRESENCES.get(text(content.get("presence")))
    if not user or user == account.user or known is None:
        return None
    shown: dict[str, Any] = {"lastKnownPresence": known}
    if (ago := number(content.get("last_active_ago"))) is not None:
        shown["lastSeen"] = max(0, int(now - ago / 1000))
    return NewEvent(kind="PRESENCE_UPDATE", data={"id": user, "presences": {user: shown}})


def invitation(room: str, invited: Any, account: Account) -> NewEvent | None:
    """Return the event for a room in a sync's ``invite``."""
    for event in each(found_at(invited, "invite_state", "events")):
        if event.get("type") == "m.room.member" and event.get("state_key") == account.user:
            # Stripped events have no id. The same room may invite again after a refusal: no id of our own.
            data = {
                "id": room,
                "author": text(event.get("sender")),
                "participants": [account.user],
                "action": "invite",
                "isDirect": found_at(event, "content", "is_direct") is True,
            }
            return NewEvent(kind="GROUP_PARTICIPANTS_UPDATE", data=data)
    return None


def _time_of(event: Mapping[str, Any]) -> int:
    milliseconds = number(event.get("origin_server_ts")) or 0
    return min(milliseconds, _LARGEST_TIME) // 1000
