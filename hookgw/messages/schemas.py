"""The bodies of ``/message`` and ``/chat``, as JSON Schema, for ``/openapi.json``. No I/O.

See :mod:`hookgw.app.json_schemas` for what they leave out.
"""

from __future__ import annotations

from hookgw.kernel.schema_parts import Schema, enum, flag, object_schema, or_null, ref, text_schema
from hookgw.messages.requests import (
    DEFAULT_DELAY,
    MAX_COMPONENTS,
    MAX_CONTACTS,
    MAX_COUNT,
    MAX_DELAY,
    MAX_ID,
    MAX_ITEMS,
    MAX_LINE,
    MAX_NUMBER,
    MAX_PAGE,
    MAX_REACTION,
    MAX_SEND_DELAY,
    MAX_TEXT,
    MAX_URL,
    PRESENCES,
)
from hookgw.records.messages import MediaKind

_NUMBER = text_schema(
    MAX_NUMBER, pattern=r"\S", description="A phone number or a chat, in the network's notation."
)
_LINE: Schema = {"type": "string", "maxLength": MAX_LINE}
_NAME = text_schema(MAX_LINE)
_TEXT = text_schema(MAX_TEXT)
_CHAT = text_schema(MAX_NUMBER)
_MEDIA: Schema = {
    "type": "string",
    "pattern": r"^([Hh][Tt][Tt][Pp][Ss]?://[^\s]+|(data:[^,]*;base64,)?[A-Za-z0-9+/\s]+=*\s*)$",
    "description": f"The file: an http or https URL of at most {MAX_URL:,} characters, base64, or a data: "
    "URL with base64.",
}

_ID = text_schema(MAX_ID, description="The network's id.")
_FROM_ME = flag("Whether the account itself sent it.")
_PARTICIPANT = or_null({"type": "string", "maxLength": MAX_NUMBER}, "Who sent it, in a group.")
MESSAGE_KEY: Schema = object_schema(
    "A message.",
    {
        "remoteJid": _CHAT | {"description": "The chat."},
        "id": _ID,
        "fromMe": _FROM_ME,
        "participant": _PARTICIPANT,
    },
    required=["remoteJid", "id"],
)
_NUMBERS: Schema = {"type": "array", "maxItems": MAX_ITEMS, "items": _NUMBER}


_DELAY: Schema = {
    "type": "integer",
    "minimum": 0,
    "maximum": MAX_SEND_DELAY,
    "description": "Milliseconds to wait before the message is sent, while the account is shown as typing.",
}


def _message(
    description: str,
    required: dict[str, Schema],
    optional: dict[str, Schema],
) -> Schema:
    fields = {"number": _NUMBER} | required
    properties = (
        fields
        | {name: or_null(schema) for name, schema in optional.items()}
        | {
            "quoted": or_null(ref("QuotedMessage"), "The message to reply to."),
            "delay": _DELAY | {"type": ["integer", "null"]},
            "mentionsEveryOne": flag("Whether to mention everybody in the group, on networks that can."),
        }
    )
    return object_schema(description, properties, required=fields)


def _form(description: str, required: dict[str, Schema], about: dict[str, Schema]) -> Schema:
    needed = {
        "number": _NUMBER,
        **required,
        "file": {"type": "string", "format": "binary", "description": "The file."},
    }
    # Each field of a form is a text; "quoted" is JSON in it.
    quoted: Schema = {"type": "string", "description": 'As JSON: `{"key": {"id": …}}`.'}
    return object_schema(description, {**needed, **about, "quoted": quoted, "delay": _DELAY}, required=needed)


_KIND = ref("MediaKind") | {"description": "What it is sent as."}
_MIMETYPE = _LINE | {"description": "Such as `image/png`."}
_ABOUT_FILE: dict[str, Schema] = {
    "mimetype": _MIMETYPE,
    "caption": {"type": "string", "maxLength": MAX_TEXT, "description": "A text below it."},
    "fileName": _LINE | {"description": "The name to show."},
}
_COUNT: Schema = {"type": ["integer", "null"], "minimum": 0}
_PAGE = _COUNT | {"maximum": MAX_COUNT, "description": "The number of the page, from 1."}

_TIME: Schema = {"type": ["string", "null"], "format": "date-time"}

MESSAGE_COMPONENTS: dict[str, Schema] = {
    "MessageKey": MESSAGE_KEY,
    "QuotedKey": object_schema(
        "A message to reply to; its id is enough if it is of the same chat.",
        {
            "id": _ID,
            "remoteJid": or_null(_CHAT, "The chat."),
            "fromMe": _FROM_ME,
            "participant": _PARTICIPANT,
        },
        required=["id"],
    ),
    "QuotedMessage": object_schema(
        "The message to reply to. An empty object means none.",
        {
            "key": or_null(ref("QuotedKey"), "Its key."),
            "message": or_null(
                {"type": "object", "additionalProperties": True},
                "Its content, for networks that do not keep messages.",
            ),
        },
    ),
    "MediaKind": enum([*MediaKind], "What a file is sent as."),
    "ChatPresence": enum(PRESENCES, "A presence in a chat."),
    "ContactCard": object_schema(
        "A person's card.",
        {
            "fullName": _NAME | {"description": "The name to show."},
            "phoneNumber": or_null(_NUMBER, "In international form."),
            "organization": or_null(_LINE, "A text to show."),
            "email": or_null(_LINE, "A text to show."),
            "url": or_null(_LINE, "A text to show."),
        },
        required=["fullName"],
    ),
    "SendTextRequest": _message(
        "A text message.",
        {"text": _TEXT | {"description": "The text to send."}},
        {
            "mentioned": _NUMBERS | {"description": "Accounts to mention."},
            "linkPreview": {
                "type": "boolean",
                "description": "Whether the network may show a preview of a link; true if missing.",
            },
        },
    ),
    "SendMediaRequest": _message(
        "A file.",
        {"mediatype": _KIND, "media": _MEDIA},
        _ABOUT_FILE,
    ),
    "SendMediaForm": _form("A file, as an upload.", {"mediatype": _KIND}, _ABOUT_FILE),
    "SendAudioRequest": _message(
        "A voice message.",
        {"audio": _MEDIA},
        {
            "mimetype": _MIMETYPE,
            "encoding": {
                "type": "boolean",
                "description": "Whether the network may convert it into the form that it wants; "
                "true if missing.",
            },
        },
    ),
    "SendAudioForm": _form("A voice message or a sticker, as an upload.", {}, {"mimetype": _MIMETYPE}),
    "SendStickerRequest": _message("A sticker.", {"sticker": _MEDIA}, {"mimetype": _MIMETYPE}),
    "SendLocationRequest": _message(
        "A place.",
        {
            "latitude": {"type": "number", "minimum": -90, "maximum": 90, "description": "In degrees."},
            "longitude": {"type": "number", "minimum": -180, "maximum": 180, "description": "In degrees."},
        },
        {
            "name": _LINE | {"description": "A text to show."},
            "address": _LINE | {"description": "A text to show."},
        },
    ),
    "SendContactRequest": _message(
        "Cards of people.",
        {
            "contact": {
                "type": "array",
                "minItems": 1,
                "maxItems": MAX_CONTACTS,
                "items": ref("ContactCard"),
                "description": "The cards.",
            }
        },
        {},
    ),
    "SendReactionRequest": object_schema(
        "A reaction to a message.",
        {
            "key": ref("MessageKey") | {"description": "The message."},
            "reaction": {
                "type": "string",
                "maxLength": MAX_REACTION,
                "description": "An emoji; empty to take the reaction back.",
            },
        },
        required=["key", "reaction"],
    ),
    "SendTemplateRequest": _message(
        "A message that the network has approved beforehand.",
        {
            "name": _NAME | {"description": "The template's name."},
            "language": _NAME | {"description": "Such as `pt_BR`."},
        },
        {
            "components": {
                "type": "array",
                "maxItems": MAX_COMPONENTS,
                "items": {"type": "object", "additionalProperties": True},
                "description": "The values for its placeholders, as the network defines them.",
            }
        },
    ),
    "MarkReadRequest": object_schema(
        "Messages to mark as read.",
        {
            "readMessages": {
                "type": "array",
                "minItems": 1,
                "maxItems": MAX_ITEMS,
                "items": ref("MessageKey"),
                "description": "The messages.",
            },
        },
        required=["readMessages"],
    ),
    "SendPresenceRequest": object_schema(
        "A presence to show in a chat.",
        {
            "number": _NUMBER,
            "presence": ref("ChatPresence") | {"description": "The presence."},
            "delay": {
                "type": ["number", "null"],
                "minimum": 0,
                "maximum": MAX_DELAY,
                "description": f"Milliseconds after which it ends; {DEFAULT_DELAY:,.0f} by default.",
            },
        },
        required=["number", "presence"],
    ),
    "UpdateMessageRequest": object_schema(
        "A new text for a message.",
        {
            "number": or_null(_NUMBER, "The chat; that of the message if missing."),
            "key": ref("MessageKey") | {"description": "The message; `fromMe` is true by default."},
            "text": _TEXT | {"description": "The new text."},
        },
        required=["key", "text"],
    ),
    "DeleteMessageRequest": MESSAGE_KEY
    | {"description": "The message to delete; `fromMe` is true by default."},
    "NumbersRequest": object_schema(
        "Numbers to look up.",
        {"numbers": _NUMBERS | {"minItems": 1, "description": "The numbers."}},
        required=["numbers"],
    ),
    "ChatFilter": object_schema(
        "Which chats or contacts.",
        {
            "remoteJid": or_null(_CHAT, "Only this one; the part before the `@` is enough."),
            "pushName": or_null(_NAME, "Only with this name."),
        },
    ),
    "ChatQueryRequest": object_schema(
        "Which chats or contacts to list; by default all.",
        {
            "where": or_null(ref("ChatFilter"), "A filter."),
            "page": _PAGE,
            "offset": _COUNT | {"maximum": MAX_PAGE, "description": "The size of a page."},
            "skip": _COUNT | {"maximum": MAX_COUNT, "description": "How many are before the first page."},
        },
    ),
    "KeyFilter": object_schema(
        "Which keys of messages.",
        {
            "id": or_null(_ID, "The network's id."),
            "remoteJid": or_null(_CHAT, "The chat; the part before the `@` is enough."),
            "fromMe": flag("Whether the account itself sent it."),
        },
    ),
    "TimeFilter": object_schema(
        "A span of time. Seconds or milliseconds since the epoch are accepted, too.",
        {
            "gte": _TIME | {"description": "From here on."},
            "lte": _TIME | {"description": "Until here."},
        },
    ),
    "MessageFilter": object_schema(
        "Which messages.",
        {
            "key": or_null(ref("KeyFilter"), "Only with such a key."),
            "messageType": or_null(_NAME, "Only this kind of content, such as `conversation`."),
            "messageTimestamp": or_null(ref("TimeFilter"), "When it was sent."),
            "id": or_null(_ID, "Only the message that has this `id` in an answer."),
            "source": or_null(_NAME, "Only messages sent with this, such as `android`."),
        },
    ),
    "MessageQueryRequest": object_schema(
        "Which messages to list; by default all.",
        {
            "where": or_null(ref("MessageFilter"), "A filter."),
            "page": _PAGE,
            "offset": _COUNT | {"maximum": MAX_PAGE, "description": "The size of a page; 50 by default."},
        },
    ),
    "FileMessage": object_schema(
        "The message that has the file.",
        {
            "key": ref("QuotedKey")
            | {"description": "Its key; the id is enough where ids are unique in all chats."}
        },
        required=["key"],
    ),
    "FileRequest": object_schema(
        "Which file.",
        {"message": ref("FileMessage") | {"description": "The message that has it."}},
        required=["message"],
    ),
    "PictureRequest": object_schema(
        "Whose picture.",
        {"number": _NUMBER},
        required=["number"],
    ),
}
"""The components of the OpenAPI document, by name."""
