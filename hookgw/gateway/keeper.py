"""What lanes report, turned into metrics, hooks, logs, and changes of registrations.

A registration that keeps failing, or whose receiver says 410, is disabled here: what is pending for
it becomes dead letters, which can be replayed once it works again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Protocol

import msgspec
import structlog
import trio

from hookgw.config.settings import DeliverySettings
from hookgw.dispatch.dispatcher import Dispatcher
from hookgw.dispatch.retry_policy import policy_of
from hookgw.gateway.lane_moves import Moves
from hookgw.gateway.metrics import Metrics
from hookgw.gateway.operational.events import OperationalEvents
from hookgw.gateway.registry import Registry
from hookgw.models.clock import Clock
from hookgw.models.deliveries import Attempt, Delivery, DeliveryState, LaneState, Outcome, Settlement
from hookgw.models.errors import StorageUnavailable
from hookgw.models.operational_kinds import OPERATIONS_ID
from hookgw.models.registrations import Registration, lanes_of
from hookgw.plugins.hooks import Hooks
from hookgw.store import Store

logger = structlog.get_logger("hookgw.delivery")

_NOTED_AFTER = 60.0
"""A failing registration is noted on disk once it has failed for so long, in seconds: those that fail
now and then cost no writes."""


class Bury(Protocol):
    """Makes pending deliveries of a registration dead."""

    async def __call__(
        self, registration: str, lanes: Sequence[str], reason: str, *, spared: Sequence[int]
    ) -> int:
        """Return how many there were."""


class Keeper:
    """Watches over deliveries and registrations on behalf of the lanes.

    Args:
        registry, store, hooks, metrics, clock, settings: the gateway's.
        operations: hears of what those who operate hookgw are told.
        make_dispatcher: makes the dispatcher whose lanes report here.

    Attributes:
        dispatcher: that one.
        moves: carries out what a change of lanes brings with it; whoever runs the dispatcher runs it.
    """

    def __init__(
        self,
        registry: Registry,
        store: Store,
        hooks: Hooks,
        metrics: Metrics,
        clock: Clock,
        settings: DeliverySettings,
        operations: OperationalEvents,
        make_dispatcher: Callable[[Keeper], Dispatcher],
    ) -> None:
        self._registry = registry
        self._store = store
        self._hooks = hooks
        self._metrics = metrics
        self._clock = clock
        self._settings = settings
        self._operations = operations
        self._failing_since: dict[str, float] = {}
        self.dispatcher = make_dispatcher(self)
        self.moves = Moves(registry, store, self.dispatcher)

    def registration(self, registration_id: str) -> Registration | None:
        return self._registry.registration(registration_id)

    async def attempted(self, attempt: Attempt, delivery: Delivery, registration: Registration) -> None:
        """Count an attempt, tell plugins, and watch how long the registration has been failing."""
        self._metrics.attempted(attempt.outcome)
        if attempt.outcome is not Outcome.DELIVERED:
            self._log_failure(attempt, delivery)
        if self._hooks.implements("hookgw_attempt"):
            await self._hooks.notify(
                "hookgw_attempt", attempt=attempt, delivery=delivery, registration=registration
            )
        self._operations.attempted(attempt, delivery, registration)
        await self._watch(attempt, registration)

    async def finished(
        self, delivery: Delivery, registration: Registration | None, settlement: Settlement
    ) -> None:
        """Count a delivery that was settled for good, and tell plugins."""
        if settlement.state is DeliveryState.DELIVERED:
            self._metrics.delivered(settlement.at - delivery.queued_at)
            if self._hooks.implements("hookgw_delivered"):
                await self._hooks.notify("hookgw_delivered", delivery=delivery, registration=registration)
        elif settlement.state is DeliveryState.DROPPED:
            self._metrics.dropped()
        else:
            self._metrics.dead()
            reason = settlement.reason or ""
            logger.warning("dead letter", **_names(delivery), reason=reason)
            self._operations.dead(delivery.registration, registration, reason, delivery=delivery)
            await self._hooks.notify(
                "hookgw_dead_letter", delivery=delivery, registration=registration, reason=reason
            )

    async def lane_changed(self, lane: str, state: LaneState) -> None:
        """Tell plugins what a lane does now."""
        logger.debug("lane", lane=lane, state=state.value)
        self._operations.lane_changed(lane, state)
        await self._hooks.notify("hookgw_lane_state", lane=lane, state=state)

    async def disable(self, registration: Registration, reason: str) -> None:
        """Disable a registration and park what is pending for it.

        The one for operational events stays: it is the configuration's alone to switch off. Where the
        disk refuses, the registration stays as it is, and the next attempt asks for the same again.
        """
        if registration.id == OPERATIONS_ID:
            return
        try:
            await self._disable(registration, reason)
        except StorageUnavailable as error:
            logger.warning("registration not disabled", **_names_of(registration), reason=str(error))

    async def _disable(self, registration: Registration, reason: str) -> None:
        async with self._registry.changing(registration.instance):
            current = self._registry.registration(registration.id)
            if current is None or not current.enabled:
                return
            if current.address != registration.address:  # it was said of a URL that it no longer has
                return
            disabled = msgspec.structs.replace(
                current,
                enabled=False,
                disabled_reason=reason,
                failing_since=None,
                updated_at=self._clock.wall(),
            )
            await self.replace(current, disabled)
            self._failing_since.pop(registration.id, None)
            logger.warning("registration disabled", **_names_of(registration), reason=reason)
            self._operations.registration_disabled(disabled, reason)

    async def replace(self, old: Registration, new: Registration) -> None:
        """Put a changed registration in the place of the old one, and what is pending in its right place.

        Where the lanes change, pending deliveries move along and keep their sequence; where the new
        one is disabled, they are parked. The lanes concerned pause meanwhile, and the new ones also
        wait for what is on the wire to the old one, so nothing is overtaken or sent twice.
        """
        before, after = self.moves.lanes(old), lanes_of(new)
        if not new.enabled:
            if before == after:
                await self._registry.put(new)
            else:
                await self.moves.put(new, before)
            await self.park(old, f"The registration was disabled: {new.disabled_reason or 'by its owner.'}")
        elif before == after and old.ordering is new.ordering:
            await self._registry.put(new)
        else:
            await self.moves.replace(old, new)

    async def park(self, registration: Registration, reason: str) -> None:
        """Turn what is pending for a registration into dead letters; what is on the wire is spared.

        Lanes that it had before and that are not worked off yet are looked through too.
        """
        spared = self._on_the_wire(registration)
        bury = partial(self._store.park, at=self._clock.steady())
        await self._give_up(registration, spared, bury, reason)
        if not spared or self._registry.registration(registration.id) is None:
            with suppress(StorageUnavailable):  # then it is looked for once more, in vain
                await self.moves.forget(registration.id)

    async def drop_oldest(self, registration_id: str, reason: str, *, count: int, size: int) -> int:
        """Turn the oldest that is pending for a registration into dead letters, in one small step.

        Args:
            registration_id: whose.
            reason: a sentence that says why.
            count, size: so many deliveries, and as many as have so many bytes of payload together.

        Returns:
            How many there were; what is on the wire is spared.
        """
        registration = self._registry.registration(registration_id)
        if registration is None:
            return 0
        drop = partial(self._store.drop_oldest, count=count, size=size)
        return await self._give_up(registration, self._on_the_wire(registration), drop, reason)

    def _on_the_wire(self, registration: Registration) -> list[int]:
        lanes = self.moves.lanes(registration)
        return [seq for seq, _ in self.dispatcher.under_way(lanes, registration.id)]

    async def _give_up(
        self, registration: Registration, spared: Sequence[int], bury: Bury, reason: str
    ) -> int:
        self._store.check_open()  # lanes that were paused go on once the disk works, and not before
        lanes = self.moves.lanes(registration)
        buried = trio.Event()
        self.dispatcher.pause(lanes, until=[buried])
        try:
            count = await bury(registration.id, lanes, reason, spared=spared)
        finally:
            buried.set()
        self._metrics.dead(count)
        self._operations.dead(registration.id, registration, reason, count=count)
        return count

    async def _watch(self, attempt: Attempt, registration: Registration) -> None:
        """Note the beginning and the end of an unbroken row of failures; disable when it is too long."""
        if registration.id == OPERATIONS_ID:
            return
        if attempt.outcome is Outcome.DELIVERED:
            if registration.id in self._failing_since or registration.failing_since is not None:
                self._failing_since.pop(registration.id, None)
                await self._note_failing(registration, None)
            return
        now = self._clock.steady()
        since = registration.failing_since or self._failing_since.setdefault(registration.id, now)
        disable_after = policy_of(registration, self._settings).disable_after
        if now - since >= disable_after:
            await self.disable(registration, f"It failed for {disable_after:g} s without one success.")
        elif now - since >= _NOTED_AFTER:
            await self._note_failing(registration, since)

    async def _note_failing(self, registration: Registration, since: float | None) -> None:
        """Keep on disk since when a registration fails, so that a restart does not forget it.

        Where the disk refuses, the next attempt will note it.
        """
        async with self._registry.changing(registration.instance):
            current = self._registry.registration(registration.id)
            if current is None or current.failing_since == since:
                return
            with suppress(StorageUnavailable):
                await self._registry.put(msgspec.structs.replace(current, failing_since=since))

    def _log_failure(self, attempt: Attempt, delivery: Delivery) -> None:
        logger.info(
            "attempt failed",
            **_names(delivery),
            attempt=attempt.number,
            outcome=attempt.outcome.value,
            status=attempt.status,
            error=attempt.error,
        )


def _names(delivery: Delivery) -> dict[str, object]:
    return {
        "delivery": delivery.id,
        "event_id": delivery.event.id,
        "instance": delivery.event.instance,
        "registration": delivery.registration,
        "lane": delivery.lane,
    }


def _names_of(registration: Registration) -> dict[str, object]:
    return {
        "registration": registration.id,
        "instance": registration.instance,
        "label": registration.label,
    }
