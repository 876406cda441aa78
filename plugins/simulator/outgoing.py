"""The payloads of messages that an instance sends. No I/O."""

from __future__ import annotations

import hashlib
from typing import Any

from hookgw import Invalid, Message, MessageKey, TextMessage
from hookgw.connectors import message_data, sent_content, whatsapp_chat_of


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
    name, content = sent_content(message, chat)
    if context := _context_of(message):  # in the content, as Evolution API has it
        if isinstance(message, TextMessage):
            name, content = "extendedTextMessage", {"extendedTextMessage": {"text": message.text}}
        content[name] |= context
    key = {"remoteJid": chat, "fromMe": True, "id": message_id}
    return message_data(key, (name, content), now, status="PENDING", source="web")


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
