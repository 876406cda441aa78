"""A node among others: heartbeats, its lease, and its share of the shards.

::

           join                 a heartbeat is confirmed              others found it dead
    START ───────> MEMBER ──────────────────────────────> MEMBER ────────────────────────────> LOST
                     │  ^                                                                        │
      the lease ends │  │ a heartbeat is confirmed              everything stopped here, then join│
                     v  │                                                                        v
                  SUSPENDED                                                                    MEMBER

A node that cannot reach the database suspends its lanes when its lease ends, and goes on where it was if it
reaches the database before others took over. A node that finds itself removed stops all it does for its
shards first, and then joins again as a new member with none. What it still writes as the former member is
refused by the storage.

A node with more than its share gives some back after it has stopped them; a node with less takes free ones.
Each node decides for itself, from the same figures (:func:`hookgw.records.shards.share_targets`).
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import structlog
import trio

from hookgw.concurrency.light import in_task
from hookgw.config.settings import FleetSettings
from hookgw.core.this_node import Answer, KnownRecords, Refresh, ThisNode, Work
from hookgw.fleet.database_calls import DatabaseCalls
from hookgw.fleet.lease import HEARTBEAT, DatabaseClock, Lease
from hookgw.fleet.record_refresh import RecordRefresh
from hookgw.kernel.errors import Conflict, StartError, StorageUnavailable, Unavailable
from hookgw.lanes.held_shards import HeldShards
from hookgw.records.fleet import DEAD_AFTER, FleetMember, FleetView, ShardEpoch
from hookgw.records.registrations import Registration
from hookgw.records.shards import shard_of, share_targets
from hookgw.store.fleet import SharedStore

logger = structlog.get_logger("hookgw.fleet")

JOIN_FOR = 3 * DEAD_AFTER
"""Seconds for which a node waits for the end of a former process with its name, which was killed just now."""

SLOW = 0.75
"""Seconds that a heartbeat takes if the database is slow. It is two short statements."""

FLUSH_WITHIN = 20.0
"""Seconds that giving up shards that could not be taken waits for the database at most."""

LEAVE_WITHIN = 3.0
"""Seconds that leaving the fleet may take at the end."""

ALL = 0
"""The node with this shard does what is to be done once, such as pruning the history."""

MOVING = 1.0
"""Seconds after which a client may ask again for an instance that moves."""


class FleetNode(ThisNode):
    """This node, one of several; see :class:`hookgw.core.this_node.ThisNode`.

    Attributes:
        generation: of this node.
        is_whole: whether it works on all of its share now.
        lease: how long it may act. Heartbeats renew it.
    """

    is_shared = True
    clocks_apart = 60.0

    def __init__(self, settings: FleetSettings, shared: SharedStore) -> None:
        super().__init__(settings)
        self.label, self.view = self.name, FleetView()
        self.shards.clear()
        self.generation = 0
        self.is_whole = False
        self.lease = Lease()
        self.shared = shared
        self._url = settings.url or ""
        self._members = shared.members
        self._database_calls = DatabaseCalls(self.is_database_slow)
        self._database_clock = DatabaseClock()
        # When the heartbeat was sent that is not answered, and how long the last one took that was.
        self._sent: float | None = None
        self._took = 0.0
        # Those that were begun, and are not being given back.
        self._held: set[int] = set()
        self._giving: set[int] = set()
        # A node that leaves may wait for this, and one that was removed, both at a time.
        self._given = trio.lowlevel.ParkingLot()
        self._judges_from = -math.inf
        self._has_begun = self._is_suspended = self._is_lost = self._is_leaving = False
        self._is_working = self._is_taking = False
        self._joined = trio.Event()
        self._rejoined = trio.Event()
        self._viewed = trio.Event()
        self._nudge = trio.Event()

    @asynccontextmanager
    async def starting(self) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            try:
                # With too few, it would hold shards that it cannot work on.
                await self.shared.connect()
                await stack.enter_async_context(self._members.starting())
                await self.join()
                unreachable = [found.name for found in self.view.nodes if not found.url]
                if len(self.view.nodes) > 1 and unreachable:
                    await self._members.leave()
                    raise StartError(
                        f"Other nodes cannot reach {', '.join(unreachable)}, and the database has "
                        f"{len(self.view.nodes)} nodes with this one.",
                        "Set fleet.url and fleet.secret on every node, or stop the others.",
                    )
            except Conflict as error:
                raise StartError(
                    str(error), "Give this node another fleet.node, or stop the other one."
                ) from error
            except StorageUnavailable as error:
                raise StartError(
                    str(error), "Start again when the database works, and has connections left."
                ) from error
            # What is read in the block is as new as this.
            self._members.known_version = self.view.version
            yield

    def refresh_of(self, records: KnownRecords) -> Refresh:
        return RecordRefresh(self._members, records, self.holds)

    def held_shards(self, registration: Callable[[str], Registration | None]) -> HeldShards:
        held = HeldShards(registration)
        self.shared.share(held.is_wanted, held.is_of_this_node, self.lease.end)
        return held

    def holds(self, instance: str) -> bool:
        return shard_of(instance) in self.shards

    def check(self, instance: str) -> None:
        if not self.holds(instance):
            raise StorageUnavailable.of(
                "fleet.instance_elsewhere",
                "The instance {instance!r} is on another node, or moves to one. Retry.",
                instance=instance,
                retry_after=1.0,
            )

    def epoch_of(self, instance: str) -> ShardEpoch:
        if not self.may_act():
            raise StorageUnavailable.of(
                "fleet.no_database", "This node cannot reach the database. Retry.", retry_after=1.0
            )
        return self._members.epoch_of(shard_of(instance))

    def is_responsible(self) -> bool:
        return ALL in self.shards

    def may_act(self) -> bool:
        return self.lease.is_valid()

    def has_begun(self) -> bool:
        return self._has_begun

    @asynccontextmanager
    async def waiting(self, answer: Answer) -> AsyncIterator[None]:
        await in_task()
        with self._database_calls.waiting(answer):
            yield

    def owner_of(self, instance: str) -> FleetMember:
        """Return the node that has an instance.

        Raises:
            Unavailable: it moves from one node to another at the moment.
        """
        found = self.view.owner_of(shard_of(instance))
        if found is None or not found.url or found.name == self.name:
            raise self.moving(instance)
        return found

    @staticmethod
    def moving(instance: str) -> Unavailable:
        """Return the refusal of a call for an instance that no node has at the moment."""
        return Unavailable.of(
            "fleet.instance_moves",
            "The instance {instance!r} moves to another node. Retry.",
            instance=instance,
            retry_after=MOVING,
        )

    def is_database_slow(self) -> bool:
        """Return whether the database takes long for heartbeats, or does not answer."""
        waiting = 0.0 if self._sent is None else self.lease.now() - self._sent
        return max(self._took, waiting) > SLOW or not self.lease.is_valid()

    async def wait_viewed(self) -> None:
        """Wait for the next answer to a heartbeat. Then ``view`` is current."""
        await self._viewed.wait()

    def nudge(self) -> None:
        """Look at the fleet at once instead of with the next heartbeat: something has changed."""
        self._nudge.set()

    async def join(self) -> None:
        """Enter the fleet.

        Raises:
            Conflict: another node of this name lives.
            StorageUnavailable: the database refuses.
        """
        with trio.move_on_after(JOIN_FOR):
            while True:
                try:
                    await self._join_now()
                except Conflict:  # killed a moment ago, and started again
                    await trio.sleep(HEARTBEAT)
                else:
                    return
        await self._join_now()

    async def send_heartbeats(self) -> None:
        """Say that this node lives, from its joining on, until cancelled."""
        await self._joined.wait()
        while True:
            with trio.move_on_after(HEARTBEAT):
                await self._nudge.wait()
            self._nudge = trio.Event()
            try:
                await self._beat()
                self.refusal = ()
            except StorageUnavailable as error:
                if error.messages != self.refusal:  # an outage may last
                    self.refusal = error.messages
                    logger.warning("no heartbeat", node=self.name, reason=str(error))
            if self._is_lost:
                await self._rejoined.wait()

    async def run(self, work: Work, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        self._is_working = True
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch_lease, work)
            nursery.start_soon(self._follow, work)
            nursery.start_soon(self._keep_share, work, nursery)
            nursery.start_soon(self._database_calls.run)
            task_status.started()

    async def hand_over(self, ends: float) -> None:
        if self.may_act():
            with trio.CancelScope(deadline=ends, shield=True), suppress(StorageUnavailable):
                self._is_leaving = True
                await self._members.announce(is_leaving=True)
                self.nudge()
                while self._held or self._giving or self._is_taking:
                    await self._given.park()

    async def leave(self, flush: Callable[[], Awaitable[None]]) -> None:
        if not self.may_act():
            return  # the others need not be told, and what is queued is flushed as the store closes
        # Without it, others would wait for heartbeats, as they do if the database refuses.
        with trio.move_on_after(LEAVE_WITHIN, shield=True), suppress(StorageUnavailable):
            await flush()
            self.lease.end()
            await self._members.leave()

    async def _join_now(self) -> None:
        # Until it works, the others keep what will be its share: it may have to count a large backlog first.
        self.generation = await self._members.join(self.name, self._url, is_leaving=not self._is_working)
        await self._beat()
        self._joined.set()

    async def _beat(self) -> None:
        sent = self._sent = self.lease.now()
        view = await self._members.heartbeat()
        self._sent, self._took = None, self.lease.now() - sent
        self._is_lost = view is None
        if view is None:
            self.lease.end()
        else:
            self.view = view
            jump = self._database_clock.read(view.time, sent, self.lease.now())
            if jump:
                logger.warning("the clock of the database has jumped", node=self.name, seconds=round(jump, 1))
            if jump or (not self.lease.is_valid() and self.lease.until > -math.inf):
                self._judges_from = trio.current_time() + DEAD_AFTER
            self.lease.renewed(sent)
        self._viewed.set()
        self._viewed = trio.Event()

    async def _follow(self, work: Work) -> None:
        while True:
            viewed = self._viewed
            if self.lease.is_valid():
                try:
                    await work.seen(self.view)
                except StorageUnavailable as error:
                    logger.warning("changes are not seen", node=self.name, reason=str(error))
            await viewed.wait()

    async def _watch_lease(self, work: Work) -> None:
        while True:
            await trio.sleep_until(self.lease.until)
            if self.lease.is_valid():
                continue
            self._suspend(work)
            while not self.lease.is_valid():
                await self._viewed.wait()
            # Not before this node has stopped what it did as a former member.
            while self._is_lost:
                await self._rejoined.wait()
            self._unsuspend(work)

    def _suspend(self, work: Work) -> None:
        if not self._is_suspended:
            self._is_suspended = True
            logger.error("the lease ended: nothing is sent", node=self.name, shards=len(self._held))
            work.suspend()

    def _unsuspend(self, work: Work) -> None:
        if self._is_suspended:
            self._is_suspended = False
            work.unsuspend()
            logger.info("the lease is renewed", node=self.name)

    async def _keep_share(self, work: Work, nursery: trio.Nursery) -> None:
        while True:
            viewed = self._viewed
            try:
                if self._is_lost:
                    await self._rejoin(work)
                elif not self._is_leaving and any(
                    one.is_leaving for one in self.view.nodes if one.generation == self.generation
                ):
                    await self._members.announce(is_leaving=False)
                    self.nudge()
                else:
                    await self._balance(work, nursery)
            except Unavailable as error:
                logger.warning("no shards are taken", node=self.name, reason=str(error))
            await viewed.wait()

    async def _rejoin(self, work: Work) -> None:
        """Stop everything, then join as a new member: others hold this node's shards by now."""
        self._suspend(work)
        logger.error("this node has lost its place", node=self.name, shards=len(self._held))
        while True:
            try:
                await work.release(self._held | self._giving)
            except StorageUnavailable as error:  # no heartbeat comes before this node has joined again
                logger.warning("this node cannot join again yet", node=self.name, reason=str(error))
                await trio.sleep(HEARTBEAT)
            else:
                break
        self._held.clear()
        self.is_whole = False
        self._given.unpark_all()  # a node that leaves waits for this
        while self._giving:
            await self._given.park()
        while self._is_lost:  # also if others removed the new member before its first heartbeat
            if self._is_leaving:
                return  # nothing is left to hand over, and the others know
            try:
                await self.join()
            except StorageUnavailable:
                await trio.sleep(HEARTBEAT)
        # Here, too: if the former lease had not ended by then, nobody waits for the new one.
        self._unsuspend(work)
        self._rejoined.set()
        self._rejoined = trio.Event()

    async def _balance(self, work: Work, nursery: trio.Nursery) -> None:
        """Take what is this node's share, or begin to give back what is more."""
        view = self.view
        held = {
            node.name: len(view.held_by(node.generation))
            for node in view.nodes
            if not node.is_leaving and node.heartbeat_age < DEAD_AFTER
        }
        target = 0 if self._is_leaving else share_targets(held).get(self.name, 0)
        mine = view.held_by(self.generation)
        was_whole, self.is_whole = self.is_whole, len(mine) == target and mine == self._held
        if self.is_whole and not self._is_leaving:
            self._has_begun = True
            if not was_whole:
                logger.info("this node holds its share", node=self.name, shards=target, nodes=len(held))
        if len(mine) > target:
            kept = mine - self._giving
            if len(kept) > target:
                busy = work.busy()
                # First what could not be given, on which nobody works, then what can be given at once. In a
                # task: an attempt in flight may take long.
                giving = sorted(kept, key=lambda shard: (shard in self._held, shard in busy, -shard))
                giving = giving[: len(kept) - target]
                self._giving |= set(giving)
                self._held -= set(giving)
                nursery.start_soon(self._give, work, self.generation, set(giving))
            return
        has_dead = any(node.heartbeat_age >= DEAD_AFTER for node in view.nodes)
        if has_dead and trio.current_time() < self._judges_from:
            # This node was away itself, or the database's clock has jumped. The others are back in a moment.
            return
        # What is this node's in the database, but could not be begun or given, is tried again.
        is_idle = bool(mine - self._held - self._giving)
        if is_idle or has_dead or (None in view.owners and len(mine) < target):
            self._is_taking = True
            try:
                taken = await self._members.claim() - self._held - self._giving
                if taken:
                    await self._take(work, taken)
                    self._held |= taken
                    self._has_begun = True
                    logger.info("shards taken", node=self.name, taken=len(taken), held=len(self._held))
                    self.nudge()
            finally:
                self._is_taking = False
                self._given.unpark_all()  # a node that leaves waits for this

    async def _take(self, work: Work, shards: Collection[int]) -> None:
        try:
            await work.acquire(shards)
        except BaseException:
            with trio.move_on_after(FLUSH_WITHIN, shield=True):
                await work.release(shards)
            raise

    async def _give(self, work: Work, generation: int, shards: set[int]) -> None:
        left = set(shards)

        async def give(released: set[int], refusal: StorageUnavailable | None) -> None:
            try:
                if refusal is not None:
                    raise refusal
                if generation == self.generation and not self._is_lost:
                    await self._members.give(released)
                    logger.info("shards given", node=self.name, given=len(released), held=len(self._held))
                    self.nudge()
            except StorageUnavailable as error:
                refused(error)
            end(released)

        def refused(error: StorageUnavailable) -> None:
            # They are this node's still, and are given, or taken up again, after a later heartbeat.
            logger.warning("no shards are given", node=self.name, reason=str(error))

        def end(ended: set[int]) -> None:
            self._giving -= ended
            left.difference_update(ended)  # they may be given again before the others
            self._given.unpark_all()

        try:
            await work.release(shards, give)
        except StorageUnavailable as error:
            refused(error)
        finally:
            end(set(left))
