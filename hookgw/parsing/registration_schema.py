"""The body of ``/webhook/set`` as JSON Schema: for ``/openapi.json``. No I/O.

The fields stand bare, in a ``webhook`` object, partly here and partly there, or beside a ``webhook`` that is
the URL.
"""

from __future__ import annotations

from hookgw.models.registrations import Ordering
from hookgw.models.signing_keys import Signature
from hookgw.parsing.headers import MAX_HEADERS, NAME_PATTERN, VALUE_PATTERN
from hookgw.parsing.registrations import MAX_CONCURRENCY, MAX_SCHEDULE, MAX_URL
from hookgw.parsing.schema_parts import DURATION_SCHEMA, URL_SCHEMA, ZERO, Schema, flag, length, or_null, ref

_BASE64 = "[A-Za-z0-9+/]"
_PRIVATE_KEY = "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg=="
"""That of the vectors which Standard Webhooks publishes. No pattern says that two halves belong together."""
_SECRET_PATTERN = (
    f"^whsec_(({_BASE64}{{4}}){{8,21}}({_BASE64}{{2}}==)?|({_BASE64}{{4}}){{8,20}}{_BASE64}{{3}}=)$"
)
_BY_EVENTS = flag("The kind is added to the URL's path (/messages-upsert).")
_BASE64_FLAG = flag("Connectors put media into the event.")

RETRY: Schema = {
    "type": "object",
    "description": "What is left out is the gateway's.",
    "properties": {
        "schedule": or_null(
            {
                "type": "array",
                "maxItems": MAX_SCHEDULE,
                "items": {"anyOf": [ZERO, DURATION_SCHEMA]},
            },
            "The waits after failures, each from 0s to 7d.",
        ),
        "maxAge": length("1s", "365d", "How long an unreachable receiver is waited for."),
        "disableAfter": length("1s", "365d", "How long it may fail before it is disabled."),
    },
}

OPTIONS: Schema = {
    "enabled": flag("Whether it hears anything; true if left out."),
    "events": or_null(
        {"type": "array", "items": ref("KindName")}, "The kinds that it hears; none means every kind."
    ),
    "byEvents": _BY_EVENTS,
    "webhookByEvents": _BY_EVENTS,
    "webhook_by_events": _BY_EVENTS,
    "base64": _BASE64_FLAG,
    "webhookBase64": _BASE64_FLAG,
    "webhook_base64": _BASE64_FLAG,
    "headers": or_null(
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
        "description": "v1: HMAC-SHA256 with a shared secret. v1a: ed25519; receivers get the public "
        "key. A secret that is given must be one for it.",
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
    "timeout": length("100ms", "5m", "Over one whole attempt; null is the gateway's."),
    "retry": or_null(ref("RetryRequest"), "Its own retry rules; null is the gateway's."),
    "plugins": or_null(
        {"type": "object", "propertyNames": ref("PluginName"), "additionalProperties": {"type": "object"}},
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
        **OPTIONS,
    },
    "if": _IF_DISABLED,
    "else": {"properties": {"url": URL_SCHEMA}},
}

_LAYERED_DISABLED: Schema = {
    "anyOf": [
        {"required": ["webhook"], "properties": {"webhook": _IF_DISABLED}},
        _IF_DISABLED
        | {
            "properties": {
                **_IF_DISABLED["properties"],
                "webhook": {"properties": {"enabled": {"type": "null"}}},
            }
        },
    ]
}
"""Of two ``enabled``, the one in ``webhook`` counts."""

_NESTED: Schema = {
    "type": "object",
    "required": ["webhook"],
    "properties": {
        "webhook": {"type": "object", "required": ["url"], "properties": {"url": _ANY_URL, **OPTIONS}}
    },
    "if": _LAYERED_DISABLED,
    "else": {"properties": {"webhook": {"properties": {"url": URL_SCHEMA}}}},
}

_MIXED: Schema = {
    "type": "object",
    "required": ["url", "webhook"],
    "properties": {
        "url": _ANY_URL,
        **OPTIONS,
        "webhook": {"type": "object", "properties": {"url": {"type": "null"}, **OPTIONS}},
    },
    "if": _LAYERED_DISABLED,
    "else": {"properties": {"url": URL_SCHEMA}},
}

_URL_IN_WEBHOOK: Schema = {
    "type": "object",
    "required": ["webhook"],
    "properties": OPTIONS | {"webhook": _ANY_URL},
    "if": _IF_DISABLED,
    "else": {"properties": {"webhook": URL_SCHEMA}},
}

SET: Schema = {
    "description": "The fields of a registration: bare, in webhook, or beside a webhook that is the URL. "
    "Every mix is taken; where a field is there twice, the one in webhook counts.",
    "anyOf": [
        {"allOf": [ref("RegistrationFields")], "properties": {"webhook": {"type": "null"}}},
        _NESTED,
        _MIXED,
        _URL_IN_WEBHOOK,
    ],
}
