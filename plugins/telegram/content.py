"""What is in a message, in the words of the payloads. No I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from hookgw import Contact
from hookgw.connectors import (
    MediaUrl,
    degrees,
    filled,
    is_mimetype,
    items,
    mapping,
    number,
    text,
    vcard_of,
    vcard_text,
)

from .fields import identifier

_MEDIA = {
    # The field of a message, the name in the payload, and the type if Telegram does not say it.
    "animation": ("videoMessage", "video/mp4"),
    "video": ("videoMessage", "video/mp4"),
    "video_note": ("videoMessage", "video/mp4"),
    "voice": ("audioMessage", "audio/ogg"),
    "audio": ("audioMessage", "audio/mpeg"),
    "sticker": ("stickerMessage", "image/webp"),
    # After the others: an animation comes with a document of the same file, for old clients.
    "document": ("documentMessage", "application/octet-stream"),
}
_VIDEOS = {"animation": "gifPlayback", "video_note": "ptv"}
_STICKERS = {
    # Animated, and video.
    (False, False): "image/webp",
    (True, False): "application/x-tgsticker",
    (False, True): "video/webm",
    (True, True): "video/webm",
}
# What a message says beside its content, and what a group says about itself: no reason for an event.
_NO_CONTENT = frozenset(
    (
        *("message_id", "message_thread_id", "direct_messages_topic", "from", "sender_chat", "date", "chat"),
        *("sender_boost_count", "sender_business_bot", "sender_tag", "business_connection_id", "edit_date"),
        *("forward_origin", "forward_from", "forward_from_chat", "forward_from_message_id", "forward_date"),
        *("forward_signature", "forward_sender_name", "is_topic_message", "is_automatic_forward", "via_bot"),
        *("reply_to_message", "reply_to_story", "reply_to_checklist_task_id", "external_reply", "quote"),
        *("has_protected_content", "is_from_offline", "is_paid_post", "media_group_id", "author_signature"),
        *("paid_star_count", "entities", "link_preview_options", "suggested_post_info", "effect_id"),
        *("caption", "caption_entities", "show_caption_above_media", "has_media_spoiler", "reply_markup"),
        *("new_chat_photo", "delete_chat_photo", "group_chat_created", "supergroup_chat_created"),
        *("channel_chat_created", "migrate_from_chat_id", "pinned_message", "boost_added"),
        *("message_auto_delete_timer_changed", "chat_background_set", "forum_topic_created"),
        *("forum_topic_edited", "forum_topic_closed", "forum_topic_reopened", "general_forum_topic_hidden"),
        *("general_forum_topic_unhidden", "video_chat_scheduled", "video_chat_started", "video_chat_ended"),
        *("video_chat_participants_invited", "write_access_allowed", "connected_website"),
    )
)
# Where a rich message has words, in the order in which they are shown.
_WORDS = (
    "summary",
    "text",
    "alternative_text",
    "expression",
    "caption",
    "items",
    "blocks",
    "cells",
    "credit",
)
_LINES = ("items", "blocks", "cells")
_FILE_ID = re.compile(r"[A-Za-z0-9_-]{1,512}")


def content_of(message: Mapping[str, Any], media_url: MediaUrl) -> tuple[str, dict[str, Any]] | None:
    """Return the type and the body of a message, in the words of the payloads; ``None`` if it has none."""
    if isinstance(message.get("text"), str):
        return "conversation", {"conversation": text(message["text"])}
    caption = text(message.get("caption"))
    if photo := _photo(message):
        return "imageMessage", {"imageMessage": _file(photo, "image/jpeg", caption, media_url)}
    return _file_content(message, caption, media_url) or _other_content(message, caption)


def _file_content(
    message: Mapping[str, Any], caption: str, media_url: MediaUrl
) -> tuple[str, dict[str, Any]] | None:
    for field, (name, mimetype) in _MEDIA.items():
        found = mapping(message.get(field))
        if not _file_id(found):
            continue
        if field == "sticker":
            mimetype = _STICKERS[found.get("is_animated") is True, found.get("is_video") is True]
        file = _file(found, mimetype, caption, media_url)
        if name == "audioMessage":
            file["ptt"] = field == "voice"
            file |= {
                source: text(found[source]) for source in ("title", "performer") if text(found.get(source))
            }
        elif field == "sticker":
            file |= {"isAnimated": mimetype != "image/webp", "emoji": text(found.get("emoji"))}
        elif field == "document":
            file["title"] = file.get("fileName", "")
        elif field in _VIDEOS:
            file[_VIDEOS[field]] = True
        return name, {name: file}
    return None


def _other_content(message: Mapping[str, Any], caption: str) -> tuple[str, dict[str, Any]] | None:
    venue = mapping(message.get("venue"))
    place = mapping(venue.get("location")) or mapping(message.get("location"))
    latitude, longitude = degrees(place.get("latitude")), degrees(place.get("longitude"))
    if latitude is not None and longitude is not None:
        location: dict[str, Any] = {"degreesLatitude": latitude, "degreesLongitude": longitude}
        if number(place.get("live_period")):
            return "liveLocationMessage", {"liveLocationMessage": location}
        location |= {"name": text(venue.get("title")), "address": text(venue.get("address"))}
        return "locationMessage", {"locationMessage": location}
    if contact := mapping(message.get("contact")):
        name = " ".join(filter(None, (text(contact.get("first_name")), text(contact.get("last_name")))))
        card = {"displayName": name, "vcard": text(contact.get("vcard")) or _vcard(name, contact)}
        if user := identifier(contact.get("user_id")):
            card["userId"] = user
        return "contactMessage", {"contactMessage": card}
    if poll := mapping(message.get("poll")):
        body = {
            "name": text(poll.get("question")),
            "options": [{"optionName": text(one.get("text"))} for one in items(poll.get("options"))],
            "selectableOptionsCount": 0 if poll.get("allows_multiple_answers") is True else 1,
            "poll": poll,  # with its id, which answers name
        }
        return "pollCreationMessage", {"pollCreationMessage": body}
    with suppress(RecursionError):  # so deep, it is no message of a person
        if (rich := mapping(message.get("rich_message"))) and (words := _words_of(rich)):
            return "conversation", {"conversation": words, "richMessage": rich}
    if dice := mapping(message.get("dice")):
        return "conversation", {
            "conversation": f"{text(dice.get('emoji'))} {number(dice.get('value')) or ''}"
        }
    if pressed := mapping(message.get("web_app_data")):
        answer = {"selectedButtonId": text(pressed.get("data"))}
        answer["selectedDisplayText"] = text(pressed.get("button_text"))
        return "buttonsResponseMessage", {"buttonsResponseMessage": answer}
    # A message of a person must not vanish because hookgw does not know its content.
    unknown = sorted(text(name) for name in message if name not in _NO_CONTENT)
    if not unknown and not caption:
        return None
    fields = {name: message[name] for name in unknown if name in message}
    told: dict[str, Any] = {"content": unknown[:20], "caption": caption, "fields": fields}
    return "unsupportedMessage", {"unsupportedMessage": told}


def _words_of(value: Any, *between: str) -> str:
    """Return the words of a rich message, or of a part of it, without its form.

    Args:
        value: an object, a text, or a list of them.
        between: what stands between the items of a list, and of the lists in it; by default nothing.
    """
    if isinstance(value, list):
        found = (_words_of(item, *between[1:]) for item in value)
        return (between[0] if between else "").join(filter(None, found))
    if not isinstance(value, dict):
        return text(value)
    lines = (_words_of(value.get(name), *(("\n", "\t") if name in _LINES else ())) for name in _WORDS)
    return " ".join(filter(None, (text(value.get("label")), "\n".join(filter(None, lines)))))


def file_of(update: Mapping[str, Any]) -> tuple[str, int] | None:
    """Return the id of the file of an update's new message, and its size in bytes, or 0 if it is unknown."""
    for name in ("message", "channel_post", "business_message"):
        message = mapping(update.get(name))
        found = [_photo(message), *(mapping(message.get(field)) for field in _MEDIA)]
        for file in found:
            if _file_id(file):
                return _file_id(file), number(file.get("file_size")) or 0
    return None


def _photo(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return the largest of the sizes of a photo; empty if there is none."""
    sizes = [photo for photo in items(message.get("photo")) if _file_id(photo)]
    return max(sizes, key=lambda photo: number(photo.get("width")) or 0, default={})


def _file(file: Mapping[str, Any], mimetype: str, caption: str, media_url: MediaUrl) -> dict[str, Any]:
    said = text(file.get("mime_type"))
    mimetype = said if is_mimetype(said) else mimetype
    file_name = text(file.get("file_name"))[:255]
    url = media_url(_file_id(file), mimetype=mimetype, file_name=file_name)
    body: dict[str, Any] = {"url": url, "mimetype": mimetype, **filled(fileName=file_name, caption=caption)}
    if (size := number(file.get("file_size"))) is not None:
        # A string: this is protobuf's JSON form of a 64-bit integer.
        body["fileLength"] = str(size)
    for field, source in (("height", "height"), ("width", "width"), ("seconds", "duration")):
        if (length := number(file.get(source))) is not None:
            body[field] = length
    return body


def _vcard(name: str, contact: Mapping[str, Any]) -> str:
    card = Contact(full_name=name, phone_number=text(contact.get("phone_number")))
    return vcard_of(card, written=vcard_text)


def _file_id(file: Mapping[str, Any]) -> str:
    id_ = text(file.get("file_id"))
    return id_ if _FILE_ID.fullmatch(id_) else ""
