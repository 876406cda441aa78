"""The body of ``/webhook/set`` as JSON Schema, for ``/openapi.json``. No I/O.

The fields are at the top level, in a ``webhook`` object, in both, or beside a ``webhook`` that is the URL.
"""

from __future__ import annotations

from hookgw.models.event_filters import FIELDS, FilterOp
from hookgw.models.rates import RATE_PATTERN
from hookgw.models.registrations import Ordering
from hookgw.models.signing_keys import Signature
from hookgw.parsing.event_filters import MAX_CONDITIONS, MAX_DEPTH, MAX_IN, MAX_POINTER, MAX_TEXT
from hookgw.parsing.headers import MAX_HEADERS, NAME_PATTERN, VALUE_PATTERN
from hookgw.parsing.registrations import MAX_CONCURRENCY, MAX_PLUGINS, MAX_SCHEDULE, MAX_URL
from hookgw.parsing.schema_parts import DURATION_SCHEMA, URL_SCHEMA, ZERO, Schema, flag, length, or_null, ref

_BASE64 = "[A-Za-z0-9+/]"
# From the test vectors that Standard Webhooks publishes. No pattern can say that a seed and a public key
# belong together, and schemathesis generates bodies from these schemas: a random key would be refused.
_PRIVATE_KEY = "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg=="
# The base64 of 24 to 64 bytes, with exactly the padding that its length needs.
_SECRET_PATTERN = (
    f"^whsec_(({_BASE64}{{4}}){{8,21}}({_BASE64}{{2}}==)?|({_BASE64}{{4}}){{8,20}}{_BASE64}{{3}}=)$"
)
_BY_EVENTS = flag("Whether the kind is appended to the URL's path (/messages-upsert).")
_BASE64_FLAG = flag("Whether connectors put media into the event.")

RETRY: Schema = {
    "type": "object",
    "description": "A missing field means the gateway's setting.",
    "properties": {
        "schedule": or_null(
            {
                "type": "array",
                "maxItems": MAX_SCHEDULE,
                "items": {"anyOf": [ZERO, DURATION_SCHEMA]},
            },
            "The waits after failed attempts, each from 0s to 7d.",
        ),
        "maxAge": length("1s", "365d", "How long a delivery is retried while its receiver is unreachable."),
        "disableAfter": length("1s", "365d", "How long the registration may fail before it is disabled."),
    },
}

_SCALAR: Schema = {
    "anyOf": [
        {"type": "string", "maxLength": MAX_TEXT},
        {"type": "number", "exclusiveMinimum": -(2**63), "exclusiveMaximum": 2**63},
        {"type": ["boolean", "null"]},
    ]
}


def _if_op(*ops: FilterOp, value: Schema | None) -> Schema:
    then: Schema = {"properties": {"value": value or {"type": "null"}}}
    if value is not None:
        then["required"] = ["value"]
    return {"if": {"properties": {"op": {"enum": list(ops)}}}, "then": then}


CONDITION: Schema = {
    "type": "object",
    "description": "A condition on an event.",
    "required": ["pointer", "op"],
    "properties": {
        "pointer": {
            "type": "string",
            "maxLength": MAX_POINTER,
            "pattern": f'^/({"|".join(FIELDS)})(/([^~/"\\\\\\x00-\\x1f]|~[01])*){{0,{MAX_DEPTH - 1}}}$',
            "description": "A JSON pointer (RFC 6901) into the event, such as /data/key/remoteJid.",
        },
        "op": {"enum": list(FilterOp), "description": "What is asked of the value at the pointer."},
        "value": {
            "description": "A string, a number, true, false or null; a list of them for in and notIn, a "
            "string for prefix and notPrefix; none for exists and notExists."
        },
    },
    "allOf": [
        _if_op(FilterOp.EQUALS, FilterOp.NOT_EQUALS, value=_SCALAR),
        _if_op(
            FilterOp.IN,
            FilterOp.NOT_IN,
            value={"type": "array", "minItems": 1, "maxItems": MAX_IN, "items": _SCALAR},
        ),
        _if_op(
            FilterOp.PREFIX,
            FilterOp.NOT_PREFIX,
            value={"type": "string", "minLength": 1, "maxLength": MAX_TEXT},
        ),
        _if_op(FilterOp.EXISTS, FilterOp.NOT_EXISTS, value=None),
    ],
}

OPTIONS: Schema = {
    "enabled": flag("Whether the registration receives events; true if missing."),
    "events": or_null(
        {"type": "array", "items": ref("KindName")}, "The kinds to receive; an empty list means every kind."
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
        "Sent with every delivery. Not allowed: host, content-length, webhook-*, hop-by-hop headers.",
    ),
    "secret": {
        "anyOf": [
            {"type": ["string", "null"], "pattern": _SECRET_PATTERN},
            {"enum": [_PRIVATE_KEY], "description": "Any ed25519 key of this form: seed and public key."},
        ],
        "description": "whsec_ and the base64 of 24 to 64 bytes, or whsk_ and the base64 of an ed25519 seed "
        "and its public key. If missing, hookgw creates one.",
    },
    "signature": {
        "enum": [*(signature.value for signature in Signature), None],
        "description": "v1: HMAC-SHA256 with a shared secret. v1a: ed25519; receivers get the public "
        "key. If the request has a secret, it must fit.",
    },
    "ordering": {
        "enum": [*(ordering.value for ordering in Ordering), None],
        "description": "url: everything in order. instance: in order per instance. chat: in order per chat. "
        "none: in no order.",
    },
    "concurrency": {
        "type": ["integer", "null"],
        "minimum": 1,
        "maximum": MAX_CONCURRENCY,
        "description": "How many attempts may run at once with instance, chat and none.",
    },
    "rate": {
        "type": ["string", "null"],
        "pattern": f"^$|{RATE_PATTERN}",
        "description": "The most attempts in a second (20/s), a minute (100/m) or an hour (1000/h); null or "
        "an empty text for no limit.",
    },
    "timeout": length("100ms", "5m", "The deadline of a whole attempt; null means the gateway's."),
    "retry": or_null(ref("RetryRequest"), "The retry rules; null means the gateway's."),
    "filter": or_null(
        {"type": "array", "maxItems": MAX_CONDITIONS, "items": ref("FilterCondition")},
        "An event must meet all of these conditions; it is dropped otherwise.",
    ),
    "plugins": or_null(
        {
            "type": "object",
            "maxProperties": MAX_PLUGINS,
            "propertyNames": ref("PluginName"),
            "additionalProperties": {"type": "object"},
        },
        "Options for plugins, an object for each.",
    ),
}

_IF_DISABLED: Schema = {"properties": {"enabled": {"const": False}}, "required": ["enabled"]}
_ANY_URL: Schema = {"type": "string", "maxLength": MAX_URL}

REGISTRATION: Schema = {
    "type": "object",
    "description": "A missing field keeps its stored value; url, enabled and events are always replaced.",
    "required": ["url"],
    "properties": {
        "url": _ANY_URL | {"description": URL_SCHEMA["description"]},
        **OPTIONS,
    },
    "if": _IF_DISABLED,
    "else": {"properties": {"url": URL_SCHEMA}},
}

UPDATE: Schema = {
    "type": "object",
    "description": "The fields to change, in any spelling of set. A missing field keeps its stored value.",
    "properties": {
        "url": or_null(URL_SCHEMA, "Absolute http or https; any string if the registration is disabled."),
        **OPTIONS,
        "enabled": flag("Whether the registration receives events."),
    },
}

_LAYERED_DISABLED: Schema = {
    "anyOf": [
        {"required": ["webhook"], "properties": {"webhook": _IF_DISABLED}},
        _IF_DISABLED
        | {
            "properties": {
                # Of two "enabled", the one in "webhook" counts, unless it is null.
                **_IF_DISABLED["properties"],
                "webhook": {"properties": {"enabled": {"type": "null"}}},
            }
        },
    ]
}

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
    "description": "The fields of a registration: at the top level, in webhook, or beside a webhook that is "
    "the URL. Every mixture is allowed; if a field appears twice, the one in webhook counts.",
    "anyOf": [
        {"allOf": [ref("RegistrationFields")], "properties": {"webhook": {"type": "null"}}},
        _NESTED,
        _MIXED,
        _URL_IN_WEBHOOK,
    ],
}
