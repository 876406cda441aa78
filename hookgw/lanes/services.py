"""What every lane works with: Protocols of the gateway's parts, and the plan for one registration. No I/O."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import msgspec

from hookgw.concurrency.clock import Clock
from hookgw.concurrency.light import LightSteps
from hookgw.concurrency.loop_load import LoopLoad
from hookgw.concurrency.tasks import TaskFailed
from hookgw.config.settings import DeliverySettings
from hookgw.delivery.http.pools import ConnectionPools
from hookgw.delivery.sender import DeliverySender, RequestTemplate, template_for
from hookgw.fair import Share
from hookgw.lanes.fetches import Fetches
from hookgw.lanes.lane_queue import MemoryClaim
from hookgw.lanes.rate_limit import RateLimit, RateLimits
from hookgw.lanes.retry_policy import Policy, policy_of
from hookgw.lanes.tag_rates import TagRates
from hookgw.records.deliveries import Attempt, Delivery, LaneState, LaneStatistics, Settlement
from hookgw.records.registrations import Registration
from hookgw.store import History, Outbox

LEASE_WAIT = 0.1
"""Seconds after which a lane looks again whether its node may act, unless it is paused first."""

LONG_WAIT = 1.0
"""Seconds from which a wait is reported as one. A receiver that answers 503 now and then is not failing: its
lane waits briefly, reports nothing, and keeps its deliveries in memory, so as not to read them again."""


class LaneMonitor(Protocol):
    """Hears of every lane. A lane waits for each call, so a slow monitor delays that lane alone.

    After nearly every delivery there is nothing to wait for: then the first two return ``None``.
    """

    def attempted(
        self, attempt: Attempt, delivery: Delivery, registration: Registration
    ) -> Awaitable[None] | None:
        """An attempt ended; ``registration`` is the one that it was made for."""

    def finished(
        self, delivery: Delivery, registration: Registration | None, settlement: Settlement
    ) -> Awaitable[None] | None: ...

    async def answered_late(self, attempt: Attempt, delivery: Delivery, registration: Registration) -> None:
        """A late response settles the delivery: its last attempt had ended without one."""

    async def gone(self, registration: Registration) -> None:
        """The receiver answered 410 Gone."""

    async def lane_changed(self, lane: str, state: LaneState) -> None:
        """A lane began to wait, or to deliver after a wait, or ended."""

    def lane_stuck(self, lane: LaneStatistics) -> None:
        """One delivery holds a lane up; see :mod:`hookgw.records.stuck_lanes`. Once for each delivery."""

    def lane_failed(self, lane: str, failure: TaskFailed) -> None:
        """A lane ended by an exception, which is a bug; it starts again."""


class LaneServices(msgspec.Struct, frozen=True, kw_only=True):
    """What all lanes share.

    Attributes:
        registration: returns a registration as it is now, by id; ``None`` if there is none.
        history: has the finished deliveries.
        memory: the bytes that lanes may have in memory.
        loop_load: what the event loop has to do; lanes say when they have an attempt in flight.
        may_send: returns whether this node may make an attempt now.
        steps: make the light steps of lanes.
        is_shared: whether another node may take lanes over. Then each attempt waits for the last one on disk.
    """

    outbox: Outbox
    history: History
    registration: Callable[[str], Registration | None]
    sender: DeliverySender
    pools: ConnectionPools
    memory: Share[MemoryClaim]
    monitor: LaneMonitor
    clock: Clock
    settings: DeliverySettings
    may_send: Callable[[], bool]
    is_shared: bool
    steps: LightSteps
    tag_rates: TagRates
    fetches: Fetches
    loop_load: LoopLoad
    rates: RateLimits = msgspec.field(default_factory=RateLimits)


class DeliveryPlan(msgspec.Struct, frozen=True):
    """How to send to a registration, and what follows a failure: computed once, not for every delivery."""

    registration: Registration
    template: RequestTemplate
    policy: Policy
    rate: RateLimit | None


def rates_of(plan: DeliveryPlan, instance: str, services: LaneServices) -> Sequence[RateLimit]:
    """Return the limits that an attempt must keep: of its registration, and of its instance's tags."""
    of_tags = services.tag_rates.of(instance)
    return of_tags if plan.rate is None else (plan.rate, *of_tags)


def plan_for(registration: Registration, services: LaneServices) -> DeliveryPlan:
    """Return the plan of a registration, with the gateway's settings as defaults.

    Raises:
        ValueError: the URL is not absolute; only the URL of a disabled registration may be like that.
    """
    return DeliveryPlan(
        registration,
        template_for(registration),
        policy_of(registration, services.settings),
        services.rates.of(registration, services.clock.steady()),
    )
