"""JSON Schemas of the bodies that emit events, for ``/openapi.json``. No I/O."""

from __future__ import annotations

from hookgw.kernel.schema_parts import TIME_SCHEMA, WITHOUT_NUL, Schema, object_schema, or_null, ref
from hookgw.records.events import EVENT_ID

EVENT_ID_SCHEMA: Schema = {"type": "string", "pattern": f"^{EVENT_ID.pattern}$"}

_PASSED_ON: Schema = {
    "type": ["string", "null"],
    "maxLength": 2048,
    "pattern": WITHOUT_NUL,
    "description": "Passed on unchanged.",
}

# The parser refuses times before the epoch.
_SINCE_1970: Schema = TIME_SCHEMA | {"pattern": "^(19[7-9][0-9]|[2-9][0-9]{3})-"}

EMITTED_EVENT = object_schema(
    "An event to deliver.",
    {
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
    required=["event", "data"],
)

# No component: most languages have no name for a list.
EMIT: Schema = {
    "type": "array",
    "items": ref("EmittedEvent"),
    "description": "A batch of events, which is accepted as a whole or not at all.",
}
