"""Answers about registrations."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from hookgw.api.responses.common import Length, Time
from hookgw.models.registrations import Ordering
from hookgw.models.signing_keys import Signature

Whpk = Annotated[str, Meta(pattern="^whpk_", examples=["whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4="])]


class Secret(Struct, frozen=True, rename="camel"):
    """What verifies the deliveries, as Standard Webhooks writes it.

    Attributes:
        secret: the newest signing secret, with signatures v1.
        public_key: the newest public key, with v1a: the private key is never shown.
    """

    secret: (
        Annotated[str, Meta(pattern="^whsec_", examples=["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"])]
        | UnsetType
    ) = UNSET
    public_key: Whpk | UnsetType = UNSET


class PublicKey(Struct, frozen=True, rename="camel"):
    """What verifies signatures v1a, as Standard Webhooks writes it.

    Attributes:
        public_key: the newest one.
    """

    public_key: Whpk


class Retry(Struct, frozen=True, rename="camel"):
    """A registration's own retry rules. ``null`` where the gateway's setting holds.

    Attributes:
        schedule: the waits after failures.
        max_age: how long an unreachable receiver is waited for.
        disable_after: how long it may fail before it is disabled.
    """

    schedule: list[Length] | None
    max_age: Length | None
    disable_after: Length | None


class Registration(Struct, frozen=True, kw_only=True, rename="camel"):
    """A stored registration.

    Attributes:
        id: stays through every change.
        instance: the instance's name.
        label: its name within the instance.
        url: where deliveries go.
        enabled: whether it hears anything.
        events: the kinds that it hears, all of them spelled out.
        webhook_by_events: the kind is added to the URL's path.
        webhook_base64: connectors put media into the event.
        headers: sent with every delivery; values are masked.
        signature: how deliveries are signed.
        ordering: how much order it wants.
        concurrency: how many deliveries go on at once, without order.
        timeout: of a whole attempt; ``null`` where the gateway's setting holds.
        retry: its own retry rules.
        plugins: options of plugins, an object for each.
        created_at: when it was first set.
        updated_at: when it was last set.
        instance_id: the instance's id.
        state: whether it is at work.
        state_reason: why it is disabled.
        warnings: what was ignored of the request, and what else deserves a look.
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
    timeout: Length | None
    retry: Retry
    plugins: dict[str, Any]
    created_at: Time
    updated_at: Time
    instance_id: str
    state: Literal["active", "disabled"]
    state_reason: str | None
    warnings: list[str]
