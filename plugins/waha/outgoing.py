"""What hookgw sends, as requests to WAHA and as payloads of hookgw. No I/O."""

from __future__ import annotations

import base64
import hashlib
from contextlib import suppress
from typing import Any

from hookgw import (
    Contact,
    ContactMessage,
    Invalid,
    LocationMessage,
    MediaKind,
    MediaMessage,
    ReactionMessage,
    TextMessage,
)
from hookgw.connectors import (
    FileToSend,
    mapping,
    message_data,
    sent_content,
    text,
    vcard_of,
    vcard_text,
    whatsapp_number_of,
)

from .ids import chat_id_of, is_group, jid_of, parse_message_id

Sendable = TextMessage | MediaMessage | LocationMessage | ContactMessage

_PATHS = {
    MediaKind.IMAGE: "sendImage",
    MediaKind.VIDEO: "sendVideo",
    MediaKind.AUDIO: "sendFile",
    MediaKind.DOCUMENT: "sendFile",
    MediaKind.STICKER: "sendSticker",
}
CONVERTED = ("sendVoice", "sendVideo")
"""The calls that can bring a file into the form that WhatsApp wants."""


def new_message_id(key: str) -> str:
    """Return the id of a message for a key: the same for each repetition of a send."""
    # The caller may have chosen any text as the key.
    return "3EB0" + hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()[:18].upper()


def request_of(message: Sendable, file: FileToSend | None = None) -> tuple[str, dict[str, Any]]:
    """Return the call of WAHA for a message, and its body, without session, chat and the answered message.

    Args:
        message: the message.
        file: of the message, if it has one.

    Raises:
        Invalid: a number in it is none.
    """
    if isinstance(message, TextMessage):
        body: dict[str, Any] = {"text": message.text, "linkPreview": message.link_preview}
        if message.mentions:
            body["mentions"] = [chat_id_of(mention, "mentioned") for mention in message.mentions]
        if message.mentions_everyone and is_group(chat_id_of(message.number)):
            body["mentions"] = ["all"]  # since 2025.11.1
        return "sendText", body
    if isinstance(message, LocationMessage):
        title = ", ".join(filter(None, (message.name, message.address)))
        return "sendLocation", {"latitude": message.latitude, "longitude": message.longitude, "title": title}
    if isinstance(message, ContactMessage):
        return "sendContactVcard", {
            "contacts": [{"vcard": _card_of(contact)} for contact in message.contacts]
        }
    assert file is not None, "a file is fetched before its message is sent"  # noqa: S101
    path, mimetype = "sendVoice" if message.is_voice else _PATHS[message.kind], file.mimetype
    content = base64.b64encode(file.content).decode()
    body = {"file": {"mimetype": mimetype, "filename": file.name, "data": content}}
    if message.caption and path not in ("sendVoice", "sendSticker"):
        body["caption"] = message.caption
    if path in CONVERTED:
        # What is in WhatsApp's form already is left as it is: WAHA needs seconds for the others.
        body["convert"] = (
            message.may_convert
            and "opus" not in mimetype
            and "ogg" not in mimetype
            and mimetype != "video/mp4"
        )
    return path, body


def sent_key(answer: Any) -> tuple[str, str]:
    """Return chat and id of a sent message, in the words of events; empty where WAHA's answer lacks them.

    The engines answer in different forms: WAHA's message, WhatsApp Web's, or the one of Baileys.
    """
    answer = mapping(answer)
    id_ = answer.get("id")
    parsed = parse_message_id(text(id_) or text(mapping(id_).get("_serialized")))
    if parsed is not None:
        return jid_of(parsed.chat), parsed.id
    key = mapping(answer.get("key"))
    if text(key.get("id")):
        return jid_of(text(key.get("remoteJid"))), text(key.get("id"))
    nested = mapping(id_)
    remote = nested.get("remote")
    remote = text(mapping(remote).get("_serialized")) or text(remote)
    return jid_of(remote), text(nested.get("id")) or text(id_)


def payload_of(
    message: Sendable | ReactionMessage,
    *,
    chat: str,
    id_: str,
    now: float,
    file: FileToSend | None = None,
) -> dict[str, Any]:
    """Return a message that hookgw sent: ``data`` of SEND_MESSAGE.

    Args:
        message: the message.
        chat, id_: where it is, and its id.
        now: seconds since the epoch.
        file: of the message, if it has one.
    """
    key = {"remoteJid": chat, "fromMe": True, "id": id_}
    content = sent_content(message, chat, file=file, vcard=_card_of)
    context: dict[str, Any] = {}
    if message.reply_to is not None:
        parsed = parse_message_id(message.reply_to.id)
        context["stanzaId"] = parsed.id if parsed is not None else message.reply_to.id
    if isinstance(message, TextMessage) and message.mentions:
        context["mentionedJid"] = [jid_of(chat_id_of(mention)) for mention in message.mentions]
    return message_data(key, content, now, context=context, status="PENDING", source="web")


def _card_of(contact: Contact) -> str:
    if not contact.full_name.strip():
        raise Invalid.of("waha.contact_name", "contact: fullName must not be empty.")
    telephone = "TEL;type=CELL;type=VOICE"
    with suppress(Invalid):  # else it is a number that only a person understands, without a chat
        telephone += f";waid={whatsapp_number_of(contact.phone_number)}"
    return vcard_of(contact, written=vcard_text, telephone=telephone)
