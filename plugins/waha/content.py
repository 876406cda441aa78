"""The content of a message, in the words of Baileys, as far as an engine of WAHA hands it over. No I/O.

- NOWEB is Baileys: ``_data.message`` has these names.
- GOWS is whatsmeow: ``_data.Message`` is the same protobuf as Go's JSON writes it.
- WEBJS and WPP are WhatsApp Web: ``_data`` has a type, and the fields of all types side by side.

WAHA itself adds a text, a file, a place and cards, on each engine. The tables below name what has another
name with Baileys. **What they do not name is passed on whole, as the engine gave it**: a receiver can read a
content that is newer than this file, and can do nothing about one that is not there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from hookgw.connectors import MediaUrl, baileys_names, degrees, found_at, mapping, strings, text, texts

from .fields import id_text, renamed
from .ids import jid_of, parse_message_id

_FILES = "/api/files/"
_NO_MESSAGE = "-"
_LONGEST_REFERENCE = 1024
# The keys of Signal, which are part of the first message to a group. Nobody wrote them, and they decrypt.
_KEYS = frozenset({"senderKeyDistributionMessage", "fastRatchetKeySenderKeyDistributionMessage"})
# What Baileys takes off, too: how a content was sent, not what it is. Others, such as groupStatusMessage, say
# something of their own.
_WRAPPERS = frozenset(
    {
        "associatedChildMessage",
        "deviceSentMessage",
        "documentWithCaptionMessage",
        "ephemeralMessage",
        "lottieStickerMessage",
        "viewOnceMessage",
        "viewOnceMessageV2",
        "viewOnceMessageV2Extension",
    }
)
_VIEW_ONCE = ("IsViewOnce", "IsViewOnceV2", "IsViewOnceV2Extension")
"""What GOWS says of wrappers that it has taken off itself."""
FILE_MESSAGES = frozenset(
    {"imageMessage", "videoMessage", "ptvMessage", "audioMessage", "documentMessage", "stickerMessage"}
)

# WhatsApp Web: the types of messages and their fields, with the names that Baileys has for them.
_PLAIN_TYPES = frozenset({"", "chat", "text"})
_WEB_FILES = {
    "image": "imageMessage",
    "video": "videoMessage",
    "audio": "audioMessage",
    "ptt": "audioMessage",
    "ptv": "ptvMessage",
    "document": "documentMessage",
    "sticker": "stickerMessage",
}
_WEB_FILE_FIELDS = {
    "mimetype": "mimetype",
    "filename": "fileName",
    "caption": "caption",
    "size": "fileLength",
    "duration": "seconds",
    "width": "width",
    "height": "height",
    "pageCount": "pageCount",
    "isViewOnce": "viewOnce",
    "isGif": "gifPlayback",
    "isAnimated": "isAnimated",
    "mediaKey": "mediaKey",
    "mediaKeyTimestamp": "mediaKeyTimestamp",
    "directPath": "directPath",
    "filehash": "fileSha256",
    "encFilehash": "fileEncSha256",
}
_WEB_CONTENTS: dict[str, tuple[str, dict[str, str]]] = {
    "poll_creation": (
        "pollCreationMessage",
        {"pollName": "name", "pollSelectableOptionsCount": "selectableOptionsCount"},
    ),
    "list_response": ("listResponseMessage", {}),
    "buttons_response": (
        "buttonsResponseMessage",
        {"selectedButtonId": "selectedButtonId", "body": "selectedDisplayText"},
    ),
    "template_button_reply": (
        "templateButtonReplyMessage",
        {"selectedId": "selectedId", "selectedIndex": "selectedIndex", "body": "selectedDisplayText"},
    ),
    "order": (
        "orderMessage",
        {
            "orderId": "orderId",
            "itemCount": "itemCount",
            "status": "status",
            "surface": "surface",
            "message": "message",
            "orderTitle": "orderTitle",
            "sellerJid": "sellerJid",
            "token": "token",
            "totalAmount1000": "totalAmount1000",
            "totalCurrencyCode": "totalCurrencyCode",
        },
    ),
    "groups_v4_invite": (
        "groupInviteMessage",
        {
            "inviteGrp": "groupJid",
            "inviteCode": "inviteCode",
            "inviteCodeExp": "inviteExpiration",
            "inviteGrpName": "groupName",
            "inviteGrpJpegThum": "jpegThumbnail",
            "comment": "caption",
        },
    ),
}
# Passed on whole. A type that is not here has the same name with Baileys: "product" is productMessage.
_WEB_NAMES = {
    "event_creation": "eventMessage",
    "multi_vcard": "contactsArrayMessage",
    "pinned_message": "pinInChatMessage",
    "vcard": "contactMessage",
}
_WEB_CONTEXT = {
    "isForwarded": "isForwarded",
    "forwardingScore": "forwardingScore",
    "quotedStanzaID": "stanzaId",
    "ephemeralDuration": "expiration",
}


class Content(NamedTuple):
    """What a message says.

    Attributes:
        type: ``messageType``.
        message: ``message``.
        context: ``contextInfo``; empty for none.
    """

    type: str
    message: dict[str, Any]
    context: dict[str, Any]


def content_of(payload: Mapping[str, Any], engine: Mapping[str, Any], media_url: MediaUrl) -> Content | None:
    """Return the content of a message.

    Args:
        payload: the message, as WAHA describes it.
        engine: as the engine describes it.
        media_url: makes links to files.

    Returns:
        ``None`` if it has only keys for later messages: nobody wrote it.
    """
    message = _protobuf_of(engine)
    if kind := _kind_of(message):
        found = _of_protobuf(kind, message, payload, media_url)
    else:
        found = _of_web(payload, engine, message, media_url)
        sent = {*mapping(engine.get("message")), *mapping(engine.get("Message"))}
        if found.message == {"conversation": ""} and sent and sent <= _KEYS:
            return None
    return found._replace(context={**_reply_of(payload), **found.context})


def edited_content_of(payload: Mapping[str, Any], engine: Mapping[str, Any], media_url: MediaUrl) -> Content:
    """Return the new content of a message that was edited.

    Args:
        payload: WAHA's report, with the new text or caption in ``body``.
        engine: as the engine describes the edit.
        media_url: makes links to files.
    """
    body, outer = text(payload.get("body")), _protobuf_of(engine)
    edit = found_at(outer, "editedMessage", "message", "protocolMessage") or outer.get("protocolMessage")
    message = _protobuf_of({"message": found_at(edit, "editedMessage")})
    if not (kind := _kind_of(message)):
        return Content("conversation", {"conversation": body}, {})
    found = _of_protobuf(kind, message, payload, media_url)
    # Of a new caption, too, this is where receivers look for the new text.
    return found._replace(message={**found.message, "conversation": body})


# NOWEB and GOWS


def _protobuf_of(engine: Mapping[str, Any]) -> dict[str, Any]:
    """Return the message of WhatsApp's protobuf under Baileys' names, without wrappers; empty for none."""
    message = mapping(engine.get("message"))
    if not message:
        for name in ("Message", "RawMessage"):
            # WAHA writes "url" beside the "URL" of a sticker.
            message = baileys_names(mapping(engine.get(name)))
            if _kind_of(message):
                break
    is_once = any(engine.get(name) is True for name in _VIEW_ONCE)
    while (kind := _kind_of(message)) in _WRAPPERS and (inner := mapping(message[kind].get("message"))):
        is_once = is_once or kind.startswith("viewOnce")
        # Beside the wrapper may be the secret that votes of a poll are encrypted with.
        beside = {name: value for name, value in message.items() if name != kind}
        message = {**beside, **inner}
    message = {name: value for name, value in message.items() if name not in _KEYS}
    if is_once and kind in FILE_MESSAGES:
        message[kind] = {**message[kind], "viewOnce": True}
    return message


def _kind_of(message: Mapping[str, Any]) -> str:
    """Return which field of a message is its content; empty for none."""
    for name, value in message.items():
        # A message to a group has the keys of Signal first; "messageContextInfo" is about the content.
        if name not in _KEYS and name != "messageContextInfo" and isinstance(value, dict):
            return name
    return "conversation" if text(message.get("conversation")) else ""


def _of_protobuf(
    kind: str, message: dict[str, Any], payload: Mapping[str, Any], media_url: MediaUrl
) -> Content:
    content = message[kind]
    context = mapping(found_at(content, "contextInfo"))
    quoted = mapping(context.get("quotedMessage"))
    if said := text(found_at(quoted, "extendedTextMessage", "text")):
        context = {**context, "quotedMessage": {"conversation": said, **quoted}}
    if kind == "extendedTextMessage":
        # As other gateways have it: with a context or without, a text is where receivers look for texts.
        body = text(content.get("text"))
        more = {name: value for name, value in content.items() if name not in ("text", "contextInfo")}
        message = {name: value for name, value in message.items() if more or name != kind}
        return Content("conversation", {"conversation": body, **message}, context)
    media = mapping(payload.get("media"))
    file_name = text(media.get("filename")) or text(found_at(content, "fileName"))
    mimetype = text(media.get("mimetype")) or text(found_at(content, "mimetype"))
    link = _link_of(payload, media_url, mimetype, file_name)
    if kind in FILE_MESSAGES:
        file = {**content, "mimetype": mimetype} if mimetype else dict(content)
        if link:  # else it is WhatsApp's own, of the encrypted file
            file["url"] = link
        if file_name:
            file["fileName"] = file_name
        if not file.get("caption") and (body := text(payload.get("body"))):
            file["caption"] = body
        message = {**message, kind: file}
    elif link:
        message = {**message, "mediaUrl": link}
    return Content(kind, message, context)


# WEBJS and WPP, and what WAHA itself says


def _of_web(
    payload: Mapping[str, Any], engine: Mapping[str, Any], message: dict[str, Any], media_url: MediaUrl
) -> Content:
    body, media, kind = text(payload.get("body")), mapping(payload.get("media")), text(engine.get("type"))
    context = _web_context(engine)
    if payload.get("hasMedia") is True or text(media.get("url")) or kind in _WEB_FILES:
        name = _WEB_FILES.get(kind) or _file_type(media)
        return Content(name, {name: _web_file(name, payload, engine, media_url)}, context)
    if (place := _place_of(mapping(payload.get("location")))) is not None:
        return Content("locationMessage", {"locationMessage": place}, context)
    if cards := strings(payload.get("vCards")):
        contacts = [{"displayName": _name_on(card), "vcard": card} for card in cards]
        if len(contacts) == 1:
            return Content("contactMessage", {"contactMessage": contacts[0]}, context)
        return Content("contactsArrayMessage", {"contactsArrayMessage": {"contacts": contacts}}, context)
    if kind in _WEB_CONTENTS:
        name, fields = _WEB_CONTENTS[kind]
        content = {**mapping(engine.get("listResponse")), **renamed(engine, fields)}
        if kind == "poll_creation" and isinstance(options := engine.get("pollOptions"), list):
            content["options"] = [
                {"optionName": text(mapping(option).get("name")) or text(option)} for option in options
            ]
        return Content(name, {name: content}, context)
    if kind in _PLAIN_TYPES:
        return Content("conversation", {"conversation": body, **message}, context)
    if (name := _WEB_NAMES.get(kind, "")) == "":
        first, *others = re.findall("[A-Za-z0-9]+", kind) or ["unknown"]
        name = first + "".join(word[:1].upper() + word[1:] for word in others) + "Message"
    whole = {name: dict(engine)}
    return Content(name, {"conversation": body, **whole} if body else whole, context)


def _file_type(media: Mapping[str, Any]) -> str:
    mimetype, _, detail = text(media.get("mimetype")).partition("/")
    if text(media.get("filename")):
        return "documentMessage"  # WAHA names only files that were sent as such
    if mimetype == "image":
        return "stickerMessage" if detail.startswith("webp") else "imageMessage"
    return {"video": "videoMessage", "audio": "audioMessage"}.get(mimetype, "documentMessage")


def _web_file(
    name: str, payload: Mapping[str, Any], engine: Mapping[str, Any], media_url: MediaUrl
) -> dict[str, Any]:
    media = mapping(payload.get("media"))
    file = renamed(engine, _WEB_FILE_FIELDS)
    mimetype = text(media.get("mimetype")) or text(file.get("mimetype")) or "application/octet-stream"
    file["mimetype"] = mimetype
    file_name = text(media.get("filename")) or text(file.get("fileName"))
    if link := _link_of(payload, media_url, mimetype, file_name):
        file["url"] = link
    if file_name:
        file["fileName"] = file_name
        if name == "documentMessage":
            file["title"] = file_name
    if caption := text(payload.get("body")):
        file["caption"] = caption
    if name == "audioMessage":
        kind = text(engine.get("type"))
        # Without a type, it is most likely one in the form of voice messages.
        file["ptt"] = kind == "ptt" or (kind != "audio" and ("opus" in mimetype or "ogg" in mimetype))
    return file


def _place_of(location: Mapping[str, Any]) -> dict[str, Any] | None:
    latitude, longitude = degrees(location.get("latitude"), 90), degrees(location.get("longitude"), 180)
    if latitude is None or longitude is None:
        return None
    named = texts({name: location.get(name) for name in ("name", "address", "url")})
    place: dict[str, Any] = {"degreesLatitude": latitude, "degreesLongitude": longitude, **named}
    if "name" not in place and (described := text(location.get("description"))):
        place["name"] = described
    return place


def _name_on(card: str) -> str:
    found = re.search(r"^FN[^:\r\n]*:(.*)$", card, re.MULTILINE | re.IGNORECASE)
    return found[1].strip() if found else ""


def _web_context(engine: Mapping[str, Any]) -> dict[str, Any]:
    context = renamed(engine, _WEB_CONTEXT)
    if author := id_text(engine.get("quotedParticipant")):
        context["participant"] = jid_of(author)
    mentioned = engine.get("mentionedJidList")
    people = [person for one in mentioned if (person := id_text(one))] if isinstance(mentioned, list) else []
    if people:
        context["mentionedJid"] = [jid_of(person) for person in people]
    if ad := mapping(engine.get("ctwaContext")):
        # What came before the person wrote: the advertisement that they clicked, with its ctwaClid.
        context["externalAdReply"] = {**ad, **renamed(ad, {"description": "body"})}
    return context


def _reply_of(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return what WAHA says of the message that is answered."""
    answered = mapping(payload.get("replyTo"))
    id_ = text(answered.get("id"))
    parsed = parse_message_id(id_)
    id_ = parsed.id if parsed is not None else id_
    if not id_:
        return {}
    context: dict[str, Any] = {"stanzaId": id_}
    if author := text(answered.get("participant")):
        context["participant"] = jid_of(author)
    if body := text(answered.get("body")):
        context["quotedMessage"] = {"conversation": body}
    return context


# Files


def _link_of(payload: Mapping[str, Any], media_url: MediaUrl, mimetype: str, file_name: str) -> str:
    """Return a link to the file of a message; empty if WAHA has none."""
    url = url_of(payload)
    reference = reference_of(url)
    if reference:
        id_ = text(payload.get("id"))
        # With the message: WAHA deletes files after some minutes, and can fetch them again for a message.
        link = f"{id_ if _is_message_id(id_) else _NO_MESSAGE}/{reference}"
        return media_url(link, mimetype=mimetype, file_name=file_name)
    # In a store of the operator's, such as S3: WAHA signed this link itself.
    return url if url.startswith(("https://", "http://")) else ""


def url_of(payload: Mapping[str, Any]) -> str:
    """Return where WAHA has the file of a message; empty for nowhere."""
    return text(found_at(payload, "media", "url")) or text(payload.get("mediaUrl"))


def file_of(payload: Mapping[str, Any]) -> str:
    """Return the reference of the file in a message; empty for none."""
    return reference_of(url_of(payload))


def parts_of_link(link: str) -> tuple[str, list[str]] | None:
    """Return WAHA's id of a message, or an empty text, and its file's path, of what is in a link to a file.

    Returns:
        ``None`` if this would lead elsewhere.
    """
    message, _, reference = link.partition("/")
    path = path_of(reference)
    if path is None or not (message == _NO_MESSAGE or _is_message_id(message)):
        return None
    return "" if message == _NO_MESSAGE else message, path


def _is_message_id(text: str) -> bool:
    return (
        parse_message_id(text) is not None
        and len(text) <= 512
        and text.isprintable()
        and not {*"/\\%"} & {*text}
    )


def reference_of(url: str) -> str:
    """Return what identifies a file on the server, in the URL that WAHA gives for it; empty for none.

    Only the path counts: WAHA often names a host that it cannot be reached by, such as ``localhost``.
    """
    try:
        path = urlsplit(url).path
    except ValueError:
        return ""
    _, found, name = path.partition(_FILES)
    reference = unquote(name)
    return reference if found and path_of(reference) is not None else ""


def path_of(reference: str) -> list[str] | None:
    """Return the parts of a file's path below ``/api/files/``; ``None`` if it would lead elsewhere."""
    parts = reference.split("/")
    if not reference or len(reference) > _LONGEST_REFERENCE or not reference.isprintable():
        return None
    if any(part in ("", ".", "..") or "\\" in part or "%" in part for part in parts):
        return None
    return parts
