"""A lane: delivers to one registration, in order, one delivery at a time.

The lane takes the next delivery (:mod:`hookgw.lanes.lane_queue`), makes it the *head*, and works on it until
it is settled. A failed head stays the head. While the lane waits for its next attempt (for a second or more),
it drops everything from memory, the head included, because it is on disk. So a backlog costs no memory, and
nothing overtakes.

::

            take a delivery                    its time has come
    IDLE ───────────────────> (head) ────────────────────────────> DELIVERING
      ^                         │  ^                                   │
      │ nothing left            │  │ next_at is ahead                  │ settled: delivered, dead, dropped
      │                         v  │                                   v
      └──────────────────── WAITING <──── pending again ───────── (take the next)

    refresh:   finish the attempt, drop the memory, read on from disk
    pause:     finish the attempt, wait for unpause (PAUSED), then as refresh
    recount:   as refresh; in a pause, count what is on disk
    redirect:  as refresh, then try the head at once
    resume:    end the wait of the head
    retire:      end the task if there is nothing to do; its LaneMemory stays
    stop:      end the task after the attempt; the rest stays on disk
    barrier:   take nothing behind a position, until the barrier is lifted; then as refresh
    cut off:   end the attempt of a delivery that is being cancelled; the lane is paused

Each call except the last sets a flag and wakes the task. The task looks at the flags before each attempt, and
ends every wait for them. No other call cuts an attempt off, because the receiver may have acted on it
already. An attempt that is cut off is recorded with the body that was sent: if the delivery is sent again, it
is with the same bytes.

While the lane waits after a deadline, and prepares the next attempt, it listens for a response that comes
late (:mod:`hookgw.lanes.late_response`). If one settles the head, the wait ends, the head is read again, and
is settled instead of being tried.

Before an attempt, the plugins run and the body is rendered; if no plugin has to, this is done while the
delivery before is in flight. Then the lane borrows a connection
(:mod:`hookgw.delivery.http.pools`), which may take long. If a flag is set or the registration has changed
meanwhile, the lane starts over. So the attempt begins when the connection is there: from then on the delivery
is in flight, its timeout runs, and no checkpoint lies between the last look at the registration and that
moment.

In a fleet, the next attempt also waits until the outcome of the last one is on disk. Another node that takes
over then repeats one delivery at most.

If the registration or a tag of the instance has a rate (:mod:`hookgw.lanes.rate_limit`), the lane waits for
it first, like for the time of a retry. It takes its token with the connection, and waits again if another
lane was faster.

A partition by chat looks before each attempt whether an event about several chats comes first, in whichever
partition (:mod:`hookgw.lanes.chat_order`). If so, it drops its head from memory until its turn has come.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from operator import itemgetter

import structlog
import trio

from hookgw.concurrency.light import in_task, let_others_go_on, may_leave_task
from hookgw.concurrency.tasks import TaskFailed
from hookgw.delivery.http.connection import PoolKey
from hookgw.delivery.http.errors import DeliveryError, MayNotSend, NoAttempt
from hookgw.delivery.http.pools import PooledTransport
from hookgw.delivery.sender import AttemptResult
from hookgw.kernel.errors import PluginFailed, StorageUnavailable
from hookgw.lanes.chat_order import ChatOrder
from hookgw.lanes.hanging import died_unanswered, recall_last_attempt
from hookgw.lanes.idle_lanes import IdleLanes
from hookgw.lanes.lane_memory import Head, LaneMemory, head_of, settlement_of
from hookgw.lanes.lane_queue import DELIVERY_OVERHEAD, LANE_PAGE, LaneQueue
from hookgw.lanes.late_response import ENDS_DELIVERY, LateResponse, describe_late
from hookgw.lanes.rate_limit import RateLimit, take_all
from hookgw.lanes.retry_policy import Decision, expiry_reason, is_expired, longest_wait, policy_of
from hookgw.lanes.services import LEASE_WAIT, LONG_WAIT, DeliveryPlan, LaneServices, plan_for, rates_of
from hookgw.records.deliveries import (
    DELIVERED_OUTCOME,
    DELIVERED_STATE,
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
    known_of,
)
from hookgw.records.lanes import partition_of, registration_of
from hookgw.records.registrations import Registration, is_global
from hookgw.records.stuck_lanes import is_stuck

logger = structlog.get_logger("hookgw.lane")

DESCRIPTOR_WAIT = 0.25
"""Seconds after which a lane for which the system had no file descriptor tries again."""

LATE_LOOK = 0.01
"""Seconds that a lane which is due reads what has come of a late response, at most."""


class Lane:
    """One lane of a registration. The dispatcher creates it and runs :meth:`run` as a task.

    Args:
        attempt_limit: held during an attempt, by lanes that share a limit on attempts; ``None`` for no limit.
        order: of the registration's partitions by chat.
        backlog: how many deliveries are pending on disk.
        barrier: see :meth:`set_barrier`.
        memory: left by the lane's last task, if the lane was retired.
    """

    is_pulled = False

    __slots__ = (
        "_attempt_limit",
        "_deferred",
        "_has_waited_for",
        "_head",
        "_idle_lanes",
        "_in_flight",
        "_in_flight_ended",
        "_is_cut_off",
        "_is_drained",
        "_is_paused",
        "_is_retired",
        "_is_sending",
        "_late",
        "_memory",
        "_must_recount",
        "_must_redirect",
        "_must_refresh",
        "_must_stop",
        "_must_try",
        "_order",
        "_plan",
        "_queue",
        "_rate_waited_for",
        "_registration_id",
        "_reported_waiting",
        "_scope",
        "_services",
        "_settling",
        "_state",
        "_transport",
        "_wait_scope",
        "_waited",
        "_waiting_until",
        "_waits_for",
        "_wake",
        "key",
    )

    def __init__(
        self,
        key: str,
        services: LaneServices,
        idle_lanes: IdleLanes,
        *,
        attempt_limit: trio.CapacityLimiter | None = None,
        order: ChatOrder | None = None,
        backlog: int = 0,
        barrier: Position | None = None,
        memory: LaneMemory | None = None,
    ) -> None:
        self.key = key
        self._registration_id = registration_of(key)
        self._services = services
        self._idle_lanes = idle_lanes
        self._attempt_limit = attempt_limit
        self._order = order
        self._is_drained = False
        self._plan: DeliveryPlan | None = None
        self._head: Delivery | None = None
        self._in_flight = False
        self._in_flight_ended: list[trio.Event] = []
        self._is_cut_off = False
        self._is_retired = False
        self._is_paused = False
        self._is_sending = False
        self._scope = trio.CancelScope()
        self._must_recount = False
        self._must_redirect = False
        self._must_refresh = False
        self._must_stop = False
        self._must_try = False
        self._wake: Callable[[], object] | None = None
        self._wait_scope = self._scope
        self._deferred: Head | None = None
        self._waited: Head | None = None
        self._has_waited_for: list[RateLimit] = []
        self._rate_waited_for: RateLimit | None = None
        self._settling = 0
        self._state = LaneState.IDLE
        self._reported_waiting = False
        self._waiting_until: float | None = None
        self._memory = memory or LaneMemory()
        # The connection of the last attempt, which belongs to its pool again: preferred for the next one.
        self._transport: PooledTransport | None = None
        self._late: LateResponse | None = None
        self._waits_for: WaitsFor | None = None
        buffer = services.settings.lane_buffer
        self._queue = LaneQueue(
            key,
            services.outbox,
            services.memory,
            self._memory,
            services.clock.steady,
            buffer=buffer,
            backlog=backlog,
            barrier=barrier,
        )

    # Called by the dispatcher. None of these methods waits.

    def offer(self, delivery: Delivery) -> None:
        if self._queue.offer(delivery):
            self._is_drained = False

    def requeued(self, count: int) -> None:
        """Note finished deliveries that are pending again, behind everything the lane has taken."""
        # The dispatcher calls this before it offers what the same commit appended. So their positions are
        # greater than all that the lane has taken or has in memory, and reading on from
        # ``LaneMemory.last`` finds them. A page that is being read now may lack them; the next one has them.
        self._is_drained = False
        self._queue.appended(count)
        self._queue.behind = True
        self._queue.wake()

    def set_barrier(self, position: Position | None) -> None:
        """Take only deliveries before a position, as long as a backfill makes some before it.

        ``None`` lifts the barrier. Set one only while the lane is paused, or before it takes anything behind.
        """
        self._queue.barrier = position
        if position is None:
            self.refresh()

    def refresh(self) -> None:
        """Drop everything from memory, and read the outbox from the start."""
        self._must_refresh, self._is_drained = True, False
        self._wake_up()

    def pause(self) -> None:
        """Start no attempt until :meth:`unpause`, then read the outbox from the start."""
        self._is_paused = True
        self.refresh()

    def recount(self) -> None:
        """Note that the deliveries on disk have changed. A paused lane counts them, and reads nothing."""
        self._must_recount = True
        self.refresh()

    def unpause(self) -> None:
        """End the pause, if there is one."""
        if self._is_paused:
            self._is_paused = False
            self._wake_up()

    def redirect(self) -> None:
        """Try the head at once: the registration has another URL, header, secret or timeout."""
        self._must_redirect = True
        self.refresh()

    def resume(self) -> None:
        """Try the head again now, if the lane waits."""
        if self._waiting_until is not None:
            self._memory.streak = 0
            self._must_try = True
            self._wake_up()

    def rate_changed(self) -> None:
        """Wait for the registration's new rate, and not for the former one."""
        if self._rate_waited_for is not None:
            self._must_try = True
            self._wake_up()

    @property
    def is_leaving(self) -> bool:
        """Whether a flag ends the present wait."""
        return self._must_refresh or self._must_stop or self._must_try

    def move_up(self, opens_at: float) -> None:
        """Wait for the rate until an earlier time: others have left the line."""
        if self._head is not None:
            self._head.next_at = min(self._head.next_at, opens_at)
        if self._deferred is not None:
            self._deferred = self._deferred._replace(next_at=min(self._deferred.next_at, opens_at))
        if self._waiting_until is not None and opens_at < self._waiting_until:
            self._waiting_until = opens_at
            self._wait_scope.deadline = self._services.clock.deadline(opens_at)

    def retire(self) -> None:
        """End the task if the lane still has no work."""
        self._is_retired = True
        self._queue.wake()

    def stop(self) -> None:
        """End after the attempt in flight; the rest stays on disk."""
        self._must_stop = True
        self._wake_up()

    def cut_off(self, seq: int) -> None:
        """End the attempt of a delivery that is being cancelled, if it is in flight. Pause the lane first."""
        head = self._head or self._deferred
        if head is None or head.seq != seq:
            return
        self._memory.streak = 0  # the next delivery has met no failure yet
        self._stop_listening()
        if self._is_sending:
            self._is_cut_off = True
            self._scope.cancel()

    @property
    def frontier(self) -> Position | None:
        """The lane has no pending delivery before this position; ``None`` if it has none at all."""
        if self._must_refresh:
            return FIRST
        if self._is_drained:
            return None
        head = self._head or self._deferred
        return FIRST if head is None else head.position

    @property
    def is_drained(self) -> bool:
        """Whether nothing is left for the lane to deliver, before the barrier if there is one."""
        return self._is_drained and not self._must_refresh

    @property
    def is_in_flight(self) -> bool:
        """Whether an attempt is in flight, or is being settled."""
        return self._in_flight

    def in_flight(self) -> tuple[int, trio.Event] | None:
        """Return the sequence number of the delivery in flight, and an event for its end."""
        if self._head is None or not self._in_flight:
            return None
        ended = trio.Event()
        self._in_flight_ended.append(ended)
        return self._head.seq, ended

    @property
    def is_idle(self) -> bool:
        return self._state is LaneState.IDLE and not self._queue.backlog

    def statistics(self) -> LaneStatistics:
        head = self._deferred if self._head is None else head_of(self._head)
        registration = self._registration()
        is_tried = head is not None and head.seq == self._memory.tried
        waits_for = self._waits_for
        if self._queue.barrier is not None and self._queue.backlog and self._state is LaneState.IDLE:
            waits_for = "backfill"
        return LaneStatistics(
            lane=self.key,
            registration=self._registration_id,
            partition=partition_of(self.key),
            url=registration.address if registration else None,
            state=self._state,
            backlog=self._queue.backlog,
            head=head.seq if head else None,
            head_since=head.queued_at if head else None,
            head_instance=head.instance if head else None,
            tried_since=self._memory.tried_since if is_tried else None,
            waiting_until=self._waiting_until,
            waits_for=waits_for,
            last_outcome=self._memory.outcome,
            last_error=self._memory.error,
            has_reached=self._memory.has_reached,
            is_throttled=self._memory.is_throttled,
        )

    def _wake_up(self) -> None:
        # The task waits for the head's time or the end of a pause, or it is idle and waits for its queue.
        if self._wake is not None:
            self._wake()
        self._queue.wake()

    # The task.

    async def run(self) -> LaneMemory | None:
        """Deliver until the lane has had no work for a while, or until :meth:`stop`.

        Returns:
            The memory that the next task of this lane continues with, if the lane was retired; ``None`` if it
            was stopped. No checkpoint lies between the decision to retire and the return.
        """
        while True:
            # One scope for many attempts: a scope for each would cost a third of an attempt.
            with trio.CancelScope() as self._scope:
                return await self._services.steps.go(self._run())
            self._is_cut_off = False

    async def _run(self) -> LaneMemory | None:  # noqa: C901 -- one state after the other
        attempt = self._try if self._attempt_limit is None else self._try_in_turn
        try:
            while not self._must_stop:
                if self._must_refresh:
                    await in_task()
                    await self._start_over()
                elif self._deferred is not None:
                    await in_task()
                    if self._deferred.is_out_of_turn:
                        await self._wait_for_turn(self._deferred)
                    else:
                        await self._wait_for_deferred(self._deferred)
                elif (delivery := self._queue.take()) is not None:
                    may_leave_task()
                    self._begin(delivery)
                    try:
                        if delivery.attempts and self._memory.outcome is None:
                            await recall_last_attempt(self._memory, self._services.outbox, delivery)
                        while self._head is not None and not self._must_refresh and not self._must_stop:
                            if delivery.next_at or self._rate_waited_for or self._late:
                                await self._wait_and_try(attempt, delivery)
                            else:
                                await attempt(delivery)
                    finally:
                        self._head = None
                        self._queue.release(delivery)
                    del delivery  # an idle lane would keep its payload in memory
                elif self._queue.behind:
                    await in_task()
                    await self._read()
                elif self._is_retired:
                    # In the task nothing else runs before the dispatcher hears of it.
                    if not await in_task():
                        return self._memory
                else:
                    self._begin_idle()
                    try:
                        if not self._queue.is_woken:
                            await self._queue.woken
                    finally:
                        self._idle_lanes.end(self)
            return None
        finally:
            self._end_wait()
            self._stop_listening()
            self._queue.discard()
            self._state = LaneState.IDLE

    def _begin_idle(self) -> None:
        self._state = LaneState.IDLE
        if self._queue.barrier is None:
            self._queue.backlog = 0
        if self._late is not None:
            self._stop_listening()
        self._is_drained = True
        if self._order is not None:
            self._order.advanced()
        self._memory.until = self._idle_lanes.begin(self) + self._services.settings.lane_idle

    async def recover(self, failure: TaskFailed, wait: float) -> None:
        """Wait after :meth:`run` raised, so that the next :meth:`run` starts from the deliveries on disk.

        Args:
            failure: shown as the lane's last error.
            wait: in seconds; :meth:`stop` ends it.
        """
        # What the memory says may be wrong, and the plan may be what fails.
        self._plan, self._head, self._waiting_until = None, None, None
        self._deferred = self._waited = self._wake = None
        self._is_retired, self._must_refresh, self._is_drained = False, True, False
        self._memory.error = f"An error in hookgw ended the lane, which starts again: {failure}"
        self._state = LaneState.PAUSED
        with trio.move_on_after(wait):
            while not self._must_stop:
                wake = trio.Event()
                self._wake = wake.set
                await wake.wait()
        self._wake = None

    async def _start_over(self) -> None:
        self._queue.discard()
        self._end_wait()
        self._deferred = self._waited = None
        self._must_try = False
        while self._is_paused and not self._must_stop:
            self._state = LaneState.PAUSED
            counts, self._must_recount = self._must_recount, False
            with trio.CancelScope() as scope:
                self._wake = scope.cancel
                if counts:
                    await self._queue.recount(self._cannot_read)
                else:
                    await self._listen()
                    await trio.sleep_forever()
            if counts and scope.cancelled_caught:
                self._must_recount = True
        self._wake = None
        self._must_recount = False
        if self._must_stop:  # a read lasts for as long as the disk refuses
            return
        # Cleared before the reads below: a call that comes during them starts this over once more.
        self._must_refresh = False
        if self._must_redirect:
            self._memory.redirected()
            current = self._registration()
            # The end of a pause comes here, too, and the target is the same.
            if self._late is not None and not (
                current is not None and current.has_target_of(self._late.plan.registration)
            ):
                self._stop_listening()
        self._queue.discard()
        # The count waits until the settlements of this lane are on disk. Only then is it safe to read from
        # the start: before, a page could hold deliveries that are settled already.
        await self._queue.recount(self._cannot_read)
        self._memory.last = FIRST

    async def _read(self) -> None:
        """Read the next page once there is memory for it, unless a flag is set meanwhile."""
        registration, registration_id = self._registration(), self._registration_id
        if registration is None or is_global(registration_id):
            holder = partition_of(self.key) or registration_id
        else:
            holder = registration.instance
        reserved = self._queue.reserve_nowait(holder)
        if not reserved:
            claim = self._queue.claim(holder)
            self._wake, self._waits_for = claim.event.set, "memory"
            try:
                await claim.event.wait()
                if claim.is_granted and not self._must_refresh and not self._must_stop:
                    claim.is_granted, reserved = False, claim.amount
            finally:
                self._wake = self._waits_for = None
                self._queue.leave(claim)
        if reserved:
            # Deliveries after a failing head would mostly be dropped again: read one at a time.
            most = 1 if self._waited is not None or self._memory.streak else LANE_PAGE
            await self._queue.read(self._cannot_read, holder, reserved, most)

    def _cannot_read(self, error: StorageUnavailable) -> None:
        self._state = LaneState.PAUSED
        logger.warning("the outbox cannot be read", lane=self.key, reason=str(error))

    def _registration(self) -> Registration | None:
        return self._services.registration(self._registration_id)

    # One delivery, until it is settled or dropped from memory.

    def _begin(self, delivery: Delivery) -> None:
        """Make a delivery the head."""
        self._is_retired = False
        if self._late is not None and self._late.seq != delivery.seq:
            self._stop_listening()
        if delivery.next_at or self._waited is not None:
            self._correct_times(delivery)
        self._head = delivery
        if self._order is not None:
            self._order.advanced()

    async def _wait_and_try(self, attempt: Callable[[Delivery], Awaitable[None]], delivery: Delivery) -> None:
        """Try the head once it is due. Settle it without an attempt if a late response does."""
        await in_task()
        if delivery.next_at or self._rate_waited_for is not None:
            await self._wait_for_head(delivery)
            if self._must_refresh or self._must_stop or self._deferred:
                return
        if self._late is not None:
            await self._look(self._late)
        if self._late is None:
            await attempt(delivery)
        elif self._late.attempt is not None:
            await self._settle_late(delivery, self._late.plan, self._late.attempt)
        else:
            await self._try_and_listen(attempt, delivery)

    def _correct_times(self, delivery: Delivery) -> None:
        now = self._services.clock.steady()
        waited, self._waited = self._waited, None
        if waited is not None and waited.seq == delivery.seq:
            # The time on disk is rounded, and a call of resume() is not on disk.
            delivery.queued_at, delivery.next_at = min(delivery.queued_at, waited.queued_at), 0.0
        elif self._must_redirect:
            # The wait was for the former receiver. A failure there may have been settled after the commit
            # that made the head due, and then the wait on disk is stale.
            delivery.next_at = 0.0
        elif delivery.next_at > now:
            registration = self._registration()
            if registration is None or not registration.enabled:
                delivery.next_at = 0.0  # it is settled at once
            else:
                # As in LaneQueue.read: the machine's clock may have been set back.
                longest = longest_wait(policy_of(registration, self._services.settings))
                delivery.next_at = min(delivery.next_at, now + longest)

    async def _wait_for_head(self, delivery: Delivery) -> None:
        """Wait until the head is due, a flag is set, or a long wait can go on without the head in memory."""
        wait = delivery.next_at - self._services.clock.steady()
        if wait <= 0 and self._rate_waited_for is None:
            return
        is_long = wait >= LONG_WAIT
        self._waiting_until = delivery.next_at
        if is_long:
            self._queue.discard()
        # A receiver that gets as much as it asked for is not failing.
        if is_long and self._rate_waited_for is None:
            await self._show(LaneState.WAITING)
        else:
            self._state = LaneState.WAITING
        if not (self._must_refresh or self._must_stop or self._must_try):
            with trio.CancelScope(deadline=self._services.clock.deadline(delivery.next_at)) as scope:
                self._wake, self._wait_scope = scope.cancel, scope
                # While the disk refuses, the head stays in memory: its attempts and body are not on disk.
                if is_long and await self._flush_or_listen():
                    self._wake = None
                    self._defer(delivery)
                    return
                if not is_long:
                    await self._listen()
        self._end_wait()
        self._must_try = False

    async def _leave_to_others(self, delivery: Delivery) -> None:
        """Defer the head: something in another partition must be sent before it."""
        await in_task()
        # Its attempts, if there are some, are read again with it.
        await self._services.outbox.flush()
        if not (self._must_refresh or self._must_stop):
            self._defer(delivery, is_out_of_turn=True)

    def _defer(self, head: Delivery, *, is_out_of_turn: bool = False) -> None:
        self._deferred = head_of(head, is_out_of_turn=is_out_of_turn)
        self._head = None
        self._queue.put_back()

    async def _wait_for_turn(self, head: Head) -> None:
        """Wait until nothing in another partition comes before the head, or a flag is set."""
        assert self._order is not None  # noqa: S101 -- or it would not be out of turn
        self._state, self._waits_for = LaneState.WAITING, "order"
        with trio.CancelScope() as scope:

            def wake() -> None:
                self._waits_for = None  # at once: the lane is no longer at rest
                scope.cancel()

            self._wake = wake
            self._order.wait(self, head.position, wake)
            try:
                await trio.sleep_forever()
            finally:
                self._order.leave(self)
                self._wake = self._waits_for = None
        self._deferred = None
        if not (self._must_refresh or self._must_stop):
            self._waited = head

    async def _flush_or_listen(self) -> bool:
        """Wait until all is on disk; return false if a late response settles the head before."""
        flush = self._services.outbox.flush
        if self._late is None:
            await flush()
            return True
        is_flushed = False
        async with trio.open_nursery() as nursery:

            async def wait_flushed() -> None:
                nonlocal is_flushed
                await flush()
                is_flushed = True
                nursery.cancel_scope.cancel()

            nursery.start_soon(wait_flushed)
            await self._listen()
            nursery.cancel_scope.cancel()
        return is_flushed

    def _end_wait(self) -> None:
        until, self._waiting_until, self._wake = self._waiting_until, None, None
        if self._rate_waited_for is not None:
            now = self._services.clock.steady()
            self._rate_waited_for.leave(self, now, is_early=until is None or until > now)
            self._rate_waited_for = self._waits_for = None

    async def _wait_for_deferred(self, head: Head) -> None:
        """Wait until the head, which is read again then, is due, or a flag is set."""
        with trio.CancelScope(deadline=self._services.clock.deadline(head.next_at)) as scope:
            self._wake, self._wait_scope = scope.cancel, scope
            if not self._must_try:
                await self._listen()
        self._end_wait()
        self._deferred = None
        self._must_try = False
        if not (self._must_refresh or self._must_stop):
            self._waited = head

    async def _listen(self) -> None:
        """Wait until a late response settles the head; without one, forever."""
        if self._late is None or not await self._hear(self._late):
            await trio.sleep_forever()

    async def _hear(self, late: LateResponse) -> bool:
        """Wait for a late response or the end of its connection; return whether it settles the head."""
        attempt = await late.wait()
        if self._late is not late:  # the next attempt has begun
            return False
        if attempt is not None:
            self._memory.hangs = False
            self._memory.outcome, self._memory.error = attempt.outcome, attempt.error
            if attempt.outcome in ENDS_DELIVERY:
                return True
        self._late = None
        return False

    async def _look(self, late: LateResponse) -> None:
        """Read what has come of a late response while nobody listened, or of its body."""
        if late.has_arrivals:
            # Until all of it is read, not for a time: a receiver that drips its head must hold nobody up.
            async with trio.open_nursery() as nursery:
                nursery.cancel_scope.deadline = trio.current_time() + LATE_LOOK
                nursery.start_soon(self._hear, late)
                while True:
                    await trio.lowlevel.checkpoint()
                    if not late.has_arrivals:
                        break
                nursery.cancel_scope.cancel()
        if self._late is late and late.has_status:
            await self._hear(late)

    async def _try_and_listen(
        self, attempt: Callable[[Delivery], Awaitable[None]], delivery: Delivery
    ) -> None:
        """Try the head. Listen for a late response until the attempt begins, which may take long."""
        async with trio.open_nursery() as nursery:

            async def listen() -> None:
                await self._listen()
                if self._wake is not None:
                    self._wake()

            nursery.start_soon(listen)
            await attempt(delivery)
            nursery.cancel_scope.cancel()

    async def _try_in_turn(self, delivery: Delivery) -> None:
        assert self._attempt_limit is not None  # noqa: S101 -- or there are no turns
        await in_task()
        async with self._attempt_limit:
            await self._try(delivery)
            # Until the attempt is on disk: the limit also bounds how many deliveries another node may have to
            # repeat after a takeover.
            await self._wait_until_settled()

    def _stop_listening(self) -> None:
        if self._late is not None:
            self._late.close_nowait()
            self._late = None

    def _plan_attempt(self, delivery: Delivery) -> tuple[DeliveryPlan, Sequence[RateLimit]] | str | None:
        """Return how to make an attempt now, and the limits that it takes a token of.

        Return why the head is dead, as a sentence, or ``None`` if no attempt can be made now.
        """
        if self._must_refresh or self._must_stop or (self._late is not None and self._late.has_status):
            return None
        registration, plan = self._services.registration(self._registration_id), self._plan
        # By identity: registrations are immutable, and a changed one is another object. A disabled one has
        # no plan, because its URL may be any string.
        if plan is None or plan.registration is not registration:
            if registration is None or not registration.enabled:
                return f"The registration was {'deleted' if registration is None else 'disabled'}."
            if registration.is_pulled:
                self._must_stop = True  # the dispatcher starts a lane of the other kind
                return None
            plan = self._plan = plan_for(registration, self._services)
        if streak := self._memory.streak:
            age = plan.policy.age(delivery.queued_at, self._services.clock.steady())
            if is_expired(plan.policy, age=age, streak=streak):
                return expiry_reason(plan.policy, self._memory.outcome)
        rates: Sequence[RateLimit] = ()
        if plan.rate is not None or self._services.tag_rates.limits:
            rates = rates_of(plan, delivery.event.instance, self._services)
        if rates:
            waited = self._has_waited_for
            now = self._services.clock.steady()
            opens_at, slowest = max(
                ((rate.turn(now, has_waited=rate in waited), rate) for rate in rates), key=itemgetter(0)
            )
            if opens_at > now:
                # The head waits as for the time of a retry, but in line for the rate.
                slowest.line_up(self, has_waited=slowest in waited)
                self._rate_waited_for, self._waits_for = slowest, "rate"
                self._has_waited_for = [rate for rate in rates if rate in waited or rate is slowest]
                delivery.next_at = opens_at
                return None
        return plan, rates

    async def _wait_until_settled(self) -> None:
        """Wait until the last attempt is on disk, or a flag is set, if others might take the lane over."""
        settling, self._settling = self._settling, 0
        if not settling or self._must_refresh or self._must_stop:
            return
        await in_task()
        with trio.CancelScope() as scope:
            self._wake = scope.cancel
            await self._services.outbox.wait_settled(settling)
        self._wake = None

    async def _try(self, delivery: Delivery) -> None:  # noqa: C901 -- one step a time
        """Render the body unless an earlier attempt fixed it, borrow a connection, send, and settle."""
        services = self._services
        await services.outbox.wait_settle_capacity()
        if self._settling:
            await self._wait_until_settled()
        planned = self._plan_attempt(delivery)
        if isinstance(planned, str):
            await self._finish(delivery, self._registration(), DeliveryState.DEAD, planned)
            return
        if planned is None:
            return
        plan, rates = planned
        if self._reported_waiting:
            await self._show(LaneState.DELIVERING)
            if self._is_outdated(plan.registration):
                return
        self._state = LaneState.DELIVERING
        # A head that was tried, and listens for a late response, had its turn.
        if self._late is None and self._order and not self._order.may_begin(self, delivery.position):
            await self._leave_to_others(delivery)
            return
        sender, pools, registration = services.sender, services.pools, plan.registration
        number, body, hooks = delivery.attempts + 1, delivery.body, sender.concerned(plan.template)
        headers: dict[str, str] | None = None
        # Once, like the plugins' filters: an event that was tried passed it.
        refusal = plan.template.refusal(delivery.event) if body is None and plan.template.filter else None
        prepared, delivery.prepared = delivery.prepared, None
        if prepared is not None and (hooks or prepared.registration is not registration):
            prepared = None
        try:
            if prepared is not None:
                body = prepared.body
            elif body is None and refusal is None:
                rendered = sender.render_body(delivery.event, plan.template)
                body = rendered if isinstance(rendered, bytes) else await rendered
            if body is not None and "hookgw_prepare" in hooks:
                headers = await sender.prepare(delivery, body, plan.template, number)
        except PluginFailed as failure:
            await self._settle_unsent(delivery, plan, sender.unsent(number, failure), body)
            return
        if hooks and self._is_outdated(registration):  # only a plugin waits
            return
        if body is None:
            reason = refusal or "A plugin filtered it out."
            await self._finish(delivery, registration, DeliveryState.DROPPED, reason)
            return
        if len(body) > len(delivery.event.data_json) + DELIVERY_OVERHEAD:
            self._queue.charge_body(delivery, len(body))
        origin, holder = plan.template.origin, delivery.event.instance
        transport = pools.borrow_nowait(origin, holder, self._transport)
        if transport is None:
            transport, unreachable = await self._wait_for_connection(origin, holder)
            if unreachable is not None:
                await self._settle_unsent(delivery, plan, sender.unsent(number, unreachable), body)
            if transport is None:
                return
            # No checkpoint from here to ``_in_flight = True``. A registration that is deleted, disabled,
            # paused or redirected before this point gets no attempt; a caller that does so after this point
            # finds the delivery in flight.
            if self._is_outdated(registration):
                pools.give_back(transport)
                return
        if not services.may_send():
            # Another node may be at this delivery by now. This one was frozen, or cannot reach the database.
            pools.give_back(transport)
            delivery.next_at = services.clock.steady() + LEASE_WAIT
            return
        if rates:
            now = services.clock.steady()
            if not take_all(rates, now):
                pools.give_back(transport)  # another lane was faster
                return
            if plan.rate is not None and self._memory.streak:
                # The receiver may have refused a burst: it would refuse that of the rest since then as well.
                plan.rate.end_burst(now)
        self._has_waited_for = []
        if self._late is not None:
            self._stop_listening()
        self._must_redirect = False
        transport.may_send = services.may_send  # connecting may take longer than the lease
        self._in_flight = self._is_sending = True
        services.loop_load.lanes.add(self.key)
        try:
            try:
                result = await sender.send(
                    delivery,
                    body,
                    plan.template,
                    transport,
                    number=number,
                    timeout=plan.policy.timeout,
                    headers=headers,
                    prepared=prepared,
                    upcoming=self._queue.upcoming,
                )
            except (trio.Cancelled, BaseExceptionGroup):
                if self._is_cut_off:
                    self._settle_cut_off(delivery, plan, number, transport.started_at, body)
                raise
            finally:
                self._is_sending = False
                pools.give_back(transport)
            self._transport = transport
            if self._is_cut_off:
                if result.late is not None:
                    pools.close_late(transport)
                await in_task()
                # The response was there in the moment of the call, and it decides.
                with trio.CancelScope(shield=True):
                    if (heard := self._settle(delivery, plan, result, body)) is not None:
                        await heard
                return
            if self._memory.hangs is None and result.attempt.outcome is Outcome.UNANSWERED:
                self._memory.hangs = await died_unanswered(services.history, delivery)
            if result.late is not None:
                self._late = LateResponse(pools, transport, delivery.seq, plan, result.late)
            if (heard := self._settle(delivery, plan, result, body)) is not None:
                await heard
        except NoAttempt as reason:
            # Without descriptors, the pools lend fewer connections from now on, so this ends.
            wait = LEASE_WAIT if isinstance(reason, MayNotSend) else DESCRIPTOR_WAIT
            delivery.next_at = services.clock.steady() + wait
        finally:
            self._flight_ended()

    def _flight_ended(self) -> None:
        self._in_flight = False
        self._services.loop_load.lanes.discard(self.key)
        while self._in_flight_ended:
            self._in_flight_ended.pop().set()

    def _is_outdated(self, registration: Registration) -> bool:
        """Return whether the preparations for the head are out of date."""
        return (
            self._must_refresh
            or self._must_stop
            or self._services.registration(self._registration_id) is not registration
            # A late response came while the attempt was being prepared.
            or (self._late is not None and self._late.has_status)
        )

    async def _wait_for_connection(
        self, origin: PoolKey, holder: str
    ) -> tuple[PooledTransport | None, DeliveryError | None]:
        """Wait in line for a connection.

        Return a connection, or why the host cannot be reached; neither if a flag ended the wait.
        """
        await in_task()
        pools = self._services.pools
        place = pools.line_up(origin, holder, self._transport)
        self._wake, self._waits_for = place.event.set, place.wants
        try:
            await place.event.wait()
            transport, place.transport = place.transport, None
            return transport, place.failure
        finally:
            self._wake = self._waits_for = None
            pools.leave(place)

    async def _settle_unsent(
        self, delivery: Delivery, plan: DeliveryPlan, attempt: Attempt, body: bytes | None
    ) -> None:
        """Settle an attempt that sent nothing, unless something has changed meanwhile."""
        if self._is_outdated(plan.registration):
            return
        self._must_redirect = False
        self._in_flight = True
        try:
            if (heard := self._settle(delivery, plan, AttemptResult(attempt), body)) is not None:
                await heard
        finally:
            self._flight_ended()

    async def _settle_late(self, delivery: Delivery, plan: DeliveryPlan, attempt: Attempt) -> None:
        """Settle the head by a late response. The record of its attempt stays as it was."""
        await self._services.outbox.wait_settle_capacity()
        if self._must_refresh or self._must_stop:
            return
        self._late = None
        self._in_flight = True
        try:
            is_delivered = attempt.outcome is Outcome.DELIVERED
            state = DeliveryState.DELIVERED if is_delivered else DeliveryState.DEAD
            self._memory.outcome, self._memory.error, self._memory.streak = attempt.outcome, attempt.error, 0
            settlement = Settlement(
                seq=delivery.seq,
                state=state,
                at=self._services.clock.steady(),
                failures=delivery.failures,
                reason=describe_late(attempt),
            )
            settling = self._services.outbox.settle_nowait(settlement)
            if self._services.is_shared:
                self._settling = settling
            heard = self._services.monitor.answered_late(attempt, delivery, plan.registration)
            disables = attempt.outcome is Outcome.GONE
            await self._report(heard, delivery, plan.registration, settlement, disables=disables)
        finally:
            self._flight_ended()

    def _settle_cut_off(
        self, delivery: Delivery, plan: DeliveryPlan, number: int, started_at: float, body: bytes
    ) -> None:
        """Record an attempt that was cut off. Its delivery is pending until the cancellation is written."""
        attempt = self._services.sender.cut_off(number, started_at, delivery.event, plan.template)
        settlement = Settlement(
            seq=delivery.seq,
            state=DeliveryState.PENDING,
            at=self._services.clock.steady(),
            attempt=attempt,
            failures=delivery.failures,
            body=body if delivery.body is None else None,
        )
        self._services.outbox.settle_nowait(settlement)

    def _settle(
        self, delivery: Delivery, plan: DeliveryPlan, result: AttemptResult, body: bytes | None
    ) -> Awaitable[None] | None:
        """Settle an attempt. Return what the lane must wait for then, if anything."""
        attempt, clock = result.attempt, self._services.clock
        now = clock.steady() if result.ended_at is None else result.ended_at + clock.offset
        pending = disables = False
        if attempt.outcome is DELIVERED_OUTCOME:
            # As ``decide`` says, without all that only a failure needs.
            self._memory.delivered()
            settlement = Settlement(
                seq=delivery.seq,
                state=DELIVERED_STATE,
                at=now,
                attempt=attempt,
                failures=delivery.failures,
                known=known_of(delivery) if attempt.number == 1 else None,
            )
        else:
            current = self._registration()
            if current is not None and not current.has_target_of(plan.registration):
                # The registration has another target by now. This failure, or 410, is the former receiver's:
                # it neither counts nor delays the first attempt at the new one.
                decision = Decision(DeliveryState.PENDING, failures=delivery.failures)
                self._memory.redirected()
                self._stop_listening()
            else:
                decision = self._memory.decide(delivery, plan.policy, result, now)
            pending, disables = decision.state is DeliveryState.PENDING, decision.disables
            self._memory.note(attempt, is_pending=pending)
            settlement = settlement_of(delivery, attempt, decision, body, now)
        if not pending and self._late is not None:
            self._stop_listening()
        # Requested before the monitor hears of the attempt, because its observers can take long. A crash
        # before the commit repeats this attempt: at least once.
        settling = self._services.outbox.settle_nowait(settlement)
        if self._services.is_shared:
            self._settling = settling
        if pending:
            self._note_failure(delivery, now - attempt.duration)
            delivery.attempts, delivery.failures = attempt.number, settlement.failures
            delivery.next_at, delivery.body = settlement.next_at, body
        heard = self._services.monitor.attempted(attempt, delivery, plan.registration)
        if heard is None and not pending and not disables:
            return self._finished(delivery, plan.registration, settlement)
        return self._report(heard, delivery, plan.registration, settlement, disables=disables)

    async def _report(
        self,
        heard: Awaitable[None] | None,
        delivery: Delivery,
        registration: Registration,
        settlement: Settlement,
        *,
        disables: bool,
    ) -> None:
        if heard is not None:
            await heard
        if settlement.state is not DeliveryState.PENDING:
            heard = self._finished(delivery, registration, settlement)
            if heard is not None:
                await heard
        if disables:
            await self._services.monitor.gone(registration)

    def _note_failure(self, delivery: Delivery, began: float) -> None:
        """Note since when the head has been failing, and report it once if it holds the lane up."""
        memory = self._memory
        if memory.tried != delivery.seq:
            memory.tried, memory.tried_since = delivery.seq, began
        elif memory.stuck != delivery.seq:
            found = self.statistics()
            if is_stuck(found, self._services.clock.steady()):
                memory.stuck = delivery.seq
                self._services.monitor.lane_stuck(found)

    async def _finish(
        self, delivery: Delivery, registration: Registration | None, state: DeliveryState, reason: str
    ) -> None:
        """Settle the head without an attempt."""
        self._must_redirect = False
        now = self._services.clock.steady()
        settlement = Settlement(
            seq=delivery.seq, state=state, at=now, failures=delivery.failures, reason=reason
        )
        self._services.outbox.settle_nowait(settlement)
        if (heard := self._finished(delivery, registration, settlement)) is not None:
            await heard
        await let_others_go_on()  # between deliveries that need no attempt

    def _finished(
        self, delivery: Delivery, registration: Registration | None, settlement: Settlement
    ) -> Awaitable[None] | None:
        self._head = None
        # Not exact after a recount.
        if self._queue.backlog:
            self._queue.backlog -= 1
        return self._services.monitor.finished(delivery, registration, settlement)

    async def _show(self, state: LaneState) -> None:
        """Change the state. The monitor hears only of the beginning and the end of a long wait."""
        self._state = state
        # Not by the state before: a pause may lie between a wait and the attempt that ends it.
        if (state is LaneState.WAITING) is not self._reported_waiting:
            self._reported_waiting = state is LaneState.WAITING
            await self._services.monitor.lane_changed(self.key, state)
