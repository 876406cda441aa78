"""What hookgw sends, as requests to the Cloud API and as payloads of hookgw. No I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping
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
    ReactionMessage,
    TemplateMessage,
    TextMessage,
)
from hookgw import connectors as kit
from hookgw.connectors import EMPTY_TEXT, items, text
from hookgw.records.chats import USER_ID

from .events import SOURCE

LONGEST_KEY = 512
"""Characters of a key that Meta reports with the statuses of a message."""

_GROUP = re.compile(r"([A-Za-z0-9+/=_.:-]{1,256})@g\.us")
# An international number has at most 15 digits (ITU-T E.164).
_NUMBER = re.compile(r"[0-9]{7,15}")
_MESSAGE_ID = re.compile("[!-~]{1,512}")


def recipient_of(number: str, where: str = "number") -> tuple[str, dict[str, str]]:
    """Return the chat's JID, and the fields that name it in a request.

    Args:
        number: a phone number as people write it, a JID as events have it, or the id of a user who hides the
            number.

    Raises:
        Invalid: it is none of these.
    """
    number = number.strip()
    if found := _GROUP.fullmatch(number):
        return number, {"recipient_type": "group", "to": found[1]}
    user = number.removesuffix("@lid")
    if USER_ID.fullmatch(user):
        return f"{user}@lid", {"recipient_type": "individual", "recipient": user}
    jid = kit.whatsapp_chat_of(number, where)
    user, _, server = jid.partition("@")
    if server == "g.us":
        return jid, {"recipient_type": "group", "to": user}
    if server != "s.whatsapp.net":
        raise Invalid.of(
            "whatsapp_cloud.number_form",
            "{where}: {number!r} is neither a phone number nor the remoteJid of an event.",
            where=where,
            number=number,
        )
    return jid, {"recipient_type": "individual", "to": user}


def request_of(message: Message, *, media_id: str = "", key: str = "") -> dict[str, Any]:
    """Return the body of the request that sends a message, without its recipient.

    Args:
        message: the message.
        media_id: of the uploaded file; empty if the message has a link.
        key: comes back with the statuses of the message.

    Raises:
        Invalid: WhatsApp cannot send it.
    """
    kind, content = _content(message, media_id)
    body: dict[str, Any] = {"type": kind, kind: content}
    if message.reply_to is not None:
        body["context"] = {"message_id": check_id(message.reply_to.id, "quoted.key.id")}
    if 0 < len(key) <= LONGEST_KEY:
        body["biz_opaque_callback_data"] = key
    return body


def check_id(id_: str, where: str = "key.id") -> str:
    """Return the id of a message.

    Raises:
        Invalid: it cannot be one.
    """
    if not _MESSAGE_ID.fullmatch(id_):
        raise Invalid.of(
            "whatsapp_cloud.message_id_form",
            "{where}: {id!r} is not the id of a WhatsApp message, such as wamid.HBgL….",
            where=where,
            id=id_[:100],
        )
    return id_


def payload_of(
    message: Message,
    answer: Mapping[str, Any],
    *,
    jid: str,
    now: float,
    media_id: str,
    file: kit.FileToSend | None,
    media_url: kit.MediaUrl,
) -> dict[str, Any]:
    """Return a message that hookgw sent: ``data`` of SEND_MESSAGE; its id is empty if Meta did not say one.

    Args:
        message: what was sent.
        answer: Meta's.
        jid: the chat, as the caller named it.
        now: seconds since the epoch.
        media_id, file: of the uploaded file, and the file; empty, and ``None``, if there is none.
        media_url: makes the link to it.
    """
    # Meta corrects numbers (in Brazil and Mexico, by a digit). Events have the corrected one.
    for contact in items(answer.get("contacts")):
        if jid.endswith("@s.whatsapp.net") and _NUMBER.fullmatch(text(contact.get("wa_id"))):
            jid = f"{contact['wa_id']}@s.whatsapp.net"
    ids = [text(sent.get("id")) for sent in items(answer.get("messages"))]
    name, content = kit.sent_content(message, jid, file=file)
    if file is not None:
        url = media_url(media_id, mimetype=file.mimetype, file_name=content[name]["fileName"])
        content[name] |= {"url": url, "mediaId": media_id}
    if isinstance(message, LocationMessage):
        content[name] = {field: value for field, value in content[name].items() if value != ""}
    key = {"remoteJid": jid, "fromMe": True, "id": ids[0] if ids else ""}
    context = {"stanzaId": message.reply_to.id} if message.reply_to else None
    # Accepted; the status SERVER_ACK follows when Meta has sent it.
    return kit.message_data(key, (name, content), now, context=context, status="PENDING", source=SOURCE)


def _content(message: Message, media_id: str) -> tuple[str, Any]:
    match message:
        case TextMessage():
            if not message.text:
                raise Invalid(EMPTY_TEXT)
            return "text", {"body": message.text, "preview_url": message.link_preview}
        case MediaMessage():
            return message.kind.value, _file(message, media_id)
        case LocationMessage():
            place: dict[str, Any] = {"latitude": message.latitude, "longitude": message.longitude}
            return "location", {**place, **kit.filled(name=message.name, address=message.address)}
        case ContactMessage():
            return "contacts", [_card(contact) for contact in message.contacts]
        case ReactionMessage():
            return "reaction", {"message_id": check_id(message.key.id), "emoji": message.reaction}
        case TemplateMessage():
            template = {"name": message.name, "language": {"code": message.language}}
            components = list(message.components)
            return "template", {**template, "components": components} if components else template


def _file(message: MediaMessage, media_id: str) -> dict[str, Any]:
    file: dict[str, Any] = {"id": media_id} if media_id else {"link": message.url}
    # Captions of recordings and stickers are refused.
    if message.kind in (MediaKind.IMAGE, MediaKind.VIDEO, MediaKind.DOCUMENT) and message.caption:
        file["caption"] = message.caption
    if message.kind is MediaKind.DOCUMENT and message.file_name:
        file["filename"] = message.file_name
    if message.kind is MediaKind.AUDIO and message.is_voice:
        file["voice"] = True
    return file


def _card(contact: Contact) -> dict[str, Any]:
    card: dict[str, Any] = {
        "name": {"formatted_name": contact.full_name, "first_name": contact.full_name},
    }
    if contact.phone_number:
        digits = ""
        with suppress(Invalid):  # a card may have a number that only a person understands
            digits = kit.whatsapp_number_of(contact.phone_number)
        # With wa_id, the card has a button to write to this person.
        card["phones"] = [{"phone": contact.phone_number, "type": "CELL", **kit.filled(wa_id=digits)}]
    if contact.organization:
        card["org"] = {"company": contact.organization}
    if contact.email:
        card["emails"] = [{"email": contact.email, "type": "WORK"}]
    if contact.url:
        card["urls"] = [{"url": contact.url, "type": "WORK"}]
    return card
