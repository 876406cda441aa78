"""Every field of ``create`` and of an instance's settings, once. No I/O.

A row of :data:`SETTINGS`, and a line in :class:`~hookgw.records.instances.InstanceSettings`, is all that a
new setting needs.
"""

from __future__ import annotations

from typing import Any

from hookgw.kernel.audited import Audited, text_of
from hookgw.kernel.fields import (
    REQUIRED,
    Field,
    Flag,
    Input,
    Kind,
    Line,
    Option,
    Parts,
    Period,
    Whole,
    request_schema,
    write_length,
)
from hookgw.kernel.json_fields import as_object, as_text, duration, text_at_most
from hookgw.kernel.language import N_
from hookgw.kernel.masking import MASK
from hookgw.kernel.schema_parts import DURATION_SCHEMA, NAME_SCHEMA, Length, Schema, object_schema, ref
from hookgw.kernel.units import DAY
from hookgw.records.instances import CatchUp
from hookgw.records.tags import MOST_TAGS, TAG_PART, check_tags, tag_texts

BESIDE = ("events", "webhook_by_events", "webhookByEvents", "webhook_base64", "webhookBase64")
"""Fields of a registration that clients of Evolution API 1 send beside ``webhook``."""
ACCOUNT_PRESENCES = ("available", "unavailable")
MAX_SETTING = 4096


TAGS_SCHEMA: Schema = {
    "type": "object",
    "description": "Tags of an instance: names with values.",
    "maxProperties": MOST_TAGS,
    "propertyNames": {"pattern": f"^{TAG_PART}$"},
    "additionalProperties": {"type": "string", "pattern": f"^{TAG_PART}$"},
    "examples": [{"tenant": "acme", "plan": "gold"}],
}
TAGS = Field(
    name="tags",
    kind=Kind(check_tags, ref("TagsOfInstance"), dict[str, str]),
    meaning=f"Names with values, at most {MOST_TAGS}: who the instance belongs to, for example.",
    when_set={},
    shows="names with values that operators have given it.",
    audit=lambda tags: " ".join(tag_texts(tags)),
)

CREATION = (
    Field(
        name="name",
        json="instanceName",
        spellings=("instanceName",),
        kind=Line(as_text, NAME_SCHEMA, str),  # the gateway checks it, and the token and the integration
        meaning="The name.",
        when_set=REQUIRED,
    ),
    Field(
        name="token",
        kind=Line(as_text, {"type": "string", "pattern": "^([ -~]{8,256})?$"}, str),
        meaning="The instance key; if missing, hookgw creates one.",
        when_set=None,
        option=Option("Key of the instance; - reads it from standard input.", default="generated"),
    ),
    Field(
        name="integration",
        spellings=("integration", "connector"),
        kind=Line(as_text, ref("ConnectorName"), str),
        meaning="The connector; if missing, all events arrive over HTTP.",
        when_set="",
        audit=text_of,
        option=Option(
            "Connector to use, for example simulator; `hookgw connectors` lists them, with their options.",
            default="none; events arrive by HTTP",
        ),
    ),
    Field(
        name="qrcode",
        kind=Kind(lambda value, _: value is True, {"type": "boolean"}, bool),
        meaning="Whether to connect the instance at once, and return a code to scan.",
        when_set=False,
    ),
    Field(
        name="webhook",
        kind=Kind(
            lambda value, where: value if isinstance(value, str) else as_object(value, where),
            ref("RegistrationRequest"),
            dict,
        ),
        meaning="The registration to set with the instance.",
        when_set=None,
        option=Option("Also register this URL for its events.", "URL"),
    ),
    TAGS,
)
"""The fields of ``create`` alone. Beside them it has options, of every instance and of its connector, and
settings."""

_some_time = duration(1, 365 * DAY)


def _check_quiet_after(value: Any, where: str) -> float:
    return 0.0 if value in ("0", "0s") else _some_time(value, where)


CATCH_UP_PARTS = (
    Field(
        name="limit",
        kind=Whole(0, 100_000),
        meaning="How many events at most; 0 for none. 10,000 if it is missing.",
        shows="how many events at most; 0 for none.",
        show=lambda catch_up, _: catch_up.limit_or_default,
        form=Input(N_("After an outage, ask for at most so many events"), name="catch_up_limit"),
    ),
    Field(
        name="span",
        kind=Period(60, 30 * DAY),
        meaning="How long before the end of the outage at most. 24h if it is missing.",
        shows="how long before the end of the outage at most.",
        show=lambda catch_up, _: write_length(catch_up.span_or_default),
        form=Input(N_("And for none that is older than"), name="catch_up_span"),
    ),
)
CATCH_UP = request_schema(CATCH_UP_PARTS, "What an instance asks its network for after an outage.")

OPTIONS = (
    Field(
        name="quiet_after",
        kind=Line(_check_quiet_after, DURATION_SCHEMA, Length | None, write_length),
        meaning="How long an open connection may be without an event until `INSTANCE_QUIET` is raised, from "
        "1s to 365d; 0s: for ever.",
        null=None,
        default="`instances.quiet_after`",
        shows="how long it may be without an event; `null` for `instances.quiet_after`.",
        audit=text_of,
        form=Input(N_("Report it as quiet after"), N_("as configured, or such as 6h")),
        option=Option("Report the instance as quiet after this time without an event.", "DURATION"),
    ),
    Field(
        name="catch_up",
        kind=Parts("CatchUp", "What an instance asks its network for.", CATCH_UP_PARTS, CatchUp),
        meaning="How much the instance asks its network for after an outage, if its connector can.",
        null=CatchUp(),
        default='`{"limit": 10000, "span": "24h"}`',
        shows="what it asks its network for after an outage.",
    ),
)
"""The options of every instance, whatever its connector: of ``create`` and of ``/instance/options``."""


_TEXT = Line(text_at_most(MAX_SETTING), {"type": "string", "maxLength": MAX_SETTING}, str, empty="")


def _setting(name: str, kind: Kind, meaning: str, label: str) -> Field:
    return Field(name=name, kind=kind, meaning=meaning, shows=meaning, form=Input(label))


SETTINGS = (
    _setting("reject_call", Flag(), "Whether calls are refused.", N_("Refuse calls")),
    _setting("msg_call", _TEXT, "The text that a refused caller gets.", N_("Text for refused callers")),
    _setting("groups_ignore", Flag(), "Whether messages of groups raise no events.", N_("Ignore groups")),
    _setting(
        "always_online", Flag(), "Whether the account is shown as online all the time.", N_("Always online")
    ),
    _setting(
        "read_messages",
        Flag(),
        "Whether incoming messages are marked as read.",
        N_("Mark incoming messages as read"),
    ),
    _setting(
        "sync_full_history",
        Flag(),
        "Whether messages from before the connection are fetched.",
        N_("Fetch messages from before the connection"),
    ),
    _setting(
        "read_status",
        Flag(),
        "Whether status messages of others are marked as seen.",
        N_("Mark status messages of others as seen"),
    ),
    Field(
        name="wavoip_token",
        kind=_TEXT,
        meaning="A token for calls over Wavoip; the mask keeps the stored one.",
        shows="a token for calls over Wavoip, masked.",
        show=lambda settings, _: MASK if settings.wavoip_token else "",
        is_secret=True,
        form=Input(N_("Token for calls over Wavoip")),
    ),
)
"""How the account behaves: of ``create`` and of ``/settings``."""

CREATE_FIELDS = frozenset(BESIDE).union(*(field.spellings for field in (*CREATION, *OPTIONS, *SETTINGS)))
"""The names that options of connectors cannot have."""

AUDITED: Audited = {one.attribute: (one.json, one.audit) for one in (*CREATION, *OPTIONS) if one.audit} | {
    "requested_integration": ("requestedIntegration", None),
    "options": ("options", None),
    "catch_up": ("catchUp", None),
    "settings": ("settings", None),
    "ingest_token": ("ingestUrl", None),
}

CREATE: Schema = request_schema(
    (*CREATION, *OPTIONS, *SETTINGS), "All other fields are options for the connector."
) | {
    # For the options: without it, some generators have no place for further fields.
    "additionalProperties": True
}
SETTINGS_REQUEST = request_schema(SETTINGS, "A missing field keeps its stored value.")
OPTIONS_REQUEST: Schema = request_schema(
    OPTIONS,
    "Options of the instance and of its connector; null removes one, and a masked secret keeps its value. "
    "Other fields of `/instance/create` are no options.",
) | {"additionalProperties": True}
TAGS_REQUEST = object_schema(
    "The tags that the instance has from now on.",
    {"tags": ref("TagsOfInstance") | {"description": "All of them; `{}` removes all."}},
    required=["tags"],
    is_closed=True,
)
PRESENCE = object_schema(
    "A presence.",
    {"presence": ref("AccountPresence") | {"description": "The presence."}},
    required=["presence"],
)
