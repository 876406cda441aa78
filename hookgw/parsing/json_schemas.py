"""The bodies that the parsers accept, as JSON Schema, for ``/openapi.json``. No I/O.

The limits are imported from the parsers, and tests compare both on every body. A rule that a schema cannot
express is in its description. Unknown fields are ignored, so no object has ``additionalProperties: false``.
"""

from __future__ import annotations

from hookgw.parsing.instances import (
    ACCOUNT_PRESENCES,
    BESIDE,
    CREATE_FIELDS,
    FOREIGN,
    MAX_SETTING,
    SETTINGS,
)
from hookgw.parsing.message_schemas import MESSAGE_COMPONENTS
from hookgw.parsing.registration_schema import CONDITION, OPTIONS, REGISTRATION, RETRY, SET, UPDATE
from hookgw.parsing.schema_parts import (
    DURATION_SCHEMA,
    EVENT_ID_SCHEMA,
    NAME_SCHEMA,
    TIME_SCHEMA,
    URL_SCHEMA,
    Schema,
    length,
    or_null,
    ref,
)

GRACE: Schema = {
    "type": ["object", "null"],
    "description": "The grace period of the old secret.",
    "properties": {"grace": length("0s", "30d", "How long the old secret keeps signing; 24h by default.")},
}

_SETTING_MEANINGS = {
    "reject_call": "Whether calls are refused.",
    "msg_call": "The text that a refused caller gets.",
    "groups_ignore": "Whether messages of groups raise no events.",
    "always_online": "Whether the account is shown as online all the time.",
    "read_messages": "Whether incoming messages are marked as read.",
    "sync_full_history": "Whether messages from before the connection are fetched.",
    "read_status": "Whether status messages of others are marked as seen.",
    "wavoip_token": "A token for calls over Wavoip; the mask keeps the stored one.",
}
_SETTING_FIELDS: dict[str, Schema] = {
    spelling: {
        **(
            {"type": ["boolean", "null"]}
            if kind is bool
            else {"type": ["string", "null"], "maxLength": MAX_SETTING}
        ),
        "description": _SETTING_MEANINGS[name],
    }
    for name, (spellings, kind) in SETTINGS.items()
    for spelling in spellings
}

SETTINGS_REQUEST: Schema = {
    "type": "object",
    "description": "A missing field keeps its stored value.",
    "properties": _SETTING_FIELDS,
}

OPTIONS_REQUEST: Schema = {
    "type": "object",
    "description": "Options of the connector; null removes one, and a masked secret keeps its value.",
    "propertyNames": {"not": {"enum": sorted(CREATE_FIELDS)}},
}

PRESENCE: Schema = {
    "type": "object",
    "description": "A presence.",
    "required": ["presence"],
    "properties": {"presence": {"enum": list(ACCOUNT_PRESENCES), "description": "The presence."}},
}

_WITHOUT_URL: Schema = {"type": "object", "required": ["url"], "properties": {"url": {"const": ""}}}

CREATE: Schema = {
    "type": "object",
    "description": "All other fields are options for the connector.",
    "required": ["instanceName"],
    "properties": {
        "instanceName": NAME_SCHEMA | {"description": "The name."},
        "token": {
            "type": ["string", "null"],
            "pattern": "^([ -~]{8,256})?$",
            "description": "The instance key; if missing, hookgw creates one.",
        },
        "integration": or_null(
            {"anyOf": [ref("ConnectorName"), {"enum": ["", *sorted(FOREIGN)]}]},
            "The connector; if missing, all events arrive over HTTP.",
        ),
        "webhook": or_null(
            {"anyOf": [ref("RegistrationFields"), URL_SCHEMA, {"enum": ["", {}]}, _WITHOUT_URL]},
            "A registration as in set, or a URL with events and the like beside it; empty for none.",
        ),
        **_SETTING_FIELDS,
    },
    "if": {"properties": {"webhook": {"type": "string", "minLength": 1}}, "required": ["webhook"]},
    "then": {"properties": {name: OPTIONS[name] for name in BESIDE}},
}

KEY: Schema = {
    "type": "object",
    "description": "Send expiresIn or expiresAt; with neither, the key lasts as long as the caller's key.",
    "required": ["name"],
    "properties": {
        "name": NAME_SCHEMA | {"description": "The name."},
        **dict.fromkeys(("expiresIn", "expires_in"), length("1s", "3650d", "How long the key is valid.")),
        **dict.fromkeys(
            ("expiresAt", "expires_at"), or_null(TIME_SCHEMA, "The time at which the key expires.")
        ),
    },
}

_PASSED_ON: Schema = {"type": ["string", "null"], "maxLength": 2048, "description": "Passed on unchanged."}

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

EMIT: Schema = {
    "description": "One event, or a batch, which is accepted as a whole or not at all.",
    "anyOf": [ref("EmittedEvent"), {"type": "array", "items": ref("EmittedEvent")}],
}
EMIT_LINES: Schema = {
    "type": "array",
    "items": ref("EmittedEvent"),
    "description": "JSON events, one per line.",
}

_MOMENT: Schema = {"anyOf": [TIME_SCHEMA, DURATION_SCHEMA]}

REPLAY: Schema = {
    "type": "object",
    "description": "Which deliveries to send again.",
    "required": ["since"],
    "properties": {
        "since": _MOMENT | {"description": "The first acceptance time, or how long ago that is."},
        "until": or_null(_MOMENT, "The end of the range, excluded; now if missing."),
        "state": {
            "enum": ["dead", "all", None],
            "description": "dead (the default): dead letters. all: every finished delivery.",
        },
        "kinds": or_null({"type": "array", "items": ref("AnyKindName")}, "Only these kinds."),
        "label": or_null(NAME_SCHEMA, "Only this registration."),
    },
}

# The names in the OpenAPI document, which adds the gateway's lists of names (KindName, PluginName, …).
COMPONENTS: dict[str, Schema] = {
    "RegistrationFields": REGISTRATION,
    "RetryRequest": RETRY,
    "FilterCondition": CONDITION,
    "SetRequest": SET,
    "UpdateRequest": UPDATE,
    "RotateRequest": GRACE,
    "CreateRequest": CREATE,
    "SettingsRequest": SETTINGS_REQUEST,
    "OptionsRequest": OPTIONS_REQUEST,
    "PresenceRequest": PRESENCE,
    "KeyRequest": KEY,
    **MESSAGE_COMPONENTS,
    "EmittedEvent": EMITTED_EVENT,
    "EmitRequest": EMIT,
    "ReplayRequest": REPLAY,
}
