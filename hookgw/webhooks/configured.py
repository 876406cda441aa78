"""The registrations of the configuration: ``global_webhooks`` and ``operations.url``.

They have no record in the store: the configuration is their record. The store keeps only facts that must
outlive a restart and are not in the configuration: a generated secret, and the registration's URL and lanes
at the last start, so that pending deliveries follow it to another URL or to other lanes.

These facts are stored by label. A block without a label gets one made of its URL, without user and password,
so that the order of the blocks in the file means nothing.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from hookgw.config.settings import OperationsSettings
from hookgw.core.audit import Audit, acting_as
from hookgw.core.audited_changes import registration_changed
from hookgw.kernel.errors import ConfigError, Invalid
from hookgw.kernel.sentences import Sentence
from hookgw.kernel.signing_keys import Secret, signature_of
from hookgw.records.audit import CONFIGURATION, AuditEntry
from hookgw.records.events import Catalog
from hookgw.records.instances import check_name
from hookgw.records.operational_kinds import OPERATIONS_ID
from hookgw.records.registrations import GLOBAL_ID_PREFIX, GLOBAL_INSTANCE, Ordering, Registration, new_secret
from hookgw.records.tls_identity import NO_IDENTITY
from hookgw.store import Store
from hookgw.store.fleet import DISABLED_WEBHOOK
from hookgw.webhooks.change import read_change, registration_fields
from hookgw.webhooks.fields import AUDITED, READ_ONLY
from hookgw.webhooks.tls import unmask_tls

DEFAULT_CONCURRENCY = 16
"""Attempts that a global webhook makes at a time, unless it has an ``ordering`` or a ``concurrency``."""

_EVERY_INSTANCE = "a global webhook receives the events of every instance"
_WHY_NOT_SET = {
    "instance": _EVERY_INSTANCE,
    "instanceId": _EVERY_INSTANCE,
    "label": "write label beside webhook",
    "paused": "a global webhook has no pause; use enabled: false",
    "state": "it follows from enabled",
}
"""Why a block cannot set a field that the API only shows. The others are hookgw's."""


class _LastStart(msgspec.Struct):
    """The facts of a registration that its last start stored."""

    url: str
    ordering: Ordering
    concurrency: int
    generation: int


class ParsedWebhook(NamedTuple):
    """A registration of ``global_webhooks``, and whether its block gives the secret."""

    registration: Registration
    has_secret: bool


def parse_global_webhooks(
    blocks: Sequence[dict[str, Any]],
    catalog: Catalog,
    check_options: Callable[[Registration], None] = lambda _: None,
) -> tuple[ParsedWebhook, ...]:
    """Return the registrations of ``global_webhooks``.

    Args:
        blocks: each is the body of a ``set``, with a ``label``.
        check_options: raises ``Invalid`` if a plugin refuses its options.

    Raises:
        ConfigError: with every problem and its place.
    """
    found: dict[str, ParsedWebhook] = {}
    places: dict[str, str] = {}
    problems: list[str] = []
    for index, block in enumerate(blocks):
        place = f"global_webhooks[{index}]"
        try:
            parsed = _parse(block, catalog)
            check_options(parsed.registration)
        except Invalid as error:
            problems += (f"{place}.{message}" for message in error.messages)
            continue
        label = parsed.registration.label
        if label in found:
            if block.get("label") is None:
                problems.append(
                    Sentence(
                        "configured.same_url",
                        "{place} has the same URL as {other}; give each of them a label.",
                        place=place,
                        other=places[label],
                    )
                )
            else:
                problems.append(
                    Sentence(
                        "configured.same_label",
                        "{place}.label: {label!r} is used twice; give each block its own.",
                        place=place,
                        label=label,
                    )
                )
        found[label] = parsed
        places[label] = place
    if problems:
        raise ConfigError(*problems)
    return tuple(found.values())


async def read_global_webhooks(
    parsed: Iterable[ParsedWebhook], store: Store, audit: Audit | None = None
) -> tuple[Registration, ...]:
    """Return the registrations of ``global_webhooks``, with their secrets and the facts of the last start.

    Args:
        audit: records the differences from the last start; ``None`` if the caller records them.

    Raises:
        StorageUnavailable: the disk refuses.
    """
    registrations = []
    for registration, has_secret in parsed:
        prefix = f"global_webhooks.{registration.label}"
        if not has_secret:
            kept = await store.get_value(f"{prefix}.secret")
            if isinstance(kept, str) and signature_of(kept) is registration.signature:
                registration = msgspec.structs.replace(registration, secrets=(Secret(kept),))
            else:
                await store.put_value(f"{prefix}.secret", registration.secrets[0].value)
        # A 410 disables it until the next start. In a fleet this is the start of any node.
        if await store.get_value(f"{DISABLED_WEBHOOK}{registration.label}") is not None:
            await store.put_value(f"{DISABLED_WEBHOOK}{registration.label}", None)
        if registration.enabled:  # what waits for a disabled one stays where it is, and becomes dead letters
            registration = await _follow(registration, f"{prefix}.last_start", store, audit)
        registrations.append(registration)
    return tuple(registrations)


async def read_operations(
    settings: OperationsSettings, store: Store, audit: Audit | None = None
) -> Registration | None:
    """Return the registration for operational events; ``None`` if ``operations.url`` is not set.

    It has one lane, is never disabled, and no event of an instance goes to it.

    Raises:
        StorageUnavailable: the disk refuses.
    """
    if settings.url is None:
        return None
    secret = settings.secret
    if secret is None:
        kept = await store.get_value("operations.secret")
        secret = kept if isinstance(kept, str) else new_secret().value
        if secret != kept:
            await store.put_value("operations.secret", secret)
    registration = Registration(
        id=OPERATIONS_ID,
        instance=GLOBAL_INSTANCE,
        label=OPERATIONS_ID,
        url=settings.url,
        headers=settings.headers,
        secrets=(Secret(secret),),
    )
    return await _follow(registration, "operations.last_start", store, audit)


def _parse(block: dict[str, Any], catalog: Catalog) -> ParsedWebhook:
    fields = {name: value for name, value in block.items() if name != "label"}
    given = registration_fields(fields)
    change = read_change(given, catalog)
    given.ignore("webhook", "label", *READ_ONLY)
    given.refuse_unknown("a webhook")
    # The API returns warnings to its caller. A warning about a file would not be seen, so here it is an
    # error.
    problems = [
        *given.problems,
        *(f"{warning.removesuffix('; it was ignored.')}." for warning in given.warnings),
    ]
    # Nor does a file send back fields of responses, as the API's callers do.
    nested = fields.get("webhook")
    for prefix, layer in (("", fields), ("webhook.", nested if isinstance(nested, dict) else {})):
        problems += (
            f"{prefix}{name} cannot be set here: {_WHY_NOT_SET.get(name, 'hookgw sets it')}."
            for name in layer
            if name in READ_ONLY
        )
    if problems:
        raise Invalid(*problems)
    if change.ordering is msgspec.UNSET and change.concurrency is msgspec.UNSET:
        # A refused event of one instance must not hold up the other instances.
        change = msgspec.structs.replace(change, ordering=Ordering.INSTANCE, concurrency=DEFAULT_CONCURRENCY)
    if change.tls is not msgspec.UNSET:  # no key is stored here that a mask could stand for
        unmask_tls(change.tls, NO_IDENTITY)
    # At no time: an expired certificate fails the attempts of one webhook, and must not stop the start.
    registration = change.apply(None, instance=GLOBAL_INSTANCE, label="", now=0.0)
    default = f"webhook-{zlib.crc32(registration.address.encode()):08x}"
    label = check_name(block.get("label", default), "label")
    registration = msgspec.structs.replace(registration, id=f"{GLOBAL_ID_PREFIX}{label}", label=label)
    return ParsedWebhook(registration, has_secret=change.secret is not msgspec.UNSET)


async def _follow(registration: Registration, key: str, store: Store, audit: Audit | None) -> Registration:
    """Return the registration with its generation; deliveries that wait for a former URL are due at once."""
    value = await store.get_value(key)
    try:
        last = None if value is None else msgspec.convert(value, _LastStart)
    except msgspec.ValidationError:
        last = None
    generation, former = 0, None
    if last is not None:
        former = msgspec.structs.replace(
            registration,
            url=registration.url if last.url == registration.address else last.url,
            ordering=last.ordering,
            concurrency=last.concurrency,
        )
        generation = last.generation + (former.partitioning != registration.partitioning)
    # Without user and password: the configuration is their place, not the data file.
    now = _LastStart(registration.address, registration.ordering, registration.concurrency, generation)
    if last is not None and last.url != registration.address:
        await store.make_due(registration.id)
    if now != last:
        entries: list[AuditEntry] = []
        if audit is not None:
            with acting_as(CONFIGURATION):
                entries = registration_changed(audit, AUDITED, former, registration, None)
        await store.put_value(key, msgspec.to_builtins(now), audit=entries)
    return msgspec.structs.replace(registration, generation=generation)
