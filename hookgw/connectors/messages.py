"""Messages that an instance sends: their files, and how events show them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

import msgspec

from hookgw.connectors.json_values import filled, one_line
from hookgw.connectors.media_types import guess_mimetype, suffix_of, type_of_content
from hookgw.kernel.errors import Invalid
from hookgw.records.connectors import Session
from hookgw.records.messages import (
    Contact,
    ContactMessage,
    LocationMessage,
    MediaKind,
    MediaMessage,
    Message,
    ReactionMessage,
    TemplateMessage,
    TextMessage,
)

_TYPE = r"[\w.+-]{1,127}/[\w.+-]{1,127}"
_MIMETYPE = re.compile(_TYPE, re.ASCII)
_ANY_FILE = ("application/octet-stream", "binary/octet-stream")
_USUAL_TYPES = {
    MediaKind.IMAGE: "image/jpeg",
    MediaKind.VIDEO: "video/mp4",
    MediaKind.AUDIO: "audio/mpeg",
    MediaKind.DOCUMENT: "application/octet-stream",
    MediaKind.STICKER: "image/webp",
}
_WITH_PARAMETERS = re.compile(rf"{_TYPE}(?: *; *[\w.+-]+=[\w.+-]+)*", re.ASCII)


class MediaUrl(Protocol):
    """Makes a link to a file: :meth:`hookgw.Session.media_url`, for code that knows no session."""

    def __call__(self, reference: str, *, mimetype: str = "", file_name: str = "") -> str:
        """Return the link."""


class FileToSend(msgspec.Struct, frozen=True, kw_only=True):
    """The file of a message.

    Attributes:
        content: the file.
        mimetype: as the message or the server of its URL says, or as its content, its name or its kind tell.
        name: as the message or its URL has it, or else made of kind and type.
    """

    content: bytes
    mimetype: str
    name: str


async def file_to_send(message: MediaMessage, session: Session, *, network: str, limit: int) -> FileToSend:
    """Return the file of a message.

    hookgw itself fetches a URL: the network's server would do so for any address in its own network.

    Args:
        message: with the file, or its URL.
        session: of the instance.
        network: its name, for the error.
        limit: the most bytes that the network takes.

    Raises:
        Invalid: the file has more bytes, or its type is none.
        Invalid, NetworkRefused: see :meth:`hookgw.Session.fetch`.
    """
    content, said, name = message.content, "", message.file_name
    if content is None:
        url = message.url or ""
        content = fetched = await session.fetch(url, limit=limit)
        name = name or unquote(urlsplit(url).path).rpartition("/")[2]
        said = "" if fetched.mimetype in _ANY_FILE else fetched.mimetype
    if len(content) > limit:
        raise Invalid.of(
            "media.too_long_for_network",
            "media: {network} takes files of at most {most:,} bytes.",
            network=network,
            most=limit,
        )
    mimetype = message.mimetype or said or type_of_content(content) or guess_mimetype(name)
    if not mimetype:
        is_mp4 = message.kind is MediaKind.AUDIO and content[4:8] == b"ftyp"
        mimetype = "audio/mp4" if is_mp4 else _USUAL_TYPES[message.kind]
    check_mimetype(mimetype)
    name = name or f"{message.kind.value}{suffix_of(mimetype)}"
    return FileToSend(content=content, mimetype=mimetype, name=name)


def is_mimetype(text: str) -> bool:
    """Return whether a text is a media type, such as ``image/png``, without parameters."""
    return bool(_MIMETYPE.fullmatch(text))


def check_mimetype(mimetype: str) -> str:
    """Return a media type, which may have parameters, as in ``audio/ogg; codecs=opus``.

    Raises:
        Invalid: it is none.
    """
    if not _WITH_PARAMETERS.fullmatch(mimetype):
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
    file: FileToSend | None = None,
    vcard: Callable[[Contact], str] = vcard_of,
) -> tuple[str, dict[str, Any]]:
    """Return the content of a message as :func:`message_data` takes it.

    Args:
        message: that was sent.
        chat: where it is.
        file: of the message, if it has one.
        vcard: makes the card of a contact.
    """
    name = "conversation"
    content: Any
    match message:
        case TextMessage():
            content = message.text
        case MediaMessage():
            name = f"{message.kind.value}Message"
            size = len((file.content if file else message.content) or b"")
            content = filled(
                url=message.url,
                mimetype=file.mimetype if file else message.mimetype,
                caption=message.caption,
                fileName=file.name if file else message.file_name,
                # A string: this is protobuf's JSON form of a 64-bit integer.
                fileLength=str(size) if size else "",
            )
            if message.kind is MediaKind.AUDIO:
                content["ptt"] = message.is_voice
        case LocationMessage():
            place = {"degreesLatitude": message.latitude, "degreesLongitude": message.longitude}
            name, content = "locationMessage", {**place, "name": message.name, "address": message.address}
        case ContactMessage():
            cards = [{"displayName": one.full_name, "vcard": vcard(one)} for one in message.contacts]
            name, content = "contactsArrayMessage", {"contacts": cards}
            if len(cards) == 1:
                name, content = "contactMessage", cards[0]
        case ReactionMessage(key=key):
            reacted = {"remoteJid": chat, "fromMe": key.from_me, "id": key.id}
            name, content = "reactionMessage", {"key": reacted, "text": message.reaction}
        case TemplateMessage():
            template = {"name": message.name, "language": message.language}
            name, content = "templateMessage", {**template, "components": list(message.components)}
    return name, {name: content}


def message_data(
    key: Mapping[str, Any],
    content: tuple[str, Mapping[str, Any]],
    time: float,
    *,
    push_name: str = "",
    context: Mapping[str, Any] | None = None,
    status: str = "",
    source: str = "",
) -> dict[str, Any]:
    """Return ``data`` of a message: of MESSAGES_UPSERT, SEND_MESSAGE and MESSAGES_EDITED.

    Args:
        key: of the message: ``remoteJid``, ``fromMe``, ``id`` and perhaps ``participant``.
        content: ``messageType`` and ``message``, such as ``("conversation", {"conversation": "Oi"})``.
        time: seconds since the epoch.
        push_name, context, status, source: ``pushName``, ``contextInfo``, ``status`` and ``source``; an empty
            one is left out. The status of a sent message is ``PENDING``, or ``SERVER_ACK`` if the network has
            it already.
    """
    name, message = content
    return {
        "key": dict(key),
        **filled(pushName=push_name),
        "message": message,
        "messageType": name,
        **filled(contextInfo=context),
        "messageTimestamp": int(time),
        **filled(status=status, source=source),
    }


def text_data(key: Mapping[str, Any], text: str, time: float) -> dict[str, Any]:
    """Return ``data`` of a text; see :func:`message_data`."""
    return message_data(key, ("conversation", {"conversation": text}), time)
