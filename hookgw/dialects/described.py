"""The bodies that the parsers here take, as JSON Schema: for ``/openapi.json``. No I/O.

The limits are the parsers' own, and the tests hold every answered request to these schemas. What a schema
cannot say is in its description. Fields that hookgw does not know are ignored, so no object is closed.
"""

from __future__ import annotations

from typing import Any

from hookgw.dialects.headers import MAX_HEADERS, NAME_PATTERN, VALUE_PATTERN
from hookgw.dialects.instances import BESIDE, FOREIGN, MAX_NUMBER, MAX_TEXT
from hookgw.dialects.registrations import MAX_CONCURRENCY, MAX_SCHEDULE, MAX_URL
from hookgw.events import EVENT_ID
from hookgw.registrations import Ordering
from hookgw.signing_keys import Signature
from hookgw.units import DURATION_PATTERN

Schema = dict[str, Any]

NAME_SCHEMA: Schema = {"type": "string", "pattern": r"^(?!\.{1,2}$)[A-Za-z0-9._-]{1,128}$"}
"""Names of instances and labels."""
URL_SCHEMA: Schema = {
    "type": "string",
    "format": "uri",
    "pattern": "^[Hh][Tt][Tt][Pp][Ss]?://",
    "maxLength": MAX_URL,
    "description": "Absolute http or https, with a host, without a fragment.",
    "examples": ["https://crm.example/hook"],
}
TIME_SCHEMA: Schema = {
    "type": "string",
    "format": "date-time",
    "description": "RFC 3339 with any offset; none means UTC.",
}

EVENT_ID_SCHEMA: Schema = {"type": "string", "pattern": f"^{EVENT_ID.pattern}$"}

DURATION_SCHEMA: Schema = {
    "type": "string",
    "format": "duration-with-unit",
    "pattern": DURATION_PATTERN,
    "examples": ["15s"],
}
_ZERO: Schema = {"enum": [0, "0"]}
_BASE64 = "[A-Za-z0-9+/]"
_PRIVATE_KEY = "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg=="
"""That of the vectors which Standard Webhooks publishes. No pattern says that two halves belong together."""
_SECRET_PATTERN = (
    f"^whsec_(({_BASE64}{{4}}){{8,21}}({_BASE64}{{2}}==)?|({_BASE64}{{4}}){{8,20}}{_BASE64}{{3}}=)$"
)


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _or_null(schema: Schema, description: str = "") -> Schema:
    """A field that may be ``null``, which means the same as leaving it out."""
    return {"anyOf": [schema, {"type": "null"}]} | ({"description": description} if description else {})


def _length(low: str, high: str, description: str) -> Schema:
    """A duration between two bounds."""
    forms = [*([_ZERO] if low == "0s" else []), DURATION_SCHEMA, {"type": "null"}]
    return {"anyOf": forms, "description": f"{description} From {low} to {high}."}


def _flag(description: str) -> Schema:
    return {"type": ["boolean", "null"], "description": description}


_BY_EVENTS = _flag("The kind is added to the URL's path (/messages-upsert).")
_BASE64_FLAG = _flag("Connectors put media into the event.")

RETRY: Schema = {
    "type": "object",
    "description": "What is left out is the gateway's.",
    "properties": {
        "schedule": _or_null(
            {
                "type": "array",
                "maxItems": MAX_SCHEDULE,
                "items": {"anyOf": [_ZERO, DURATION_SCHEMA]},
            },
            "The waits after failures, each from 0s to 7d.",
        ),
        "maxAge": _length("1s", "365d", "How long an unreachable receiver is waited for."),
        "disableAfter": _length("1s", "365d", "How long it may fail before it is disabled."),
    },
}

_FIELDS: Schema = {
    "enabled": _flag("Whether it hears anything; true if left out."),
    "events": _or_null(
        {"type": "array", "items": _ref("KindName")}, "The kinds that it hears; none means every kind."
    ),
    "byEvents": _BY_EVENTS,
    "webhookByEvents": _BY_EVENTS,
    "webhook_by_events": _BY_EVENTS,
    "base64": _BASE64_FLAG,
    "webhookBase64": _BASE64_FLAG,
    "webhook_base64": _BASE64_FLAG,
    "headers": _or_null(
        {
            "type": "object",
            "maxProperties": MAX_HEADERS,
            "propertyNames": {"pattern": f"^{NAME_PATTERN}$"},
            "additionalProperties": {"type": "string", "pattern": f"^{VALUE_PATTERN}$"},
        },
        "Sent with every delivery; not host, content-length, webhook-* or a hop-by-hop header.",
    ),
    "secret": {
        "anyOf": [
            {"type": ["string", "null"], "pattern": _SECRET_PATTERN},
            {"enum": [_PRIVATE_KEY], "description": "Any ed25519 key of this form: seed and public key."},
        ],
        "description": "whsec_ and the base64 of 24 to 64 bytes, or whsk_ and that of an ed25519 seed and "
        "its public key; one is made if left out.",
    },
    "signature": {
        "enum": [*(signature.value for signature in Signature), None],
        "description": "v1: HMAC-SHA256 with a shared secret. v1a: ed25519; receivers get the public key.",
    },
    "ordering": {
        "enum": [*(ordering.value for ordering in Ordering), None],
        "description": "url: everything in order. chat: in order per chat. none: in no order.",
    },
    "concurrency": {
        "type": ["integer", "null"],
        "minimum": 1,
        "maximum": MAX_CONCURRENCY,
        "description": "How many deliveries go on at once with chat and none.",
    },
    "timeout": _length("100ms", "5m", "Over one whole attempt; null is the gateway's."),
    "retry": _or_null(_ref("RetryRequest"), "Its own retry rules; null is the gateway's."),
    "plugins": _or_null(
        {"type": "object", "propertyNames": _ref("PluginName"), "additionalProperties": {"type": "object"}},
        "Options of plugins for this registration, an object for each.",
    ),
}

_IF_DISABLED: Schema = {"properties": {"enabled": {"const": False}}, "required": ["enabled"]}
_ANY_URL: Schema = {"type": "string", "maxLength": MAX_URL}

REGISTRATION: Schema = {
    "type": "object",
    "description": "What is left out keeps its stored value, but url, enabled and events are replaced.",
    "required": ["url"],
    "properties": {
        "url": _ANY_URL | {"description": URL_SCHEMA["description"]},
        **_FIELDS,
    },
    "if": _IF_DISABLED,
    "else": {"properties": {"url": URL_SCHEMA}},
}

SET: Schema = {
    "description": "The fields of a registration: bare, in webhook, or beside a webhook that is the URL. "
    "Every mix is taken; where a field is there twice, the one in webhook counts.",
    "anyOf": [
        {
            "allOf": [_ref("RegistrationFields")],
            "properties": {"webhook": {"type": ["object", "null"], "properties": _FIELDS}},
        },
        {"type": "object", "required": ["webhook"], "properties": {"webhook": _ref("RegistrationFields")}},
        {
            "type": "object",
            "required": ["webhook"],
            "properties": _FIELDS | {"webhook": _ANY_URL},
            "if": _IF_DISABLED,
            "else": {"properties": {"webhook": URL_SCHEMA}},
        },
    ],
}

GRACE: Schema = {
    "type": ["object", "null"],
    "description": "How the secret is changed.",
    "properties": {"grace": _length("0s", "30d", "How long the old secret goes on signing; 24h by default.")},
}

CREATE: Schema = {
    "type": "object",
    "description": "Further fields are options of the connector.",
    "required": ["instanceName"],
    "properties": {
        "instanceName": NAME_SCHEMA | {"description": "The name."},
        "token": {
            "type": ["string", "null"],
            "pattern": "^([ -~]{8,256})?$",
            "description": "The instance key, if you want to choose it.",
        },
        "integration": _or_null(
            {"anyOf": [_ref("ConnectorName"), {"enum": ["", *sorted(FOREIGN)]}]},
            "The connector; left out, events come by HTTP alone.",
        ),
        "webhook": _or_null(
            {"anyOf": [_ref("RegistrationFields"), URL_SCHEMA]},
            "A registration as in set, or a URL with events and the like beside it.",
        ),
    },
    "if": {"properties": {"webhook": {"type": "string", "minLength": 1}}, "required": ["webhook"]},
    "then": {"properties": {name: _FIELDS[name] for name in BESIDE}},
}

KEY: Schema = {
    "type": "object",
    "description": "Of expiresIn and expiresAt at most one; with neither it lasts as long as its maker's.",
    "required": ["name"],
    "properties": {
        "name": NAME_SCHEMA | {"description": "The name."},
        **dict.fromkeys(("expiresIn", "expires_in"), _length("1s", "3650d", "How long it opens anything.")),
        **dict.fromkeys(("expiresAt", "expires_at"), _or_null(TIME_SCHEMA, "Until when it opens anything.")),
    },
}

_TEXT: Schema = {"type": "string", "minLength": 1, "maxLength": MAX_TEXT}

SEND_TEXT: Schema = {
    "type": "object",
    "description": "A text message.",
    "required": ["number"],
    "properties": {
        "number": {
            "anyOf": [{"type": "string", "minLength": 1, "maxLength": MAX_NUMBER}, {"type": "integer"}],
            "description": "Whom it goes to, as the network writes it.",
        },
        "text": _TEXT | {"description": "What is sent."},
        "textMessage": {
            "type": "object",
            "properties": {"text": _TEXT},
            "description": "Where older clients write the text.",
        },
    },
    "anyOf": [
        {"required": ["text"]},
        {"required": ["textMessage"], "properties": {"textMessage": {"required": ["text"]}}},
    ],
}

_PASSED_ON: Schema = {"type": ["string", "null"], "maxLength": 2048, "description": "Passed on."}

_SINCE_1970: Schema = TIME_SCHEMA | {"pattern": "^(19[7-9][0-9]|[2-9][0-9]{3})-"}

EMITTED_EVENT: Schema = {
    "type": "object",
    "description": "An event that is handed in.",
    "required": ["event", "data"],
    "properties": {
        "event": _ref("KindName") | {"description": "Its kind."},
        "data": {"description": "The payload: it is delivered as it came."},
        "id": _or_null(
            EVENT_ID_SCHEMA, "Made if left out; one that is known is a duplicate, and not delivered again."
        ),
        "date_time": _or_null(_SINCE_1970, "When it happened; now, if left out."),
        "sender": _PASSED_ON,
        "server_url": _PASSED_ON,
    },
}

EMIT: Schema = {
    "description": "One event, or a batch, which is taken whole or not at all.",
    "anyOf": [_ref("EmittedEvent"), {"type": "array", "items": _ref("EmittedEvent")}],
}
EMIT_LINES: Schema = {
    "type": "array",
    "items": _ref("EmittedEvent"),
    "description": "Events in JSON, one a line.",
}

_MOMENT: Schema = {"anyOf": [TIME_SCHEMA, DURATION_SCHEMA]}

REPLAY: Schema = {
    "type": "object",
    "description": "What is sent again.",
    "required": ["since"],
    "properties": {
        "since": _MOMENT | {"description": "When the event was accepted, or how long ago."},
        "until": _or_null(_MOMENT, "Likewise; the moment itself is excluded. Now, if left out."),
        "state": {
            "enum": ["dead", "all", None],
            "description": "dead: dead letters, if left out. all: everything that is finished.",
        },
        "kinds": _or_null({"type": "array", "items": _ref("AnyKindName")}, "Of those kinds alone."),
        "label": _or_null(NAME_SCHEMA, "To this registration alone."),
    },
}

COMPONENTS: dict[str, Schema] = {
    "RegistrationFields": REGISTRATION,
    "RetryRequest": RETRY,
    "SetRequest": SET,
    "RotateRequest": GRACE,
    "CreateRequest": CREATE,
    "KeyRequest": KEY,
    "SendTextRequest": SEND_TEXT,
    "EmittedEvent": EMITTED_EVENT,
    "EmitRequest": EMIT,
    "ReplayRequest": REPLAY,
}
"""By the names that the document gives them. The gateway's own lists of names are added to them there."""
