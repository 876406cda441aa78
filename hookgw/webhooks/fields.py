"""Every field of a registration, once. No I/O.

A row, and a line in :class:`~hookgw.records.registrations.Registration`, is all that a new field needs: it is
read from requests, described in ``/openapi.json`` and ``docs/http.md``, shown in responses and audited. It is
in the form and the commands if the row says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import UNSET, Meta, Struct

from hookgw.kernel.audited import Audited, text_of
from hookgw.kernel.errors import Invalid
from hookgw.kernel.fields import (
    REQUIRED,
    Choice,
    Field,
    Flag,
    Input,
    Kind,
    Line,
    Option,
    Parts,
    Period,
    Reading,
    Shown,
    Whole,
    request_schema,
    write_length,
)
from hookgw.kernel.json_fields import (
    REFUSED,
    as_list,
    as_object,
    as_text,
    check_count,
    checked_items,
    duration,
    list_of,
    place,
)
from hookgw.kernel.masking import MASK, with_masked_user, without_user
from hookgw.kernel.rates import RATE_PATTERN, Rate, parse_rate
from hookgw.kernel.rules import (
    check_custom_headers,
    check_destination,
    check_secret,
    unmask_headers,
    unmask_url,
)
from hookgw.kernel.schema_parts import DESTINATION_SCHEMA, DURATION_SCHEMA, Length, Schema, Time, ref
from hookgw.kernel.secret_options import SecretOptions
from hookgw.kernel.sentences import Sentence
from hookgw.kernel.signing_keys import Secret, Signature
from hookgw.kernel.target_url import MAX_URL
from hookgw.kernel.times import rfc3339
from hookgw.kernel.units import DAY
from hookgw.records.events import Catalog
from hookgw.records.registrations import DEFAULT_GRACE, Ordering, Registration, RetryOptions, is_global
from hookgw.records.tls_identity import NO_IDENTITY, TlsIdentity
from hookgw.webhooks.filters import MAX_CONDITIONS, Condition, read_filter, write_condition
from hookgw.webhooks.tls import TLS_PARTS, check_whole, unmask_tls

# Each partition is a lane with a task and up to one connection.
MAX_CONCURRENCY = 64
MAX_SCHEDULE = 100
# A registration names the plugins whose options it sets; each unknown name is compared with all known ones.
MAX_PLUGINS = 100
_TOO_MANY_PLUGINS = Sentence.declared(
    "webhook.too_many_plugins", "{where} has {count:,} plugins; at most {most} are allowed."
)
_URL_TOO_LONG = Sentence.declared(
    "url.too_long", "{where} has {count:,} characters; at most {most:,} are allowed."
)


class AskedFields(NamedTuple):
    """What checks need besides the field; ``enabled`` is what the request says, or else what is stored."""

    catalog: Catalog
    enabled: bool


class MissedCount(Struct, frozen=True, kw_only=True):
    """What a registration has missed while it was disabled.

    Attributes:
        count: the events that it would have got by its kinds and its filter.
        since: since when it was disabled.
        complete: whether all were counted; if not, there were too many to be counted quickly.
    """

    count: Annotated[int, Meta(ge=0)]
    since: Time
    complete: bool


class Showing(NamedTuple):
    """What a registration is shown with; ``warnings`` are about the request or the URL."""

    instance_id: str
    catalog: Catalog
    secret_options: SecretOptions
    warnings: Sequence[str] = ()


def _check_url(value: Any, where: str, reading: Reading) -> str:
    if reading.context.enabled:
        return check_destination(value, where)
    url = as_text(value, where)  # any string will do: n8n sends "vazio"
    check_count(url, MAX_URL, where, _URL_TOO_LONG)
    return url


def _check_kinds(value: Any, where: str, reading: Reading) -> tuple[str, ...]:
    catalog: Catalog = reading.context.catalog

    def check_kind(value: Any, where: str) -> str:
        kind = catalog.resolve(value, where, stored=True)
        # Operational events name every tenant's registrations.
        if kind.operational:
            raise Invalid.of(
                "webhook.operational_kind",
                "{where}: {name} is an operational event; only operations.url receives those.",
                where=where,
                name=kind.name,
            )
        return kind.name

    items = as_list(value, where)
    # Every kind in each of its spellings is possible; longer lists are refused before they are resolved.
    if len(items) > 4 * len(catalog) + 16:
        raise Invalid.of(
            "webhook.too_many_kinds",
            "{where} has {count:,} items, but there are only {kinds:,} event kinds.",
            where=where,
            count=len(items),
            kinds=len(catalog),
        )
    if "*" in items:
        return ()  # as at Stripe and WAHA
    return tuple(dict.fromkeys(checked_items(check_kind, items, where)))


def _show_kinds(registration: Registration, showing: Showing) -> list[str]:
    # Spelled out, as Evolution API does: its clients show this list.
    return list(registration.events) or [kind.name for kind in showing.catalog.of_instances()]


def _check_rate(value: Any, where: str) -> Rate | None:
    try:
        return None if value == "" else parse_rate(value)
    except ValueError as error:
        raise Invalid(REFUSED(where=where, reason=error)) from None


def _check_plugins(value: Any, where: str) -> dict[str, Any]:
    """Check that the options of each plugin are an object; the plugins check the content."""
    blocks = as_object(value, where)
    check_count(blocks, MAX_PLUGINS, where, _TOO_MANY_PLUGINS)
    taken: dict[str, Any] = {}
    problems: list[str] = []
    for name, block in blocks.items():
        try:
            taken[name] = as_object(block, place(where, name))
        except Invalid as error:
            problems += error.messages
    if problems:
        raise Invalid(*problems)
    return taken


class _Headers(Kind):
    def into_form(self, value: dict[str, str]) -> str:
        return "".join(f"{name}: {text}\n" for name, text in value.items())

    def from_form(self, text: str) -> dict[str, str]:
        headers: dict[str, str] = {}
        for number, line in enumerate(text.splitlines(), 1):
            name, colon, value = line.partition(":")
            if line.strip() and not colon:
                raise ValueError(f", line {number}: write a header as “name: value”")
            if name.strip() in headers:
                raise ValueError(f", line {number}: this header is there twice; it has one value")
            if line.strip():
                headers[name.strip()] = value.strip()
        return headers


class _Waits(Line):
    def into_form(self, value: list[str] | None) -> str:
        return " ".join(value or ())

    def from_form(self, text: str) -> list[str] | None:
        return text.replace(",", " ").split() or self.empty


class _NeverShown(Line):
    """What a form only takes; an empty text keeps the stored value."""

    def into_form(self, value: Any) -> str:  # noqa: ARG002
        return ""


_BASE64 = "[A-Za-z0-9+/]"
# The base64 of 24 to 64 bytes, with exactly the padding that its length needs.
_SECRET_PATTERN = (
    f"^whsec_(({_BASE64}{{4}}){{8,21}}({_BASE64}{{2}}==)?|({_BASE64}{{4}}){{8,20}}{_BASE64}{{3}}=)$"
    # A seed and its public key, 64 bytes. No pattern can say that they belong together.
    f"|^whsk_({_BASE64}{{4}}){{21}}{_BASE64}{{2}}==$"
)

RETRY_PARTS = (
    Field(
        name="schedule",
        kind=_Waits(
            list_of(duration(0, 7 * DAY), MAX_SCHEDULE),
            {"type": "array", "maxItems": MAX_SCHEDULE, "items": DURATION_SCHEMA},
            list[Length] | None,
            lambda waits: None if waits is None else [write_length(wait) for wait in waits],
        ),
        meaning="The waits after failed attempts, each from 0s to 7d.",
        shows="the waits after failed attempts.",
        form=Input("Waits after failed attempts (retry.schedule)", "as configured, or such as 5s 1m 10m"),
    ),
    Field(
        name="max_age",
        kind=Period(1, 365 * DAY),
        meaning="How long a delivery is retried while its receiver is unreachable.",
        shows="how long a delivery waits for an unreachable receiver.",
        form=Input("Give up after (retry.maxAge)", "as configured, or such as 1h"),
    ),
    Field(
        name="disable_after",
        kind=Period(1, 365 * DAY),
        meaning="How long the registration may fail before it is disabled.",
        shows="how long the registration may fail before hookgw disables it.",
        form=Input("Disable after (retry.disableAfter)", "as configured, or such as 5d"),
    ),
)
RETRY = request_schema(RETRY_PARTS, "A missing field means the gateway's setting.")

FIELDS = (
    Field(
        name="url",
        kind=Kind(_check_url, DESTINATION_SCHEMA, str, needs=True),
        meaning=f"{DESTINATION_SCHEMA['description']} Any string if the registration is disabled.",
        patch_meaning="As for set; any string if the registration is disabled.",
        shows="where deliveries go.",
        when_set=REQUIRED,
        show=lambda registration, _: with_masked_user(registration.url),  # a `set` may send the mask back
        unmask=lambda given, stored, _: unmask_url(given, stored),
        audit=without_user,
        heading="URL",
        default="required",
    ),
    Field(
        name="enabled",
        kind=Flag(),
        meaning="Whether the registration receives events; true if missing.",
        patch_meaning="Whether the registration receives events.",
        shows="whether it receives events.",
        when_set=True,
        audit=text_of,
    ),
    Field(
        name="events",
        kind=Kind(_check_kinds, {"type": "array", "items": ref("KindName")}, list[str], needs=True),
        meaning="The kinds to receive; an empty list means every kind, as does `*` in it.",
        shows="the kinds that it receives, spelled out.",
        when_set=(),
        show=_show_kinds,
        audit=lambda kinds: ", ".join(kinds) or "all",
        default="every kind, including kinds added later",
    ),
    Field(
        name="by_events",
        kind=Flag(),
        json="webhookByEvents",
        spellings=("byEvents", "webhookByEvents", "webhook_by_events", "by_events"),
        meaning="Whether the kind is appended to the URL's path (/messages-upsert).",
        shows="whether the kind is added to the URL's path.",
        form=Input("Add the kind to the path of each request"),
        option=Option("Append the event kind to the URL's path."),
    ),
    Field(
        name="base64",
        kind=Flag(),
        json="webhookBase64",
        spellings=("base64", "webhookBase64", "webhook_base64"),
        meaning="Whether connectors put media into the event.",
        shows="whether connectors put media into the event.",
        form=Input("Put received files into the event"),
        option=Option("Ask connectors to include media in events."),
    ),
    Field(
        name="headers",
        kind=_Headers(check_custom_headers, ref("CustomHeaders"), dict[str, str]),
        meaning="Sent with every delivery. Not allowed: host, content-length, webhook-*, x-event-type, "
        "x-instance-name, x-attempt, x-edited-from, hop-by-hop headers.",
        shows="sent with every delivery; values are masked.",
        show=lambda registration, _: dict.fromkeys(registration.headers, MASK),  # most hold a token
        unmask=lambda given, stored, _: unmask_headers(given, stored or {}),
        is_secret=True,
        form=Input(
            "Headers",
            note="One on each line, such as “authorization: Bearer 8sK3”. Stored values are masked; a masked "
            "value stays as it is.",
        ),
        option=Option("Header to send with each delivery; repeatable.", "NAME:VALUE"),
    ),
    Field(
        name="secret",
        attribute="secrets",
        kind=_NeverShown(
            check_secret,
            {"type": "string", "pattern": _SECRET_PATTERN},
            str,
            lambda secret: secret.value if isinstance(secret, Secret) else secret,
            empty=UNSET,
        ),
        meaning="whsec_ and the base64 of 24 to 64 bytes, or whsk_ and the base64 of an ed25519 seed and its "
        "public key. If missing, hookgw creates one.",
        is_secret=True,
        default="generated",
        form=Input(
            "Secret",
            "stays as it is, or whsec_…",
            "To bring one of your own. The former one stops signing at once; a rotation leaves it a day.",
        ),
        option=Option(
            "Signing secret: whsec_…, or whsk_… for v1a; - reads it from standard input.", default="generated"
        ),
    ),
    Field(
        name="signature",
        kind=Choice(Signature, "a shared secret", "ed25519, a public key"),
        meaning="v1: HMAC-SHA256 with a shared secret. v1a: ed25519; receivers get the public key. If the "
        "request has a secret, it must fit.",
        shows="how deliveries are signed.",
        form=Input("Signature"),
        default="`v1`, or what `secret` is for",
        option=Option("HMAC-SHA256, or ed25519.", default="v1"),
    ),
    Field(
        name="ordering",
        kind=Choice(
            Ordering,
            "all events, one after the other",
            "each instance for itself",
            "each chat for itself",
            "no order",
        ),
        meaning="url: everything in order. instance: in order per instance. chat: in order per chat. "
        "none: in no order.",
        shows="which deliveries keep their order.",
        audit=text_of,
        form=Input("Order"),
        option=Option("Keep the order of all events, per instance, per chat, or not at all.", default="url"),
    ),
    Field(
        name="concurrency",
        kind=Whole(1, MAX_CONCURRENCY),
        meaning="How many attempts may run at once with instance, chat and none.",
        shows="how many deliveries may be in progress at once, with an ordering other than `url`.",
        audit=text_of,
        form=Input("Attempts at a time"),
        option=Option("Parallel deliveries, unless --ordering is url."),
    ),
    Field(
        name="rate",
        kind=Line(
            _check_rate,
            {"type": "string", "pattern": f"^$|{RATE_PATTERN}"},
            Annotated[str, Meta(pattern=RATE_PATTERN, examples=["20/s"])] | None,
            lambda rate: None if rate is None else str(rate),
        ),
        null=None,
        meaning="The most attempts in a second (20/s), a minute (100/m) or an hour (1000/h); null or an "
        "empty text for no limit.",
        shows="the most attempts in a second, a minute or an hour; ``null`` for no limit.",
        audit=text_of,
        default="no limit",
        form=Input("Rate", "no limit, or such as 20/s"),
        option=Option("Most attempts, such as 20/s, 100/m or 1000/h; '' removes it.", "RATE"),
    ),
    Field(
        name="timeout",
        kind=Period(0.1, 300),
        null=None,
        meaning="The deadline of a whole attempt; null means the gateway's.",
        shows="of a whole attempt; ``null`` for the gateway's setting.",
        audit=text_of,
        default="`delivery.timeout`",
        form=Input("Timeout", "as configured, or such as 10s"),
        option=Option("Deadline of an attempt, for example 10s.", "DURATION"),
    ),
    Field(
        name="retry",
        kind=Parts(
            "Retry",
            "A registration's own retry rules; ``null`` for the gateway's setting.",
            RETRY_PARTS,
            RetryOptions,
            legend="What differs from the gateway's settings for failed attempts.",
        ),
        null=RetryOptions(),
        meaning="The retry rules; null means the gateway's.",
        shows="its own retry rules.",
        default="the `delivery` settings",
        option=Option('Retry rules of this registration, such as {"maxAge": "1h"}.', "JSON"),
    ),
    Field(
        name="filter",
        kind=Kind(
            lambda value, where, reading: read_filter(reading.given, value, where),
            {"type": "array", "maxItems": MAX_CONDITIONS, "items": ref("FilterCondition")},
            list[Condition],
            lambda conditions: [write_condition(one) for one in conditions],
            needs=True,
            empty=[],
        ),
        meaning="An event must meet all of these conditions; it is dropped otherwise.",
        shows="the conditions that an event must meet; it is dropped otherwise.",
        form=Input(
            "Filter",
            note='JSON: conditions that an event must meet, such as [{"pointer": "/data/key/fromMe", "op": '
            '"equals", "value": false}]. Others are dropped.',
        ),
        option=Option(
            "Only events that meet this condition, such as '/data/key/fromMe=false'; repeatable.", "CONDITION"
        ),
    ),
    Field(
        name="plugins",
        kind=Kind(_check_plugins, ref("PluginBlocks"), dict[str, Any], empty={}),
        meaning="Options for plugins, an object for each.",
        shows="options of plugins, one object per plugin.",
        show=lambda registration, showing: showing.secret_options.masked(registration.plugins),
        unmask=lambda given, stored, options: options.unmasked(given, stored or {}),
        is_secret=True,
        form=Input("Options of plugins", note='JSON, such as {"message_filters": {"deny": ["*@g.us"]}}.'),
        option=Option("Plugin options, by plugin name.", "JSON"),
    ),
    Field(
        name="tls",
        kind=Parts(
            "Tls",
            "How hookgw and the receiver identify themselves in TLS; empty if the gateway's settings apply.",
            TLS_PARTS,
            TlsIdentity,
            is_closed=True,
            whole=check_whole,
            legend="For receivers with a private authority, or that want a certificate. Each is the text of "
            "a PEM file.",
        ),
        meaning="How hookgw and the receiver identify themselves in TLS. It replaces the stored identity as "
        "a whole; an empty object removes that. It has no effect on http URLs.",
        shows="how hookgw and the receiver identify themselves in TLS.",
        unmask=lambda given, stored, _: unmask_tls(given, stored or NO_IDENTITY),
        heading="TLS",
    ),
)
"""What clients write, in the order of documents, forms and commands."""
GRACE = Field(
    name="grace",
    kind=Period(0, 30 * DAY),
    meaning="How long the old secret keeps signing; 24h by default.",
    when_set=DEFAULT_GRACE,
    form=Input("The former one signs for", "24h, or such as 1h; 0s ends it"),
    option=Option("How long the old secret also signs.", "DURATION", default="24h"),
)

AUDITED: Audited = {one.attribute: (one.json, one.audit) for one in FIELDS} | {
    "paused_at": ("paused", lambda at: text_of(at is not None))
}
"""The other fields of the record follow from these, or say how it went."""


def state_of(registration: Registration) -> tuple[Literal["active", "paused", "disabled"], str | None]:
    """Return the state, and why the registration is not active."""
    if not registration.enabled:
        return "disabled", registration.disabled_reason or "It was set with enabled: false."
    if registration.paused_at is not None:
        return "paused", f"It was paused at {rfc3339(registration.paused_at)}; it waits for a resume."
    return "active", None


BEFORE = (
    Shown("id", str, "never changes."),
    Shown("instance", str, "the instance's name.", instead="the instance here is {instance}."),
    Shown(
        "label",
        str,
        "unique within the instance.",
        instead="the label here is {label}. For another one, use /webhook/set/{instance}/<label>.",
    ),
)
AFTER = (
    Shown("created_at", Time, "when it was first set.", lambda one, _: rfc3339(one.created_at)),
    Shown("updated_at", Time, "when it was last set.", lambda one, _: rfc3339(one.updated_at)),
    Shown("instance_id", str, "the instance's id.", lambda _, showing: showing.instance_id),
    Shown(
        "paused",
        bool,
        "whether its deliveries wait for a resume.",
        lambda one, _: one.is_paused,
        "use /webhook/pause/{instance}/{label} and /webhook/resume/{instance}/{label}.",
    ),
    Shown(
        "state",
        Literal["active", "paused", "disabled"],
        "whether it is active.",
        lambda one, _: state_of(one)[0],
        "it follows from enabled, /webhook/pause and /webhook/resume.",
    ),
    Shown("state_reason", str | None, "why it is not active.", lambda one, _: state_of(one)[1]),
    Shown(
        "warnings",
        list[str],
        "fields of the request that were ignored, and problems with the URL.",
        lambda _, showing: list(showing.warnings),
    ),
    Shown(
        "job",
        str,
        "the job that makes its pending deliveries dead letters, if it was disabled, or that sends what it "
        "has missed, if it was enabled with `backfill`, and that takes long.",
        is_optional=True,
    ),
    Shown(
        "missed",
        MissedCount,
        "what it has missed, if this call has enabled it.",
        is_optional=True,
    ),
)
LISTED = (
    Shown(
        "source",
        Literal["api", "configuration"],
        "`configuration` for one of `global_webhooks`, which receives the events of every instance. Its "
        "`instance` and `instanceId` are `*`, and only the configuration can change it.",
        lambda one, _: "configuration" if is_global(one.id) else "api",
    ),
)
CREATED = (
    # In the response to an instance's create, clients of Evolution API read these.
    Shown(
        "webhook_url", str, "the same as `url`.", lambda registration, _: with_masked_user(registration.url)
    ),
    Shown(
        "webhook_headers",
        dict[str, str],
        "the same as `headers`.",
        lambda registration, _: dict.fromkeys(registration.headers, MASK),
        is_secret=True,
    ),
)
SHOWN = (*BEFORE, *FIELDS, *AFTER)
"""What responses have, in their order; lists also have those in :data:`LISTED`."""
READ_ONLY = {row.json: row.instead for row in (*BEFORE, *AFTER, *LISTED)}
"""Fields that responses have beside those of ``set``, and what to do instead of changing them. Clients may
send them back; they change nothing.
"""


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
