"""The bodies of ``/webhook/set``: one meaning, many spellings. No I/O.

Clients of several gateways send the fields at the top level or in a ``webhook`` object, in camel case
or snake case, or mix all of that. ``docs/http.md`` lists what is taken.
"""

from __future__ import annotations

from typing import Any

import msgspec

from hookgw.models.errors import Invalid
from hookgw.models.events import Catalog, EventKind
from hookgw.models.registrations import DEFAULT_GRACE, Ordering, RegistrationChange, RetryOptions, Secret
from hookgw.models.signing_keys import PRIVATE, SYMMETRIC, Signature, check_secret_form
from hookgw.models.target_url import parse_target
from hookgw.models.units import DAY
from hookgw.parsing.fields import (
    Check,
    Fields,
    T,
    as_bool,
    as_list,
    as_object,
    as_text,
    checked_items,
    duration,
    list_of,
    one_of,
    place,
    whole_number,
)
from hookgw.parsing.headers import check_headers

MAX_URL = 2048
MAX_CONCURRENCY = 64
MAX_SCHEDULE = 100
MAX_GRACE = 30 * DAY

READ_ONLY = (
    "id",
    "instance",
    "label",
    "createdAt",
    "updatedAt",
    "instanceId",
    "state",
    "stateReason",
    "warnings",
)
"""What ``find`` shows beside the fields of ``set``: it may be sent back, and changes nothing."""


def parse_registration(body: Any, catalog: Catalog) -> tuple[RegistrationChange, list[str]]:
    """What the body of a ``set`` asks for.

    Args:
        body: the decoded JSON.
        catalog: the known event kinds.

    Returns:
        The change, and warnings about what was ignored.

    Raises:
        Invalid: with everything that breaks a rule, each with its path as the caller wrote it.
    """
    fields = _layers(as_object(body, "The body"))
    change = read_change(fields, catalog)
    fields.ignore("webhook", *READ_ONLY)
    return change, fields.finish()


def _layers(body: dict[str, Any]) -> Fields:
    nested = body.get("webhook")
    if nested is None:
        return Fields(("", body))
    if isinstance(nested, str):
        return Fields(("", {**body, "url": nested}))
    return Fields(("webhook", as_object(nested, "webhook")), ("", body))


def read_change(fields: Fields, catalog: Catalog) -> RegistrationChange:
    """The change that the fields ask for; what is wrong stays with the fields until they are finished."""
    enabled = fields.read(as_bool, True, "enabled")
    secret = _kept(fields, check_secret, "secret")
    return RegistrationChange(
        url=fields.need(check_url if enabled else _any_url, "", "url"),
        enabled=enabled,
        events=fields.read(_kinds(catalog), (), "events"),
        by_events=_kept(fields, as_bool, "byEvents", "webhookByEvents", "webhook_by_events", "by_events"),
        base64=_kept(fields, as_bool, "base64", "webhookBase64", "webhook_base64"),
        headers=_kept(fields, check_headers, "headers"),
        secret=secret,
        signature=_signature(fields, secret),
        ordering=_kept(fields, _ordering, "ordering"),
        concurrency=_kept(fields, whole_number(1, MAX_CONCURRENCY), "concurrency"),
        timeout=_timeout(fields),
        retry=_retry(fields),
        plugins=_kept(fields, _plugins, "plugins"),
    )


def _kept(fields: Fields, check: Check[T], *spellings: str) -> T | msgspec.UnsetType:
    """A field that keeps its stored value where it is left out."""
    value = fields.pick(check, *spellings)
    return msgspec.UNSET if value is None else value


def _timeout(fields: Fields) -> float | msgspec.UnsetType | None:
    """Where it is ``null``, the gateway's timeout holds again."""
    if fields.is_null("timeout"):
        return None
    return _kept(fields, duration(0.1, 300), "timeout")


def check_url(value: Any, where: str) -> str:
    """A URL that deliveries can go to."""
    url = as_text(value, where)
    try:
        parse_target(url)
    except ValueError as error:
        raise Invalid(f"{where}: {error}") from None
    return url


def _any_url(value: Any, where: str) -> str:
    """The URL of a registration that hears nothing: any string (n8n sends ``"vazio"``)."""
    url = as_text(value, where)
    if len(url) > MAX_URL:
        raise Invalid(f"{where} has {len(url):,} characters; at most {MAX_URL:,} are taken.")
    return url


def _kinds(catalog: Catalog) -> Check[tuple[str, ...]]:
    def check(value: Any, where: str) -> tuple[str, ...]:
        items = as_list(value, where)
        if len(items) > 4 * len(catalog) + 16:
            raise Invalid(
                f"{where} has {len(items):,} items, but there are only {len(catalog):,} event kinds."
            )
        kinds = checked_items(lambda item, at: _heard(catalog.resolve(item, at), at), items, where)
        return tuple(dict.fromkeys(kinds))

    return check


def _heard(kind: EventKind, where: str) -> str:
    if kind.operational:
        raise Invalid(f"{where}: {kind.name} is an operational event; it goes to operations.url alone.")
    return kind.name


def check_secret(value: Any, where: str) -> Secret:
    """A signing secret as Standard Webhooks writes it: ``whsec_…``, or ``whsk_…`` for ed25519."""
    text = as_text(value, where)
    try:
        check_secret_form(text)
    except ValueError as error:
        raise Invalid(f"{where} {error}") from None
    return Secret(text)


def _signature(fields: Fields, secret: Secret | msgspec.UnsetType) -> Signature | msgspec.UnsetType:
    """How to sign; a secret that is given must be one for it."""

    def check(value: Any, where: str) -> Signature:
        signature = Signature(one_of([signature.value for signature in Signature])(value, where))
        if isinstance(secret, Secret) and secret.signature is not signature:
            wanted = PRIVATE if signature is Signature.V1A else SYMMETRIC
            raise Invalid(
                f"{where} is {signature}, and the secret is not for it: give one that begins with {wanted}."
            )
        return signature

    return _kept(fields, check, "signature")


def _ordering(value: Any, where: str) -> Ordering:
    return Ordering(one_of([ordering.value for ordering in Ordering])(value, where))


def _retry(outer: Fields) -> RetryOptions | msgspec.UnsetType:
    """Where it is ``null``, or a part of it is left out, the gateway's rules hold again."""
    if outer.is_null("retry"):
        return RetryOptions()

    def check(value: Any, where: str) -> RetryOptions:
        fields = Fields((where, as_object(value, where)))
        options = RetryOptions(
            schedule=fields.pick(list_of(duration(0, 7 * DAY), MAX_SCHEDULE), "schedule"),
            max_age=fields.pick(duration(1, 365 * DAY), "maxAge", "max_age"),
            disable_after=fields.pick(duration(1, 365 * DAY), "disableAfter", "disable_after"),
        )
        outer.warn(fields.finish())
        return options

    return _kept(outer, check, "retry")


def _plugins(value: Any, where: str) -> dict[str, Any]:
    blocks = as_object(value, where)
    problems: list[str] = []
    for name, block in blocks.items():
        try:
            as_object(block, place(where, name))
        except Invalid as error:
            problems += error.messages
    if problems:
        raise Invalid(*problems)
    return blocks


def parse_grace(body: Any) -> tuple[float, list[str]]:
    """For how long the old secret goes on signing, in seconds, and warnings. ``None`` for no body.

    Raises:
        Invalid: the body is no object, or ``grace`` no duration up to :data:`MAX_GRACE`.
    """
    fields = Fields(("", as_object({} if body is None else body, "The body")))
    grace = fields.read(duration(0, MAX_GRACE), DEFAULT_GRACE, "grace")
    return grace, fields.finish()
