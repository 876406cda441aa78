"""A lane: delivers to one registration, in order, one delivery at a time, through one connection.

The lane takes the next delivery (:mod:`hookgw.dispatch.lane_queue`), makes it the *head*, and works on it
until it is settled. A failed head stays the head: the lane waits for its next attempt, and everything
behind it is dropped from memory, because it is on disk. So a backlog costs no memory, and nothing
overtakes.

::

            take a delivery                    its time has come
    IDLE ───────────────────> (head) ────────────────────────────> DELIVERING
      ^                         │  ^                                   │
      │ nothing left            │  │ next_at is ahead                  │ settled: delivered, dead, dropped
      │                         v  │                                   v
      └──────────────────── WAITING <──── pending again ───────── (take the next)

    refresh: finish the attempt, wait for the given events (PAUSED), drop the memory, read on from disk
    park:    end the task if there is nothing to do; its LaneMemory stays
    stop:    end the task after the attempt; the rest stays on disk

Every change from outside (:meth:`Lane.refresh`, :meth:`Lane.redirect`, …) sets a flag and wakes the lane; the
task looks at the flags between two attempts and nowhere else.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import structlog
import trio

from hookgw.delivery.http.transport import LaneTransport
from hookgw.delivery.sender import AttemptResult
from hookgw.dispatch.idle_lanes import IdleLanes
from hookgw.dispatch.lane_queue import LaneQueue
from hookgw.dispatch.parked_lanes import LaneMemory
from hookgw.dispatch.retry_policy import Decision, decide, expiry_reason, is_expired, longest_wait
from hookgw.dispatch.services import DeliveryPlan, LaneServices, plan_for
from hookgw.dispatch.store_retry import clamp_to_clock
from hookgw.models.deliveries import (
    FIRST,
    Delivery,
    DeliveryState,
    LaneState,
    LaneStatistics,
    Outcome,
    Settlement,
)
from hookgw.models.errors import PluginFailed, StorageUnavailable
from hookgw.models.lanes import partition_of, registration_of
from hookgw.models.registrations import Registration

logger = structlog.get_logger("hookgw.lane")


class Lane:
    """One lane of a registration. The dispatcher creates it and runs :meth:`run` as a task.

    Args:
        key: of the lane; see :mod:`hookgw.models.lanes`.
        services: what all lanes share.
        transport: the lane's connection; the lane closes it when it ends.
        idle_lanes: parks the lane once it has been idle for a while.
        attempt_limit: held during an attempt, by lanes that share a limit on attempts; ``None`` for none.
        backlog: how many deliveries are pending on disk.
        memory: what the lane's last task left, if the lane was parked. Its connection is this lane's now.
    """

    __slots__ = (
        "_attempt_limit",
        "_blockers",
        "_head",
        "_idle_lanes",
        "_in_flight",
        "_in_flight_ended",
        "_is_parked",
        "_memory",
        "_must_redirect",
        "_must_refresh",
        "_must_stop",
        "_plan",
        "_queue",
        "_services",
        "_state",
        "_transport",
        "_waiting_until",
        "_wake",
        "backlog",
        "key",
    )

    def __init__(
        self,
        key: str,
        services: LaneServices,
        transport: LaneTransport,
        idle_lanes: IdleLanes,
        *,
        attempt_limit: trio.CapacityLimiter | None = None,
        backlog: int = 0,
        memory: LaneMemory | None = None,
    ) -> None:
        self.key = key
        self.backlog = backlog
        self._services = services
        self._transport = transport
        self._idle_lanes = idle_lanes
        self._attempt_limit = attempt_limit
        self._plan: DeliveryPlan | None = None
        self._head: Delivery | None = None
        self._in_flight = False
        self._in_flight_ended: list[trio.Event] = []
        self._wake: trio.Event | None = None
        self._is_parked = False
        self._must_stop = False
        self._must_refresh = False
        self._must_redirect = False
        self._blockers: list[trio.Event] = []
        self._state = LaneState.IDLE
        self._waiting_until: float | None = None
        self._memory = memory or LaneMemory()
        if self._memory.connection is not None:
            transport.take_over(self._memory.connection)
            self._memory.connection = None
        buffer = services.settings.lane_buffer
        self._queue = LaneQueue(key, services.outbox, self._memory, buffer=buffer, behind=backlog > 0)

    # Called by the dispatcher. None of it waits.

    def offer(self, delivery: Delivery) -> None:
        """Hand over a delivery that was appended."""
        self.backlog += 1
        self._queue.offer(delivery)

    def requeued(self, count: int) -> None:
        """Finished deliveries are pending again, behind everything the lane has taken."""
        # The dispatcher calls this before it offers what the same commit appended. So their positions are
        # greater than all that the lane has taken or has in its channel, and reading on from
        # ``LaneMemory.last`` finds them. A page that is being read now may lack them; the next one has them.
        self.backlog += count
        self._queue.behind = True
        self._queue.wake()

    def refresh(self, after: Sequence[trio.Event] = ()) -> None:
        """Forget what is in memory and read the outbox again, once all the given events are set."""
        self._must_refresh = True
        self._blockers.extend(after)
        self._wake_up()

    def redirect(self) -> None:
        """The registration has another URL, header, secret or timeout: try the head there at once."""
        self._must_redirect = True
        self.refresh()

    def resume(self) -> None:
        """Try the head again now, if the lane waits."""
        if self._waiting_until is not None:
            self._memory.streak = 0
            self._wake_up()

    def stop(self) -> None:
        """End after the attempt in flight; the rest stays on disk."""
        self._must_stop = True
        self._wake_up()

    def park(self) -> None:
        """End the task if there is still nothing to do."""
        self._is_parked = True
        self._queue.wake()

    def in_flight(self) -> tuple[int, trio.Event] | None:
        """Return the sequence number of the delivery in flight, and an event for its end."""
        if self._head is None or not self._in_flight:
            return None
        ended = trio.Event()
        self._in_flight_ended.append(ended)
        return self._head.seq, ended

    def statistics(self) -> LaneStatistics:
        """Return a snapshot."""
        head, registration = self._head, self._registration()
        return LaneStatistics(
            lane=self.key,
            registration=registration_of(self.key),
            partition=partition_of(self.key),
            url=registration.address if registration else None,
            state=self._state,
            backlog=self.backlog,
            head=head.seq if head else None,
            head_since=head.queued_at if head else None,
            waiting_until=self._waiting_until,
            last_outcome=self._memory.outcome,
            last_error=self._memory.error,
        )

    # The task.

    async def run(self) -> LaneMemory | None:
        """Deliver until there is nothing to do for a while, or :meth:`stop`.

        Returns:
            What the next task of this lane goes on with, if the lane was parked; ``None`` if it was stopped.
        """
        try:
            while not self._must_stop:
                if self._must_refresh:
                    await self._start_over()
                elif (delivery := self._queue.take()) is not None:
                    self._is_parked = False
                    await self._work(delivery)
                    del delivery  # an idle lane would keep its payload in memory
                elif self._queue.behind:
                    await self._queue.read(self._cannot_read)
                elif self._is_parked:
                    self._memory.connection = self._transport.give_away()
                    return self._memory
                else:
                    self._state, self.backlog = LaneState.IDLE, 0
                    idle_since = self._idle_lanes.begin(self)
                    self._memory.until = idle_since + self._services.settings.lane_idle
                    try:
                        await self._queue.wait()
                    finally:
                        self._idle_lanes.end(self)
            return None
        finally:
            self._transport.close_nowait()
            self._state = LaneState.IDLE

    async def _start_over(self) -> None:
        if self._blockers:
            self._state = LaneState.PAUSED
        while self._blockers:
            await self._blockers.pop().wait()
        if self._must_stop:  # nothing is read any more, and what the lane settled need not be on disk yet
            return
        self._must_refresh = False
        self._plan = None
        if self._must_redirect:
            self._memory.streak = 0
            self._transport.close_nowait()  # it leads to the former host
        self._queue.discard()
        # Settlements of this lane are on disk after the count, so reading from the start is safe: what was
        # settled is not read again.
        self.backlog = await self._queue.count(self._cannot_read)
        self._memory.last = FIRST

    def _cannot_read(self, error: StorageUnavailable) -> None:
        self._state = LaneState.PAUSED
        logger.warning("the outbox cannot be read", lane=self.key, reason=str(error))

    def _wake_up(self) -> None:
        if self._wake is not None:
            self._wake.set()
        self._queue.wake()

    def _registration(self) -> Registration | None:
        return self._services.registration(registration_of(self.key))

    # One delivery, until it is settled or dropped from memory.

    async def _work(self, delivery: Delivery) -> None:
        clamp_to_clock(delivery, self._services.clock.steady(), self._longest_wait)
        if self._must_redirect:
            # The wait was for the former receiver. A failure there may have been settled after the
            # commit that made the head due, and then the wait on disk is stale.
            self._must_redirect, delivery.next_at = False, 0.0
        self._head = delivery
        try:
            while self._head is not None and not self._must_stop and not self._must_refresh:
                due = delivery.next_at <= self._services.clock.steady()
                if not due and not await self._wait(delivery.next_at):
                    continue
                if self._attempt_limit is None:
                    await self._try(delivery)
                else:
                    async with self._attempt_limit:
                        await self._try(delivery)
        finally:
            self._head = None

    async def _wait(self, until: float) -> bool:
        """Wait for the head's time; ``False`` if the wait was cut short to look at the flags."""
        self._queue.discard()
        self._waiting_until, self._wake = until, (wake := trio.Event())
        await self._show(LaneState.WAITING)
        with trio.move_on_at(self._services.clock.deadline(until)):
            await wake.wait()
        self._waiting_until = self._wake = None
        return not (self._must_refresh or self._must_stop)

    async def _try(self, delivery: Delivery) -> None:
        """Make an attempt, or settle the head without one."""
        await self._services.outbox.wait_settle_capacity()
        if self._must_refresh or self._must_stop:
            return
        # No checkpoint from here to ``_in_flight = True``: a registration that goes before is seen here, and
        # whoever removes or pauses it after finds the mark.
        registration = self._registration()
        if registration is None or not registration.enabled:
            state = "deleted" if registration is None else "disabled"
            await self._finish(delivery, registration, DeliveryState.DEAD, f"The registration was {state}.")
            return
        plan = self._plan_of(registration)
        age = self._services.clock.steady() - delivery.queued_at
        if is_expired(plan.policy, age=age, streak=self._memory.streak):
            await self._finish(delivery, registration, DeliveryState.DEAD, expiry_reason(plan.policy))
            return
        self._in_flight = True
        try:
            await self._show(LaneState.DELIVERING)
            await self._attempt(delivery, plan)
        finally:
            self._in_flight = False
            while self._in_flight_ended:
                self._in_flight_ended.pop().set()

    async def _attempt(self, delivery: Delivery, plan: DeliveryPlan) -> None:
        """Render the body unless an earlier attempt fixed it, send it, and settle the outcome."""
        sender, number, body = self._services.sender, delivery.attempts + 1, delivery.body
        if body is None:
            try:
                body = await sender.render_body(delivery.event, plan.registration)
            except PluginFailed as failure:
                await self._settle(delivery, plan, AttemptResult(sender.failed(number, failure)), None)
                return
            if body is None:
                reason = "A plugin filtered it out."
                await self._finish(delivery, plan.registration, DeliveryState.DROPPED, reason)
                return
        result = await sender.send(
            delivery, body, plan.template, self._transport, number=number, timeout=plan.policy.timeout
        )
        await self._settle(delivery, plan, result, body)

    async def _settle(
        self, delivery: Delivery, plan: DeliveryPlan, result: AttemptResult, body: bytes | None
    ) -> None:
        attempt, now = result.attempt, self._services.clock.steady()
        delivered = attempt.outcome is Outcome.DELIVERED
        current = self._services.registration(delivery.registration)
        if not delivered and current is not None and not current.has_target_of(plan.registration):
            # The registration has another target by now. This failure, or 410, is the former receiver's:
            # it neither counts nor delays the first attempt at the new one (issue 9).
            decision = Decision(DeliveryState.PENDING, failures=delivery.failures)
        else:
            decision = decide(
                attempt.outcome,
                plan.policy,
                failures=delivery.failures,
                streak=self._memory.streak,
                age=now - delivery.queued_at,
                retry_after=result.retry_after,
                chance=random.random(),  # noqa: S311  (jitter, not a secret)
            )
            unreachable = attempt.outcome is Outcome.UNREACHABLE
            self._memory.streak = self._memory.streak + 1 if unreachable else 0
        self._memory.outcome, self._memory.error = attempt.outcome, attempt.error
        pending = decision.state is DeliveryState.PENDING
        settlement = Settlement(
            seq=delivery.seq,
            state=decision.state,
            at=now,
            attempt=attempt,
            failures=decision.failures,
            next_at=now + decision.wait if pending else 0.0,
            # The first attempt that does not deliver fixes the bytes for every later one.
            body=body if delivery.body is None and not delivered else None,
            reason=decision.reason,
        )
        # Written before anybody hears of it. A crash before the commit repeats this attempt: at least once.
        self._services.outbox.settle_nowait(settlement)
        if pending:
            delivery.attempts, delivery.failures = attempt.number, decision.failures
            delivery.next_at, delivery.body = settlement.next_at, body
        await self._services.monitor.attempted(attempt, delivery, plan.registration)
        if not pending:
            await self._finished(delivery, plan.registration, settlement)
        if decision.disables:
            await self._services.monitor.gone(plan.registration)

    async def _finish(
        self, delivery: Delivery, registration: Registration | None, state: DeliveryState, reason: str
    ) -> None:
        """Settle the head without an attempt."""
        now = self._services.clock.steady()
        settlement = Settlement(
            seq=delivery.seq, state=state, at=now, failures=delivery.failures, reason=reason
        )
        self._services.outbox.settle_nowait(settlement)
        await self._finished(delivery, registration, settlement)

    async def _finished(
        self, delivery: Delivery, registration: Registration | None, settlement: Settlement
    ) -> None:
        self._head = None
        self.backlog = max(0, self.backlog - 1)
        await self._services.monitor.finished(delivery, registration, settlement)

    async def _show(self, state: LaneState) -> None:
        """Change the state; the monitor hears only of the beginning and the end of a wait."""
        before, self._state = self._state, state
        if before is not state and LaneState.WAITING in (before, state):
            await self._services.monitor.lane_changed(self.key, state)

    def _longest_wait(self) -> float:
        registration = self._registration()
        # A disabled registration may have any string as its URL, so that it has no plan. Its deliveries
        # are settled at once.
        if registration is None or not registration.enabled:
            return 0.0
        return longest_wait(self._plan_of(registration).policy)

    def _plan_of(self, registration: Registration) -> DeliveryPlan:
        # By identity: registrations are immutable, and a changed one is another object.
        if self._plan is None or self._plan.registration is not registration:
            self._plan = plan_for(registration, self._services.settings)
        return self._plan
