"""Passes the reports of lanes on to metrics, logs, plugins and operational events."""

from __future__ import annotations

from collections.abc import Awaitable

import structlog

from hookgw.concurrency.tasks import TaskFailed
from hookgw.core.metrics import Metrics
from hookgw.core.operational.events import OperationalEvents
from hookgw.core.registry import Registry
from hookgw.deliveries.stuck_lanes import StuckLanes
from hookgw.kernel.collaborator import Collaborator
from hookgw.plugins.hooks import Hooks
from hookgw.records.deliveries import (
    DELIVERED_OUTCOME,
    DELIVERED_STATE,
    Attempt,
    Delivery,
    DeliveryState,
    LaneState,
    Settlement,
)
from hookgw.records.lanes import partition_of, registration_of
from hookgw.records.registrations import Registration
from hookgw.webhooks.auto_disable import AutoDisable

logger = structlog.get_logger("hookgw.delivery")


class DeliveryMonitor(Collaborator):
    """The monitor of all lanes; see :class:`hookgw.lanes.services.LaneMonitor`."""

    _registry: Registry
    _hooks: Hooks
    _metrics: Metrics
    _operational: OperationalEvents
    _auto_disable: AutoDisable
    _stuck: StuckLanes

    def __post_init__(self) -> None:
        self._failing_lanes = self._operational.failing_lanes
        self.lane_stuck = self._stuck.report

    def attempted(
        self, attempt: Attempt, delivery: Delivery, registration: Registration
    ) -> Awaitable[None] | None:
        self._metrics.attempts[attempt.outcome] += 1
        if attempt.outcome is not DELIVERED_OUTCOME:
            logger.info(
                "attempt failed",
                **_ids(delivery),
                attempt=attempt.number,
                outcome=attempt.outcome.value,
                status=attempt.status,
                error=attempt.error,
            )
        # Nearly no attempt begins or ends a period of failure.
        elif not (
            self._hooks.implements("hookgw_attempt")
            or self._failing_lanes
            or self._auto_disable.is_failing(registration)
        ):
            return None
        return self._report(attempt, delivery, registration)

    async def _report(self, attempt: Attempt, delivery: Delivery, registration: Registration) -> None:
        await self._hooks.notify(
            "hookgw_attempt", attempt=attempt, delivery=delivery, registration=registration
        )
        await self._judge(attempt, delivery, registration)

    async def answered_late(self, attempt: Attempt, delivery: Delivery, registration: Registration) -> None:
        # No second attempt: metrics and plugins heard of it at its deadline.
        logger.info("attempt answered late", **_ids(delivery), attempt=attempt.number, status=attempt.status)
        await self._judge(attempt, delivery, registration)

    async def _judge(self, attempt: Attempt, delivery: Delivery, registration: Registration) -> None:
        """Note whether an attempt begins or ends a period of failure."""
        current = self._registry.registration(registration.id)
        if current is not None and current.has_target_of(registration):
            # Otherwise the outcome is the former target's. It must not disable the new one, or count for it.
            self._operational.attempted(attempt, delivery, registration)
            await self._auto_disable.attempted(attempt, registration)

    def finished(
        self, delivery: Delivery, registration: Registration | None, settlement: Settlement
    ) -> Awaitable[None] | None:
        if settlement.state is DELIVERED_STATE:
            # From `queued_at`, not `accepted_at`: a resend years later is no slow delivery.
            self._metrics.delivered(settlement.at - delivery.queued_at)
            # Asked first, because a call of no hooks still costs a coroutine for every delivery.
            if not self._hooks.implements("hookgw_delivered"):
                return None
            return self._hooks.notify("hookgw_delivered", delivery=delivery, registration=registration)
        if settlement.state is DeliveryState.DROPPED:
            self._metrics.dropped()
            return None
        self._metrics.dead()
        reason = settlement.reason or ""
        logger.warning("dead letter", **_ids(delivery), reason=reason)
        self._operational.dead(delivery.registration, registration, reason, delivery=delivery)
        return self._hooks.notify(
            "hookgw_dead_letter", delivery=delivery, registration=registration, reason=reason
        )

    async def gone(self, registration: Registration) -> None:
        await self._auto_disable.disable(registration, "The receiver answered 410 Gone.")

    async def lane_changed(self, lane: str, state: LaneState) -> None:
        # Debug: thousands of lanes that begin and end waits would drown everything else.
        logger.debug("lane", lane=lane, state=state.value)
        self._operational.lane_changed(lane, state)
        registration = self._registry.registration(registration_of(lane))
        await self._hooks.notify(
            "hookgw_lane_state",
            lane=lane,
            state=state,
            registration=registration_of(lane),
            partition=partition_of(lane),
            url=registration.address if registration else None,
        )

    def lane_failed(self, lane: str, failure: TaskFailed) -> None:
        self._metrics.lane_failed()
        logger.error(
            "lane ended by an error in hookgw; it starts again",
            lane=lane,
            reason=str(failure),
            exc_info=failure.__cause__,
        )


def _ids(delivery: Delivery) -> dict[str, object]:
    return {
        "delivery": delivery.id,
        "event_id": delivery.event.id,
        "instance": delivery.event.instance,
        "registration": delivery.registration,
        "lane": delivery.lane,
    }
