"""The bodies that the parsers here take, as JSON Schema: for ``/openapi.json``. No I/O.

The limits are the parsers' own, and the tests hold every answered request to these schemas. What a schema
cannot say is in its description. Fields that hookgw does not know are ignored, so no object is closed.
"""

from __future__ import annotations

from hookgw.parsing.instances import BESIDE, FOREIGN, MAX_NUMBER, MAX_TEXT
from hookgw.parsing.registration_schema import OPTIONS, REGISTRATION, RETRY, SET
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
    "description": "How the secret is changed.",
    "properties": {"grace": length("0s", "30d", "How long the old secret goes on signing; 24h by default.")},
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
        "integration": or_null(
            {"anyOf": [ref("ConnectorName"), {"enum": ["", *sorted(FOREIGN)]}]},
            "The connector; left out, events come by HTTP alone.",
        ),
        "webhook": or_null(
            {"anyOf": [ref("RegistrationFields"), URL_SCHEMA, {"enum": ["", {}]}]},
            "A registration as in set, or a URL with events and the like beside it; empty for none.",
        ),
    },
    "if": {"properties": {"webhook": {"type": "string", "minLength": 1}}, "required": ["webhook"]},
    "then": {"properties": {name: OPTIONS[name] for name in BESIDE}},
}

KEY: Schema = {
    "type": "object",
    "description": "Of expiresIn and expiresAt at most one; with neither it lasts as long as its maker's.",
    "required": ["name"],
    "properties": {
        "name": NAME_SCHEMA | {"description": "The name."},
        **dict.fromkeys(("expiresIn", "expires_in"), length("1s", "3650d", "How long it opens anything.")),
        **dict.fromkeys(("expiresAt", "expires_at"), or_null(TIME_SCHEMA, "Until when it opens anything.")),
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
        "text": {"type": ["string", "null"], "description": "What is sent."},
        "textMessage": {
            "type": ["object", "null"],
            "description": "Where older clients write the text; it counts where there is no other.",
        },
    },
    "anyOf": [
        {"required": ["text"], "properties": {"text": _TEXT}},
        {
            "required": ["textMessage"],
            "properties": {
                "text": {"type": "null"},
                "textMessage": {"type": "object", "required": ["text"], "properties": {"text": _TEXT}},
            },
        },
    ],
}

_PASSED_ON: Schema = {"type": ["string", "null"], "maxLength": 2048, "description": "Passed on."}

_SINCE_1970: Schema = TIME_SCHEMA | {"pattern": "^(19[7-9][0-9]|[2-9][0-9]{3})-"}

EMITTED_EVENT: Schema = {
    "type": "object",
    "description": "An event that is handed in.",
    "required": ["event", "data"],
    "properties": {
        "event": ref("KindName") | {"description": "Its kind."},
        "data": {"description": "The payload: it is delivered as it came."},
        "id": or_null(
            EVENT_ID_SCHEMA, "Made if left out; one that is known is a duplicate, and not delivered again."
        ),
        "date_time": or_null(_SINCE_1970, "When it happened; now, if left out."),
        "sender": _PASSED_ON,
        "server_url": _PASSED_ON,
    },
}

EMIT: Schema = {
    "description": "One event, or a batch, which is taken whole or not at all.",
    "anyOf": [ref("EmittedEvent"), {"type": "array", "items": ref("EmittedEvent")}],
}
EMIT_LINES: Schema = {
    "type": "array",
    "items": ref("EmittedEvent"),
    "description": "Events in JSON, one a line.",
}

_MOMENT: Schema = {"anyOf": [TIME_SCHEMA, DURATION_SCHEMA]}

REPLAY: Schema = {
    "type": "object",
    "description": "What is sent again.",
    "required": ["since"],
    "properties": {
        "since": _MOMENT | {"description": "When the event was accepted, or how long ago."},
        "until": or_null(_MOMENT, "Likewise; the moment itself is excluded. Now, if left out."),
        "state": {
            "enum": ["dead", "all", None],
            "description": "dead: dead letters, if left out. all: everything that is finished.",
        },
        "kinds": or_null({"type": "array", "items": ref("AnyKindName")}, "Of those kinds alone."),
        "label": or_null(NAME_SCHEMA, "To this registration alone."),
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
