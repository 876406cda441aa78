"""The body of ``/webhook/set`` as JSON Schema, for ``/openapi.json``. No I/O.

See :mod:`hookgw.parsing.json_schemas` for what it leaves out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from hookgw.kernel.rules import MAX_HEADERS, NAME_PATTERN, VALUE_PATTERN
from hookgw.kernel.schema_parts import DURATION_SCHEMA, URL_SCHEMA, Schema, flag, length, or_null, ref
from hookgw.models.event_filters import FIELDS
from hookgw.models.masking import MASK
from hookgw.models.rates import RATE_PATTERN
from hookgw.webhooks.change import MAX_CONCURRENCY, MAX_PLUGINS, MAX_SCHEDULE
from hookgw.webhooks.filters import MAX_CONDITIONS, MAX_DEPTH, MAX_POINTER
from hookgw.webhooks.tls import MAX_PEM, MAX_SERVER_NAME

_BASE64 = "[A-Za-z0-9+/]"
# The base64 of 24 to 64 bytes, with exactly the padding that its length needs.
_SECRET_PATTERN = (
    f"^whsec_(({_BASE64}{{4}}){{8,21}}({_BASE64}{{2}}==)?|({_BASE64}{{4}}){{8,20}}{_BASE64}{{3}}=)$"
    # A seed and its public key, 64 bytes. No pattern can say that they belong together.
    f"|^whsk_({_BASE64}{{4}}){{21}}{_BASE64}{{2}}==$"
)

RETRY: Schema = {
    "type": "object",
    "description": "A missing field means the gateway's setting.",
    "properties": {
        "schedule": {
            "type": ["array", "null"],
            "maxItems": MAX_SCHEDULE,
            "items": DURATION_SCHEMA,
            "description": "The waits after failed attempts, each from 0s to 7d.",
        },
        "maxAge": length("1s", "365d", "How long a delivery is retried while its receiver is unreachable."),
        "disableAfter": length("1s", "365d", "How long the registration may fail before it is disabled."),
    },
}

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
        "op": ref("FilterOp") | {"description": "What is asked of the value at the pointer."},
        "value": {
            "description": "A string, a number, true, false or null; a list of them for in and notIn, a "
            "string for prefix and notPrefix; none for exists and notExists."
        },
    },
}

OPTIONS: Schema = {
    "enabled": flag("Whether the registration receives events; true if missing."),
    "events": {
        "type": ["array", "null"],
        "items": ref("KindName"),
        "description": "The kinds to receive; an empty list means every kind.",
    },
    "webhookByEvents": flag("Whether the kind is appended to the URL's path (/messages-upsert)."),
    "webhookBase64": flag("Whether connectors put media into the event."),
    "headers": or_null(
        ref("CustomHeaders"),
        "Sent with every delivery. Not allowed: host, content-length, webhook-*, x-event-type, "
        "x-instance-name, x-attempt, hop-by-hop headers.",
    ),
    "secret": {
        "type": ["string", "null"],
        "pattern": _SECRET_PATTERN,
        "description": "whsec_ and the base64 of 24 to 64 bytes, or whsk_ and the base64 of an ed25519 seed "
        "and its public key. If missing, hookgw creates one.",
    },
    "signature": or_null(
        ref("Signature"),
        "v1: HMAC-SHA256 with a shared secret. v1a: ed25519; receivers get the public key. If the request "
        "has a secret, it must fit.",
    ),
    "ordering": or_null(
        ref("Ordering"),
        "url: everything in order. instance: in order per instance. chat: in order per chat. "
        "none: in no order.",
    ),
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
    "filter": {
        "type": ["array", "null"],
        "maxItems": MAX_CONDITIONS,
        "items": ref("FilterCondition"),
        "description": "An event must meet all of these conditions; it is dropped otherwise.",
    },
    "plugins": or_null(ref("PluginBlocks"), "Options for plugins, an object for each."),
    "tls": or_null(
        ref("TlsRequest"),
        "Replaces the stored identity as a whole; an empty object removes it. It has no effect on http URLs.",
    ),
}

_PEM: Schema = {"type": ["string", "null"], "minLength": 1, "maxLength": MAX_PEM}
_CERTIFICATES: Schema = _PEM | {"pattern": "-----BEGIN CERTIFICATE-----"}

TLS: Schema = {
    "type": "object",
    "description": "How hookgw and the receiver identify themselves in TLS.",
    # No schema can say that a key fits, or when a certificate expires.
    "additionalProperties": False,
    "properties": {
        "ca": _CERTIFICATES
        | {"description": "Authorities for the receiver's certificate, in PEM; they replace the usual ones."},
        "clientCertificate": _CERTIFICATES
        | {"description": "What hookgw presents, with its intermediates, in PEM."},
        "clientKey": _PEM
        | {
            "pattern": f"-----BEGIN ([A-Z]+ )?PRIVATE KEY-----|^{re.escape(MASK)}$",
            "description": "The key of the certificate, in PEM, without a password. It is never shown; "
            "the mask keeps the stored one.",
        },
        "serverName": {
            "type": ["string", "null"],
            "minLength": 1,
            "maxLength": MAX_SERVER_NAME,
            "description": "The name in the receiver's certificate, if it is not the URL's host.",
        },
    },
}

HEADERS: Schema = {
    "type": "object",
    "maxProperties": MAX_HEADERS,
    "propertyNames": {"pattern": f"^{NAME_PATTERN}$"},
    "additionalProperties": {"type": "string", "pattern": f"^{VALUE_PATTERN}$"},
    "description": "Headers: their values by name.",
}


def plugin_blocks(names: Sequence[str]) -> Schema:
    """Options for plugins, by the names of plugins."""
    # No component for the names: generators that do not know this keyword would lose it.
    allowed = {"propertyNames": {"enum": list(names)}, "maxProperties": MAX_PLUGINS}
    return {
        "type": "object",
        **(allowed if names else {"maxProperties": 0}),
        "additionalProperties": {"type": "object", "additionalProperties": True},
        "description": "Options for plugins by their names.",
    }


REGISTRATION: Schema = {
    "type": "object",
    "description": "A missing field keeps its stored value; url, enabled and events are always replaced.",
    "required": ["url"],
    "properties": {
        "url": URL_SCHEMA
        | {"description": f"{URL_SCHEMA['description']} Any string if the registration is disabled."},
        **OPTIONS,
    },
}

UPDATE: Schema = {
    "type": "object",
    "description": "The fields to change. A missing field keeps its stored value.",
    "properties": {
        "url": or_null(URL_SCHEMA, "Absolute http or https; any string if the registration is disabled."),
        **OPTIONS,
        "enabled": flag("Whether the registration receives events."),
    },
}
