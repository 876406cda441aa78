"""What a lane stands on, as it sees it, and what others see of a lane. No I/O."""

from __future__ import annotations

from typing import Protocol

import msgspec

from hookgw.config.settings import DeliverySettings
from hookgw.delivery.http.transport import LaneTransport
from hookgw.delivery.sender import AttemptResult, RequestTemplate, template_for
from hookgw.dispatch.retry_policy import Policy, policy_of
from hookgw.models.clock import Clock
from hookgw.models.deliveries import Attempt, Delivery, LaneState, Page, Settlement
from hookgw.models.errors import PluginFailed
from hookgw.models.events import Event
from hookgw.models.registrations import Registration


class LaneStore(Protocol):
    """What a lane needs of the store."""

    async def page(self, lane: str, after: int, limit: int) -> Page:
        """Pending deliveries of a lane with a higher position, in order, and whether there are more."""

    def settle_nowait(self, settlement: Settlement) -> None:
        """Write an outcome with a later commit."""

    async def settle_capacity(self) -> None:
        """Wait while too many outcomes wait to be written."""

    async def flush(self) -> None:
        """Wait until all that was asked before is on disk."""

    async def count_pending(self, lane: str) -> int:
        """How many deliveries are pending in a lane."""


class LaneKeeper(Protocol):
    """What a lane reports to, and asks about registrations."""

    def registration(self, registration_id: str) -> Registration | None:
        """The registration as it is now."""

    async def attempted(self, attempt: Attempt, delivery: Delivery, registration: Registration) -> None:
        """An attempt was made."""

    async def finished(
        self, delivery: Delivery, registration: Registration | None, settlement: Settlement
    ) -> None:
        """A delivery was settled for good."""

    async def disable(self, registration: Registration, reason: str) -> None:
        """Disable a registration and park what is pending for it."""

    async def lane_changed(self, lane: str, state: LaneState) -> None:
        """A lane began to wait, or to deliver again, or ended."""


class LaneSender(Protocol):
    """What a lane needs of the courier; see :class:`hookgw.delivery.sender.DeliverySender`."""

    async def render_body(self, event: Event, registration: Registration) -> bytes | None:
        """Fix the body; ``None`` where a plugin drops the delivery."""

    async def send(
        self,
        delivery: Delivery,
        body: bytes,
        route: RequestTemplate,
        transport: LaneTransport,
        *,
        number: int,
        timeout: float,  # noqa: ASYNC109
    ) -> AttemptResult:
        """Make one attempt."""

    def failed(self, number: int, failure: PluginFailed) -> Attempt:
        """The record of an attempt that a plugin failed before anything was sent."""


class LaneServices(msgspec.Struct, frozen=True, kw_only=True):
    """What all lanes share."""

    store: LaneStore
    keeper: LaneKeeper
    courier: LaneSender
    clock: Clock
    settings: DeliverySettings


class DeliveryPlan(msgspec.Struct, frozen=True):
    """How to send to a registration, and what follows when that fails."""

    route: RequestTemplate
    policy: Policy


def plan_for(registration: Registration, settings: DeliverySettings) -> DeliveryPlan:
    """Work them out from the registration and, where it is silent, the gateway's settings."""
    return DeliveryPlan(template_for(registration), policy_of(registration, settings))
