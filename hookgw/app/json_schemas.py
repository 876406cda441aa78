"""The bodies of requests as JSON Schema, for ``/openapi.json``. No I/O.

The parsers accept many spellings of one body. The schemas publish one of them, so that generated clients have
one field for each value, and types that every language has: a field has one spelling and one type, besides
``null`` where it may be missing; kinds have their canonical names; an object has no ``anyOf``, ``if`` or
``allOf``. A rule that such a schema cannot express is in its description. ``additionalProperties: false`` is
only where unknown fields are refused: almost everywhere they are ignored, with a warning.

The limits are imported from the parsers. Tests compare both: parsers accept every published body, and a body
in another spelling matches the schemas once it is spelled as published.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hookgw.app.gateway import Gateway
from hookgw.deliveries.requests import REPLAY_STATES
from hookgw.events.erasure_request import MAX_JID
from hookgw.events.schemas import EMITTED_EVENT
from hookgw.instances.fields import (
    ACCOUNT_PRESENCES,
    CATCH_UP,
    CREATE,
    OPTIONS_REQUEST,
    PRESENCE,
    SETTINGS_REQUEST,
)
from hookgw.kernel.rules import HEADERS
from hookgw.kernel.schema_parts import (
    MOMENT_SCHEMA,
    NAME_SCHEMA,
    Schema,
    enum,
    flag,
    or_null,
    ref,
)
from hookgw.keys.fields import KEY
from hookgw.messages.schemas import MESSAGE_COMPONENTS
from hookgw.webhooks.change import REGISTRATION, ROTATE, UPDATE
from hookgw.webhooks.fields import RETRY, plugin_blocks
from hookgw.webhooks.filters import CONDITION, MAX_CONDITIONS
from hookgw.webhooks.tls import TLS

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

BACKFILL: Schema = {
    "type": "object",
    "description": "Which events of the log to send.",
    "additionalProperties": False,
    "required": ["since"],
    "properties": {
        "since": MOMENT_SCHEMA | {"description": "The first acceptance time, or how long ago that is."},
        "until": or_null(MOMENT_SCHEMA, "The end of the range, excluded, and after `since`; now if missing."),
        "events": or_null(
            {"type": "array", "items": ref("AnyKindName")}, "Only these of the registration's kinds."
        ),
        "filter": or_null(
            {"type": "array", "items": ref("FilterCondition"), "maxItems": MAX_CONDITIONS},
            "Conditions beside those of the registration.",
        ),
        "dead": flag("Send its dead letters of that time again, too, in their place."),
        "dryRun": flag("Only count the events."),
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
    "CatchUpRequest": CATCH_UP,
    "AccountPresence": enum(ACCOUNT_PRESENCES, "A presence of an account."),
    "PresenceRequest": PRESENCE,
    "KeyRequest": KEY,
    **MESSAGE_COMPONENTS,
    "EmittedEvent": EMITTED_EVENT,
    "ReplayState": enum(REPLAY_STATES, "Which deliveries a replay sends."),
    "ReplayRequest": REPLAY,
    "CancelRequest": CANCEL,
    "BackfillRequest": BACKFILL,
    "BackupRequest": BACKUP,
    "EraseRequest": ERASE,
}


def request_schemas(gateway: Gateway) -> dict[str, Schema]:
    """Return the schemas of bodies, with the names of kinds, connectors and plugins of this gateway."""
    kinds = [kind.name for kind in gateway.catalog if not kind.operational]
    operational = [kind.name for kind in gateway.catalog if kind.operational]
    # Only plugins that check their options accept any; others refuse every block of options.
    plugins = [
        plugin.name for plugin in gateway.hooks.plugins() if "hookgw_check_registration" in plugin.hooks
    ]
    return {
        **COMPONENTS,
        "KindName": _enum(kinds, "An event kind. Other spellings are accepted, too."),
        "AnyKindName": _enum([*kinds, *operational], "An event kind, including operational kinds."),
        "ConnectorName": _enum(gateway.instances.connectors, "A connector."),
        "PluginBlocks": plugin_blocks(plugins),
    }


def _enum(names: Sequence[str], meaning: str) -> dict[str, Any]:
    # JSON Schema does not allow an empty enum.
    allowed: dict[str, Any] = {"enum": list(dict.fromkeys(names))} if names else {"maxLength": 0}
    return {"type": "string", **allowed, "description": meaning}
