"""What people write on Matrix, in the words of the payloads: texts, files, places, polls. No I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from hookgw.connectors import MediaUrl, found_at, items, mapping, number, strings, text

POLLS = ("m.poll.start", "org.matrix.msc3381.poll.start")
_PLAIN_TYPES = ("m.text", "m.location")
"""Types of messages of which nothing is left out."""
_MEDIA = {
    "m.image": "imageMessage",
    "m.video": "videoMessage",
    "m.audio": "audioMessage",
    "m.file": "documentMessage",
    "m.sticker": "stickerMessage",
}
_GEO_URI = re.compile(r"geo:(-?\d{1,3}(?:\.\d{1,20})?),(-?\d{1,3}(?:\.\d{1,20})?)(?:[,;].*)?", re.ASCII)
_MOST_OPTIONS = 100


def message_of(
    message_type: str, content: Mapping[str, Any], media_url: MediaUrl
) -> tuple[str, dict[str, Any]] | None:
    """Return the type and the body of a message, in the words of the payloads.

    Args:
        message_type: such as ``m.image``; empty to take the one in the content.
        content: of the event.
        media_url: makes the link to a file.

    Returns:
        ``None`` if the content holds no message.
    """
    message_type = message_type or text(content.get("msgtype"))
    body = content.get("body")
    if not isinstance(body, str):
        return None
    name, reference = _MEDIA.get(message_type), text(content.get("url"))
    if name is not None and reference:
        return name, {name: _file(name, reference, body, content, media_url)}
    if message_type == "m.location" and (place := _GEO_URI.fullmatch(text(content.get("geo_uri")))):
        latitude, longitude = float(place[1]), float(place[2])
        location = {"degreesLatitude": latitude, "degreesLongitude": longitude, "name": body}
        return "locationMessage", {"locationMessage": location}
    # Also for types that hookgw does not know: the body is then a text for people.
    return "conversation", {"conversation": _without_fallback(body, content)}


def file_of(event: Mapping[str, Any]) -> tuple[str, int] | None:
    """Return the address of the file in a message, and its size in bytes as the sender says, or 0.

    Edits are left out: the message that they change had the file.
    """
    content, kind = mapping(event.get("content")), event.get("type")
    if kind not in ("m.room.message", "m.sticker") or "m.new_content" in content:
        return None
    message_type = "m.sticker" if kind == "m.sticker" else text(content.get("msgtype"))
    reference = text(content.get("url"))
    if message_type not in _MEDIA or not reference:
        return None
    return reference, number(found_at(content, "info", "size")) or 0


def _file(
    name: str, reference: str, body: str, content: Mapping[str, Any], media_url: MediaUrl
) -> dict[str, Any]:
    info = mapping(content.get("info"))
    mimetype = text(info.get("mimetype")) or "application/octet-stream"
    # With both, the body is a caption. Older clients put the file's name into the body.
    file_name = text(content.get("filename")) or body
    file: dict[str, Any] = {
        "url": media_url(reference, mimetype=mimetype, file_name=file_name),
        "mimetype": mimetype,
        "fileName": file_name,
    }
    if name == "documentMessage":
        file["title"] = file_name
    if body != file_name:
        file["caption"] = body
    if (size := number(info.get("size"))) is not None:
        file["fileLength"] = str(size)
    for field, source in (("height", "h"), ("width", "w")):
        if (length := number(info.get(source))) is not None:
            file[field] = length
    if (duration := number(info.get("duration"))) is not None:
        file["seconds"] = duration // 1000
    if name == "audioMessage":
        file["ptt"] = "org.matrix.msc3245.voice" in content
    return file


def context_of(content: Mapping[str, Any], relation: Mapping[str, Any]) -> dict[str, Any]:
    context: dict[str, Any] = {}
    answered = text(found_at(relation, "m.in_reply_to", "event_id"))
    # In a thread, clients add a reply to the previous message for others that know no threads.
    if answered and relation.get("is_falling_back") is not True:
        context["stanzaId"] = answered
    if relation.get("rel_type") == "m.thread" and (thread := text(relation.get("event_id"))):
        context["threadId"] = thread
    if mentioned := strings(found_at(content, "m.mentions", "user_ids")):
        context["mentionedJid"] = mentioned
    return context


def _without_fallback(body: str, content: Mapping[str, Any]) -> str:
    """Return a text without the quotation that older clients put before a reply."""
    answered = mapping(found_at(content, "m.relates_to", "m.in_reply_to"))
    if not answered or not body.startswith("> <"):
        return body
    lines = body.split("\n")
    first = next((n for n, line in enumerate(lines) if not line.startswith(">")), len(lines))
    rest = "\n".join(lines[first:])
    return rest.removeprefix("\n") or body


def has_more(content: Mapping[str, Any]) -> bool:
    """Return whether the translation of a message leaves something out that a person wrote."""
    is_known = text(content.get("msgtype")) in (*_PLAIN_TYPES, *_MEDIA) and "file" not in content
    return not is_known or "formatted_body" in content or found_at(content, "m.mentions", "room") is True


def poll_options(event: Mapping[str, Any]) -> dict[str, str]:
    """Return the options of a poll by their ids; none for any other event."""
    if event.get("type") not in POLLS:
        return {}
    return dict(_options(_poll_in(mapping(event.get("content")))))


def _poll_in(content: Mapping[str, Any]) -> dict[str, Any]:
    return mapping(content.get("m.poll") or content.get("org.matrix.msc3381.poll.start"))


def _options(poll: Mapping[str, Any]) -> list[tuple[str, str]]:
    answers = items(poll.get("answers"))[:_MOST_OPTIONS]
    return [(text(one.get("m.id")) or text(one.get("id")), _shown(one)) for one in answers]


def _shown(value: Any) -> str:
    """Return the text in something extensible, in its stable or its unstable form."""
    value = mapping(value)
    for name in ("m.text", "org.matrix.msc1767.text", "body"):
        found = value.get(name)
        if shown := text(found) or text(next((one.get("body") for one in items(found)), None)):
            return shown
    return ""


def poll_of(content: Mapping[str, Any]) -> tuple[str, dict[str, Any]] | None:
    poll = _poll_in(content)
    if not poll:
        return None
    body = {
        "name": _shown(poll.get("question")),
        "options": [{"optionName": name, "optionId": id_} for id_, name in _options(poll)],
        "selectableOptionsCount": number(poll.get("max_selections")) or 1,
    }
    return "pollCreationMessage", {"pollCreationMessage": body}
