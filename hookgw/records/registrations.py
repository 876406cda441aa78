"""Registrations: which events go to which URL, and how. No I/O."""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import deepcopy
from enum import StrEnum
from typing import Any

import msgspec

from hookgw.kernel.masking import repr_without, without_user
from hookgw.kernel.randomness import random_hex
from hookgw.kernel.rates import Rate
from hookgw.kernel.schemes import PULL_URL, is_http
from hookgw.kernel.signing_keys import Secret, Signature, make_secret
from hookgw.records.event_filters import Condition
from hookgw.records.tls_identity import NO_IDENTITY, TlsIdentity

DEFAULT_LABEL = "default"
# Seconds for which an old secret signs beside a new one, unless the caller says otherwise.
DEFAULT_GRACE = 86400.0
# Each old secret adds a signature to the header of every delivery.
MOST_OLD_SECRETS = 3
GLOBAL_INSTANCE = "*"
"""The instance of a registration that receives the events of every instance. No instance has this name."""


class Ordering(StrEnum):
    """How much order a registration wants.

    Attributes:
        URL: all of its deliveries in one order.
        INSTANCE: in order for each instance; for registrations that receive the events of many instances.
        CHAT: in order for each chat of each instance.
        NONE: no order.
    """

    URL = "url"
    INSTANCE = "instance"
    CHAT = "chat"
    NONE = "none"


def new_secret(signature: Signature = Signature.V1) -> Secret:
    return Secret(make_secret(signature))


def in_grace(secrets: Sequence[Secret], now: float, grace: float) -> list[Secret]:
    """Return the secrets that keep signing beside a newer one, the newest first.

    At most :data:`MOST_OLD_SECRETS` are kept. A ``grace`` of 0 seconds drops them at once.
    """
    if grace <= 0:
        return []
    # A second rotation must not extend the grace of a secret that is already expiring: it may have leaked.
    ends = [(s, now + grace if s.expires_at is None else min(now + grace, s.expires_at)) for s in secrets]
    return [msgspec.structs.replace(s, expires_at=end) for s, end in ends[:MOST_OLD_SECRETS]]


class RetryOptions(msgspec.Struct, frozen=True):
    """The retry rules of a registration; ``None`` means the gateway's setting.

    Attributes:
        schedule: the waits after *failed* attempts, in seconds.
        max_age: how long an unreachable receiver is waited for, in seconds.
        disable_after: after how many seconds of failures the registration is disabled.
    """

    schedule: tuple[float, ...] | None = None
    max_age: float | None = None
    disable_after: float | None = None


class Registration(msgspec.Struct, frozen=True, kw_only=True):
    """The callback URL, event kinds and options stored for an instance.

    Attributes:
        id: ``reg_`` and random characters; it never changes.
        instance: the instance's name; ``*`` for one of ``global_webhooks``.
        label: the name within the instance.
        url: absolute: of HTTP, or of a scheme of a plugin; or ``pull:`` if the receiver fetches. Any string
            while ``enabled`` is false.
        events: names of kinds; empty for every kind, including kinds added later.
        enabled: whether it receives events.
        disabled_reason: why hookgw disabled it; ``None`` if a person did, or while it is enabled.
        by_events: whether the kind is appended to the URL's path.
        base64: for connectors: whether to put media into the event.
        headers: sent with every delivery.
        secrets: the newest first; expired ones do not sign.
        ordering: see :class:`Ordering`.
        concurrency: how many partitions ``chat`` and ``none`` have; how many attempts ``instance`` makes at a
            time.
        generation: counts the changes of ordering and concurrency; see :mod:`hookgw.records.lanes`.
        rate: the limit on the attempts of all its lanes together; ``None`` for none.
        timeout: of a whole attempt, in seconds; ``None`` means the gateway's setting.
        retry: the registration's retry rules.
        filter: conditions that an event must meet; the others are dropped.
        plugins: options for plugins, by plugin name.
        tls: how connections to an ``https`` URL are made; by default as for all registrations.
        failing_since: the time of the first failure since the last success; ``None`` after a success.
        failed_for: the seconds of failing that are stored beside ``failing_since``, without those in which no
            hookgw ran.
        fresh_since: when a ``set`` stored it, a change enabled it, or a pause ended. Failures from before do
            not count.
        paused_at: since when its deliveries wait, in seconds since the epoch; ``None`` if it is not paused.
        resumed_at: the end of its last pause (steady clock); 0 if there was none. ``max_age`` counts from
            there for older deliveries.
        disabled_at: when it was last disabled (steady clock, as for events); ``None`` if it never was.
        enabled_at: when it was last enabled again (steady clock); 0 if it never was.
        declared_by: the name of the document whose ``apply`` made it; empty if none did.
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
    rate: Rate | None = None
    timeout: float | None = None
    retry: RetryOptions = RetryOptions()
    filter: tuple[Condition, ...] = ()
    plugins: dict[str, Any] = {}
    tls: TlsIdentity = NO_IDENTITY
    failing_since: float | None = None
    failed_for: float = 0.0
    fresh_since: float = 0.0
    paused_at: float | None = None
    resumed_at: float = 0.0
    disabled_at: float | None = None
    enabled_at: float = 0.0
    declared_by: str = ""
    created_at: float = 0.0
    updated_at: float = 0.0

    __repr__ = repr_without("headers", "secrets", "plugins")

    def detached(self) -> Registration:
        """Return an equal registration with copies of its dicts, because plugins may change theirs."""
        return msgspec.structs.replace(self, headers=self.headers.copy(), plugins=deepcopy(self.plugins))

    @property
    def is_paused(self) -> bool:
        """Whether its deliveries wait for a resume. Those of a disabled registration do not wait."""
        return self.paused_at is not None and self.enabled

    def switched(self, old: Registration | None, steady: float) -> Registration:
        """Return the registration with the time at which it was disabled, enabled or resumed, if it just was.

        Args:
            old: the registration before the change; ``None`` for a new one.
            steady: this moment on the steady clock.
        """
        if old is not None and old.paused_at is not None and self.paused_at is None:
            self = msgspec.structs.replace(self, resumed_at=steady)
        if self.enabled is (old is None or old.enabled):
            return self
        if self.enabled:
            # Never the same again: it tells a backfill whether the registration was disabled meanwhile.
            return msgspec.structs.replace(
                self, enabled_at=max(steady, math.nextafter(self.enabled_at, math.inf))
            )
        return msgspec.structs.replace(self, disabled_at=steady)

    def without_future(self, steady: float) -> Registration:
        """Return the registration with what seems to happen later than this moment as happening now.

        The machine's clock was ahead in an earlier process. ``enabled_at`` stays: a backfill knows the
        registration by it, and what is missed only ends later by it.
        """
        if max(self.disabled_at or 0.0, self.resumed_at) <= steady:
            return self
        return msgspec.structs.replace(
            self,
            disabled_at=None if self.disabled_at is None else min(self.disabled_at, steady),
            resumed_at=min(self.resumed_at, steady),
        )

    def paused(self, now: float) -> Registration:
        """Return the registration at the beginning of a pause."""
        return msgspec.structs.replace(self, paused_at=now, updated_at=now)

    def resumed(self, now: float) -> Registration:
        """Return the registration at the end of a pause, which counts neither as age nor as failing."""
        return msgspec.structs.replace(
            self, paused_at=None, failing_since=None, fresh_since=now, updated_at=now
        )

    @property
    def is_pulled(self) -> bool:
        """Whether its receiver fetches the deliveries."""
        return self.url == PULL_URL

    @property
    def address(self) -> str:
        """The URL without user and password, safe to show."""
        return without_user(self.url)

    @property
    def partitioning(self) -> tuple[Ordering, int]:
        """The division into lanes: equal for registrations with equally divided lanes.

        One partition is the order of ``url``, and ``instance`` has as many lanes as there are instances,
        whatever its concurrency.
        """
        if self.ordering is Ordering.INSTANCE:
            return Ordering.INSTANCE, 0
        if self.ordering is Ordering.URL or self.concurrency <= 1:
            return Ordering.URL, 1
        return self.ordering, self.concurrency

    def has_target_of(self, other: Registration) -> bool:
        """Return whether both send the same requests to the same receiver, and so fail together."""
        if self is other:  # asked for every delivery, and a registration rarely changes during an attempt
            return True
        mine = (self.url, self.by_events, self.headers, self.secrets, self.timeout, self.tls)
        if mine != (other.url, other.by_events, other.headers, other.secrets, other.timeout, other.tls):
            return False
        # In HTTP the options of plugins are about the body, which the first attempt fixes. A plugin that
        # sends may read from them where to: a queue, a topic.
        return is_http(self.url) or self.plugins == other.plugins

    @property
    def signature(self) -> Signature:
        """The scheme of its deliveries, which is that of its newest secret."""
        return self.secrets[0].signature if self.secrets else Signature.V1

    def wants(self, kind: str) -> bool:
        """Return whether events of a kind go to this registration."""
        return self.enabled and (not self.events or kind in self.events)

    def secrets_in_force(self, now: float) -> tuple[Secret, ...]:
        """Return the secrets that sign at a time, the newest first."""
        return tuple(s for s in self.secrets if s.expires_at is None or s.expires_at > now)


def new_registration_id() -> str:
    # 96 random bits: ids of deleted registrations stay in the history and must not be used again.
    return "reg_" + random_hex(12)


GLOBAL_ID_PREFIX = "global_"


def is_global(registration_id: str) -> bool:
    """Return whether an id belongs to a registration of the configuration, past or present."""
    return registration_id.startswith(GLOBAL_ID_PREFIX)
