"""A lane: the in-order queue of one URL, the task that works it off, and its one connection.

Where its deliveries come from, in this order:

1. ``_page``: read from the outbox, because the lane was *behind*;
2. its memory channel: what was appended since, handed over by the dispatcher;
3. the outbox again, if the channel overflowed meanwhile (the lane is *behind*).

``_last`` is the highest position taken so far. Everything at or below it is settled or on its way to
be, so a delivery that is seen twice (in a page and in the channel) is skipped the second time. What is
sent again gets a new position at the end, and the lane learns of it by :meth:`Lane.nudge`. Whatever
upsets that picture (a URL changed, a partition was added) calls :meth:`Lane.refresh`: the lane forgets
all it holds and reads the outbox from the start, once what it settled is on disk.

A failed head is kept and tried again; what is queued behind it is given back to the disk, so a
backlog costs no memory.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

import msgspec
import structlog
import trio

from hookgw.deliveries import Attempt, Delivery, DeliveryState, LaneState, Outcome, Settlement
from hookgw.delivery.transport import LaneTransport
from hookgw.dispatch.courier import Route, Sent, route_for
from hookgw.dispatch.reading import read_patiently
from hookgw.dispatch.retry import Policy, decide, expiry_reason, is_expired, policy_of
from hookgw.dispatch.services import LaneServices, LaneStatistics
from hookgw.errors import PluginFailed, StorageUnavailable
from hookgw.registrations import Registration

PAGE = 128
"""How many deliveries a lane reads from the outbox at a time."""

logger = structlog.get_logger("hookgw.lane")


class Terms(msgspec.Struct, frozen=True):
    """What a lane keeps of a registration, so that it is worked out once and not for every delivery."""

    route: Route
    policy: Policy


class Lane:
    """The in-order queue of one URL. Made and run by the dispatcher.

    Args:
        key: the URL, or a partition of it.
        services: what all lanes share.
        transport: the lane's connection; the lane closes it when it ends.
        backlog: how many deliveries are pending on disk at the start.
    """

    def __init__(
        self, key: str, services: LaneServices, transport: LaneTransport, *, backlog: int = 0
    ) -> None:
        self.key = key
        self.backlog = backlog
        self._services = services
        self._transport = transport
        self._offers, self._queue = trio.open_memory_channel[Delivery | None](services.settings.lane_buffer)
        self._page: deque[Delivery] = deque()
        self._behind = backlog > 0
        self._last = 0
        self._upset = False
        self._blockers: list[trio.Event] = []
        self._terms: dict[str, Terms] = {}
        self._streak = 0
        self._head: Delivery | None = None
        self._under_way = False
        self._watchers: list[trio.Event] = []
        self._wake = trio.Event()
        self._stopping = False
        self._state = LaneState.IDLE
        self._waiting_until: float | None = None
        self._last_attempt: Attempt | None = None

    # What the dispatcher calls; none of it waits.

    def offer(self, delivery: Delivery) -> None:
        """Hand over a delivery that was appended. When the channel is full the lane falls behind."""
        self.backlog += 1
        if self._behind:
            return
        try:
            self._offers.send_nowait(delivery)
        except trio.WouldBlock:
            self._behind = True

    def nudge(self, count: int) -> None:
        """Deliveries that were finished are pending again: read them from the outbox in their turn.

        It is called before anything that was appended in the same commit is offered. So their positions
        are greater than those of all that the lane has taken, holds, or has in its channel, and reading
        on from ``_last`` finds them; what is appended later stays on disk until then, as the lane is
        behind. A page that is being read now may lack them, and then the next one has them.
        """
        self.backlog += count
        self._behind = True
        self._look_around()

    def refresh(self, after: Sequence[trio.Event] = ()) -> None:
        """Forget what is held and read the outbox anew, once the given events have happened."""
        self._upset = True
        self._blockers.extend(after)
        self._wake_up()

    def resume(self) -> None:
        """Try the head again now, if the lane waits."""
        if self._waiting_until is not None:
            self._streak = 0
            self._wake_up()

    def stop(self) -> None:
        """End after the attempt that is under way; what is left stays on disk."""
        self._stopping = True
        self._wake_up()

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
        head, last = self._head, self._last_attempt
        return LaneStatistics(
            lane=self.key,
            state=self._state,
            backlog=self.backlog,
            head=head.seq if head else None,
            head_since=head.queued_at if head else None,
            waiting_until=self._waiting_until,
            last_outcome=last.outcome if last else None,
            last_error=last.error if last else None,
        )

    # The task.

    async def run(self) -> None:
        """Work the lane off. Returns when it was idle for a while, or told to stop."""
        try:
            while (delivery := await self._next()) is not None:
                await self._work(delivery)
        finally:
            self._transport.close_nowait()
            self._state = LaneState.IDLE

    async def _next(self) -> Delivery | None:
        while not self._stopping:
            if self._upset:
                await self._start_over()
            elif (delivery := self._take()) is not None:
                if delivery.position > self._last:
                    self._last = delivery.position
                    return delivery
            elif self._behind:
                await self._read_page()
            elif not await self._something_to_do():
                return None
        return None

    def _take(self) -> Delivery | None:
        """The next delivery at hand; ``None`` where there is none, or a mere wake-up was taken."""
        if self._page:
            return self._page.popleft()
        try:
            return self._queue.receive_nowait()
        except trio.WouldBlock:
            return None

    async def _read_page(self) -> None:
        """Read what comes next from disk.

        ``_behind`` is cleared before the read: what is appended during it comes through the channel,
        what was appended before it is in the page. Where more follow the page, what came through the
        channel meanwhile belongs after those: so the lane stays behind.
        """
        self._behind = False
        page = await read_patiently(
            partial(self._services.store.page, self.key, self._last, PAGE), self._cannot_read
        )
        self._page.extend(page.deliveries)
        if page.more:
            self._give_back_channel()

    async def _start_over(self) -> None:
        self._state = LaneState.PAUSED
        while self._blockers:
            await self._blockers.pop().wait()
        self._upset = False
        self._page.clear()
        self._terms.clear()
        self._give_back_channel()
        await self._services.store.flush()
        self.backlog = await read_patiently(
            partial(self._services.store.count_pending, self.key), self._cannot_read
        )
        self._last = 0

    def _cannot_read(self, error: StorageUnavailable) -> None:
        self._state = LaneState.PAUSED
        logger.warning("the outbox cannot be read", lane=self.key, reason=str(error))

    def _give_back(self) -> None:
        """Hold nothing but the head: the rest is on disk and will be read again."""
        self._page.clear()
        self._give_back_channel()

    def _give_back_channel(self) -> None:
        self._behind = True
        with suppress(trio.WouldBlock):
            while True:
                self._queue.receive_nowait()

    async def _something_to_do(self) -> bool:
        """Wait until there is; False after ``lane_idle`` without."""
        self._state = LaneState.IDLE
        if not self._queue.statistics().current_buffer_used:
            self.backlog = 0
        with trio.move_on_after(self._services.settings.lane_idle) as patience:
            self._keep(await self._queue.receive())
        return not patience.cancelled_caught or self._queue.statistics().current_buffer_used > 0

    def _keep(self, delivery: Delivery | None) -> None:
        if delivery is not None:
            self._page.append(delivery)

    def _wake_up(self) -> None:
        self._wake.set()
        self._look_around()

    def _look_around(self) -> None:
        """End an idle lane's rest; a wait for the head's time goes on."""
        with suppress(trio.WouldBlock):  # a full channel wakes the lane anyway
            self._offers.send_nowait(None)

    # One delivery, until it is settled or given back.

    async def _work(self, delivery: Delivery) -> None:
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
        self._give_back()
        self._waiting_until, self._wake = until, trio.Event()
        await self._show(LaneState.WAITING)
        with trio.move_on_at(clock.deadline(until)):
            await self._wake.wait()
        self._waiting_until = None
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
        if is_expired(terms.policy, age=age, streak=self._streak):
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

    async def _attempt(self, delivery: Delivery, registration: Registration, terms: Terms) -> None:
        """Pack, if that is still to be done, send, and settle what came of it."""
        courier, number, body = self._services.courier, delivery.attempts + 1, delivery.body
        if body is None:
            try:
                body = await courier.pack(delivery.event, registration)
            except PluginFailed as failure:
                await self._settle(delivery, registration, terms, Sent(courier.failed(number, failure)), None)
                return
            if body is None:
                await self._finish(delivery, registration, DeliveryState.DROPPED, "A plugin filtered it out.")
                return
        sent = await courier.send(
            delivery, body, terms.route, self._transport, number=number, timeout=terms.policy.timeout
        )
        await self._settle(delivery, registration, terms, sent, body)

    async def _settle(
        self, delivery: Delivery, registration: Registration, terms: Terms, sent: Sent, body: bytes | None
    ) -> None:
        """Write the outcome first, then tell others, then go on."""
        attempt, now = sent.attempt, self._services.clock.steady()
        decision = decide(
            attempt.outcome,
            terms.policy,
            failures=delivery.failures,
            streak=self._streak,
            age=now - delivery.queued_at,
            retry_after=sent.retry_after,
            chance=random.random(),  # noqa: S311  (jitter, no secret)
        )
        pending = decision.state is DeliveryState.PENDING
        is_new_body = delivery.body is None and attempt.outcome is not Outcome.DELIVERED
        settlement = Settlement(
            seq=delivery.seq,
            state=decision.state,
            at=now,
            attempt=attempt,
            failures=decision.failures,
            next_at=now + decision.wait if pending else 0.0,
            body=body if is_new_body else None,
            reason=decision.reason,
        )
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
        self._last_attempt = attempt
        self._streak = self._streak + 1 if attempt.outcome is Outcome.UNREACHABLE else 0

    async def _give_up(self, delivery: Delivery, registration: Registration | None, reason: str) -> None:
        await self._finish(delivery, registration, DeliveryState.DEAD, reason)

    async def _finish(
        self, delivery: Delivery, registration: Registration | None, state: DeliveryState, reason: str
    ) -> None:
        """Settle without an attempt."""
        settlement = Settlement(
            seq=delivery.seq,
            state=state,
            at=self._services.clock.steady(),
            failures=delivery.failures,
            reason=reason,
        )
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

    def _terms_of(self, registration: Registration) -> Terms:
        terms = self._terms.get(registration.id)
        if terms is None or terms.route.registration is not registration:
            policy = policy_of(registration, self._services.settings)
            terms = self._terms[registration.id] = Terms(route_for(registration), policy)
        return terms
