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
from hookgw.instances.requests import ACCOUNT_PRESENCES, MAX_SETTING, SETTINGS
from hookgw.kernel.rules import HEADERS
from hookgw.kernel.schema_parts import (
    MOMENT_SCHEMA,
    NAME_SCHEMA,
    TIME_SCHEMA,
    Schema,
    enum,
    flag,
    length,
    or_null,
    ref,
)
from hookgw.messages.schemas import MESSAGE_COMPONENTS
from hookgw.webhooks.change import REGISTRATION, UPDATE
from hookgw.webhooks.fields import RETRY, plugin_blocks
from hookgw.webhooks.filters import CONDITION
from hookgw.webhooks.tls import TLS

ROTATE: Schema = {
    "type": "object",
    "description": "The grace period of the old secret.",
    "additionalProperties": False,
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
    spellings[0]: or_null(
        {"type": "boolean"} if kind is bool else {"type": "string", "maxLength": MAX_SETTING},
        _SETTING_MEANINGS[name],
    )
    for name, (spellings, kind) in SETTINGS.items()
}

SETTINGS_REQUEST: Schema = {
    "type": "object",
    "description": "A missing field keeps its stored value.",
    "properties": _SETTING_FIELDS,
}

OPTIONS_REQUEST: Schema = {
    "type": "object",
    "description": "Options of the connector; null removes one, and a masked secret keeps its value. Fields "
    "of `/instance/create` are no options.",
    "additionalProperties": True,
}

PRESENCE: Schema = {
    "type": "object",
    "description": "A presence.",
    "required": ["presence"],
    "properties": {"presence": ref("AccountPresence") | {"description": "The presence."}},
}

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
            ref("ConnectorName"), "The connector; if missing, all events arrive over HTTP."
        ),
        "qrcode": {
            "type": ["boolean", "null"],
            "description": "Whether to connect the instance at once, and return a code to scan.",
        },
        "webhook": or_null(ref("RegistrationRequest"), "The registration to set with the instance."),
        **_SETTING_FIELDS,
    },
    # For the options: without it, some generators have no place for further fields.
    "additionalProperties": True,
}

KEY: Schema = {
    "type": "object",
    "description": "Send expiresIn or expiresAt; with neither, the key lasts as long as the caller's key.",
    "required": ["name"],
    "properties": {
        "name": NAME_SCHEMA | {"description": "The name."},
        "expiresIn": length("1s", "3650d", "How long the key is valid."),
        "expiresAt": or_null(TIME_SCHEMA, "The time at which the key expires."),
    },
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
