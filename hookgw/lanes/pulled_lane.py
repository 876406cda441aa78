"""A lane that nobody posts from: its receiver fetches.

It has the face of :class:`~hookgw.lanes.lane.Lane` for the dispatcher, and what is said there of pauses,
refreshes and memory holds here, too. The attempt of such a lane is a *lease*: deliveries from the front of
the lane, handed to one consumer in order, until it has acknowledged them, returns them, or the time is over.

::

            take (a consumer fetches)
    NO LEASE ────────────────────────> LEASED ── settle: delivered ──> LEASED, or NO LEASE after the last
      ^                                  │
      │   fail: one attempt of that one, and those behind it return
      └──────────────────────────────────┤
      ^                                  │
      └── the time is over: one attempt, unanswered, of the first one; the others return

A lease is in memory alone. A process that is killed leaves its deliveries pending, so they are had again: at
least once, with the same bytes and the same ``x-attempt``. An acknowledgement is a settlement like any other,
and its caller waits until it is on disk.

Two tasks work on a lane: its own (:meth:`PulledLane.run`), and that of a call. :attr:`PulledLane.lock` is
held by whichever reads or leases. Settlements need no checkpoint, and so no lock. The own task reports them
to the monitor, because a caller may be cancelled at any checkpoint.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from functools import partial

import structlog
import trio

from hookgw.concurrency.clock import let_arrive
from hookgw.concurrency.tasks import TaskFailed
from hookgw.delivery.sender import AttemptResult
from hookgw.kernel.errors import PluginFailed, StorageUnavailable
from hookgw.lanes.chat_order import ChatOrder
from hookgw.lanes.hanging import died_unanswered, recall_last_attempt
from hookgw.lanes.idle_lanes import IdleLanes
from hookgw.lanes.lane_memory import Head, LaneMemory, head_of, settlement_of
from hookgw.lanes.lane_queue import DELIVERY_OVERHEAD, LANE_PAGE, LaneQueue
from hookgw.lanes.lease import Lease, Leased, Report, attempt_of, lease_numbers
from hookgw.lanes.rate_limit import take_all
from hookgw.lanes.retry_policy import expiry_reason, is_expired, longest_wait, policy_of
from hookgw.lanes.services import LEASE_WAIT, LONG_WAIT, DeliveryPlan, LaneServices, plan_for, rates_of
from hookgw.lanes.store_retry import retry_until_readable
from hookgw.records.deliveries import (
    FIRST,
    Attempt,
    Delivery,
    DeliveryState,
    LaneState,
    LaneStatistics,
    Outcome,
    Position,
    Settlement,
    WaitsFor,
)
from hookgw.records.lanes import partition_of, registration_of
from hookgw.records.registrations import Registration
from hookgw.records.stuck_lanes import is_stuck

logger = structlog.get_logger("hookgw.lane")

UNFETCHED = 300.0
"""Seconds without a fetch after which deliveries expire that are older than ``max_age``. Before, a receiver
that comes back gets them: as a lane that posts tries once before anything expires."""


class PulledLane:
    """One lane of a registration whose receiver fetches. The dispatcher creates it and runs :meth:`run`.

    The arguments are those of :class:`~hookgw.lanes.lane.Lane`.

    Attributes:
        lock: see the module.
        available_at: when something may be available that is not yet, by the steady clock.
    """

    is_pulled = True
    is_in_flight = False
    """A lease does not keep a shard: another node gives its deliveries again."""

    def __init__(
        self,
        key: str,
        services: LaneServices,
        idle_lanes: IdleLanes,
        *,
        order: ChatOrder | None = None,
        backlog: int = 0,
        barrier: Position | None = None,
        memory: LaneMemory | None = None,
    ) -> None:
        self.key = key
        self.lock = trio.Lock()
        self.available_at = math.inf
        self._registration_id = registration_of(key)
        self._services = services
        self._idle_lanes = idle_lanes
        self._order = order
        self._memory = memory or LaneMemory()
        self._queue = LaneQueue(
            key,
            services.outbox,
            services.memory,
            self._memory,
            services.clock.steady,
            buffer=1,
            backlog=backlog,
            barrier=barrier,
        )
        # It is always behind: while nobody fetches, what is appended stays on disk alone.
        self._queue.behind = True
        self._plan: DeliveryPlan | None = None
        self._lease: Lease | None = None
        self._head: Head | None = None
        self._is_drained = False
        self._is_paused = self._is_retired = False
        self._must_stop = self._must_flush = False
        self._must_refresh = True
        # The head as it was found first: with its times as corrected then, or as :meth:`resume` made them.
        self._known: Head | None = None
        self._has_ended = False
        self._settling = 0
        self._reports: deque[Report] = deque()
        self._reported_waiting = False
        self._waits_for: WaitsFor | None = None
        self._wake = trio.Event()

    # Called by the dispatcher. None of these methods waits.

    def offer(self, delivery: Delivery) -> None:
        self._queue.appended()
        if not self._queue.is_behind_barrier(delivery):
            self._is_drained = False
            self._changed()

    def requeued(self, count: int) -> None:
        # Not always at the end: see :meth:`hookgw.store.PendingChanges.reopen`.
        self._queue.appended(count)
        self.refresh()

    def set_barrier(self, position: Position | None) -> None:
        """See :meth:`hookgw.lanes.lane.Lane.set_barrier`."""
        self._queue.barrier = position
        self.refresh()

    def refresh(self) -> None:
        """Count and read the outbox from the start. A lease stays, with what is still pending of it."""
        self._must_refresh, self._is_drained, self._head = True, False, None
        self._changed()

    def pause(self) -> None:
        """Give no delivery away until :meth:`unpause`. A lease stays, and may be acknowledged."""
        self._is_paused = True
        self.refresh()

    def recount(self) -> None:
        self.refresh()

    def unpause(self) -> None:
        if self._is_paused:
            self._is_paused = False
            self.refresh()

    def redirect(self) -> None:
        """Let the head wait no longer: the registration has another secret."""
        self._memory.redirected()
        self.refresh()

    def resume(self) -> None:
        """Let the head be fetched now, if it waits for its next attempt."""
        if self._head is not None and self._head.next_at:
            self._memory.streak = 0
            self._head = self._known = self._head._replace(next_at=0.0)
            self._changed()

    def rate_changed(self) -> None:
        self._changed()

    def retire(self) -> None:
        self._is_retired = True
        self._wake.set()

    def stop(self) -> None:
        """End at once; all of it is pending on disk."""
        self._must_stop = True
        self._changed()

    def cut_off(self, seq: int) -> None:
        """Do nothing: an acknowledgement of what is cancelled is ignored."""

    def in_flight(self) -> None:
        """Return ``None``: nobody waits for the end of a lease, which lasts as long as a consumer wants."""

    @property
    def frontier(self) -> Position | None:
        """The lane has no pending delivery before this position; ``None`` if it has none at all."""
        if self._must_refresh:
            return FIRST
        if self._lease is not None:
            return self._lease.leased[0].delivery.position
        if self._is_drained:
            return None
        return FIRST if self._head is None else self._head.position

    @property
    def is_drained(self) -> bool:
        """See :attr:`hookgw.lanes.lane.Lane.is_drained`. What is leased is not delivered."""
        return self._is_drained and self._lease is None and not self._must_refresh

    @property
    def lease(self) -> Lease | None:
        return self._lease

    @property
    def settling(self) -> int:
        """The number of the last settlement, for :meth:`~hookgw.store.Outbox.wait_settled`."""
        return self._settling

    @property
    def is_idle(self) -> bool:
        return not (self._queue.backlog or self._lease is not None or self._is_paused or self._must_stop)

    def statistics(self) -> LaneStatistics:
        registration, lease, head = self._registration(), self._lease, self._head
        if lease is not None:
            head = head_of(lease.leased[0].delivery)
        state, waits_for, until = LaneState.IDLE, self._waits_for, None
        if self._is_paused or self._must_stop:
            state, waits_for = LaneState.PAUSED, None
        elif lease is not None:
            state, waits_for = LaneState.DELIVERING, None
        elif self._queue.backlog:
            state = LaneState.WAITING
            if head is not None and head.next_at > self._services.clock.steady():
                until = head.next_at
            elif waits_for is None:
                waits_for = "backfill" if self._is_drained else "fetch"
        is_tried = head is not None and head.seq == self._memory.tried
        fetched = self._services.fetches.of(self._registration_id)
        return LaneStatistics(
            lane=self.key,
            registration=self._registration_id,
            partition=partition_of(self.key),
            url=registration.address if registration else None,
            state=state,
            backlog=self._queue.backlog,
            head=head.seq if head else None,
            head_since=head.queued_at if head else None,
            head_instance=head.instance if head else None,
            tried_since=self._memory.tried_since if is_tried else None,
            waiting_until=until,
            waits_for=waits_for,
            last_outcome=self._memory.outcome,
            last_error=self._memory.error,
            has_reached=self._memory.has_reached,
            is_throttled=self._memory.is_throttled,
            fetched_at=fetched.at,
            consumer=lease.consumer if lease is not None else None,
        )

    def _changed(self) -> None:
        self._wake.set()
        self._services.fetches.ring(self._registration_id)

    def _registration(self) -> Registration | None:
        return self._services.registration(self._registration_id)

    # Called for a consumer.

    async def take(
        self, consumer: str, most: int, size: int, length: float, after: Position | None = None
    ) -> Lease | None:
        """Lease the next deliveries to a consumer, and return the lease; ``None`` if there is none now.

        A consumer that has a lease gets that again, and its end stays: a delivery that kills its consumer
        each time must come to its attempts.

        Args:
            most: the most deliveries.
            size: the most bytes of bodies, but at least one delivery.
            length: of the lease, in seconds.
            after: everything up to this position is delivered, leased or not, for a receiver that keeps its
                own place.
        """
        async with self.lock:
            self.available_at = math.inf
            if self._must_refresh and not self._must_stop:
                await self._read_again()
            if self._lease is not None and self._lease.consumer == consumer and after is not None:
                self.settle([one for one in self._lease.leased if one.delivery.position <= after])
            if self._lease is not None:
                # After a change of what is pending, :meth:`run` looks what is left of it.
                return self._lease if self._lease.consumer == consumer and self._may_give() else None
            taken: list[Leased] = []
            try:
                await self._services.outbox.wait_settle_capacity()
                await self._flush()
                while len(taken) < most and size > 0:
                    found = await self._next(most - len(taken), is_first=not taken, after=after)
                    if found is None:
                        break
                    taken.append(found)
                    size -= len(found.body)
                if not taken or not self._may_give():
                    return None
                registration = self._registration()
                if any(one.plan.registration is not registration for one in taken):
                    self._changed()  # it changed meanwhile: try again
                    return None
                # No checkpoint from the last look at the flags to here.
                clock = self._services.clock
                now = clock.steady()
                lease = Lease(next(lease_numbers), consumer, length, now + length, clock.wall(), now, taken)
                self._lease, self._head, taken = lease, None, []
                self._wake.set()
                return lease
            finally:
                self._queue.discard()
                if taken:
                    self._put_back(taken)

    def _may_give(self) -> bool:
        # A caller may have come to the lane before its task ended: nobody would end the lease.
        return not (self._must_refresh or self._must_stop or self._is_paused or self._has_ended)

    async def _flush(self) -> None:
        """Wait until what is on disk is as this lane has settled it, before that is read again."""
        if self._must_flush:
            self._must_flush = False
            try:
                await self._services.outbox.flush()
            except BaseException:
                self._must_flush = True  # a caller may be cancelled here
                raise

    async def _next(  # noqa: C901 -- one check after the other
        self, most: int, *, is_first: bool, after: Position | None
    ) -> Leased | None:
        """Return the next delivery with its body; ``None`` if none may be given now.

        Settle what has been delivered already, and what is not wanted.
        """
        while True:
            if not self._may_give():
                return None
            now, registration = self._services.clock.steady(), self._registration()
            if registration is None or not registration.enabled or not registration.is_pulled:
                return None  # :meth:`run` makes dead letters of them, or ends
            if not self._services.may_send():
                self.available_at = now + LEASE_WAIT
                return None
            if (delivery := await self._take_from_queue(most, may_wait=is_first)) is None:
                return None
            if not self._may_give():
                self._put_delivery_back(delivery)
                return None
            self._correct_times(delivery, registration, now)
            if after is not None and delivery.position <= after:
                attempt = attempt_of(delivery, self._services.clock.wall(), 0.0, Outcome.DELIVERED)
                self._settle_delivered(delivery, registration, attempt, now)
                self._head = None
                await self._services.outbox.wait_settle_capacity()
                continue
            if is_first:
                self._head = self._known = head_of(delivery)
            if self._plan is None or self._plan.registration is not registration:
                self._plan = plan_for(registration, self._services)
            plan = self._plan
            if delivery.next_at > now or (
                self._order is not None and not self._order.may_begin(self, delivery.position)
            ):
                self.available_at = delivery.next_at if delivery.next_at > now else math.inf
                self._put_delivery_back(delivery)
                return None
            age = plan.policy.age(delivery.queued_at, now)
            if is_expired(plan.policy, age=age, streak=self._memory.streak):
                reason = expiry_reason(plan.policy, self._memory.outcome)
                self._finish(delivery, registration, DeliveryState.DEAD, reason)
                continue
            number, body = delivery.attempts + 1, delivery.body
            refusal = plan.template.refusal(delivery.event) if body is None and plan.template.filter else None
            try:
                headers = None
                if body is None and refusal is None:
                    rendered = self._services.sender.render_body(delivery.event, plan.template)
                    body = rendered if isinstance(rendered, bytes) else await rendered
                if body is not None:
                    headers = await self._services.sender.prepare(delivery, body, plan.template, number)
            except PluginFailed as failure:
                if self._may_give() and self._registration() is registration:
                    attempt = self._services.sender.unsent(number, failure)
                    if self._settle_failure(delivery, plan, attempt, body) is not DeliveryState.PENDING:
                        continue
                self._put_delivery_back(delivery)
                return None
            except BaseException:
                self._put_delivery_back(delivery)
                raise
            if not self._may_give() or self._registration() is not registration:
                self._put_delivery_back(delivery)
                return None
            if body is None:
                self._finish(
                    delivery, registration, DeliveryState.DROPPED, refusal or "A plugin filtered it out."
                )
                await trio.lowlevel.checkpoint()
                continue
            rates = rates_of(plan, delivery.event.instance, self._services)
            if rates and not take_all(rates, now):
                self.available_at = max(rate.opens_at for rate in rates)
                self._waits_for = "rate"
                self._put_delivery_back(delivery)
                return None
            self._waits_for = None
            if len(body) > len(delivery.event.data_json) + DELIVERY_OVERHEAD:
                self._queue.charge_body(delivery, len(body))
            return Leased(delivery, body, headers, plan)

    async def _take_from_queue(self, most: int, *, may_wait: bool = True) -> Delivery | None:
        while (delivery := self._queue.take()) is None:
            if not self._queue.behind:
                return None
            registration = self._registration()
            holder = self._registration_id if registration is None else registration.instance
            reserved = self._queue.reserve_nowait(holder)
            if not reserved:
                # Who holds deliveries in memory must not wait for more of it. What is to be reported is held
                # until :meth:`run` comes to it, and that may wait for the lock.
                if not may_wait or (self._reports and self.lock.statistics().tasks_waiting):
                    return None
                claim = self._queue.claim(holder)
                self._waits_for = "memory"
                try:
                    await claim.event.wait()
                    if claim.is_granted:
                        claim.is_granted, reserved = False, claim.amount
                finally:
                    self._waits_for = None
                    self._queue.leave(claim)
            await self._queue.read(self._cannot_read, holder, reserved, min(most, LANE_PAGE))
            if not self._may_give():
                return None
        return delivery

    def _correct_times(self, delivery: Delivery, registration: Registration, now: float) -> None:
        # As in the lanes that post: the machine's clock may have been set back while hookgw was down. Each
        # fetch reads the head again, and must not put its times off once more.
        known = self._known
        if known is not None and (known.seq, known.position) == (delivery.seq, delivery.position):
            delivery.queued_at = min(delivery.queued_at, known.queued_at)
            delivery.next_at = min(delivery.next_at, known.next_at)
        if delivery.next_at > now:
            longest = longest_wait(policy_of(registration, self._services.settings))
            delivery.next_at = min(delivery.next_at, now + longest)

    def _put_delivery_back(self, delivery: Delivery) -> None:
        self._queue.release(delivery)
        self._memory.last = delivery.position - 1

    def _put_back(self, leased: Sequence[Leased]) -> None:
        """Return deliveries to the front of the lane: they are read again from disk."""
        for one in leased:
            self._queue.release(one.delivery)
        self._memory.last = leased[0].delivery.position - 1
        self._must_flush = True  # some behind the first one may be settled, and not on disk yet

    def signed_headers(self, one: Leased) -> dict[str, str]:
        """Return the headers of a delivery, signed as of now."""
        return self._services.sender.signed_headers(
            one.delivery,
            one.body,
            one.plan.template,
            number=one.delivery.attempts + 1,
            headers=one.headers,
        )

    async def catch_up(self) -> None:
        """Read again what is pending, if that may have changed: the lease may have less now."""
        async with self.lock:
            # A pause lasts while something changes what is pending, and the next look comes after it.
            self._must_refresh = self._must_refresh or self._is_paused
            while self._must_refresh and not self._must_stop:  # it may change once more meanwhile
                await self._read_again()

    def settle(self, leased: Sequence[Leased]) -> int:
        """Settle deliveries of the lease as delivered. No checkpoint.

        Returns:
            The number for :meth:`~hookgw.store.Outbox.wait_settled`.
        """
        lease = self._lease
        if lease is None or not leased:
            return self._settling
        now = self._services.clock.steady()
        for one in leased:
            attempt = attempt_of(one.delivery, lease.at, now - lease.began, Outcome.DELIVERED)
            self._settle_delivered(one.delivery, one.plan.registration, attempt, now)
        settled = {one.delivery.seq for one in leased}
        lease.leased = [one for one in lease.leased if one.delivery.seq not in settled]
        lease.ends_at = now + lease.length
        self._lease_changed()
        return self._settling

    def fail(self, one: Leased, reason: str) -> int:
        """Note a failed attempt of a delivery of the lease; return it, and those behind it, to the lane.

        No checkpoint. Return as :meth:`settle`.
        """
        lease = self._lease
        if lease is None:
            return self._settling
        duration = self._services.clock.steady() - lease.began
        attempt = attempt_of(one.delivery, lease.at, duration, Outcome.FAILED, reason)
        place = lease.leased.index(one)
        returned, lease.leased = lease.leased[place:], lease.leased[:place]
        self._lease = lease if lease.leased else None  # before the look at the lane: see is_stuck
        self._put_back(returned)
        self._settle_failure(one.delivery, one.plan, attempt, one.body)
        self._lease_changed()
        return self._settling

    def release(self) -> None:
        """Return what is left of the lease without an attempt. No checkpoint."""
        if self._lease is not None:
            returned, self._lease = self._lease.leased, None
            self._put_back(returned)
            self._lease_changed()

    # Settlements. None of these methods waits.

    def _settle_delivered(
        self, delivery: Delivery, registration: Registration, attempt: Attempt, now: float
    ) -> None:
        self._memory.delivered()
        self._request(
            attempt,
            delivery,
            registration,
            Settlement(
                seq=delivery.seq,
                state=DeliveryState.DELIVERED,
                at=now,
                attempt=attempt,
                failures=delivery.failures,
            ),
        )

    def _settle_failure(
        self, delivery: Delivery, plan: DeliveryPlan, attempt: Attempt, body: bytes | None
    ) -> DeliveryState:
        now = self._services.clock.steady()
        decision = self._memory.decide(delivery, plan.policy, AttemptResult(attempt), now)
        is_pending = decision.state is DeliveryState.PENDING
        self._memory.note(attempt, is_pending=is_pending)
        if is_pending and self._memory.tried != delivery.seq:
            self._memory.tried, self._memory.tried_since = delivery.seq, now - attempt.duration
        settlement = settlement_of(delivery, attempt, decision, body, now)
        self._request(attempt, delivery, plan.registration, settlement)
        if is_pending:
            self._must_flush = True
            delivery.attempts, delivery.failures = attempt.number, decision.failures
            delivery.next_at, delivery.body = settlement.next_at, body
            if self._lease is None:
                self._head = self._known = head_of(delivery)
                found = self.statistics()
                if self._memory.stuck != delivery.seq and is_stuck(found, now):
                    self._memory.stuck = delivery.seq
                    self._services.monitor.lane_stuck(found)
        return decision.state

    def _finish(
        self, delivery: Delivery, registration: Registration | None, state: DeliveryState, reason: str
    ) -> None:
        now = self._services.clock.steady()
        settlement = Settlement(
            seq=delivery.seq, state=state, at=now, failures=delivery.failures, reason=reason
        )
        self._request(None, delivery, registration, settlement)

    def _request(
        self,
        attempt: Attempt | None,
        delivery: Delivery,
        registration: Registration | None,
        settlement: Settlement,
    ) -> None:
        self._settling = self._services.outbox.settle_nowait(settlement)
        if settlement.state is not DeliveryState.PENDING:
            self._queue.backlog = max(0, self._queue.backlog - 1)
            if self._known is not None and self._known.seq == delivery.seq:
                self._known = None
        # Its memory is given back once the monitor has seen it.
        self._reports.append(Report(attempt, delivery, registration, settlement))
        self._wake.set()

    def _lease_changed(self) -> None:
        if self._lease is not None and not self._lease.leased:
            self._lease = None
        if self._order is not None:
            self._order.advanced()
        self._changed()

    # The task.

    async def run(self) -> LaneMemory | None:  # noqa: C901 -- a table of states
        """End leases, expire what nobody fetches, and report, until :meth:`stop` or :meth:`retire`.

        Returns:
            As :meth:`hookgw.lanes.lane.Lane.run`.
        """
        self._has_ended = False
        try:
            while True:
                # First: whatever happens from here on ends a rest.
                self._wake = trio.Event()
                await self._report()
                registration, now = self._registration(), self._services.clock.steady()
                if self._must_stop or (registration is not None and not registration.is_pulled):
                    return None
                if self._must_refresh:
                    await self.catch_up()
                elif self._lease is not None:
                    if self._lease.ends_at <= now:
                        await self._end_lease(self._lease)
                    else:
                        await self._rest(self._lease.ends_at)
                elif self._is_paused:
                    await self._rest(math.inf)
                elif not self._queue.backlog:
                    if self._is_retired and not self.lock.locked():  # a caller may be about to find something
                        return self._memory
                    self._head, self._is_drained = None, True
                    if self._order is not None:
                        self._order.advanced()
                        self._services.fetches.ring(self._registration_id)
                    self._memory.until = self._idle_lanes.begin(self) + self._services.settings.lane_idle
                    try:
                        await self._rest(math.inf)
                    finally:
                        self._idle_lanes.end(self)
                elif registration is None or not registration.enabled:
                    state = "deleted" if registration is None else "disabled"
                    await self._finish_older(registration, f"The registration was {state}.", math.inf)
                elif self._head is None:
                    await self._look(registration)
                else:
                    self._is_retired = False
                    policy = policy_of(registration, self._services.settings)
                    expires_at = max(
                        max(self._head.queued_at, policy.counts_from) + policy.max_age,
                        self._services.fetches.last(self._registration_id, now) + UNFETCHED,
                    )
                    if expires_at <= now:
                        reason = f"Nobody fetched it until it was older than max_age ({policy.max_age:g} s)."
                        await self._finish_older(registration, reason, now - policy.max_age)
                    else:
                        await self._rest(expires_at)
        finally:
            self._has_ended = True
            self._queue.discard()
            for report in self._reports:
                self._queue.release(report.delivery)
            self._reports.clear()
            for one in self._lease.leased if self._lease is not None else ():
                self._queue.release(one.delivery)
            self._lease = None
            self._services.fetches.ring(self._registration_id)

    async def recover(self, failure: TaskFailed, wait: float) -> None:
        """See :meth:`hookgw.lanes.lane.Lane.recover`."""
        self._plan = self._head = None
        self._is_retired, self._must_refresh, self._is_drained = False, True, False
        self._memory.error = f"An error in hookgw ended the lane, which starts again: {failure}"
        with trio.move_on_after(wait):
            while not self._must_stop:
                self._wake = trio.Event()
                await self._wake.wait()

    async def _rest(self, until: float) -> None:
        """Wait until a time of the steady clock, or until something has changed since the round began."""
        with trio.CancelScope(deadline=self._services.clock.deadline(until)):
            await self._wake.wait()

    async def _report(self) -> None:
        """Tell the monitor what has happened."""
        monitor, had_some = self._services.monitor, bool(self._reports)
        while self._reports:
            attempt, delivery, registration, settlement = self._reports.popleft()
            try:
                if attempt is not None and registration is not None:
                    heard = monitor.attempted(attempt, delivery, registration)
                    if heard is not None:
                        await heard
                if settlement.state is not DeliveryState.PENDING:
                    heard = monitor.finished(delivery, registration, settlement)
                    if heard is not None:
                        await heard
            finally:
                self._queue.release(delivery)
        if had_some and self._lease is None:
            self._services.fetches.ring(self._registration_id)  # a fetch may have ended for want of memory
        waits = self._reported_waiting
        if self._lease is not None or not self._queue.backlog:
            waits = False
        elif self._head is not None and self._head.next_at >= self._services.clock.steady() + LONG_WAIT:
            waits = True
        if waits is not self._reported_waiting:
            self._reported_waiting = waits
            await monitor.lane_changed(self.key, LaneState.WAITING if waits else LaneState.DELIVERING)

    async def _read_again(self) -> None:
        """Count what is pending, and find what is left of the lease. Hold the lock."""
        # Cleared before the reads: a call that comes during them starts this over once more.
        self._must_refresh = self._must_flush = False
        try:
            # The count waits until the settlements of this lane are on disk: then it is safe to read again.
            await self._queue.recount(self._cannot_read)
            lease = self._lease
            if lease is None:
                self._memory.last = FIRST
            elif not self._must_refresh:
                # What was cancelled, moved or erased meanwhile is not the consumer's any more.
                pending, after = set(), lease.leased[0].delivery.position - 1
                last = lease.leased[-1].delivery.position
                while after < last:
                    read = partial(self._services.outbox.read_lane, self.key, after, LANE_PAGE)
                    page = await retry_until_readable(read, self._cannot_read)
                    pending |= {(one.seq, one.position) for one in page.deliveries}
                    after = page.deliveries[-1].position if page.deliveries and page.more else last
                gone = [o for o in lease.leased if (o.delivery.seq, o.delivery.position) not in pending]
                for one in gone:
                    self._queue.release(one.delivery)
                lease.leased = [one for one in lease.leased if one not in gone]
                if self._lease is lease:
                    self._lease_changed()
        except BaseException:
            self._must_refresh = True  # a caller may be cancelled here
            raise
        self._services.fetches.ring(self._registration_id)

    async def _end_lease(self, lease: Lease) -> None:
        """Note one attempt of the first delivery of a lease whose time is over, and return all of them."""
        await let_arrive(self._services.clock.steady() - lease.ends_at)
        async with self.lock:
            first = lease.leased[0] if lease.leased else None
            if first is not None and self._memory.hangs is None:
                self._memory.hangs = await died_unanswered(self._services.history, first.delivery)
            # An acknowledgement may have come meanwhile.
            now = self._services.clock.steady()
            if first is None or self._lease is not lease or lease.ends_at > now or first not in lease.leased:
                return
            error = (
                f"The consumer {lease.consumer!r} did not acknowledge it before its lease ended, "
                f"after {lease.length:g} s."
            )
            attempt = attempt_of(first.delivery, lease.at, now - lease.began, Outcome.UNANSWERED, error)
            returned, self._lease = lease.leased, None
            self._put_back(returned)
            self._settle_failure(first.delivery, first.plan, attempt, first.body)
            self._lease_changed()

    async def _look(self, registration: Registration) -> None:
        """Find the first delivery: its times, and its place among those of other lanes."""
        async with self.lock:
            if self._head is not None or self._lease is not None or not self._may_give():
                return
            if self._reports:  # of a call that had the lock: first give back their memory
                return
            try:
                await self._flush()
                found = await self._take_from_queue(1)
                if found is not None:
                    self._correct_times(found, registration, self._services.clock.steady())
                    self._head = self._known = head_of(found)
                    self._put_delivery_back(found)
                    if self._order is not None:
                        self._order.advanced()
                        self._services.fetches.ring(self._registration_id)
                    if found.attempts and self._memory.outcome is None:
                        await recall_last_attempt(self._memory, self._services.outbox, found)
                    return
            finally:
                self._queue.discard()
            await self._queue.recount(self._cannot_read)
            if self._queue.barrier is not None and not self._must_refresh:
                self._is_drained = True
                if self._order is not None:
                    self._order.advanced()
        if self._is_drained:
            await self._rest(math.inf)  # a backfill makes some before those that are pending
        elif self._queue.backlog:  # the storage holds it back
            await self._rest(self._services.clock.steady() + LONG_WAIT)

    async def _finish_older(self, registration: Registration | None, reason: str, before: float) -> None:
        """Make dead letters of what was queued before a time, from the front of the lane."""
        finished, held_until = 0, 0.0
        async with self.lock:
            try:
                await self._flush()
                while self._lease is None and self._may_give() and self._registration() is registration:
                    await self._services.outbox.wait_settle_capacity()
                    delivery = await self._take_from_queue(LANE_PAGE, may_wait=not self._reports)
                    if delivery is None:
                        if self._queue.backlog and not finished and not self._reports and self._may_give():
                            # A barrier or the storage holds it back.
                            self._is_drained = self._queue.barrier is not None
                            held_until = (
                                math.inf if self._is_drained else self._services.clock.steady() + LONG_WAIT
                            )
                            break
                        # Not exact after a refresh; nothing that is appended now is lost by it. Or these fill
                        # the memory: the next round reports them, and goes on.
                        self._must_refresh = bool(self._queue.backlog)
                        break
                    if registration is not None:
                        self._correct_times(delivery, registration, self._services.clock.steady())
                    if delivery.queued_at > before or not self._may_give():
                        self._put_delivery_back(delivery)
                        break
                    self._finish(delivery, registration, DeliveryState.DEAD, reason)
                    finished += 1
                    await trio.lowlevel.checkpoint()
            finally:
                self._head = None
                self._queue.discard()
            if self._is_drained and self._order is not None:
                self._order.advanced()
        if held_until:
            await self._rest(held_until)
            self._must_refresh, self._is_drained = True, False

    def _cannot_read(self, error: StorageUnavailable) -> None:
        logger.warning("the outbox cannot be read", lane=self.key, reason=str(error))
