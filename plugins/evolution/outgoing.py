"""Messages of hookgw, as the calls of Evolution API take them. No I/O.

``POST /message/send…/<instance>`` of Evolution API 2.3.7 (``src/validate/message.schema.ts`` there).
"""

from __future__ import annotations

import base64
from contextlib import suppress
from typing import Any

from hookgw import (
    Contact,
    ContactMessage,
    Invalid,
    LocationMessage,
    MediaKind,
    MediaMessage,
    Message,
    MessageKey,
    ReactionMessage,
    TemplateMessage,
    TextMessage,
)
from hookgw.connectors import filled, whatsapp_chat_of, whatsapp_number_of

_LEAST_NUMBER = 10


def request_of(message: Message) -> tuple[str, dict[str, Any]]:
    """Return the path and the body of the call that sends a message.

    Raises:
        Invalid: Evolution API cannot send it.
    """
    if isinstance(message, ReactionMessage):
        return "message/sendReaction", {"key": key_of(message.key), "reaction": message.reaction}
    body = _common(message)
    match message:
        case TextMessage():
            body["text"] = message.text
            if not message.link_preview:
                body["linkPreview"] = False
            if message.mentions:
                # Each may come once.
                body["mentioned"] = list(
                    dict.fromkeys(recipient_of(one, "mentioned") for one in message.mentions)
                )
            return "message/sendText", body
        case LocationMessage():
            place = {"latitude": message.latitude, "longitude": message.longitude}
            return "message/sendLocation", body | place | {"name": message.name, "address": message.address}
        case ContactMessage():
            return "message/sendContact", body | {"contact": [_card(one) for one in message.contacts]}
        case TemplateMessage():
            template = {"name": message.name, "language": message.language}
            return "message/sendTemplate", body | template | {"components": list(message.components)}
        case MediaMessage():
            return _media(message, body)


def _common(message: Message) -> dict[str, Any]:
    body: dict[str, Any] = {"number": recipient_of(message.number)}
    if message.reply_to is not None:
        # Without the content, Evolution API looks for the message among those that it has stored.
        body["quoted"] = {"key": key_of(message.reply_to), **filled(message=message.replied)}
    if message.mentions_everyone:  # it takes false for true
        body["mentionsEveryOne"] = True
    return body


def recipient_of(number: str, where: str = "number") -> str:
    """Return a chat as Evolution API takes it. It would itself leave out whatever is no digit.

    Raises:
        Invalid: it is none.
    """
    chat = whatsapp_chat_of(number, where)
    # Of a number, Evolution API asks WhatsApp for the chat, which may have another one (in Brazil).
    return chat if "@" in number[1:] else chat.removesuffix("@s.whatsapp.net")


def key_of(key: MessageKey) -> dict[str, Any]:
    """Return a key as Evolution API takes it."""
    found = {"remoteJid": key.remote_jid, "fromMe": key.from_me, "id": key.id}
    return found if key.participant is None else found | {"participant": key.participant}


def _media(message: MediaMessage, body: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    # It fetches a URL itself.
    file = message.url or base64.b64encode(message.content or b"").decode()
    if not file:
        raise Invalid.of("evolution.empty_file", "media: the file is empty.")
    if message.kind is MediaKind.STICKER:
        return "message/sendSticker", body | {"sticker": file}
    if message.kind is MediaKind.AUDIO and message.is_voice:
        if not message.may_convert:
            body["encoding"] = False
        return "message/sendWhatsAppAudio", body | {"audio": file}
    body |= {"mediatype": message.kind.value, "media": file}
    body |= filled(mimetype=message.mimetype, caption=message.caption, fileName=message.file_name)
    if not message.file_name and message.kind is MediaKind.DOCUMENT and message.url is None:
        body["fileName"] = "file"  # without a name, it refuses a document that is not a URL
    return "message/sendMedia", body


def _card(contact: Contact) -> dict[str, Any]:
    digits = ""
    with suppress(Invalid):
        digits = whatsapp_number_of(contact.phone_number)
    if len(digits) < _LEAST_NUMBER:
        raise Invalid.of(
            "evolution.contact_number",
            "contact: Evolution API needs the phone number of {name!r} with its country code, "
            "and {least} to 15 digits.",
            name=contact.full_name,
            least=_LEAST_NUMBER,
        )
    return {
        "fullName": contact.full_name,
        "wuid": digits,
        "phoneNumber": contact.phone_number,
        **filled(organization=contact.organization, email=contact.email, url=contact.url),
    }
