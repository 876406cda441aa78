"""The bodies of requests as JSON Schema, for ``/openapi.json``. No I/O.

The parsers accept many spellings of one body. The schemas publish one of them, so that generated clients have
one field for one thing, and types that every language has: a field has one spelling and one type, besides
``null`` where it may be missing; kinds have their canonical names; an object has no ``anyOf``, ``if`` or
``allOf``. A rule that such a schema cannot express is in its description. ``additionalProperties: false`` is
only where unknown fields are refused: almost everywhere they are ignored, with a warning.

The limits are imported from the parsers. Tests compare both: parsers accept what the schemas publish, and
what they accept in another spelling matches the schemas once it is spelled as published.
"""

from __future__ import annotations

from hookgw.deliveries.requests import REPLAY_STATES
from hookgw.instances.fields import ACCOUNT_PRESENCES, CREATE, OPTIONS_REQUEST, PRESENCE, SETTINGS_REQUEST
from hookgw.kernel.rules import HEADERS
from hookgw.kernel.schema_parts import (
    EVENT_ID_SCHEMA,
    MOMENT_SCHEMA,
    NAME_SCHEMA,
    TIME_SCHEMA,
    Schema,
    enum,
    flag,
    or_null,
    ref,
)
from hookgw.keys.fields import KEY
from hookgw.messages.schemas import MESSAGE_COMPONENTS
from hookgw.operations.erasure_request import MAX_JID
from hookgw.webhooks.change import REGISTRATION, ROTATE, UPDATE
from hookgw.webhooks.fields import RETRY
from hookgw.webhooks.filters import CONDITION
from hookgw.webhooks.tls import TLS

_PASSED_ON: Schema = {
    "type": ["string", "null"],
    "maxLength": 2048,
    "pattern": "^[^\\x00]*$",
    "description": "Passed on unchanged.",
}

# The parser refuses times before the epoch.
_SINCE_1970: Schema = TIME_SCHEMA | {"pattern": "^(19[7-9][0-9]|[2-9][0-9]{3})-"}

EMITTED_EVENT: Schema = {
    "type": "object",
    "description": "An event to deliver.",
    "required": ["event", "data"],
    "properties": {
        "event": ref("KindName") | {"description": "The kind."},
        "data": {"description": "The payload, delivered unchanged."},
        "id": or_null(
            EVENT_ID_SCHEMA,
            "If missing, hookgw creates one. A known id makes the event a duplicate, which is not delivered.",
        ),
        "date_time": or_null(_SINCE_1970, "The time of the event; now if missing."),
        "sender": _PASSED_ON,
        "server_url": _PASSED_ON,
    },
}

# No component: most languages have no name for a list.
EMIT: Schema = {
    "type": "array",
    "items": ref("EmittedEvent"),
    "description": "A batch of events, which is accepted as a whole or not at all.",
}

REPLAY: Schema = {
    "type": "object",
    "description": "Which deliveries to send again.",
    "additionalProperties": False,
    "required": ["since"],
    "properties": {
        "since": MOMENT_SCHEMA | {"description": "The first acceptance time, or how long ago that is."},
        "until": or_null(MOMENT_SCHEMA, "The end of the range, excluded, and after `since`; now if missing."),
        "state": or_null(
            ref("ReplayState"), "dead (the default): dead letters. all: every finished delivery."
        ),
        "kinds": or_null({"type": "array", "items": ref("AnyKindName")}, "Only these kinds."),
        "label": or_null(NAME_SCHEMA, "Only this registration."),
    },
}

ERASE: Schema = {
    "type": "object",
    "description": "Whose data to erase.",
    "additionalProperties": False,
    "required": ["remoteJid"],
    "properties": {
        "remoteJid": {
            "type": "string",
            "minLength": 1,
            "maxLength": MAX_JID,
            "description": "What the network calls the person or the chat, in full.",
        },
    },
}

CANCEL: Schema = {
    "type": "object",
    "description": "Which pending deliveries to cancel; without a field, all of the instance.",
    "additionalProperties": False,
    "properties": {
        "since": or_null(MOMENT_SCHEMA, "The first acceptance time, or how long ago that is."),
        "until": or_null(MOMENT_SCHEMA, "The end of the range, excluded, and after `since`."),
        "kinds": or_null({"type": "array", "items": ref("AnyKindName")}, "Only these kinds."),
        "label": or_null(NAME_SCHEMA, "Only this registration."),
        "dryRun": flag("Only count them."),
    },
}

BACKUP: Schema = {
    "type": "object",
    "description": "The backup to make.",
    "properties": {
        "name": or_null(NAME_SCHEMA, "The name of the new file, without a dot first; by default, the time."),
    },
}

# The names in the OpenAPI document, which adds the gateway's lists of names (KindName, ConnectorName, …), and
# the enums of its responses (Ordering, Signature).
COMPONENTS: dict[str, Schema] = {
    "RegistrationRequest": REGISTRATION,
    "RetryRequest": RETRY,
    "TlsRequest": TLS,
    "FilterCondition": CONDITION,
    "CustomHeaders": HEADERS,
    "RegistrationUpdate": UPDATE,
    "RotateRequest": ROTATE,
    "CreateRequest": CREATE,
    "SettingsRequest": SETTINGS_REQUEST,
    "OptionsRequest": OPTIONS_REQUEST,
    "AccountPresence": enum(ACCOUNT_PRESENCES, "A presence of an account."),
    "PresenceRequest": PRESENCE,
    "KeyRequest": KEY,
    **MESSAGE_COMPONENTS,
    "EmittedEvent": EMITTED_EVENT,
    "ReplayState": enum(REPLAY_STATES, "Which deliveries a replay sends."),
    "ReplayRequest": REPLAY,
    "CancelRequest": CANCEL,
    "BackupRequest": BACKUP,
    "EraseRequest": ERASE,
}
