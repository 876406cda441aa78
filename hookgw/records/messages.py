"""Outgoing messages, as connectors receive them. No I/O."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec


class MessageKey(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Identifies a message, in the words of the payloads: ``{"remoteJid", "fromMe", "id"}``.

    Attributes:
        remote_jid: the chat.
        id: the network's id of the message.
        from_me: whether the instance's own account sent it.
        participant: who sent it, in a group.
    """

    remote_jid: str
    id: str
    from_me: bool = False
    participant: str | None = None


class MessageQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which messages to list, the newest first. ``None`` means any.

    Attributes:
        id: the network's id of one message.
        chat: the chat.
        from_me: whether the instance's own account sent it.
        message_type: its kind of content, such as ``conversation``.
        since, until: when it was sent, inclusive, in seconds since the epoch.
        page: the number of the page, from 1.
        size: the most of a page.
        record_id: the ``id`` of a message in an answer: of a network that keeps messages itself, its own; in
            hookgw's history, the ``id`` as well.
        source: what it was sent with, such as ``android``.
    """

    id: str | None = None
    chat: str | None = None
    from_me: bool | None = None
    message_type: str | None = None
    since: float | None = None
    until: float | None = None
    page: int = 1
    size: int = 50
    record_id: str | None = None
    source: str | None = None


class MediaKind(StrEnum):
    """What a file is sent as, in the words of the HTTP API.

    Attributes:
        IMAGE: a picture.
        VIDEO: a video.
        AUDIO: a recording, or a voice message.
        DOCUMENT: a file of any type.
        STICKER: a sticker.
    """

    IMAGE = "image"
    VIDEO = "video"
    AUDIO = "audio"
    DOCUMENT = "document"
    STICKER = "sticker"


class _Message(msgspec.Struct, frozen=True, kw_only=True):
    number: str
    reply_to: MessageKey | None = None
    replied: dict[str, Any] | None = None
    delay: float = 0.0
    mentions_everyone: bool = False


class TextMessage(_Message, frozen=True, kw_only=True):
    """A text.

    Attributes:
        number: where it goes: a phone number or a chat, as the network names it.
        reply_to: the message that it answers.
        replied: the content of that message in the words of the payloads, if the caller knows it.
        delay: seconds that hookgw waits before it calls the connector, which need not know it.
        mentions_everyone: whether it mentions everybody in the group.
        text: at least one character.
        mentions: the accounts that it mentions.
        link_preview: whether the network may show a preview of a link.
    """

    text: str
    mentions: tuple[str, ...] = ()
    link_preview: bool = True


class MediaMessage(_Message, frozen=True, kw_only=True):
    """A file: either ``url`` or ``content`` is given.

    Attributes:
        number, reply_to, replied, delay, mentions_everyone: see :class:`TextMessage`.
        kind: what it is sent as.
        url: where the network, or the connector, gets the file.
        content: the file itself.
        mimetype: such as ``image/png``; ``None`` if the caller did not say.
        caption: a text below it; empty for none.
        file_name: the name to show; empty for none.
        is_voice: whether an audio file is a recorded voice message.
        may_convert: whether the network may convert a voice message into the form that it wants.
    """

    kind: MediaKind
    url: str | None = None
    content: bytes | None = None
    mimetype: str | None = None
    caption: str = ""
    file_name: str = ""
    is_voice: bool = False
    may_convert: bool = True


class LocationMessage(_Message, frozen=True, kw_only=True):
    """A place.

    Attributes:
        number, reply_to, replied, delay, mentions_everyone: see :class:`TextMessage`.
        latitude, longitude: in degrees.
        name, address: texts to show; empty for none.
    """

    latitude: float
    longitude: float
    name: str = ""
    address: str = ""


class Contact(msgspec.Struct, frozen=True, kw_only=True):
    """A person's card.

    Attributes:
        full_name: the name to show.
        phone_number: in international form.
        organization, email, url: further lines; empty for none.
    """

    full_name: str
    phone_number: str = ""
    organization: str = ""
    email: str = ""
    url: str = ""


class ContactMessage(_Message, frozen=True, kw_only=True):
    """Cards of people.

    Attributes:
        number, reply_to, replied, delay, mentions_everyone: see :class:`TextMessage`.
        contacts: one or more.
    """

    contacts: tuple[Contact, ...]


class ReactionMessage(_Message, frozen=True, kw_only=True):
    """A reaction to a message.

    Attributes:
        number: the chat of that message.
        reply_to, replied, delay, mentions_everyone: not used.
        key: the message.
        reaction: an emoji; empty to take the reaction back.
    """

    key: MessageKey
    reaction: str


class TemplateMessage(_Message, frozen=True, kw_only=True):
    """A message that the network has approved beforehand.

    Attributes:
        number, reply_to, replied, delay, mentions_everyone: see :class:`TextMessage`.
        name: the template's name.
        language: such as ``pt_BR``.
        components: the values for its placeholders, as the network defines them.
    """

    name: str
    language: str
    components: tuple[dict[str, Any], ...] = ()


Message = TextMessage | MediaMessage | LocationMessage | ContactMessage | ReactionMessage | TemplateMessage
"""Everything that a connector may be asked to send."""
