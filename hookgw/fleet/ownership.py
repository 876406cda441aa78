"""Keeps this node in the fleet: heartbeats, its lease, and its share of the shards.

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
from collections.abc import Collection
from typing import Protocol

import structlog
import trio

from hookgw.fleet.lease import HEARTBEAT, DatabaseClock, Lease
from hookgw.kernel.errors import Conflict, StorageUnavailable, Unavailable
from hookgw.records.fleet import DEAD_AFTER, FleetView
from hookgw.records.shards import share_targets
from hookgw.store.fleet import Membership

logger = structlog.get_logger("hookgw.fleet")

JOIN_FOR = 3 * DEAD_AFTER
"""Seconds for which a node waits for the end of a former process with its name, which was killed just now."""


SLOW = 0.75
"""Seconds that a heartbeat takes if the database is slow. It is two short statements."""


class Work(Protocol):
    """What a node does for its shards."""

    async def acquire(self, shards: Collection[int]) -> None:
        """Begin to work on shards. Raises ``Unavailable`` if it could not begin with any of them."""

    async def release(self, shards: Collection[int]) -> None:
        """Stop working on shards, and return once everything of it is on disk, or refused."""

    def busy(self) -> Collection[int]:
        """Return the shards that a release would have to wait for now."""

    def suspend(self) -> None:
        """Begin nothing until :meth:`unsuspend`."""

    def unsuspend(self) -> None:
        """Go on."""

    async def seen(self, view: FleetView) -> None:
        """Called with the current view of the fleet after each confirmed heartbeat; may raise
        ``StorageUnavailable``.
        """


class Ownership:
    """This node's place in the fleet.

    Args:
        members: the fleet's nodes and shards.
        node: this node's name.
        url: where other nodes reach it.
        lease: renewed by heartbeats.

    Attributes:
        node: its name.
        view: the fleet at the last heartbeat.
        generation: of this node.
        has_begun: whether it has worked on its first shards, or is due none.
        is_whole: whether it works on all of its share now.
    """

    def __init__(self, members: Membership, node: str, url: str, lease: Lease) -> None:
        self.view = FleetView()
        self.generation = 0
        self.has_begun = self.is_whole = False
        self._members = members
        self.node = node
        self._url = url
        self._lease = lease
        self._database_clock = DatabaseClock()
        # When the heartbeat was sent that is not answered, and how long the last one took that was.
        self._sent: float | None = None
        self._took = 0.0
        self._held: set[int] = set()
        self._giving: set[int] = set()
        # A node that leaves may wait for this, and one that was removed, both at a time.
        self._given = trio.lowlevel.ParkingLot()
        self._judges_from = -math.inf
        self._is_suspended = self._is_lost = self._is_leaving = False
        self._is_taking = False
        self._rejoined = trio.Event()
        self._viewed = trio.Event()
        self._nudge = trio.Event()

    @property
    def held(self) -> frozenset[int]:
        """The shards that this node works on."""
        return frozenset(self._held)

    def is_database_slow(self) -> bool:
        """Return whether the database takes long for heartbeats, or does not answer."""
        waiting = 0.0 if self._sent is None else self._lease.now() - self._sent
        return max(self._took, waiting) > SLOW or not self._lease.is_valid()

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

    async def run(self, work: Work, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Stay in the fleet until cancelled. Call :meth:`join` before, and :meth:`leave` after it."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._send_heartbeats)
            nursery.start_soon(self._watch_lease, work)
            nursery.start_soon(self._follow, work)
            nursery.start_soon(self._keep_share, work, nursery)
            task_status.started()

    async def hand_over(self) -> None:
        """Give all shards to other nodes, those without attempts in flight at once.

        Set a deadline: an attempt takes up to its timeout.

        Raises:
            StorageUnavailable: the database refuses.
        """
        self._is_leaving = True
        await self._members.announce_leaving()
        self.nudge()
        while self._held or self._giving or self._is_taking:
            await self._given.park()

    async def leave(self) -> None:
        """Leave the fleet, once :meth:`run` has ended and everything is on disk: nothing is written later.

        Raises:
            StorageUnavailable: the database refuses. The others take over when there are no more heartbeats.
        """
        self._lease.end()
        await self._members.leave()

    async def _join_now(self) -> None:
        self.generation = await self._members.join(self.node, self._url)
        await self._beat()

    async def _beat(self) -> None:
        sent = self._sent = self._lease.now()
        view = await self._members.heartbeat()
        self._sent, self._took = None, self._lease.now() - sent
        if view is None:
            self._lease.end()
            self._is_lost, self._rejoined = True, trio.Event()
        else:
            self.view = view
            jump = self._database_clock.read(view.time, sent, self._lease.now())
            if jump:
                logger.warning("the clock of the database has jumped", node=self.node, seconds=round(jump, 1))
            if jump or (not self._lease.is_valid() and self._lease.until > -math.inf):
                self._judges_from = trio.current_time() + DEAD_AFTER
            self._lease.renewed(sent)
        self._viewed.set()
        self._viewed = trio.Event()

    async def _send_heartbeats(self) -> None:
        while True:
            with trio.move_on_after(HEARTBEAT):
                await self._nudge.wait()
            self._nudge = trio.Event()
            try:
                await self._beat()
            except StorageUnavailable as error:
                logger.warning("no heartbeat", node=self.node, reason=str(error))
            if self._is_lost:
                await self._rejoined.wait()

    async def _follow(self, work: Work) -> None:
        while True:
            viewed = self._viewed
            if self._lease.is_valid():
                try:
                    await work.seen(self.view)
                except StorageUnavailable as error:
                    logger.warning("changes are not seen", node=self.node, reason=str(error))
            await viewed.wait()

    async def _watch_lease(self, work: Work) -> None:
        while True:
            await trio.sleep_until(self._lease.until)
            if self._lease.is_valid():
                continue
            self._suspend(work)
            while not self._lease.is_valid():
                await self._viewed.wait()
            # Not before this node has stopped what it did as a former member.
            while self._is_lost:
                await self._rejoined.wait()
            self._unsuspend(work)

    def _suspend(self, work: Work) -> None:
        if not self._is_suspended:
            self._is_suspended = True
            logger.error("the lease ended: nothing is sent", node=self.node, shards=len(self._held))
            work.suspend()

    def _unsuspend(self, work: Work) -> None:
        if self._is_suspended:
            self._is_suspended = False
            work.unsuspend()
            logger.info("the lease is renewed", node=self.node)

    async def _keep_share(self, work: Work, nursery: trio.Nursery) -> None:
        while True:
            viewed = self._viewed
            try:
                if self._is_lost:
                    await self._rejoin(work)
                else:
                    await self._balance(work, nursery)
            except Unavailable as error:
                logger.warning("no shards are taken", node=self.node, reason=str(error))
            await viewed.wait()

    async def _rejoin(self, work: Work) -> None:
        """Stop everything, then join as a new member: others hold this node's shards by now."""
        self._suspend(work)
        logger.error("other nodes took over", node=self.node, shards=len(self._held))
        await work.release(self._held | self._giving)
        self._held.clear()
        self.is_whole = False
        self._given.unpark_all()  # a node that leaves waits for this
        while self._giving:
            await self._given.park()
        while not self._is_leaving:
            try:
                await self.join()
                break
            except StorageUnavailable:
                await trio.sleep(HEARTBEAT)
        else:
            return  # nothing is left to hand over, and the others know
        self._is_lost = False
        # Here, too: if the former lease had not ended by then, nobody waits for the new one.
        self._unsuspend(work)
        self._rejoined.set()

    async def _balance(self, work: Work, nursery: trio.Nursery) -> None:
        """Take what is this node's share, or begin to give back what is more."""
        view = self.view
        held = {
            node.name: len(view.held_by(node.generation))
            for node in view.nodes
            if not node.is_leaving and node.heartbeat_age < DEAD_AFTER
        }
        target = 0 if self._is_leaving else share_targets(held).get(self.node, 0)
        mine = view.held_by(self.generation)
        was_whole, self.is_whole = self.is_whole, len(mine) == target and mine == self._held
        if self.is_whole and not self._is_leaving:
            self.has_begun = True
            if not was_whole:
                logger.info("this node holds its share", node=self.node, shards=target, nodes=len(held))
        if len(mine) > target:
            if not self._giving:
                busy = work.busy()
                # First the shards that can be given at once. In a task: an attempt in flight may take long.
                giving = sorted(mine & self._held, key=lambda shard: (shard in busy, -shard))
                giving = giving[: len(mine) - target]
                for group in (set(giving) - set(busy), set(giving) & set(busy)):
                    if group:
                        self._giving |= group
                        self._held -= group
                        nursery.start_soon(self._give, work, self.generation, group)
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
                    await work.acquire(taken)
                    self._held |= taken
                    self.has_begun = True
                    logger.info("shards taken", node=self.node, taken=len(taken), held=len(self._held))
                    self.nudge()
            finally:
                self._is_taking = False
                self._given.unpark_all()  # a node that leaves waits for this

    async def _give(self, work: Work, generation: int, shards: set[int]) -> None:
        try:
            await work.release(shards)
            if generation == self.generation and not self._is_lost:
                await self._members.give(shards)
                logger.info("shards given", node=self.node, given=len(shards), held=len(self._held))
        except StorageUnavailable as error:
            # They are this node's still, and are taken up again after a later heartbeat.
            logger.warning("no shards are given", node=self.node, reason=str(error))
        finally:
            self._giving -= shards
            self._given.unpark_all()
            self.nudge()
