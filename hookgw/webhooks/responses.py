"""Responses about registrations."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from hookgw.kernel.schema_parts import Length, Time
from hookgw.kernel.secret_options import SecretOptions
from hookgw.models import event_filters
from hookgw.models import registrations as records
from hookgw.models.clock import rfc3339
from hookgw.models.event_filters import FilterOp
from hookgw.models.events import Catalog
from hookgw.models.masking import MASK, repr_without, with_masked_user
from hookgw.models.rates import RATE_PATTERN
from hookgw.models.registrations import Ordering, is_global
from hookgw.models.signing_keys import Signature, public_key_of
from hookgw.models.tls_identity import TlsIdentity
from hookgw.models.units import Duration

Whpk = Annotated[str, Meta(pattern="^whpk_", examples=["whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4="])]


class Secret(Struct, frozen=True, rename="camel"):
    """What verifies deliveries, in the format of Standard Webhooks.

    Attributes:
        secret: the newest signing secret, with signatures v1.
        public_key: the newest public key, with signatures v1a. hookgw never shows the private key.
    """

    secret: (
        Annotated[str, Meta(pattern="^whsec_", examples=["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"])]
        | UnsetType
    ) = UNSET
    public_key: Whpk | UnsetType = UNSET

    __repr__ = repr_without("secret")


class PublicKey(Struct, frozen=True, rename="camel"):
    """What verifies signatures v1a, in the format of Standard Webhooks.

    Attributes:
        public_key: the newest public key.
    """

    public_key: Whpk


class Retry(Struct, frozen=True, rename="camel"):
    """A registration's own retry rules; ``null`` for the gateway's setting.

    Attributes:
        schedule: the waits after failed attempts.
        max_age: how long a delivery waits for an unreachable receiver.
        disable_after: how long the registration may fail before hookgw disables it.
    """

    schedule: list[Length] | None
    max_age: Length | None
    disable_after: Length | None


class Condition(Struct, frozen=True):
    """A condition on an event.

    Attributes:
        pointer: a JSON pointer (RFC 6901) into the event.
        op: what is asked of the value there.
        value: what it is compared with.
    """

    pointer: str
    op: FilterOp
    value: Any = UNSET


class Tls(Struct, frozen=True, rename="camel"):
    """How hookgw and the receiver identify themselves in TLS; empty if that is as for everybody.

    Attributes:
        ca: the authorities that may have issued the receiver's certificate, in PEM.
        client_certificate: what hookgw presents, in PEM.
        client_key: masked; a `set` that sends the mask back keeps the stored key.
        server_name: the name in the receiver's certificate.
    """

    ca: str | UnsetType = UNSET
    client_certificate: str | UnsetType = UNSET
    client_key: str | UnsetType = UNSET
    server_name: str | UnsetType = UNSET


class Registration(Struct, frozen=True, kw_only=True, rename="camel"):
    """A stored registration.

    Attributes:
        id: never changes.
        instance: the instance's name.
        label: unique within the instance.
        url: where deliveries go.
        enabled: whether it receives events.
        events: the kinds that it receives, spelled out.
        webhook_by_events: whether the kind is added to the URL's path.
        webhook_base64: whether connectors put media into the event.
        headers: sent with every delivery; values are masked.
        signature: how deliveries are signed.
        ordering: which deliveries keep their order.
        concurrency: how many deliveries may be in progress at once, with an ordering other than `url`.
        rate: the most attempts in a second, a minute or an hour; ``null`` for no limit.
        timeout: of a whole attempt; ``null`` for the gateway's setting.
        retry: its own retry rules.
        filter: the conditions that an event must meet; it is dropped otherwise.
        plugins: options of plugins, one object per plugin.
        tls: how hookgw and the receiver identify themselves in TLS.
        created_at: when it was first set.
        updated_at: when it was last set.
        instance_id: the instance's id.
        paused: whether its deliveries wait for a resume.
        state: whether it is active.
        state_reason: why it is not active.
        warnings: fields of the request that were ignored, and problems with the URL.
        job: the job that makes its pending deliveries dead letters, if it was disabled and that takes long.
    """

    id: str
    instance: str
    label: str
    url: str
    enabled: bool
    events: list[str]
    webhook_by_events: bool
    webhook_base64: bool
    headers: dict[str, str]
    signature: Signature
    ordering: Ordering
    concurrency: int
    rate: Annotated[str, Meta(pattern=RATE_PATTERN, examples=["20/s"])] | None
    timeout: Length | None
    retry: Retry
    filter: list[Condition]
    plugins: dict[str, Any]
    tls: Tls
    created_at: Time
    updated_at: Time
    instance_id: str
    paused: bool
    state: Literal["active", "paused", "disabled"]
    state_reason: str | None
    warnings: list[str]
    job: str | UnsetType = UNSET

    __repr__ = repr_without("headers", "plugins")


class ListedRegistration(Registration, frozen=True, kw_only=True, rename="camel"):
    """A registration in a list.

    Attributes:
        source: `configuration` for one of `global_webhooks`, which receives the events of every instance. Its
            `instance` and `instanceId` are `*`, and only the configuration can change it.
    """

    source: Literal["api", "configuration"]


class RegistrationPage(Struct, frozen=True):
    """A page of registrations, without their secrets.

    Attributes:
        registrations: sorted by instance and label.
        cursor: begins the next page; ``null`` on the last one.
    """

    registrations: list[ListedRegistration]
    cursor: str | None = None


def present_duration(seconds: float | None) -> str | None:
    """Return a duration with its unit, as ``set`` accepts it."""
    return None if seconds is None else str(Duration(seconds))


def present_registration(
    registration: records.Registration,
    instance_id: str,
    catalog: Catalog,
    warnings: list[str],
    secret_options: SecretOptions,
) -> Registration:
    """Return a registration as ``set`` and ``find`` do: headers, URL and options masked, without secrets.

    Args:
        registration: the stored registration.
        instance_id: the id of its instance.
        catalog: lists the kinds if the registration receives every kind.
        warnings: sentences about the request or the URL.
        secret_options: masks the options of plugins.
    """
    state: Literal["active", "paused", "disabled"] = "active"
    reason = None
    if not registration.enabled:
        state, reason = "disabled", registration.disabled_reason or "It was set with enabled: false."
    elif registration.paused_at is not None:
        state, reason = (
            "paused",
            f"It was paused at {rfc3339(registration.paused_at)}; it waits for a resume.",
        )
    retry = registration.retry
    return Registration(
        id=registration.id,
        instance=registration.instance,
        label=registration.label,
        url=with_masked_user(registration.url),  # a `set` that sends the mask back keeps what it hides
        enabled=registration.enabled,
        # Spelled out, as Evolution API does: its clients show this list.
        events=list(registration.events) or [kind.name for kind in catalog if not kind.operational],
        webhook_by_events=registration.by_events,
        webhook_base64=registration.base64,
        headers=dict.fromkeys(registration.headers, MASK),  # most hold a token
        signature=registration.signature,
        ordering=registration.ordering,
        concurrency=registration.concurrency,
        rate=None if registration.rate is None else str(registration.rate),
        timeout=present_duration(registration.timeout),
        retry=Retry(
            schedule=None if retry.schedule is None else [str(Duration(wait)) for wait in retry.schedule],
            max_age=present_duration(retry.max_age),
            disable_after=present_duration(retry.disable_after),
        ),
        filter=[present_condition(condition) for condition in registration.filter],
        plugins=secret_options.masked(registration.plugins),
        tls=_present_tls(registration.tls),
        created_at=rfc3339(registration.created_at),
        updated_at=rfc3339(registration.updated_at),
        instance_id=instance_id,
        paused=registration.is_paused,
        state=state,
        state_reason=reason,
        warnings=warnings,
    )


def _present_tls(identity: TlsIdentity) -> Tls:
    return Tls(
        ca=identity.ca or UNSET,
        client_certificate=identity.client_certificate or UNSET,
        client_key=UNSET if identity.client_key is None else MASK,
        server_name=identity.server_name or UNSET,
    )


def present_condition(condition: event_filters.Condition) -> Condition:
    has_value = condition.op.positive is not FilterOp.EXISTS
    return Condition(condition.pointer, condition.op, condition.value if has_value else UNSET)


def present_listed_registration(
    registration: records.Registration,
    instance_id: str,
    catalog: Catalog,
    secret_options: SecretOptions,
) -> ListedRegistration:
    """Return a registration as in a list; see :func:`present_registration`."""
    shown = present_registration(registration, instance_id, catalog, [], secret_options)
    return ListedRegistration(
        **msgspec.structs.asdict(shown), source="configuration" if is_global(registration.id) else "api"
    )


def present_secret(registration: records.Registration) -> Secret:
    """Return what verifies deliveries: the newest secret, or the public part of the newest ed25519 key."""
    # Only the newest: the others sign for receivers that still hold them.
    newest = registration.secrets[0]
    if newest.signature is Signature.V1A:
        return Secret(public_key=public_key_of(newest.value))
    return Secret(secret=newest.value)
