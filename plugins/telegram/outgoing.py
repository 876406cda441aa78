"""What hookgw sends, as calls of the Bot API. No I/O."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from hookgw import (
    Contact,
    ContactMessage,
    Invalid,
    LocationMessage,
    MediaKind,
    MediaMessage,
    MessageKey,
    NotSupported,
    TextMessage,
)
from hookgw.connectors import EMPTY_TEXT, vcard_of

LONGEST_TEXT = 4096
LONGEST_CAPTION = 1024
LARGEST_FILE = 50 * 2**20
"""Bytes of a file that a bot may upload to Telegram's server."""
_LONGEST_VCARD = 2048

_CHAT = re.compile(r"(-?[0-9]{1,16})(?:@([A-Za-z0-9_-]{1,128}))?(?:/([0-9]{1,12}))?")
_USERNAME = re.compile(r"(?:(?:https?://)?t\.me/|@)([A-Za-z][A-Za-z0-9_]{3,31})(?:/([0-9]{1,12}))?/?")
_PHONE = re.compile(r"\+[0-9 ().-]{5,}")
_MESSAGE_ID = re.compile(r"[0-9]{1,16}")
_METHODS = {
    MediaKind.IMAGE: ("sendPhoto", "photo"),
    MediaKind.VIDEO: ("sendVideo", "video"),
    MediaKind.AUDIO: ("sendAudio", "audio"),
    MediaKind.DOCUMENT: ("sendDocument", "document"),
    MediaKind.STICKER: ("sendSticker", "sticker"),
}
_BY_URL = (MediaKind.IMAGE, MediaKind.VIDEO, MediaKind.AUDIO)


class Target(msgspec.Struct, frozen=True):
    """A chat, as the Bot API names it.

    Attributes:
        chat_id: a number, or ``@username``.
        connection: of the business account that has the chat; empty for the bot's own.
        thread: of a topic in a group; empty for none.
    """

    chat_id: int | str
    connection: str = ""
    thread: str = ""

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of a call that sends something there."""
        found: dict[str, Any] = {"chat_id": self.chat_id}
        if self.connection:
            found["business_connection_id"] = self.connection
        if self.thread:
            found["message_thread_id"] = int(self.thread)
        return found


def target_of(number: str, where: str = "number") -> Target:
    """Return the chat for the ``number`` of a call.

    Args:
        number: ``123``, ``-100123`` (a chat), ``@channel`` or ``https://t.me/channel`` (a public one),
            ``123@connection`` (of a business account), each with ``/45`` for a topic.

    Raises:
        Invalid: it is none of these.
    """
    number = number.strip()
    if found := _CHAT.fullmatch(number):
        return Target(int(found[1]), found[2] or "", found[3] or "")
    if found := _USERNAME.fullmatch(number):
        return Target(f"@{found[1]}", "", found[2] or "")
    if _PHONE.fullmatch(number):
        raise Invalid.of(
            "telegram.number_is_phone",
            "{where}: {number!r} is a phone number, and Telegram lets bots write only to people "
            "who have written to them. Use the chat's id, which is data.key.remoteJid of their "
            "messages.",
            where=where,
            number=number,
        )
    raise Invalid.of(
        "telegram.number_form",
        "{where}: {number!r} is neither the id of a chat, such as 123456789 or "
        "-1001234567890, nor a public @username.",
        where=where,
        number=number,
    )


def message_id(key: MessageKey, where: str = "key.id") -> int:
    """Return the number of a message.

    Raises:
        Invalid: the key does not name one.
    """
    if not _MESSAGE_ID.fullmatch(key.id):
        raise Invalid.of(
            "telegram.message_id_form",
            "{where}: {id!r} is not the number of a message on Telegram.",
            where=where,
            id=key.id,
        )
    return int(key.id)


def common_parameters(message: Any) -> dict[str, Any]:
    """Return the parameters that all messages have: where they go, and what they answer."""
    parameters = target_of(message.number).parameters
    if message.reply_to is not None:
        parameters["reply_parameters"] = {"message_id": message_id(message.reply_to, "quoted.key.id")}
    return parameters


def text_parameters(message: TextMessage) -> dict[str, Any]:
    parameters = {**common_parameters(message), "text": checked_text(message.text)}
    if not message.link_preview:
        parameters["link_preview_options"] = {"is_disabled": True}
    entities = []
    for mention in message.mentions:
        # People with a username are mentioned by it, in the text. Others need their id, and a place there.
        if not (mention.isascii() and mention.isdigit()):
            continue
        # Not within the longer id of somebody else.
        if found := re.search(rf"@{mention}(?![0-9])", message.text):
            # Telegram counts UTF-16 code units.
            offset = len(message.text[: found.start()].encode("utf-16-le")) // 2
            user = {"id": int(mention), "is_bot": False, "first_name": mention}
            entities.append(
                {"type": "text_mention", "offset": offset, "length": len(mention) + 1, "user": user}
            )
    if entities:
        parameters["entities"] = entities
    return parameters


def checked_text(text: str, what: str = "text", longest: int = LONGEST_TEXT) -> str:
    """Return a text that Telegram takes.

    Raises:
        Invalid: it is empty or too long.
    """
    if not text.strip() and what == "text":
        raise Invalid(EMPTY_TEXT)
    if len(text) > longest:
        raise Invalid.of(
            "telegram.text_too_long",
            "{what} has {count:,} characters, and Telegram takes at most {longest:,}. Send it in "
            "several messages.",
            what=what,
            count=len(text),
            longest=longest,
        )
    return text


def media_call(message: MediaMessage) -> tuple[str, str, dict[str, Any]]:
    """Return the method for a file, the parameter that takes the file, and the other parameters."""
    method, field = _METHODS[message.kind]
    if message.kind is MediaKind.AUDIO and message.is_voice:
        method, field = "sendVoice", "voice"
    parameters = common_parameters(message)
    if message.caption:
        if message.kind is MediaKind.STICKER:
            raise Invalid.of("telegram.sticker_caption", "caption: stickers have none on Telegram.")
        parameters["caption"] = checked_text(message.caption, "caption", LONGEST_CAPTION)
    return method, field, parameters


def is_sent_by_url(message: MediaMessage) -> bool:
    """Return whether Telegram may fetch the file itself. It has no name then; its server says the type."""
    return (
        message.content is None
        and message.kind in _BY_URL
        and not message.is_voice
        and not message.file_name
        and message.mimetype is None
    )


def location_call(message: LocationMessage) -> tuple[str, dict[str, Any]]:
    """Return the method and the parameters for a place."""
    parameters = {**common_parameters(message), "latitude": message.latitude, "longitude": message.longitude}
    if not message.name and not message.address:
        return "sendLocation", parameters
    # A venue has both.
    named = {"title": message.name or message.address, "address": message.address or message.name}
    return "sendVenue", {**parameters, **named}


def contact_parameters(message: ContactMessage) -> dict[str, Any]:
    """Return the parameters of ``sendContact``.

    Raises:
        NotSupported: there are several contacts.
        Invalid: a field is missing.
    """
    if len(message.contacts) != 1:
        raise NotSupported.of(
            "telegram.one_contact",
            "Telegram has one contact in a message: send each contact with a call of its own.",
        )
    contact = message.contacts[0]
    if not contact.phone_number:
        raise Invalid.of(
            "telegram.contact_number",
            "contact[0].phoneNumber is missing: Telegram sends no contact without one.",
        )
    parameters = {
        **common_parameters(message),
        "phone_number": contact.phone_number,
        "first_name": contact.full_name,
    }
    if contact.organization or contact.email or contact.url:
        parameters["vcard"] = _vcard(contact)
    return parameters


def _vcard(contact: Contact) -> str:
    card = vcard_of(contact)
    if len(card.encode()) > _LONGEST_VCARD:
        raise Invalid.of(
            "telegram.contact_too_long",
            "contact[0] makes a card of more than {most:,} bytes, which Telegram does not take.",
            most=_LONGEST_VCARD,
        )
    return card
