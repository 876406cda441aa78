"""The bodies of ``/message`` and ``/chat``, as JSON Schema, for ``/openapi.json``. No I/O."""

from __future__ import annotations

from hookgw.models.messages import MediaKind
from hookgw.parsing.messages import (
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
    MAX_TEXT,
    MAX_URL,
    PRESENCES,
)
from hookgw.parsing.schema_parts import Schema, or_null, ref

_NUMBER: Schema = {
    "anyOf": [
        {"type": "string", "minLength": 1, "maxLength": MAX_NUMBER, "pattern": "\\S"},
        {"type": "integer"},
    ],
    "description": "A phone number or a chat, in the network's notation.",
}
_LINE: Schema = {"type": "string", "maxLength": MAX_LINE}
_NAME: Schema = {"type": "string", "minLength": 1, "maxLength": MAX_LINE}
_TEXT: Schema = {"type": "string", "minLength": 1, "maxLength": MAX_TEXT}
_CHAT: Schema = {"type": "string", "minLength": 1, "maxLength": MAX_NUMBER}
_MEDIA: Schema = {
    "anyOf": [
        {
            "type": "string",
            "pattern": "^[Hh][Tt][Tt][Pp][Ss]?://[^\\s]+$",
            "maxLength": MAX_URL,
        },
        {"type": "string", "pattern": "^(data:[^,]*;base64,)?[A-Za-z0-9+/\\s]+=*\\s*$"},
    ],
    "description": "The file: an http or https URL, base64, or a data: URL with base64.",
}

MESSAGE_KEY: Schema = {
    "type": "object",
    "description": "A message.",
    "required": ["remoteJid", "id"],
    "properties": {
        "remoteJid": _CHAT | {"description": "The chat."},
        "id": {"type": "string", "minLength": 1, "maxLength": MAX_ID, "description": "The network's id."},
        "fromMe": {"type": ["boolean", "null"], "description": "Whether the account itself sent it."},
        "participant": or_null({"type": "string", "maxLength": MAX_NUMBER}, "Who sent it, in a group."),
    },
}
_QUOTED: Schema = {
    "type": "object",
    "description": "The message to reply to. An empty object means none.",
    "properties": {
        "key": or_null(
            {
                "type": "object",
                "required": ["id"],
                "properties": MESSAGE_KEY["properties"] | {"remoteJid": or_null(_CHAT, "The chat.")},
            },
            "Its key; the id is enough for a message of the same chat.",
        ),
    },
}
_NUMBERS: Schema = {"type": "array", "maxItems": MAX_ITEMS, "items": _NUMBER}


def _in(field: str, schema: Schema, nested: str | None, *, required: bool, also: str | None = None) -> Schema:
    """A field of the body, or if it is missing there, of an object in it.

    Args:
        field: its name.
        schema: of its value; it does not match ``null``.
        nested: the name of the object.
        required: whether the field is required.
        also: another spelling.
    """
    spellings = [field] if also is None else [field, also]
    checked = {spelling: or_null(schema) for spelling in spellings}
    given: Schema = {
        "properties": checked,
        "anyOf": [
            {"required": [spelling], "properties": {spelling: {"not": {"type": "null"}}}}
            for spelling in spellings
        ],
    }
    absent: Schema = {"properties": {spelling: {"type": "null"} for spelling in spellings}}
    if nested is None:
        return given if required else {"properties": checked}
    if required:
        inner: Schema = {"required": [nested], "properties": {nested: {"type": "object", **given}}}
    else:
        inner = {"properties": {nested: {"properties": checked}}}
    return {"anyOf": [given, {"allOf": [absent, inner]}]}


def _message(
    description: str,
    nested: str | None,
    required: dict[str, Schema],
    optional: dict[str, Schema],
    *,
    spellings: dict[str, str] | None = None,
    numbered: bool = True,
) -> Schema:
    """The body of a send: its fields, or an object with them, and the options of every message."""
    spellings = spellings or {}
    rules = [
        _in(field, schema, nested, required=field in required, also=spellings.get(field))
        for field, schema in (required | optional).items()
    ]
    shown: dict[str, Schema] = {
        field: {"description": schema.get("description", "")}
        for field, schema in (required | optional).items()
    }
    if nested is not None:
        shown[nested] = {
            "type": ["object", "null"],
            "description": "The same fields, as older clients send them; used for fields missing outside.",
        }
    if numbered:
        shown["number"] = _NUMBER
        shown["quoted"] = {"description": 'The message to reply to: `{"key": {"id": …}}`.'}
        shown["options"] = {
            "type": ["object", "null"],
            "description": "`quoted` and the like, as older clients send them.",
        }
        rules.append(_in("quoted", _QUOTED, "options", required=False))
    return {
        "type": "object",
        "description": description,
        "required": ["number"] if numbered else [],
        "properties": shown,
        "allOf": rules,
    }


_MENTIONED = or_null(_NUMBERS, "Accounts to mention.")
_SEND_TEXT = _message(
    "A text message.",
    "textMessage",
    {"text": _TEXT | {"description": "The text to send."}},
    {},
)
SEND_TEXT: Schema = _SEND_TEXT | {
    "properties": _SEND_TEXT["properties"]
    | {
        "mentioned": {"description": "Accounts to mention."},
        "linkPreview": {"description": "Whether the network may show a preview of a link."},
    },
    "allOf": [
        *_SEND_TEXT["allOf"],
        _in("linkPreview", {"type": "boolean"}, "options", required=False),
        {
            "anyOf": [
                {"required": ["mentioned"], "properties": {"mentioned": _NUMBERS}},
                {
                    "required": ["options"],
                    "properties": {
                        "mentioned": {"type": "null"},
                        "options": {
                            "type": "object",
                            "required": ["mentioned"],
                            "properties": {"mentioned": _NUMBERS},
                        },
                    },
                },
                {
                    "properties": {
                        "mentioned": {"type": "null"},
                        "options": {"properties": {"mentioned": {"type": "null"}}},
                    },
                    "allOf": [
                        _in(
                            "mentions",
                            {"type": "object", "properties": {"mentioned": _MENTIONED}},
                            "options",
                            required=False,
                        )
                    ],
                },
            ]
        },
    ],
}
_MIMETYPE = _LINE | {"description": "Such as `image/png`."}
SEND_MEDIA: Schema = _message(
    "A file.",
    "mediaMessage",
    {
        "mediatype": {"enum": [*MediaKind], "description": "What it is sent as."},
        "media": _MEDIA,
    },
    {
        "mimetype": _MIMETYPE,
        "caption": {"type": "string", "maxLength": MAX_TEXT, "description": "A text below it."},
        "fileName": _LINE | {"description": "The name to show."},
    },
    spellings={"mediatype": "mediaType"},
)
SEND_AUDIO: Schema = _message("A voice message.", "audioMessage", {"audio": _MEDIA}, {"mimetype": _MIMETYPE})
SEND_LOCATION: Schema = _message(
    "A place.",
    "locationMessage",
    {
        "latitude": {"type": "number", "minimum": -90, "maximum": 90, "description": "In degrees."},
        "longitude": {"type": "number", "minimum": -180, "maximum": 180, "description": "In degrees."},
    },
    {
        "name": _LINE | {"description": "A text to show."},
        "address": _LINE | {"description": "A text to show."},
    },
)
_CONTACT: Schema = {
    "type": "object",
    "required": ["fullName"],
    "properties": {
        "fullName": _NAME,
        "phoneNumber": or_null(_NUMBER),
        **dict.fromkeys(("organization", "email", "url"), or_null(_LINE)),
    },
}
SEND_CONTACT: Schema = _message(
    "Cards of people.",
    None,
    {
        "contact": {
            "type": "array",
            "minItems": 1,
            "maxItems": MAX_CONTACTS,
            "items": _CONTACT,
            "description": "The cards. Older clients call it `contactMessage`.",
        }
    },
    {},
    spellings={"contact": "contactMessage"},
)
SEND_REACTION: Schema = _message(
    "A reaction to a message.",
    "reactionMessage",
    {
        "key": ref("MessageKey") | {"description": "The message."},
        "reaction": {
            "type": "string",
            "maxLength": MAX_REACTION,
            "description": "An emoji; empty to take the reaction back.",
        },
    },
    {},
    numbered=False,
)
SEND_TEMPLATE: Schema = _message(
    "A message that the network has approved beforehand.",
    "templateMessage",
    {
        "name": _NAME | {"description": "The template's name."},
        "language": _NAME | {"description": "Such as `pt_BR`."},
    },
    {
        "components": {
            "type": "array",
            "maxItems": MAX_COMPONENTS,
            "items": {"type": "object"},
            "description": "The values for its placeholders, as the network defines them.",
        }
    },
)
_KEYS: Schema = {"type": "array", "minItems": 1, "maxItems": MAX_ITEMS, "items": ref("MessageKey")}
READ_MESSAGES: Schema = {
    "type": "object",
    "description": "Messages to mark as read.",
    "properties": {
        "readMessages": or_null(_KEYS, "The messages."),
        "read_messages": or_null(_KEYS, "The same, as older clients call it."),
    },
    "anyOf": [
        {"required": [name], "properties": {name: {"type": "array"}}}
        for name in ("readMessages", "read_messages")
    ],
}
_SEND_PRESENCE = _message(
    "A presence to show in a chat.",
    "options",
    {"presence": {"enum": [*PRESENCES], "description": "The presence."}},
    {
        "delay": {
            "type": "number",
            "minimum": 0,
            "maximum": MAX_DELAY,
            "description": f"Milliseconds after which it ends; {DEFAULT_DELAY:,.0f} by default.",
        }
    },
    numbered=False,
)
SEND_PRESENCE: Schema = _SEND_PRESENCE | {
    "required": ["number"],
    "properties": {"number": _NUMBER} | _SEND_PRESENCE["properties"],
}
UPDATE_MESSAGE: Schema = {
    "type": "object",
    "description": "A new text for a message.",
    "required": ["key", "text"],
    "properties": {
        "number": or_null(_NUMBER, "The chat; that of the message if missing."),
        "key": ref("MessageKey") | {"description": "The message; `fromMe` is true by default."},
        "text": _TEXT | {"description": "The new text."},
    },
}
DELETE_MESSAGE: Schema = MESSAGE_KEY | {"description": "The message to delete; `fromMe` is true by default."}
NUMBERS: Schema = {
    "type": "object",
    "description": "Numbers to look up.",
    "required": ["numbers"],
    "properties": {"numbers": _NUMBERS | {"minItems": 1, "description": "The numbers."}},
}
_COUNT = or_null({"type": "integer", "minimum": 0, "maximum": MAX_COUNT})
CHAT_QUERY: Schema = {
    "type": ["object", "null"],
    "description": "Which chats or contacts to list; by default all.",
    "properties": {
        "where": or_null(
            {
                "type": "object",
                "properties": {
                    "remoteJid": or_null(_CHAT, "Only this one; the part before the `@` is enough."),
                    "id": or_null(_CHAT, "The same, as older clients call it."),
                    "pushName": or_null(_NAME, "Only with this name."),
                },
            },
            "A filter.",
        ),
        "page": _COUNT | {"description": "The number of the page, from 1."},
        "offset": _COUNT
        | {"description": f"The size of a page, at most {MAX_PAGE:,}. Also `take`, `limit`."},
        "take": _COUNT | {"description": "The same as `offset`."},
        "limit": _COUNT | {"description": "The same as `offset`."},
    },
}

MESSAGE_COMPONENTS: dict[str, Schema] = {
    "MessageKey": MESSAGE_KEY,
    "SendTextRequest": SEND_TEXT,
    "SendMediaRequest": SEND_MEDIA,
    "SendAudioRequest": SEND_AUDIO,
    "SendLocationRequest": SEND_LOCATION,
    "SendContactRequest": SEND_CONTACT,
    "SendReactionRequest": SEND_REACTION,
    "SendTemplateRequest": SEND_TEMPLATE,
    "MarkReadRequest": READ_MESSAGES,
    "SendPresenceRequest": SEND_PRESENCE,
    "UpdateMessageRequest": UPDATE_MESSAGE,
    "DeleteMessageRequest": DELETE_MESSAGE,
    "NumbersRequest": NUMBERS,
    "ChatQueryRequest": CHAT_QUERY,
}
"""The components of the OpenAPI document, by name."""
