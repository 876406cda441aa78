"""The bodies of ``/webhook/set`` and ``/webhook/rotateSecret``. No I/O.

Clients of several gateways send the fields of a registration at the top level or in a ``webhook`` object, in
camel case or snake case, or in any mixture of these. ``docs/http.md`` lists every spelling.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import msgspec

from hookgw.kernel.json_fields import (
    Check,
    Fields,
    T,
    as_bool,
    as_list,
    as_object,
    checked_items,
    duration,
    list_of,
    one_of,
    place,
    whole_number,
)
from hookgw.kernel.rules import (
    check_any_url,
    check_custom_headers,
    check_secret,
    check_url,
    unmask_headers,
    unmask_url,
)
from hookgw.kernel.secret_options import SecretOptions
from hookgw.models.errors import Invalid
from hookgw.models.event_filters import Condition
from hookgw.models.events import Catalog
from hookgw.models.masking import repr_without
from hookgw.models.rates import Rate, parse_rate
from hookgw.models.registrations import (
    DEFAULT_GRACE,
    Ordering,
    Registration,
    RetryOptions,
    Secret,
    in_grace,
    new_registration_id,
    new_secret,
)
from hookgw.models.signing_keys import PRIVATE, SYMMETRIC, Signature
from hookgw.models.tls_identity import NO_IDENTITY, TlsIdentity, expired_part
from hookgw.models.units import DAY
from hookgw.webhooks.filters import read_filter
from hookgw.webhooks.tls import check_tls, unmask_tls

# Each partition is a lane with a task and up to one connection.
MAX_CONCURRENCY = 64
MAX_SCHEDULE = 100
# A registration names the plugins whose options it sets; each unknown name is compared with all known ones.
MAX_PLUGINS = 100
MAX_GRACE = 30 * DAY

READ_ONLY = (
    "id",
    "instance",
    "label",
    "createdAt",
    "updatedAt",
    "instanceId",
    "source",
    "paused",
    "state",
    "stateReason",
    "warnings",
    "job",
)
"""Fields that ``find`` and ``list`` return beside those of ``set``. Clients may send them back; they change
nothing.
"""

_INSTEAD = {
    "instance": "the instance here is {instance}.",
    "label": "the label here is {label}. For another one, use /webhook/set/{instance}/<label>.",
    "paused": "use /webhook/pause/{instance}/{label} and /webhook/resume/{instance}/{label}.",
    "state": "it follows from enabled, /webhook/pause and /webhook/resume.",
}
"""What to do instead of a ``set`` of these fields, which a client may well mean to change."""


class RegistrationChange(msgspec.Struct, frozen=True, kw_only=True):
    """A validated ``set``, or a change of some fields. A field that is ``UNSET`` keeps its stored value.

    Attributes:
        is_set: whether it is a ``set``. That is a fresh start, also for a registration that hookgw disabled,
            and has ``url``, ``enabled`` and ``events``.
    """

    is_set: bool = True
    url: str | msgspec.UnsetType
    enabled: bool | msgspec.UnsetType = True
    events: tuple[str, ...] | msgspec.UnsetType = ()
    by_events: bool | msgspec.UnsetType = msgspec.UNSET
    base64: bool | msgspec.UnsetType = msgspec.UNSET
    headers: dict[str, str] | msgspec.UnsetType = msgspec.UNSET
    secret: Secret | msgspec.UnsetType = msgspec.UNSET
    signature: Signature | msgspec.UnsetType = msgspec.UNSET
    ordering: Ordering | msgspec.UnsetType = msgspec.UNSET
    concurrency: int | msgspec.UnsetType = msgspec.UNSET
    rate: Rate | msgspec.UnsetType | None = msgspec.UNSET
    timeout: float | msgspec.UnsetType | None = msgspec.UNSET
    retry: RetryOptions | msgspec.UnsetType = msgspec.UNSET
    filter: tuple[Condition, ...] | msgspec.UnsetType = msgspec.UNSET
    plugins: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    tls: TlsIdentity | msgspec.UnsetType = msgspec.UNSET

    __repr__ = repr_without("headers", "secret", "plugins")

    def apply(self, old: Registration | None, *, instance: str, label: str, now: float) -> Registration:
        """Return the resulting registration.

        Args:
            old: the stored registration; ``None`` to create one, which takes a ``set``.
            instance, label: the name of a new registration.
            now: seconds since the epoch.

        Raises:
            Invalid: a certificate has expired.
        """
        if self.tls is not msgspec.UNSET and (sentence := expired_part(self.tls, now)) is not None:
            raise Invalid(sentence)
        given = {
            name: value
            for name in (
                "url",
                "enabled",
                "events",
                "by_events",
                "base64",
                "headers",
                "ordering",
                "concurrency",
                "rate",
                "timeout",
                "retry",
                "filter",
                "plugins",
                "tls",
            )
            if (value := getattr(self, name)) is not msgspec.UNSET
        }
        secrets = self._secrets(old, now)
        if secrets:
            given["secrets"] = secrets
        base = old or Registration(
            id=new_registration_id(), instance=instance, label=label, url="", created_at=now
        )
        new = msgspec.structs.replace(base, updated_at=now, **given)
        if self.is_set or (new.enabled and not base.enabled):
            new = msgspec.structs.replace(new, disabled_reason=None, failing_since=None, fresh_since=now)
        elif not new.has_target_of(base):
            # The failures were the former receiver's.
            new = msgspec.structs.replace(new, failing_since=None)
        # Deliveries in the former lanes are found by their generation, and moved.
        is_redivided = old is not None and new.partitioning != old.partitioning
        return msgspec.structs.replace(new, generation=new.generation + 1) if is_redivided else new

    def _secrets(self, old: Registration | None, now: float) -> tuple[Secret, ...]:
        if self.secret is not msgspec.UNSET:
            # No grace: a caller that brings a secret has told the receiver, and may be replacing a leak.
            return (self.secret,)
        wanted = Signature.V1 if self.signature is msgspec.UNSET else self.signature
        if old is None:
            return (new_secret(wanted),)
        if self.signature is msgspec.UNSET or wanted is old.signature:
            return ()
        # Another scheme is a rotation: receivers that verify the old one have a day to change.
        return (new_secret(wanted), *in_grace(old.secrets_in_force(now), now, DEFAULT_GRACE))


def parse_registration(
    body: Any, catalog: Catalog, shown: Mapping[str, object] | None = None
) -> tuple[RegistrationChange, list[str]]:
    """Read the body of a ``set``.

    Args:
        body: the decoded JSON.
        catalog: the known event kinds.
        shown: ``instance``, ``label``, ``paused`` and ``state`` of the registration before the ``set``, or as
            they are if it is new. Other values get a warning. ``None`` for no such warnings.

    Returns:
        The change, and a warning for each ignored field.

    Raises:
        Invalid: with every mistake, each with its path as the client wrote it.
    """
    fields = _layers(body)
    change = read_change(fields, catalog)
    fields.ignore("webhook")
    ignore_read_only(fields, shown)
    return change, fields.finish()


def parse_registration_patch(
    body: Any, catalog: Catalog, *, enabled: bool, shown: Mapping[str, object] | None = None
) -> tuple[RegistrationChange, list[str]]:
    """Read the body of a change of some fields, in the spellings of ``set``. A missing field keeps its value.

    Args:
        body: the decoded JSON.
        catalog: the known event kinds.
        enabled: whether the registration is enabled now.
        shown: as for :func:`parse_registration`.

    Returns:
        The change, and a warning for each ignored field.

    Raises:
        Invalid: with every mistake, each with its path as the client wrote it.
    """
    fields = _layers(body)
    change = read_change(fields, catalog, stored_enabled=enabled)
    fields.ignore("webhook")
    ignore_read_only(fields, shown)
    return change, fields.finish()


def ignore_read_only(fields: Fields, shown: Mapping[str, object] | None = None) -> None:
    """Ignore the fields that only ``find`` returns, with a warning for a value other than in ``shown``."""
    fields.ignore(*READ_ONLY)
    for name, value in (shown or {}).items():
        found = fields.find(name)
        if found is not None and found[1] != value:
            fields.warn([f"{found[0]} was ignored: {_INSTEAD[name].format_map(shown or {})}"])


def _layers(body: Any) -> Fields:
    body = as_object(body, "The body")
    nested = body.get("webhook")
    if nested is None:
        return Fields(("", body))
    if isinstance(nested, str):
        return Fields(("", {**body, "url": nested}))
    return Fields(("webhook", as_object(nested, "webhook")), ("", body))


def read_change(
    fields: Fields, catalog: Catalog, *, stored_enabled: bool | None = None
) -> RegistrationChange:
    """Read the fields of a registration. Mistakes stay in ``fields`` until they are finished.

    Args:
        fields: of the request.
        catalog: the known event kinds.
        stored_enabled: ``None`` for a ``set``, which needs a URL. For a change of some fields, whether the
            registration is enabled now.
    """
    is_set = stored_enabled is None
    given_enabled = _kept(fields, as_bool, "enabled")
    if given_enabled is not msgspec.UNSET:
        enabled = given_enabled
    else:
        enabled = True if stored_enabled is None else stored_enabled
    secret = _kept(fields, check_secret, "secret")

    def check_kinds(value: Any, where: str) -> tuple[str, ...]:
        items = as_list(value, where)
        # Every kind in each of its spellings is possible; longer lists are refused before they are resolved.
        if len(items) > 4 * len(catalog) + 16:
            raise Invalid(
                f"{where} has {len(items):,} items, but there are only {len(catalog):,} event kinds."
            )
        return tuple(dict.fromkeys(checked_items(check_kind, items, where)))

    def check_kind(value: Any, where: str) -> str:
        kind = catalog.resolve(value, where)
        # Operational events name every tenant's registrations.
        if kind.operational:
            raise Invalid(
                f"{where}: {kind.name} is an operational event; only operations.url receives those."
            )
        return kind.name

    def check_signature(value: Any, where: str) -> Signature:
        signature = Signature(one_of(list(Signature))(value, where))
        if isinstance(secret, Secret) and secret.signature is not signature:
            prefix = PRIVATE if signature is Signature.V1A else SYMMETRIC
            raise Invalid(
                f"{where} is {signature}, but the secret is not: send one that starts with {prefix}."
            )
        return signature

    def check_retry(value: Any, where: str) -> RetryOptions:
        inner = Fields((where, as_object(value, where)))
        options = RetryOptions(
            schedule=inner.pick(list_of(duration(0, 7 * DAY), MAX_SCHEDULE), "schedule"),
            max_age=inner.pick(duration(1, 365 * DAY), "maxAge", "max_age"),
            disable_after=inner.pick(duration(1, 365 * DAY), "disableAfter", "disable_after"),
        )
        fields.warn(inner.finish())
        return options

    # null keeps the stored value like a missing field, because clients send back what find returned. There,
    # rate is null without a limit, and timeout and retry are null when the gateway's settings apply, so null
    # restores those.
    checked_url = check_url if enabled else check_any_url
    url = fields.need(checked_url, "", "url") if is_set else _kept(fields, checked_url, "url")
    events = _kept(fields, check_kinds, "events")
    rate = fields.pick(check_rate, "rate")
    return RegistrationChange(
        is_set=is_set,
        url=url,
        enabled=enabled if is_set else given_enabled,
        events=() if is_set and events is msgspec.UNSET else events,
        by_events=_kept(fields, as_bool, "byEvents", "webhookByEvents", "webhook_by_events", "by_events"),
        base64=_kept(fields, as_bool, "base64", "webhookBase64", "webhook_base64"),
        headers=_kept(fields, check_custom_headers, "headers"),
        secret=secret,
        signature=_kept(fields, check_signature, "signature"),
        ordering=_kept(fields, check_ordering, "ordering"),
        concurrency=_kept(fields, whole_number(1, MAX_CONCURRENCY), "concurrency"),
        rate=None if fields.is_null("rate") else msgspec.UNSET if rate is None else rate[0],
        timeout=None if fields.is_null("timeout") else _kept(fields, duration(0.1, 300), "timeout"),
        retry=RetryOptions() if fields.is_null("retry") else _kept(fields, check_retry, "retry"),
        filter=_kept(fields, partial(read_filter, fields), "filter"),
        plugins=_kept(fields, check_plugins, "plugins"),
        tls=_kept(fields, check_tls, "tls"),
    )


def _kept(fields: Fields, check: Check[T], *spellings: str) -> T | msgspec.UnsetType:
    """Read a field that keeps its stored value if it is missing."""
    value = fields.pick(check, *spellings)
    return msgspec.UNSET if value is None else value


def check_rate(value: Any, where: str) -> tuple[Rate | None]:
    """Check a rate; an empty text means none. In a tuple: ``None`` alone is a field that is missing."""
    if value == "":
        return (None,)
    try:
        return (parse_rate(value),)
    except ValueError as error:
        raise Invalid(f"{where}: {error}.") from None


def check_ordering(value: Any, where: str) -> Ordering:
    return Ordering(one_of(list(Ordering))(value, where))


def check_plugins(value: Any, where: str) -> dict[str, Any]:
    """Check that the options of each plugin are an object; the plugins check the content."""
    blocks = as_object(value, where)
    if len(blocks) > MAX_PLUGINS:
        raise Invalid(f"{where} has {len(blocks):,} plugins; at most {MAX_PLUGINS} are allowed.")
    problems: list[str] = []
    for name, block in blocks.items():
        try:
            as_object(block, place(where, name))
        except Invalid as error:
            problems += error.messages
    if problems:
        raise Invalid(*problems)
    return blocks


def unmask_change(
    change: RegistrationChange, old: Registration | None, secret_options: SecretOptions
) -> RegistrationChange:
    """Return a change with the stored values in place of masks.

    Raises:
        Invalid: something is masked that is not stored.
    """
    if change.url is not msgspec.UNSET:
        change = msgspec.structs.replace(change, url=unmask_url(change.url, old.url if old else None))
    if change.headers is not msgspec.UNSET:
        headers = unmask_headers(change.headers, old.headers if old else {})
        change = msgspec.structs.replace(change, headers=headers)
    if change.plugins is not msgspec.UNSET:
        plugins = secret_options.unmasked(change.plugins, old.plugins if old else {})
        change = msgspec.structs.replace(change, plugins=plugins)
    if change.tls is not msgspec.UNSET:
        tls = unmask_tls(change.tls, old.tls if old else NO_IDENTITY)
        change = msgspec.structs.replace(change, tls=tls)
    return change


def parse_grace(body: Any) -> float:
    """Read the body of a ``rotateSecret``.

    Args:
        body: the decoded JSON; ``None`` for no body.

    Returns:
        For how many seconds the old secret keeps signing.

    Raises:
        Invalid: the body is not an object, ``grace`` is not a duration up to :data:`MAX_GRACE`, or a field is
            unknown.
    """
    fields = Fields(("", as_object({} if body is None else body, "The body")))
    grace = fields.read(duration(0, MAX_GRACE), DEFAULT_GRACE, "grace")
    # With a misspelt field, a secret that leaked would stay valid for the default time.
    fields.refuse_unknown("a rotation")
    fields.finish()
    return grace
