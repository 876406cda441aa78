"""The payloads of messages that an instance sends. No I/O."""

from __future__ import annotations

import hashlib
from typing import Any

from hookgw import (
    Contact,
    ContactMessage,
    Invalid,
    LocationMessage,
    MediaMessage,
    Message,
    MessageKey,
    ReactionMessage,
    TemplateMessage,
    TextMessage,
)
from hookgw.connectors import vcard_of, whatsapp_chat_of


def chat_of(number: str, where: str = "number") -> str:
    """Return the JID of a person or a group.

    Raises:
        Invalid: it is neither.
    """
    chat = whatsapp_chat_of(number, where)
    if not chat.endswith(("@s.whatsapp.net", "@g.us")):
        raise Invalid.of(
            "simulator.number_form",
            "{where}: {number!r} is not a phone number; use 7 to 15 digits with the country code, "
            "or the id of a person or a group.",
            where=where,
            number=number,
        )
    return chat


def message_id_of(instance: str, key: str) -> str:
    """Return the id of a sent message: the same for each repetition of a send."""
    return f"3EB0{hashlib.sha256(f'{instance} {key}'.encode()).hexdigest()[:18].upper()}"


def outgoing(message: Message, chat: str, message_id: str, now: int) -> dict[str, Any]:
    """Return the payload of SEND_MESSAGE.

    Args:
        message: what is sent.
        chat: where it goes.
        message_id: of the message.
        now: seconds since the epoch.
    """
    name, content = _content_of(message)
    return {
        "key": {"remoteJid": chat, "fromMe": True, "id": message_id},
        "status": "PENDING",
        "message": {name: content},
        "messageType": name,
        "messageTimestamp": now,
        "source": "web",
    }


def _content_of(message: Message) -> tuple[str, Any]:
    """Return the name and the value of a message's content, as Evolution API has them."""
    match message:
        case TextMessage(text=text, mentions=(), reply_to=None):
            return "conversation", text
        case TextMessage():
            return "extendedTextMessage", {"text": message.text, **_context_of(message)}
        case MediaMessage():
            shown = {
                "url": message.url,
                "mimetype": message.mimetype,
                "caption": message.caption,
                "fileName": message.file_name,
                # A string: this is protobuf's JSON form of a 64-bit integer.
                "fileLength": None if message.content is None else str(len(message.content)),
                "ptt": message.is_voice,
            }
            given = {name: value for name, value in shown.items() if value}
            return f"{message.kind}Message", {**given, **_context_of(message)}
        case LocationMessage():
            place = {"degreesLatitude": message.latitude, "degreesLongitude": message.longitude}
            texts = {"name": message.name, "address": message.address}
            return "locationMessage", {**place, **texts, **_context_of(message)}
        case ContactMessage(contacts=(contact,)):
            return "contactMessage", {**_card_of(contact), **_context_of(message)}
        case ContactMessage():
            cards = [_card_of(contact) for contact in message.contacts]
            return "contactsArrayMessage", {"contacts": cards, **_context_of(message)}
        case ReactionMessage():
            return "reactionMessage", {"key": payload_of(message.key), "text": message.reaction}
        case TemplateMessage():
            values = {"name": message.name, "language": message.language}
            return "templateMessage", {**values, "components": list(message.components)}


def payload_of(key: MessageKey) -> dict[str, Any]:
    """Return a message's key as events have it."""
    return {"remoteJid": key.remote_jid, "fromMe": key.from_me, "id": key.id}


def _context_of(message: Message) -> dict[str, Any]:
    context: dict[str, Any] = {}
    if message.reply_to is not None:
        context["stanzaId"] = message.reply_to.id
    if isinstance(message, TextMessage) and message.mentions:
        context["mentionedJid"] = [chat_of(mention, "mentioned") for mention in message.mentions]
    return {"contextInfo": context} if context else {}


def _card_of(contact: Contact) -> dict[str, str]:
    return {"displayName": contact.full_name, "vcard": vcard_of(contact)}
