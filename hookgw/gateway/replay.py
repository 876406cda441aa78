"""Sending again what was finished: one delivery, or all of a time.

A replay belongs to the gateway and not to the request that asked for it: a client that goes away does
not stop it half-way. Only the end of the process does, between two steps; then the log says how far it
came.
"""

from __future__ import annotations

import structlog
import trio

from hookgw.gateway.history import DeliveryHistory
from hookgw.gateway.registry import Registry
from hookgw.models.errors import Conflict, NotFound, Unavailable
from hookgw.models.lanes import LaneRule, lane_rule
from hookgw.models.registrations import is_global
from hookgw.parsing import Replay
from hookgw.store import DeliverySummary, ReplayQuery, Store

logger = structlog.get_logger("hookgw.resending")


class Replays:
    """Makes finished deliveries pending again, on behalf of the gateway."""

    def __init__(self, registry: Registry, store: Store, history: DeliveryHistory) -> None:
        self._registry = registry
        self._store = store
        self._history = history
        self._nursery: trio.Nursery | None = None
        # One at a time for each instance: two at once would mix their orders.
        self._replays: dict[str, _Progress] = {}

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Carry replays through, until cancelled."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            task_status.started()
            await trio.sleep_forever()

    async def resend(self, instance: str, name: str, *, without_global: bool = False) -> DeliverySummary:
        """Send a finished delivery again: at the end of its lane, with the same ``webhook-id``.

        Args:
            instance: the instance's name.
            name: the delivery's id; or its event's, which means the newest delivery of it.
            without_global: leave deliveries to registrations of the configuration alone: they are the
                operator's.

        Returns:
            The delivery as it is then.

        Raises:
            NotFound: there is no such instance, or it has no such delivery.
            Conflict: it is pending, or its registration is deleted or disabled.
            TooManyRequests: too many reads of the instance are in progress.
            Unavailable: the disk refused.
        """
        self._registry.instance(instance)
        found = (await self._history.find(instance, name, without_global=without_global)).summary
        registration = self._registry.registration(found.registration)
        if registration is None:
            raise Conflict("The registration of this delivery was deleted, so there is nowhere to send it.")
        if not registration.enabled:
            raise Conflict("The registration of this delivery is disabled; set it with enabled true first.")
        # No checkpoint between the look at the registration and this call: a change of the registration is
        # either seen above, or written after this, and then moves or parks this delivery, too.
        if await self._store.resend(instance, found.seq, lane_rule(registration)) is None:
            raise Conflict("The delivery is still pending; hookgw will send it anyway.")
        return (await self._history.find(instance, found.id, without_global=without_global)).summary

    async def replay(self, instance: str, replay: Replay, *, without_global: bool = False) -> int:
        """Send finished deliveries of an instance again, in their original order.

        A caller that is cancelled while it waits does not stop it. Deliveries whose registration is
        deleted or disabled are left alone.

        Args:
            instance: the instance's name.
            replay: which ones.
            without_global: as for :meth:`resend`.

        Returns:
            How many there were, once all of them are pending.

        Raises:
            NotFound: there is no such instance, or it has no registration of the label.
            Conflict: a replay of the instance is under way.
            Unavailable: the disk refused, or the gateway is closing; the message says how many were
                replayed before that.
        """
        self._registry.instance(instance)
        if replay.label is not None and self._registry.find(instance, replay.label) is None:
            raise NotFound(f"The instance {instance!r} has no webhook {replay.label!r}.")
        if instance in self._replays:
            done = self._replays[instance].count
            raise Conflict(f"A replay of {instance!r} is under way, {done:,} so far; try again after it.")
        if self._nursery is None:
            raise Unavailable("The gateway is not running.")
        progress = self._replays[instance] = _Progress()
        # A task of the gateway: a client that goes away does not stop a replay half-way.
        self._nursery.start_soon(self._carry_out, instance, replay, without_global, progress)
        await progress.ended.wait()
        if progress.error is not None:
            raise progress.error
        return progress.count

    async def _carry_out(
        self, instance: str, replay: Replay, without_global: bool, progress: _Progress
    ) -> None:
        """Replay to the end, and say in the log what came of it, as the one who asked may be gone."""
        progress.error = Unavailable(_CLOSING)  # unless it ends otherwise than by cancellation
        query = ReplayQuery(
            instance=instance, state=replay.state, since=replay.since, until=replay.until, kinds=replay.kinds
        )
        try:
            cursor, is_done = None, False
            while not is_done:
                # A registration that changes between two steps is seen by the next one. Within a step
                # none may change: its deliveries would go to lanes that it no longer has.
                async with self._registry.changing(instance):
                    rules = self._rules(instance, replay.label, without_global)
                    step = await self._store.replay_step(query, rules, cursor)
                progress.count += step.count
                cursor, is_done = step.cursor, step.cursor is None
            progress.error = None
        except Unavailable as error:
            progress.error = Unavailable(*error.messages, retry_after=error.retry_after)
        finally:
            del self._replays[instance]
            progress.end()
            # The caller may be gone, so the log says how it ended.
            if progress.error is not None:
                reason = progress.error.messages[0]
                logger.warning("replay cut off", instance=instance, count=progress.count, reason=reason)
            elif progress.count:  # `hookgw delivery replay` asks for many short windows, most of them empty
                logger.info("replayed", instance=instance, count=progress.count)

    def _rules(self, instance: str, label: str | None, without_global: bool) -> dict[str, LaneRule]:
        """Return the lane rules of the registrations that take part, by id."""
        return {
            one.id: lane_rule(one)
            for one in self._registry.hearing(instance)
            if one.enabled
            and (label is None or (one.instance, one.label) == (instance, label))
            and not (without_global and is_global(one.id))
        }


_CLOSING = "The gateway is closing."


class _Progress:
    """How far a replay has come, and how it ended."""

    def __init__(self) -> None:
        self.count = 0
        self.error: Unavailable | None = None
        self.ended = trio.Event()

    def end(self) -> None:
        """Wake who waits; an error says from now on how much was done before it."""
        if self.error is not None:
            self.error = Unavailable(
                *self.error.messages,
                f"{self.count:,} deliveries were replayed before that; the later ones are as they were.",
                retry_after=self.error.retry_after,
            )
        self.ended.set()
