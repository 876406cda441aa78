"""What hookgw sends, as events of Matrix and as payloads of hookgw. No I/O."""

from __future__ import annotations

import hashlib
from typing import Any

from hookgw import (
    Invalid,
    LocationMessage,
    MediaKind,
    MediaMessage,
    MessageKey,
    NotSupported,
    ReactionMessage,
    TextMessage,
)
from hookgw.connectors import EMPTY_TEXT, MediaUrl, filled, found_at, message_data

from .content import message_of
from .events import SOURCE, TRANSACTION_PREFIX

_MEDIA_TYPES = {
    MediaKind.IMAGE: "m.image",
    MediaKind.VIDEO: "m.video",
    MediaKind.AUDIO: "m.audio",
    MediaKind.DOCUMENT: "m.file",
    MediaKind.STICKER: "m.sticker",
}


def transaction_id(key: str) -> str:
    """Return the transaction id for a key: the homeserver recognises a repetition by it."""
    # The caller may have chosen any text as the key.
    return TRANSACTION_PREFIX + hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()[:40]


def event_of(
    message: TextMessage | LocationMessage | MediaMessage | ReactionMessage,
    *,
    address: str = "",
    mimetype: str = "",
    size: int = 0,
) -> tuple[str, dict[str, Any]]:
    """Return the type and the content of the event for a message.

    Args:
        message: the message.
        address: of an uploaded file, ``mxc://…``.
        mimetype, size: of an uploaded file; the size is in bytes.
    """
    kind = "m.room.message"
    if isinstance(message, ReactionMessage):
        relation = {"rel_type": "m.annotation", "event_id": message.key.id, "key": message.reaction}
        return "m.reaction", {"m.relates_to": relation}
    if isinstance(message, TextMessage):
        content: dict[str, Any] = {"msgtype": "m.text", "body": message.text}
        if message.mentions:
            content["m.mentions"] = {"user_ids": list(message.mentions)}
        if message.mentions_everyone:
            content["m.mentions"] = {**content.get("m.mentions", {}), "room": True}
    elif isinstance(message, LocationMessage):
        place = f"geo:{message.latitude:.7f},{message.longitude:.7f}"
        body = ", ".join(filter(None, (message.name, message.address))) or place
        content = {"msgtype": "m.location", "body": body, "geo_uri": place}
    else:
        file_name = message.file_name or message.kind.value
        content = {
            "msgtype": _MEDIA_TYPES[message.kind],
            "body": message.caption or file_name,
            "filename": file_name,
            "url": address,
            "info": {"mimetype": mimetype, "size": size},
        }
        if message.kind is MediaKind.STICKER:
            kind = content.pop("msgtype")
        elif message.is_voice:
            content["org.matrix.msc3245.voice"] = {}
    if message.reply_to is not None:
        content["m.relates_to"] = {"m.in_reply_to": {"event_id": message.reply_to.id}}
    return kind, content


def edit_of(key: MessageKey, text: str) -> dict[str, Any]:
    """Return the content of the event that replaces a message's text."""
    if not text:
        raise Invalid(EMPTY_TEXT)
    return {
        "msgtype": "m.text",
        "body": f"* {text}",  # for clients that do not know of edits
        "m.new_content": {"msgtype": "m.text", "body": text},
        "m.relates_to": {"rel_type": "m.replace", "event_id": key.id},
    }


def payload_of(
    kind: str, content: dict[str, Any], *, room: str, id_: str, user: str, now: float, media_url: MediaUrl
) -> dict[str, Any]:
    """Return a message that hookgw sent: ``data`` of SEND_MESSAGE.

    Args:
        kind, content: of the event; see :func:`event_of`.
        room, id_, user: where it is, its id, and the account.
        now: seconds since the epoch.
        media_url: makes the link to a file.
    """
    if kind == "m.reaction":
        relation = content["m.relates_to"]
        reacted = {"remoteJid": room, "fromMe": False, "id": relation["event_id"]}
        sent = "reactionMessage", {"reactionMessage": {"key": reacted, "text": relation["key"]}}
    else:
        found = message_of(kind if kind == "m.sticker" else "", content, media_url)
        assert found is not None, "hookgw sends no message without a body"  # noqa: S101
        sent = found
    key = {"remoteJid": room, "fromMe": True, "id": id_, "participant": user}
    context = filled(stanzaId=found_at(content, "m.relates_to", "m.in_reply_to", "event_id"))
    return message_data(key, sent, now, context=context, status="SERVER_ACK", source=SOURCE)


def check_id(key: MessageKey) -> None:
    """Raise Invalid unless a key names an event."""
    if not key.id.startswith("$"):
        raise Invalid.of(
            "matrix.event_id_form",
            "key.id: {id!r} is not the id of a Matrix event, which begins with $.",
            id=key.id,
        )


def encrypted_room(room: str) -> NotSupported:
    """Return the error for a message to an encrypted room."""
    return NotSupported.of(
        "matrix.room_encrypted",
        "The room {room} is end-to-end encrypted, and hookgw does not support that.",
        room=room,
    )
