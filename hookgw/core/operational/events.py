"""Operational events, hookgw's reports to its operators.

They are raised inside lanes and commits, so raising one never waits: it is queued. Separate tasks pass it to
plugins and store it in the outbox, addressed to the registration of ``operations.url`` alone. From there each
takes the path of every event, in a separate lane. No event is raised about that lane or registration, because
each would raise the next; the log reports them.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import msgspec
import structlog
import trio

from hookgw.concurrency.clock import Clock
from hookgw.config.settings import OperationsSettings
from hookgw.core.backlog import Tally
from hookgw.core.metrics import Metrics
from hookgw.core.operational.digest import DeadLetterSummary, Digest, LeftOutSummary
from hookgw.core.operational.lane_health import LaneHealth
from hookgw.core.operational.queue import EventQueue
from hookgw.core.registry import Registry
from hookgw.kernel.errors import PluginFailed, StorageUnavailable
from hookgw.kernel.times import rfc3339
from hookgw.plugins.hooks import Hooks
from hookgw.records import operational_kinds as kinds
from hookgw.records.deliveries import Attempt, Delivery, LaneState
from hookgw.records.events import Event, new_event_id
from hookgw.records.lanes import lane_rule, partition_of
from hookgw.records.operational_kinds import OPERATIONAL_CATALOG, OPERATIONAL_KINDS, OPERATIONS_ID
from hookgw.records.registrations import GLOBAL_INSTANCE, Registration
from hookgw.store import Append

MOST_PENDING = 10_000
"""The most pending deliveries to ``operations.url``. Further events are lost, and logged."""

logger = structlog.get_logger("hookgw.operations")


class OperationalEvents:
    """Raises operational events, for plugins and the registration of ``operations.url``, if that is set."""

    def __init__(
        self,
        settings: OperationsSettings,
        registration: Registration | None,
        registry: Registry,
        hooks: Hooks,
        metrics: Metrics,
        clock: Clock,
    ) -> None:
        self.registration = registration
        named = (
            OPERATIONAL_CATALOG.resolve(name, "operations.events", operational=True).name
            for name in settings.events
        )
        self._wanted = frozenset(named) or frozenset(kind.name for kind in OPERATIONAL_KINDS)
        self._threshold = settings.backlog_threshold
        self._registry = registry
        self._hooks = hooks
        self._metrics = metrics
        self._clock = clock
        # Both are pure; time and queues are handled here.
        self._lanes = LaneHealth()
        self.failing_lanes = self._lanes.failing
        self._dead = Digest[DeadLetterSummary]()
        self._left_out = Digest[LeftOutSummary]()
        self._held_back = trio.Event()
        self._closing = trio.Event()
        self._to_plugins = EventQueue("plugins")
        self._to_url = EventQueue("operations.url")

    async def run(
        self,
        append: Callable[[Sequence[Append]], Awaitable[object]],
        pending: Callable[[], int],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Pass on the events that are raised, until cancelled.

        Args:
            append: stores events in the outbox, beyond any limit.
            pending: returns how many deliveries wait for the registration.
        """
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._to_plugins.run, self._notify)
            nursery.start_soon(self._to_url.run, partial(self._deliver, append, pending))
            nursery.start_soon(self._raise_held_back)
            task_status.started()

    @property
    def is_quiet(self) -> bool:
        """Whether all raised events were passed on, except those in the digest."""
        return self._to_plugins.is_empty and self._to_url.is_empty

    async def drain(self) -> None:
        """Pass on everything raised so far, including the digest; for the shutdown.

        Set a deadline: plugins may be slow. If the disk refuses, the remaining events are lost.
        """
        self._closing.set()
        self._raise_due(math.inf)
        await self._to_url.wait_empty()
        await self._to_plugins.wait_empty()

    # Reports. None of them waits.

    def registration_disabled(self, registration: Registration, reason: str) -> None:
        """Report that hookgw disabled a registration; the reason is a sentence."""
        self._raise(kinds.REGISTRATION_DISABLED, registration.id, registration, reason=reason)

    def attempted(self, attempt: Attempt, delivery: Delivery, registration: Registration) -> None:
        now = self._clock.steady()
        ended = self._lanes.attempted(delivery.lane, registration.id, attempt, now)
        if ended is not None:
            self._raise(
                kinds.LANE_RECOVERED,
                registration.id,
                registration,
                lane=delivery.lane,
                partition=partition_of(delivery.lane),
                since=rfc3339(ended.since),
                seconds=round(now - ended.began, 3),
            )

    def lane_changed(self, lane: str, state: LaneState) -> None:
        if state is LaneState.IDLE:
            self._lanes.ended(lane)
        elif state is LaneState.WAITING and (failing := self._lanes.waits(lane)) is not None:
            self._raise(
                kinds.LANE_FAILING,
                failing.registration,
                self._registry.registration(failing.registration),
                lane=lane,
                partition=partition_of(lane),
                since=rfc3339(failing.since),
                outcome=failing.last.outcome.value,
                status=failing.last.status,
                error=failing.last.error,
            )

    def backlog_crossed(self, registration_id: str, tally: Tally) -> None:
        """Report that a registration's backlog has become high, or normal again."""
        self._raise(
            kinds.BACKLOG_HIGH if tally.is_high else kinds.BACKLOG_NORMAL,
            registration_id,
            self._registry.registration(registration_id),
            deliveries=tally.count,
            bytes=tally.size,
            threshold=self._threshold,
        )

    def instance_backlog_crossed(self, instance: str, tally: Tally, allowed: tuple[float, float]) -> None:
        """Report that an instance holds more than half of its allowance, or no longer does."""
        deliveries, size = (None if amount == math.inf else int(amount) for amount in allowed)
        self._raise(
            kinds.INSTANCE_BACKLOG_HIGH if tally.is_high else kinds.INSTANCE_BACKLOG_NORMAL,
            instance=instance,
            deliveries=tally.count,
            bytes=tally.size,
            allowedDeliveries=deliveries,
            allowedBytes=size,
        )

    def dead(
        self,
        registration_id: str,
        registration: Registration | None,
        reason: str,
        *,
        count: int = 1,
        delivery: Delivery | None = None,
    ) -> None:
        """Report dead letters of a registration.

        Args:
            registration: ``None`` if it was deleted.
            reason: a sentence.
            delivery: the dead letter, if it is one.
        """
        if not count:
            return
        letters = DeadLetterSummary(
            registration=registration_id, count=count, reason=reason, delivery=delivery
        )
        due = self._dead.add(letters, trio.current_time())
        if due is not None:
            self._raise_dead(due, registration)
        self._held_back.set()

    def plugin_failing(self, failure: PluginFailed, instance: str | None, wait: float) -> None:
        """Report that a connector or a background task failed, and starts again after a wait in seconds."""
        self._raise(
            kinds.PLUGIN_FAILING,
            instance=instance,
            plugin=failure.plugin,
            hook=failure.hook,
            reason=failure.reason,
            restartAfter=wait,
        )

    def instance_quiet(self, instance: str, *, since: float, seconds: float, reason: str) -> None:
        """Report that no event comes from an instance: since when, and why that is too long."""
        self._raise_silence(kinds.INSTANCE_QUIET, instance, since, seconds, reason=reason)

    def instance_heard(self, instance: str, *, since: float, seconds: float) -> None:
        """Report the first event of an instance that was quiet."""
        self._raise_silence(kinds.INSTANCE_HEARD, instance, since, seconds)

    def instance_gap(self, instance: str, begin: float, end: float) -> None:
        """Report a time of which an instance did not get all events from its network."""
        bounds = {"from": rfc3339(begin), "to": rfc3339(end)}
        self._raise(kinds.INSTANCE_GAP, instance=instance, **bounds)

    def _raise_silence(self, kind: str, instance: str, since: float, seconds: float, **more: str) -> None:
        self._raise(kind, instance=instance, since=rfc3339(since), seconds=round(seconds, 3), **more)

    def event_left_out(self, instance: str, connector: str, reason: str) -> None:
        """Report that a connector left an event of its network out; the reason is a sentence."""
        left_out = LeftOutSummary(instance=instance, connector=connector, count=1, reason=reason)
        due = self._left_out.add(left_out, trio.current_time())
        if due is not None:
            self._raise_left_out(due)
        self._held_back.set()

    def _raise_left_out(self, left_out: LeftOutSummary) -> None:
        about = msgspec.structs.asdict(left_out)
        logger.warning("events left out", **about)
        self._raise(kinds.EVENT_LEFT_OUT, **about)

    def _raise_dead(self, letters: DeadLetterSummary, registration: Registration | None) -> None:
        delivery = letters.delivery
        self._raise(
            kinds.DELIVERY_DEAD,
            letters.registration,
            registration,
            count=letters.count,
            reason=letters.reason,
            delivery=delivery.id if delivery else None,
            eventId=delivery.event.id if delivery else None,
            kind=delivery.event.kind if delivery else None,
        )

    def _raise(
        self,
        event_kind: str,
        registration_id: str | None = None,
        registration: Registration | None = None,
        /,
        **more: Any,
    ) -> None:
        # Logged in any case: an operator without plugins and without a URL reads it there.
        logger.info("operational event", event_kind=event_kind, registration=registration_id, **more)
        if registration_id == OPERATIONS_ID:
            return
        about = {
            "registration": registration_id,
            "instance": registration.instance if registration else None,
            "label": registration.label if registration else None,
            "url": registration.address if registration else None,
        }
        now = self._clock.wall()
        event = Event(
            id=new_event_id(now),
            kind=event_kind,
            instance=GLOBAL_INSTANCE,
            data_json=Event.encode({**about, **more}),
            time=now,
        )
        self._metrics.operational_event(event_kind)
        about_instance = registration.instance if registration else more.get("instance") or ""
        if self._hooks.implements("hookgw_operational_event"):
            self._to_plugins.put(event, about_instance)
        if self.registration is not None and event_kind in self._wanted:
            self._to_url.put(event, about_instance)

    async def _notify(self, events: list[Event]) -> None:
        for event in events:
            await self._hooks.notify("hookgw_operational_event", event=event)

    async def _deliver(
        self,
        append: Callable[[Sequence[Append]], Awaitable[object]],
        pending: Callable[[], int],
        events: list[Event],
    ) -> None:
        """Store events in the outbox, however long the disk refuses."""
        registration = self.registration
        if registration is None or pending() >= MOST_PENDING:
            logger.error("operational events lost: too many are pending", count=len(events))
            return
        rule = lane_rule(registration)
        appends = [Append(event, ((registration.id, rule.lane(event)),)) for event in events]
        while True:
            # Retried as a batch: a part of it on disk would be a duplicate, which append reports.
            try:
                await append(appends)
            except StorageUnavailable as error:
                if self._closing.is_set():
                    logger.warning("operational events lost", count=len(events), reason=str(error))
                    return
                # Ends early at shutdown, which then tries once more.
                with trio.move_on_after(error.retry_after):
                    await self._closing.wait()
            else:
                return

    async def _raise_held_back(self) -> None:
        while True:
            await self._held_back.wait()
            self._held_back = trio.Event()
            while (due := min(self._dead.next_due, self._left_out.next_due)) < math.inf:
                await trio.sleep_until(due)
                self._raise_due(trio.current_time())

    def _raise_due(self, now: float) -> None:
        for letters in self._dead.due(now):
            self._raise_dead(letters, self._registry.registration(letters.registration))
        for left_out in self._left_out.due(now):
            self._raise_left_out(left_out)
