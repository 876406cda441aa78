"""Registrations: who hears what, and how. No I/O.

The dialects in which callers write them are read in :mod:`hookgw.parsing`.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from enum import StrEnum
from typing import Any

import msgspec

from hookgw.models.events import Event
from hookgw.models.masking import repr_without
from hookgw.models.signing_keys import Signature, make_secret, signature_of
from hookgw.models.userinfo import without_user

DEFAULT_LABEL = "default"
DEFAULT_GRACE = 86400.0
"""For how long an old secret goes on signing beside a new one, in seconds, if nothing else is said."""
MOST_OLD_SECRETS = 3
"""That sign beside the newest one of a registration: each makes the header of every delivery longer."""
GLOBAL_INSTANCE = "*"
"""The instance of a registration that hears every instance; no instance can have this name."""


class Ordering(StrEnum):
    """How much order a registration wants."""

    URL = "url"
    INSTANCE = "instance"
    CHAT = "chat"
    NONE = "none"


class Secret(msgspec.Struct, frozen=True):
    """A signing secret in the form of Standard Webhooks.

    Attributes:
        value: ``whsec_…``, or ``whsk_…`` for ed25519; see :mod:`hookgw.models.signing_keys`.
        expires_at: seconds since the epoch; ``None`` while it is the newest.
    """

    value: str
    expires_at: float | None = None

    __repr__ = repr_without("value")

    @property
    def signature(self) -> Signature:
        """How it signs."""
        return signature_of(self.value)


def new_secret(signature: Signature = Signature.V1) -> Secret:
    """A fresh secret."""
    return Secret(make_secret(signature))


def in_grace(secrets: Sequence[Secret], now: float, grace: float) -> list[Secret]:
    """Secrets in force, the newest first, as they are once there is a newer one.

    One that is in its grace already keeps its end, where that is sooner. At most
    :data:`MOST_OLD_SECRETS` are kept.
    """
    if grace <= 0:
        return []
    ends = [(s, now + grace if s.expires_at is None else min(now + grace, s.expires_at)) for s in secrets]
    return [msgspec.structs.replace(s, expires_at=end) for s, end in ends[:MOST_OLD_SECRETS]]


class RetryOptions(msgspec.Struct, frozen=True):
    """A registration's own retry rules; ``None`` takes the gateway's. Times in seconds."""

    schedule: tuple[float, ...] | None = None
    max_age: float | None = None
    disable_after: float | None = None


class Registration(msgspec.Struct, frozen=True, kw_only=True):
    """The callback URL, event kinds and options stored for an instance.

    Attributes:
        id: ``reg_`` and random characters; it stays through every change.
        instance: the instance's name, or :data:`GLOBAL_INSTANCE`.
        label: its name within the instance.
        url: absolute ``http`` or ``https``; while ``enabled`` is false it may be any string.
        events: names of kinds; empty for every kind, also those added later.
        enabled: whether it hears anything.
        disabled_reason: why hookgw disabled it; ``None`` where a person did, or it is enabled.
        by_events: add the kind to the URL's path.
        base64: handed to connectors: they put media into the event when it is true.
        headers: sent with every delivery.
        secrets: the newest first; those that expired no longer sign.
        ordering: see :class:`Ordering`.
        concurrency: how many partitions ``chat`` and ``none`` have; how many attempts ``instance`` makes at
            a time.
        generation: counts the changes of ordering and concurrency; see :mod:`hookgw.models.lanes`.
        timeout: of a whole attempt, in seconds; ``None`` takes the gateway's.
        retry: its own retry rules.
        plugins: options of plugins, by plugin name.
        failing_since: when the first of an unbroken row of failures was; ``None`` while it works.
        created_at, updated_at: seconds since the epoch.
    """

    id: str
    instance: str
    label: str = DEFAULT_LABEL
    url: str
    events: tuple[str, ...] = ()
    enabled: bool = True
    disabled_reason: str | None = None
    by_events: bool = False
    base64: bool = False
    headers: dict[str, str] = {}
    secrets: tuple[Secret, ...] = ()
    ordering: Ordering = Ordering.URL
    concurrency: int = 1
    generation: int = 0
    timeout: float | None = None
    retry: RetryOptions = RetryOptions()
    plugins: dict[str, Any] = {}
    failing_since: float | None = None
    created_at: float = 0.0
    updated_at: float = 0.0

    __repr__ = repr_without("headers", "secrets", "plugins")

    @property
    def address(self) -> str:
        """The URL without user and password, which others may see."""
        return without_user(self.url)

    @property
    def partitioning(self) -> tuple[Ordering, int]:
        """What divides its deliveries among lanes: equal for registrations with equally divided lanes.

        One partition is the order of ``url``, and ``instance`` has as many lanes as there are instances,
        whatever its concurrency.
        """
        if self.ordering is Ordering.INSTANCE:
            return Ordering.INSTANCE, 0
        if self.ordering is Ordering.URL or self.concurrency <= 1:
            return Ordering.URL, 1
        return self.ordering, self.concurrency

    def has_target_of(self, other: Registration) -> bool:
        """Return whether both send the same requests to the same receiver, so that a failure of one is a
        failure of the other."""
        return (self.url, self.by_events, self.headers, self.secrets, self.timeout) == (
            other.url,
            other.by_events,
            other.headers,
            other.secrets,
            other.timeout,
        )

    @property
    def signature(self) -> Signature:
        """How its deliveries are signed: as its newest secret signs."""
        return self.secrets[0].signature if self.secrets else Signature.V1

    def wants(self, kind: str) -> bool:
        """Whether events of that kind go to it."""
        return self.enabled and (not self.events or kind in self.events)

    def secrets_in_force(self, now: float) -> tuple[Secret, ...]:
        """The secrets that sign at that time, the newest first."""
        return tuple(s for s in self.secrets if s.expires_at is None or s.expires_at > now)


def new_registration_id() -> str:
    """A fresh registration id."""
    return "reg_" + secrets.token_hex(12)


def chat_of(event: Event) -> str:
    """The chat an event belongs to (``data.key.remoteJid``, or ``data.remoteJid``); empty if none."""
    data = event.data
    if not isinstance(data, dict):
        return ""
    key = data.get("key")
    jid = key.get("remoteJid") if isinstance(key, dict) else data.get("remoteJid")
    return jid if isinstance(jid, str) else ""


class RegistrationChange(msgspec.Struct, frozen=True, kw_only=True):
    """What a ``set`` asks for, its rules checked. What is ``UNSET`` keeps its stored value."""

    url: str
    enabled: bool = True
    events: tuple[str, ...] = ()
    by_events: bool | msgspec.UnsetType = msgspec.UNSET
    base64: bool | msgspec.UnsetType = msgspec.UNSET
    headers: dict[str, str] | msgspec.UnsetType = msgspec.UNSET
    secret: Secret | msgspec.UnsetType = msgspec.UNSET
    signature: Signature | msgspec.UnsetType = msgspec.UNSET
    ordering: Ordering | msgspec.UnsetType = msgspec.UNSET
    concurrency: int | msgspec.UnsetType = msgspec.UNSET
    timeout: float | msgspec.UnsetType | None = msgspec.UNSET
    retry: RetryOptions | msgspec.UnsetType = msgspec.UNSET
    plugins: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET

    __repr__ = repr_without("headers", "secret", "plugins")

    def apply(self, old: Registration | None, *, instance: str, label: str, now: float) -> Registration:
        """The registration that results, from the stored one or from nothing."""
        given = {
            name: value
            for name in (
                "by_events",
                "base64",
                "headers",
                "ordering",
                "concurrency",
                "timeout",
                "retry",
                "plugins",
            )
            if (value := getattr(self, name)) is not msgspec.UNSET
        }
        secrets = self._secrets(old, now)
        if secrets:
            given["secrets"] = secrets
        base = old or Registration(
            id=new_registration_id(), instance=instance, label=label, url=self.url, created_at=now
        )
        new = msgspec.structs.replace(
            base,
            url=self.url,
            enabled=self.enabled,
            events=self.events,
            disabled_reason=None,
            failing_since=None,
            updated_at=now,
            **given,
        )
        # Deliveries in the former lanes are found by their generation, and moved.
        is_redivided = old is not None and new.partitioning != old.partitioning
        return msgspec.structs.replace(new, generation=new.generation + 1) if is_redivided else new

    def _secrets(self, old: Registration | None, now: float) -> tuple[Secret, ...]:
        """The new secrets; none where the stored ones stay. Another way to sign is a rotation."""
        if self.secret is not msgspec.UNSET:
            return (self.secret,)
        wanted = Signature.V1 if self.signature is msgspec.UNSET else self.signature
        if old is None:
            return (new_secret(wanted),)
        if self.signature is msgspec.UNSET or wanted is old.signature:
            return ()
        return (new_secret(wanted), *in_grace(old.secrets_in_force(now), now, DEFAULT_GRACE))


GLOBAL_ID_PREFIX = "global_"


def is_global(registration_id: str) -> bool:
    """Whether the id is that of a registration of the configuration, present or former."""
    return registration_id.startswith(GLOBAL_ID_PREFIX)
