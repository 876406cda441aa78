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

from hookgw.accounts.schema import APPLY_COMPONENTS
from hookgw.app.gateway import Gateway
from hookgw.deliveries.pull_requests import (
    CONSUMER_PATTERN,
    DEFAULT_CONSUMER,
    MAX_CONSUMER,
    MAX_CURSOR,
    MAX_REASON,
    MOST_PULLED,
)
from hookgw.deliveries.requests import FINISHED_SINCE, IN_BODY, MAX_INSTANCES, REPLAY_STATES
from hookgw.events.erasure_request import MAX_JID
from hookgw.events.schemas import EMITTED_EVENT
from hookgw.instances.fields import (
    ACCOUNT_PRESENCES,
    CATCH_UP,
    CREATE,
    OPTIONS_REQUEST,
    PRESENCE,
    SETTINGS_REQUEST,
    TAGS_REQUEST,
    TAGS_SCHEMA,
)
from hookgw.kernel.rules import HEADERS
from hookgw.kernel.schema_parts import (
    DURATION_SCHEMA,
    MOMENT_SCHEMA,
    NAME_SCHEMA,
    URL_SCHEMA,
    WITHOUT_NUL,
    Schema,
    enum,
    flag,
    object_schema,
    or_null,
    ref,
    text_schema,
)
from hookgw.keys.fields import KEY
from hookgw.keys.portal_fields import PORTAL_REQUEST
from hookgw.messages.schemas import MESSAGE_COMPONENTS
from hookgw.operations.problem_request import MUTE
from hookgw.records.browser_sessions import PORTAL_PAGES
from hookgw.records.event_kinds import MAX_KINDS
from hookgw.webhooks.change import REGISTRATION, ROTATE, UPDATE
from hookgw.webhooks.fields import RETRY, plugin_blocks
from hookgw.webhooks.filters import CONDITION, MAX_CONDITIONS
from hookgw.webhooks.tls import TLS

_KINDS: Schema = {"type": "array", "items": ref("AnyKindName"), "maxItems": MAX_KINDS}
_SELECTION: Schema = IN_BODY | {
    "kinds": or_null(_KINDS, "Only these kinds."),
    "dryRun": flag("Only count them."),
}
_INSTANCES: Schema = {
    "instances": or_null(
        {"type": "array", "minItems": 1, "maxItems": MAX_INSTANCES, "items": text_schema(129)},
        "Only these instances: names, or beginnings of names followed by `*`.",
    ),
    "tags": or_null(ref("TagsOfInstance"), "Only instances that carry all of these tags."),
}
REPLAY = object_schema(
    "Which deliveries to send again. It needs `since`, `finishedSince` or `failedSince`.",
    _SELECTION
    | {
        "state": or_null(
            ref("ReplayState"), "dead (the default): dead letters. all: every finished delivery."
        ),
        FINISHED_SINCE.name: or_null(MOMENT_SCHEMA, FINISHED_SINCE.meaning),
    },
    is_closed=True,
)
CANCEL = object_schema(
    "Which pending deliveries to cancel; without a field, all of the instance.",
    _SELECTION,
    is_closed=True,
)
CONSUMER = text_schema(MAX_CONSUMER, pattern=CONSUMER_PATTERN)
CURSOR = text_schema(MAX_CURSOR)

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
    "TagsOfInstance": TAGS_SCHEMA,
    "TagsRequest": TAGS_REQUEST,
    "PortalLinkRequest": PORTAL_REQUEST,
    "PortalPage": enum(PORTAL_PAGES, "The first page behind a portal link."),
    "AccountPresence": enum(ACCOUNT_PRESENCES, "A presence of an account."),
    "PresenceRequest": PRESENCE,
    "KeyRequest": KEY,
    **APPLY_COMPONENTS,
    **MESSAGE_COMPONENTS,
    "EmittedEvent": EMITTED_EVENT,
    "ReplayState": enum(REPLAY_STATES, "Which deliveries a replay sends."),
    "ReplayRequest": REPLAY,
    "ReplayAllRequest": REPLAY | {"properties": _INSTANCES | REPLAY["properties"]},
    "ResendRequest": object_schema(
        "How to send it again, with data or a URL but not both; without a field, as it was.",
        {
            "data": {"description": "The data of a new event, for the same registration only."},
            "url": or_null(URL_SCHEMA, "Send the event there, once, now, and outside the lane."),
        },
        is_closed=True,
    ),
    "TestRequest": object_schema(
        "What to send; without a field, an example of the first kind that the registration wants.",
        {
            "event": or_null(ref("AnyKindName"), "The kind of the event."),
            "data": {"description": "Its data; by default, the example of the kind."},
        },
        is_closed=True,
    ),
    "CancelRequest": CANCEL,
    "CancelAllRequest": CANCEL
    | {
        "description": "Which pending deliveries to cancel; without a field, all that the key reaches.",
        "properties": _INSTANCES | CANCEL["properties"],
    },
    "PullRequest": object_schema(
        "How many deliveries to fetch, for whom, and how long to wait for them.",
        {
            "max": or_null(
                {"type": "integer", "minimum": 1, "maximum": MOST_PULLED},
                "The most deliveries; 100 if missing.",
            ),
            "wait": or_null(DURATION_SCHEMA, "How long to wait for the first one, up to 60s; 0s if missing."),
            "consumer": or_null(
                CONSUMER, f"Who fetches: it gets its own lease back. `{DEFAULT_CONSUMER}` if missing."
            ),
            "lease": or_null(
                DURATION_SCHEMA, "For how long they are its own, from 1s to 10m; 60s if missing."
            ),
            "after": or_null(
                CURSOR, "Everything up to this cursor is delivered, for a receiver that keeps its own place."
            ),
        },
        is_closed=True,
    ),
    "AcknowledgeRequest": object_schema(
        "Which deliveries of the consumer's lease are delivered, and which failed.",
        {
            "consumer": or_null(CONSUMER, f"Who has them. `{DEFAULT_CONSUMER}` if missing."),
            "cursor": or_null(CURSOR, "Everything up to it is delivered."),
            "ids": or_null(
                {"type": "array", "items": CURSOR, "maxItems": MOST_PULLED},
                "Deliveries that are; the first ones, unless `ordering` is `none`.",
            ),
            "failed": or_null(
                {"type": "array", "items": ref("PullFailure"), "maxItems": MOST_PULLED},
                "Deliveries that are not.",
            ),
            "release": flag("Return the rest of the lease without an attempt; false if missing."),
        },
        is_closed=True,
        minProperties=1,
    ),
    "PullFailure": object_schema(
        "A delivery that its consumer could not work on.",
        {
            "id": CURSOR | {"description": "The delivery's id."},
            "reason": or_null(text_schema(MAX_REASON), "Why, for the list of attempts."),
        },
        required=["id"],
        is_closed=True,
    ),
    "BackfillRequest": object_schema(
        "Which events of the log to send.",
        {
            "since": MOMENT_SCHEMA | {"description": "The first acceptance time, or how long ago that is."},
            "until": or_null(
                MOMENT_SCHEMA, "The end of the range, excluded, and after `since`; now if missing."
            ),
            "events": or_null(_KINDS, "Only these of the registration's kinds."),
            "filter": or_null(
                {"type": "array", "items": ref("FilterCondition"), "maxItems": MAX_CONDITIONS},
                "Conditions beside those of the registration.",
            ),
            "dead": flag("Send its dead letters of that time again, too, in their place."),
            "dryRun": flag("Only count the events."),
        },
        required=["since"],
        is_closed=True,
    ),
    "BackupRequest": object_schema(
        "The backup to make.",
        {
            "name": or_null(
                NAME_SCHEMA, "The name of the new file, without a dot first; by default, the time."
            )
        },
    ),
    "MuteRequest": MUTE,
    "EraseRequest": object_schema(
        "Whose data to erase.",
        {
            "remoteJid": text_schema(
                MAX_JID,
                pattern=WITHOUT_NUL,
                description="What the network calls the person or the chat, in full.",
            ),
        },
        required=["remoteJid"],
        is_closed=True,
    ),
}


def request_schemas(gateway: Gateway) -> dict[str, Schema]:
    """Return the schemas of bodies, with the names of kinds, connectors and plugins of this gateway."""
    # Also those of plugins that are gone: stored webhooks have them, and are sent back.
    kinds = gateway.catalog.stored()
    operational = [kind.name for kind in gateway.catalog if kind.operational]
    # Only plugins that check their options accept any; others refuse every block of options.
    plugins = [
        plugin.name for plugin in gateway.hooks.plugins() if "hookgw_check_registration" in plugin.hooks
    ]
    return {
        **COMPONENTS,
        "KindName": enum(kinds, "An event kind. Other spellings are accepted, too."),
        "AnyKindName": enum([*kinds, *operational], "An event kind, including operational kinds."),
        "ConnectorName": enum(gateway.instances.connectors, "A connector."),
        "PluginBlocks": plugin_blocks(plugins),
    }
