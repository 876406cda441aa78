"""What every lane works with: Protocols of the gateway's parts, and the plan for one registration. No I/O."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from hookgw.concurrency.clock import Clock
from hookgw.concurrency.tasks import TaskFailed
from hookgw.config.settings import DeliverySettings
from hookgw.delivery.http.errors import DeliveryError
from hookgw.delivery.http.pools import ConnectionPools
from hookgw.delivery.http.transport import LaneTransport
from hookgw.delivery.sender import AttemptResult, RequestTemplate, template_for
from hookgw.fair import Share
from hookgw.kernel.errors import PluginFailed
from hookgw.lanes.lane_queue import MemoryClaim
from hookgw.lanes.rate_limit import RateLimit, RateLimits
from hookgw.lanes.retry_policy import Policy, policy_of
from hookgw.records.deliveries import Attempt, Delivery, LaneState, LaneStatistics, Settlement
from hookgw.records.events import Event
from hookgw.records.registrations import Registration
from hookgw.store import History, Outbox


class LaneMonitor(Protocol):
    """Hears of what lanes do. A lane waits for each call, so a slow monitor delays that lane alone."""

    async def attempted(self, attempt: Attempt, delivery: Delivery, registration: Registration) -> None:
        """An attempt ended; ``registration`` is the one that it was made for."""

    async def answered_late(self, attempt: Attempt, delivery: Delivery, registration: Registration) -> None:
        """The last attempt, which had ended without a response, has one that settles the delivery."""

    async def finished(
        self, delivery: Delivery, registration: Registration | None, settlement: Settlement
    ) -> None:
        """A delivery is delivered, dead or dropped."""

    async def gone(self, registration: Registration) -> None:
        """The receiver answered 410 Gone."""

    async def lane_changed(self, lane: str, state: LaneState) -> None:
        """A lane began to wait, or to deliver after a wait, or ended."""

    def lane_stuck(self, lane: LaneStatistics) -> None:
        """One delivery holds a lane up; see :mod:`hookgw.records.stuck_lanes`. Once for each delivery."""

    def lane_failed(self, lane: str, failure: TaskFailed) -> None:
        """A lane ended by an exception, which is a bug; it starts again."""


class LaneSender(Protocol):
    """Makes attempts; see :class:`hookgw.delivery.sender.DeliverySender`."""

    async def render_body(self, event: Event, template: RequestTemplate) -> bytes | None:
        """Return the body to send; ``None`` if a plugin drops the delivery.

        Raises:
            PluginFailed: a plugin failed; the delivery is retried.
        """

    async def prepare(
        self, delivery: Delivery, body: bytes, template: RequestTemplate, number: int
    ) -> dict[str, str] | None:
        """Return the headers as plugins change them for one attempt; ``None`` if they do not.

        Raises:
            PluginFailed: a plugin failed; the delivery is retried.
        """

    async def send(
        self,
        delivery: Delivery,
        body: bytes,
        template: RequestTemplate,
        transport: LaneTransport,
        /,
        *,
        number: int,
        timeout: float,  # noqa: ASYNC109
        headers: dict[str, str] | None,
    ) -> AttemptResult:
        """Make one attempt. The result has the outcome: no failure of a receiver is raised.

        Raises:
            OutOfDescriptors: no socket could be opened; nothing was sent.
        """

    def failed(self, number: int, failure: PluginFailed) -> Attempt:
        """Return the record of an attempt that a plugin failed before anything was sent."""

    def unreachable(self, number: int, failure: DeliveryError) -> Attempt:
        """Return the record of an attempt that shares the failure of another to connect to the host."""

    def cut_off(self, number: int, started_at: float, event: Event, template: RequestTemplate) -> Attempt:
        """Return the record of an attempt that was cut off, because its delivery is being cancelled."""


class LaneServices(msgspec.Struct, frozen=True, kw_only=True):
    """What all lanes share.

    Attributes:
        outbox: holds the pending deliveries.
        registration: returns a registration as it is now, by id; ``None`` if there is none.
        sender: makes attempts.
        pools: lends connections for them.
        history: has the finished deliveries; ``None`` if what came before does not matter.
        memory: what lanes may hold in memory, in bytes.
        rates: limit the attempts of registrations.
        may_send: returns whether this node may make an attempt now.
        is_shared: whether another node may take a lane over. Then an attempt waits for
            the outcome of the last one to be on disk.
        monitor: hears of what lanes do.
        clock, settings: the gateway's.
    """

    outbox: Outbox
    registration: Callable[[str], Registration | None]
    sender: LaneSender
    pools: ConnectionPools
    memory: Share[MemoryClaim]
    monitor: LaneMonitor
    clock: Clock
    settings: DeliverySettings
    may_send: Callable[[], bool]
    is_shared: bool
    history: History | None = None
    rates: RateLimits = msgspec.field(default_factory=RateLimits)


class DeliveryPlan(msgspec.Struct, frozen=True):
    """How to send to a registration and what follows a failure: computed once, not for every delivery."""

    registration: Registration
    template: RequestTemplate
    policy: Policy
    rate: RateLimit | None


def plan_for(registration: Registration, services: LaneServices) -> DeliveryPlan:
    """Return the plan of a registration; the gateway's settings fill in what the registration leaves open.

    Raises:
        ValueError: the URL is not absolute; only the URL of a disabled registration may be like that.
    """
    return DeliveryPlan(
        registration,
        template_for(registration),
        policy_of(registration, services.settings),
        services.rates.of(registration, services.clock.steady()),
    )
