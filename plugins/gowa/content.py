"""The content of a message of GOWA, in the words of Baileys. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from hookgw.connectors import MediaUrl, baileys_names, guess_mimetype, items, mapping, text

_FILES = {
    "image": ("imageMessage", "image/jpeg"),
    "video": ("videoMessage", "video/mp4"),
    "video_note": ("ptvMessage", "video/mp4"),
    "audio": ("audioMessage", "audio/ogg"),
    "document": ("documentMessage", "application/octet-stream"),
    "sticker": ("stickerMessage", "image/webp"),
}
"""The fields of files, with their names of Baileys and their usual types."""
_WHOLE = {
    "location": "locationMessage",
    "live_location": "liveLocationMessage",
    "list": "listMessage",
    "order": "orderMessage",
}
"""The fields whose value is WhatsApp's own, as Go writes it."""
_ABOUT = frozenset(
    {
        *("id", "chat_id", "chat_lid", "from", "from_lid", "from_name", "sender_display_name", "timestamp"),
        *("is_from_me", "body", "replied_to_id", "quoted_body", "view_once", "forwarded", "referral"),
    }
)
"""The fields of every message, which are no content of their own."""
_REFERRAL = {"ad_title": "title", "ad_body": "body"}
UNKNOWN = "unknownMessage"
"""The type of a message whose content GOWA does not tell: a poll, an answer to a list or to buttons."""
_LONGEST_REFERENCE = 1024


class Content(NamedTuple):
    """What a message consists of: its type, what stands under it, and the context."""

    type: str
    value: Any
    context: dict[str, Any]


def content_of(payload: Mapping[str, Any], chat: str, id_: str, media_url: MediaUrl) -> Content:
    """Return the content of a message.

    Args:
        payload: of the report.
        chat, id_: where the message is, and its id.
        media_url: makes links to files.
    """
    type_, value = _type_and_value(payload, chat, id_, media_url)
    if payload.get("view_once") is True and isinstance(value, dict):
        value["viewOnce"] = True
    context: dict[str, Any] = {}
    if answered := text(payload.get("replied_to_id")):
        context["stanzaId"] = answered
        if quoted := text(payload.get("quoted_body")):
            context["quotedMessage"] = {"conversation": quoted}
    if payload.get("forwarded") is True:
        context["isForwarded"] = True
    if referral := mapping(payload.get("referral")):
        context["externalAdReply"] = {
            _REFERRAL.get(name) or _camel(name): said for name, said in referral.items()
        }
    return Content(type_, value, context)


def _type_and_value(payload: Mapping[str, Any], chat: str, id_: str, media_url: MediaUrl) -> tuple[str, Any]:
    body = text(payload.get("body"))
    for field, (type_, mimetype) in _FILES.items():
        if field in payload:
            return type_, _file(payload[field], body, mimetype, f"{chat} {id_}", media_url)
    for field, type_ in _WHOLE.items():
        if found := mapping(payload.get(field)):
            return type_, baileys_names(found)
    if contact := mapping(payload.get("contact")):
        return "contactMessage", dict(contact)
    if contacts := items(payload.get("contacts_array")):
        return "contactsArrayMessage", {"contacts": contacts}
    # Of buttons and the like, GOWA makes one text.
    if summary := text(payload.get("interactive")):
        return "interactiveMessage", {"body": {"text": summary}}
    others = [name for name in payload if name not in _ABOUT and payload[name] not in (None, "")]
    if body or not others:
        return ("conversation", body) if body else (UNKNOWN, {})
    # A content that is newer than this file.
    value = payload[others[0]]
    return f"{_camel(others[0])}Message", dict(value) if isinstance(value, dict) else {"value": value}


def _file(said: Any, body: str, mimetype: str, reference: str, media_url: MediaUrl) -> dict[str, Any]:
    """Return the content of a file: GOWA gives a path, or a path with a caption, or WhatsApp's own URL."""
    more = mapping(said)
    path = text(said) or text(more.get("path"))
    name = text(more.get("filename")) or (path.rpartition("/")[2] if path else "")
    mimetype = guess_mimetype(name) or mimetype
    file: dict[str, Any] = {"mimetype": mimetype}
    if caption := text(more.get("caption")) or body:
        file["caption"] = caption
    if text(more.get("filename")):
        file["fileName"] = name
    if len(reference) <= _LONGEST_REFERENCE:
        file["url"] = media_url(reference, mimetype=mimetype, file_name=text(more.get("filename")))
    return file


def parts_of_link(reference: str) -> tuple[str, str] | None:
    """Return chat and id of the message whose file a link means; ``None`` if it means none."""
    chat, space, id_ = reference.partition(" ")
    return (chat, id_) if space and chat and id_ else None


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part[:1].upper() + part[1:] for part in rest)
