"""Messages that an instance sends: their files, and how events show them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

import msgspec

from hookgw.connectors.json_values import one_line
from hookgw.kernel.errors import Invalid
from hookgw.records.connectors import Session
from hookgw.records.messages import (
    Contact,
    ContactMessage,
    LocationMessage,
    MediaMessage,
    Message,
    ReactionMessage,
    TemplateMessage,
    TextMessage,
)

_TYPE = r"[\w.+-]{1,127}/[\w.+-]{1,127}"
_MIMETYPE = re.compile(_TYPE, re.ASCII)
_ANY_FILE = ("application/octet-stream", "binary/octet-stream")
_WITH_PARAMETERS = re.compile(rf"{_TYPE}(?: *; *[\w.+-]+=[\w.+-]+)*", re.ASCII)


class MediaUrl(Protocol):
    """Makes a link to a file: :meth:`hookgw.Session.media_url`, for code that knows no session."""

    def __call__(self, reference: str, *, mimetype: str = "", file_name: str = "") -> str:
        """Return the link."""


class FileToSend(msgspec.Struct, frozen=True, kw_only=True):
    """The file of a message.

    Attributes:
        content: the file.
        said: the media type that the server of its URL said; empty for none, for one that says nothing such
            as ``application/octet-stream``, and for a file without a URL.
        name: as the message or the URL has it; may be empty.
    """

    content: bytes
    said: str
    name: str


async def file_to_send(message: MediaMessage, session: Session, *, limit: int) -> FileToSend:
    """Return the file of a message.

    hookgw itself fetches a URL: the network's server would do so for any address in its own network.

    Args:
        message: with the file, or its URL.
        session: of the instance.
        limit: the most bytes that the file at a URL may have.

    Raises:
        Invalid, NetworkRefused: see :meth:`hookgw.Session.fetch`.
    """
    if message.content is not None:
        return FileToSend(content=message.content, said="", name=message.file_name)
    url = message.url or ""
    fetched = await session.fetch(url, limit=limit)
    name = message.file_name or unquote(urlsplit(url).path).rpartition("/")[2]
    said = "" if fetched.mimetype in _ANY_FILE else fetched.mimetype
    return FileToSend(content=fetched, said=said, name=name)


def is_mimetype(text: str, *, parameters: bool = False) -> bool:
    """Return whether a text is a media type.

    Args:
        text: such as ``image/png``.
        parameters: whether there may be some, as in ``audio/ogg; codecs=opus``.
    """
    return bool((_WITH_PARAMETERS if parameters else _MIMETYPE).fullmatch(text))


def check_mimetype(mimetype: str, *, parameters: bool = False) -> str:
    """Return a media type; see :func:`is_mimetype`.

    Raises:
        Invalid: it is none.
    """
    if not is_mimetype(mimetype, parameters=parameters):
        raise Invalid.of("media.type_invalid", "mimetype must be a media type such as image/png.")
    return mimetype


def vcard_text(value: str) -> str:
    """Return a text as a value of a vCard, to which it adds no line (RFC 6350, 3.4)."""
    value = value.replace("\\", "\\\\").replace(",", "\\,").replace(";", "\\;")
    return value.replace("\r\n", "\\n").replace("\n", "\\n").replace("\r", "\\n")


def vcard_of(contact: Contact, *, written: Callable[[str], str] = one_line, telephone: str = "TEL") -> str:
    """Return a contact as a vCard (RFC 6350).

    Args:
        contact: the contact.
        written: makes a field one line of the card: :func:`one_line`, or :func:`vcard_text`.
        telephone: the name of the line with the phone number, with its parameters.
    """
    lines = {
        "FN": contact.full_name,
        "ORG": contact.organization,
        telephone: contact.phone_number,
        "EMAIL": contact.email,
        "URL": contact.url,
    }
    shown = "\n".join(f"{name}:{written(value)}" for name, value in lines.items() if value or name == "FN")
    return f"BEGIN:VCARD\nVERSION:3.0\n{shown}\nEND:VCARD"


def sent_content(
    message: Message,
    chat: str,
    *,
    file: Mapping[str, Any] | None = None,
    vcard: Callable[[Contact], str] = vcard_of,
) -> tuple[str, Any]:
    """Return the name and the value of a message's content, as ``data.message`` of events has them.

    Args:
        message: that was sent.
        chat: where it is.
        file: what is known of its file.
        vcard: makes the card of a contact.
    """
    match message:
        case TextMessage():
            return "conversation", message.text
        case MediaMessage():
            return f"{message.kind.value}Message", dict(file or {})
        case LocationMessage():
            place = {"degreesLatitude": message.latitude, "degreesLongitude": message.longitude}
            return "locationMessage", {**place, "name": message.name, "address": message.address}
        case ContactMessage():
            cards = [{"displayName": one.full_name, "vcard": vcard(one)} for one in message.contacts]
            if len(cards) == 1:
                return "contactMessage", cards[0]
            return "contactsArrayMessage", {"contacts": cards}
        case ReactionMessage(key=key):
            reacted = {"remoteJid": chat, "fromMe": key.from_me, "id": key.id}
            return "reactionMessage", {"key": reacted, "text": message.reaction}
        case TemplateMessage():
            template = {"name": message.name, "language": message.language}
            return "templateMessage", {**template, "components": list(message.components)}


def sent_data(
    key: Mapping[str, Any], content: tuple[str, Any], now: float, *, status: str, source: str
) -> dict[str, Any]:
    """Return ``data`` of SEND_MESSAGE.

    Args:
        key: of the message: ``remoteJid``, ``fromMe``, ``id`` and perhaps ``participant``.
        content: see :func:`sent_content`.
        now: seconds since the epoch.
        status: ``PENDING``, or ``SERVER_ACK`` if the network has it already.
        source: what the message was sent with, such as ``web``.
    """
    name, value = content
    return {
        "key": dict(key),
        "message": {name: value},
        "messageType": name,
        "messageTimestamp": int(now),
        "status": status,
        "source": source,
    }


def text_data(key: Mapping[str, Any], text: str, time: float) -> dict[str, Any]:
    """Return ``data`` of a text: of MESSAGES_UPSERT, and of MESSAGES_EDITED.

    Args:
        key: of the message: ``remoteJid``, ``fromMe``, ``id`` and perhaps ``participant``.
        text: the text.
        time: seconds since the epoch.
    """
    return {
        "key": dict(key),
        "message": {"conversation": text},
        "messageType": "conversation",
        "messageTimestamp": int(time),
    }
