"""A lane: the in-order queue of one URL, the task that works it off, and its one connection.

Where its deliveries come from: :mod:`hookgw.dispatch.lane_queue`. The lane learns of what is sent again by
:meth:`Lane.requeued`. Whatever upsets its picture of the outbox (a URL changed, a partition was added) calls
:meth:`Lane.refresh`: the lane forgets all it holds and reads the outbox from the start, once what it
settled is on disk.

A failed head is kept and tried again; what is queued behind it is given back to the disk, so a
backlog costs no memory. A lane that has had nothing to do for a moment ends, and what is left of it
is its :class:`~hookgw.dispatch.parked_lanes.LaneMemory`, with which the next lane of its key goes on.
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
from hookgw.dispatch.retry_policy import decide, expiry_reason, is_expired, longest_wait
from hookgw.dispatch.services import DeliveryPlan, LaneServices, plan_for
from hookgw.dispatch.settlement import settlement_of, settlement_without_attempt
from hookgw.dispatch.store_retry import clamp_to_clock
from hookgw.models.deliveries import (
    Attempt,
    Delivery,
    DeliveryState,
    LaneState,
    LaneStatistics,
    Outcome,
    Settlement,
)
from hookgw.models.errors import PluginFailed, StorageUnavailable
from hookgw.models.registrations import Registration

logger = structlog.get_logger("hookgw.lane")


class Lane:
    """The in-order queue of one URL. Made and run by the dispatcher.

    Args:
        key: the URL, or a partition of it.
        services: what all lanes share.
        transport: the lane's connection; the lane closes it when it ends.
        patience: sends it to rest when it had nothing to do for a moment.
        backlog: how many deliveries are pending on disk at the start.
        past: what was left of the lane, if it was at rest; the connection in it is this lane's from then on.
    """

    __slots__ = (
        "_blockers",
        "_head",
        "_parked",
        "_past",
        "_patience",
        "_services",
        "_source",
        "_state",
        "_stopping",
        "_terms",
        "_transport",
        "_under_way",
        "_upset",
        "_waiting_until",
        "_wake",
        "_watchers",
        "backlog",
        "key",
    )

    def __init__(
        self,
        key: str,
        services: LaneServices,
        transport: LaneTransport,
        patience: IdleLanes,
        *,
        backlog: int = 0,
        past: LaneMemory | None = None,
    ) -> None:
        self.key = key
        self.backlog = backlog
        self._services = services
        self._transport = transport
        self._patience = patience
        self._parked = False
        self._upset = False
        self._blockers: list[trio.Event] = []
        self._terms: dict[str, DeliveryPlan] = {}
        self._head: Delivery | None = None
        self._under_way = False
        self._watchers: list[trio.Event] = []
        self._wake: trio.Event | None = None
        self._stopping = False
        self._state = LaneState.IDLE
        self._waiting_until: float | None = None
        self._past = past or LaneMemory()
        if self._past.connection is not None:
            transport.adopt_connection(self._past.connection)
            self._past.connection = None
        buffer = services.settings.lane_buffer
        self._source = LaneQueue(key, services.store, self._past, buffer=buffer, behind=backlog > 0)

    # What the dispatcher calls; none of it waits.

    def offer(self, delivery: Delivery) -> None:
        """Hand over a delivery that was appended. When the channel is full the lane falls behind."""
        self.backlog += 1
        self._source.offer(delivery)

    def requeued(self, count: int) -> None:
        """Deliveries that were finished are pending again: read them from the outbox in their turn.

        It is called before anything that was appended in the same commit is offered. So their positions
        are greater than those of all that the lane has taken, holds, or has in its channel, and reading
        on from ``LaneMemory.last`` finds them; what is appended later stays on disk until then, as the
        lane is behind. A page that is being read now may lack them, and then the next one has them.
        """
        self.backlog += count
        self._source.behind = True
        self._source.wake()

    def refresh(self, after: Sequence[trio.Event] = ()) -> None:
        """Forget what is held and read the outbox anew, once the given events have happened."""
        self._upset = True
        self._blockers.extend(after)
        self._wake_up()

    def resume(self) -> None:
        """Try the head again now, if the lane waits."""
        if self._waiting_until is not None:
            self._past.streak = 0
            self._wake_up()

    def stop(self) -> None:
        """End after the attempt that is under way; what is left stays on disk."""
        self._stopping = True
        self._wake_up()

    def park(self) -> None:
        """End for now, if there is nothing to do; what is left of the lane is at rest then."""
        self._parked = True
        self._source.wake()

    def under_way(self, registration_id: str) -> tuple[int, trio.Event] | None:
        """The delivery to that registration that is on the wire now, and an event of its end."""
        head = self._head
        if head is None or not self._under_way or head.registration != registration_id:
            return None
        done = trio.Event()
        self._watchers.append(done)
        return head.seq, done

    def statistics(self) -> LaneStatistics:
        """A snapshot."""
        head = self._head
        return LaneStatistics(
            lane=self.key,
            state=self._state,
            backlog=self.backlog,
            head=head.seq if head else None,
            head_since=head.queued_at if head else None,
            waiting_until=self._waiting_until,
            last_outcome=self._past.outcome,
            last_error=self._past.error,
        )

    # The task.

    async def run(self) -> LaneMemory | None:
        """Work the lane off.

        Returns:
            What is left of it, once it had nothing to do for a moment; ``None`` where it was told to stop.
        """
        try:
            while (delivery := await self._next()) is not None:
                await self._work(delivery)
                del delivery  # it would be kept in memory for as long as the lane is idle
            return None if self._stopping else self._lay_down()
        finally:
            self._transport.close_nowait()
            self._state = LaneState.IDLE

    async def _next(self) -> Delivery | None:
        while not self._stopping:
            if self._upset:
                await self._start_over()
            elif (delivery := self._source.take()) is not None:
                self._parked = False
                return delivery
            elif self._source.behind:
                await self._source.read(self._cannot_read)
            elif self._parked:
                return None
            else:
                await self._idle()
        return None

    async def _start_over(self) -> None:
        self._state = LaneState.PAUSED
        while self._blockers:
            await self._blockers.pop().wait()
        if self._stopping:  # nothing is read any more, and what it settled need not be waited for
            return
        self._upset = False
        self._terms.clear()
        self._source.give_back()
        self.backlog = await self._source.count(self._cannot_read)
        self._past.last = 0

    def _cannot_read(self, error: StorageUnavailable) -> None:
        self._state = LaneState.PAUSED
        logger.warning("the outbox cannot be read", lane=self.key, reason=str(error))

    async def _idle(self) -> None:
        """Wait until there is something to do, or for too long."""
        self._state, self.backlog = LaneState.IDLE, 0
        idle_since = self._patience.begin(self)
        self._past.until = idle_since + self._services.settings.lane_idle
        try:
            await self._source.wait()
        finally:
            self._patience.end(self)

    def _lay_down(self) -> LaneMemory:
        """What is left of the lane, with its connection."""
        self._past.connection = self._transport.release_connection()
        return self._past

    def _wake_up(self) -> None:
        if self._wake is not None:
            self._wake.set()
        self._source.wake()

    # One delivery, until it is settled or given back.

    async def _work(self, delivery: Delivery) -> None:
        clamp_to_clock(delivery, self._services.clock.steady(), self._longest_wait)
        self._head = delivery
        try:
            while self._head is not None and not self._stopping and not self._upset:
                if await self._wait(delivery.next_at):
                    await self._try(delivery)
        finally:
            self._head = None

    async def _wait(self, until: float) -> bool:
        """Wait for the head's time. False where that was cut short to look around again."""
        clock = self._services.clock
        if until <= clock.steady():
            return True
        self._source.give_back()
        self._waiting_until, self._wake = until, (wake := trio.Event())
        await self._show(LaneState.WAITING)
        with trio.move_on_at(clock.deadline(until)):
            await wake.wait()
        self._waiting_until = self._wake = None
        return not (self._upset or self._stopping)

    async def _try(self, delivery: Delivery) -> None:
        """Settle the head or make an attempt.

        From the look at the registration to the mark that something is under way there is no
        checkpoint: a registration that goes before is seen, one that goes after finds the mark.
        """
        await self._services.store.settle_capacity()
        if self._upset or self._stopping:
            return
        registration = self._services.keeper.registration(delivery.registration)
        if registration is None or not registration.enabled:
            state = "deleted" if registration is None else "disabled"
            await self._give_up(delivery, registration, f"The registration was {state}.")
            return
        terms = self._terms_of(registration)
        age = self._services.clock.steady() - delivery.queued_at
        if is_expired(terms.policy, age=age, streak=self._past.streak):
            await self._give_up(delivery, registration, expiry_reason(terms.policy))
            return
        self._under_way = True
        try:
            await self._show(LaneState.DELIVERING)
            await self._attempt(delivery, registration, terms)
        finally:
            self._under_way = False
            while self._watchers:
                self._watchers.pop().set()

    async def _attempt(self, delivery: Delivery, registration: Registration, terms: DeliveryPlan) -> None:
        """Pack, if that is still to be done, send, and settle what came of it."""
        courier, number, body = self._services.courier, delivery.attempts + 1, delivery.body
        if body is None:
            try:
                body = await courier.render_body(delivery.event, registration)
            except PluginFailed as failure:
                await self._settle(
                    delivery, registration, terms, AttemptResult(courier.failed(number, failure)), None
                )
                return
            if body is None:
                await self._finish(delivery, registration, DeliveryState.DROPPED, "A plugin filtered it out.")
                return
        sent = await courier.send(
            delivery, body, terms.route, self._transport, number=number, timeout=terms.policy.timeout
        )
        await self._settle(delivery, registration, terms, sent, body)

    async def _settle(
        self,
        delivery: Delivery,
        registration: Registration,
        terms: DeliveryPlan,
        sent: AttemptResult,
        body: bytes | None,
    ) -> None:
        """Write the outcome first, then tell others, then go on."""
        attempt, now = sent.attempt, self._services.clock.steady()
        decision = decide(
            attempt.outcome,
            terms.policy,
            failures=delivery.failures,
            streak=self._past.streak,
            age=now - delivery.queued_at,
            retry_after=sent.retry_after,
            chance=random.random(),  # noqa: S311  (jitter, no secret)
        )
        settlement = settlement_of(delivery, sent, body, decision, now)
        pending = decision.state is DeliveryState.PENDING
        self._services.store.settle_nowait(settlement)
        self._remember(attempt)
        if pending:
            delivery.attempts, delivery.failures = attempt.number, decision.failures
            delivery.next_at, delivery.body = settlement.next_at, body
        await self._services.keeper.attempted(attempt, delivery, registration)
        if not pending:
            await self._finished(delivery, registration, settlement)
        if decision.disables:
            await self._services.keeper.disable(registration, "The receiver answered 410 Gone.")

    def _remember(self, attempt: Attempt) -> None:
        past = self._past
        past.outcome, past.error = attempt.outcome, attempt.error
        past.streak = past.streak + 1 if attempt.outcome is Outcome.UNREACHABLE else 0

    async def _give_up(self, delivery: Delivery, registration: Registration | None, reason: str) -> None:
        await self._finish(delivery, registration, DeliveryState.DEAD, reason)

    async def _finish(
        self, delivery: Delivery, registration: Registration | None, state: DeliveryState, reason: str
    ) -> None:
        """Settle without an attempt."""
        now = self._services.clock.steady()
        settlement = settlement_without_attempt(delivery, state, reason, now)
        self._services.store.settle_nowait(settlement)
        await self._finished(delivery, registration, settlement)

    async def _finished(
        self, delivery: Delivery, registration: Registration | None, settlement: Settlement
    ) -> None:
        self._head = None
        self.backlog = max(0, self.backlog - 1)
        await self._services.keeper.finished(delivery, registration, settlement)

    async def _show(self, state: LaneState) -> None:
        """Change the state; only beginning and ending a wait is news to others."""
        before, self._state = self._state, state
        if before is not state and LaneState.WAITING in (before, state):
            await self._services.keeper.lane_changed(self.key, state)

    def _longest_wait(self, registration_id: str) -> float:
        registration = self._services.keeper.registration(registration_id)
        return 0.0 if registration is None else longest_wait(self._terms_of(registration).policy)

    def _terms_of(self, registration: Registration) -> DeliveryPlan:
        terms = self._terms.get(registration.id)
        if terms is None or terms.route.registration is not registration:
            terms = plan_for(registration, self._services.settings)
            self._terms[registration.id] = terms
        return terms
