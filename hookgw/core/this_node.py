"""This node: which shards it works on, and what it may do. Nobody else asks whether there are other nodes.

A node that shares its storage with no other is a fleet of one: it holds every shard, for ever.
"""

# ruff: noqa: ARG002 -- the only node has one answer to everything

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Collection
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import NamedTuple, Protocol

import trio

from hookgw.auth.keyring import Keyring
from hookgw.config.settings import FleetSettings
from hookgw.core.browser_sessions import BrowserSessions
from hookgw.core.keyring_loading import GlobalKeys
from hookgw.core.registry import Registry
from hookgw.kernel.errors import StorageUnavailable, Unavailable
from hookgw.kernel.sentences import Sentence
from hookgw.lanes.held_shards import EveryLane, HeldShards
from hookgw.records.fleet import FleetMember, FleetView, ShardEpoch
from hookgw.records.registrations import Registration
from hookgw.records.shards import SHARDS

Answer = Callable[[StorageUnavailable], Awaitable[None]]
"""Answers a call in the place of what works on it."""
Released = Callable[[set[int], StorageUnavailable | None], Awaitable[None]]
"""Called with shards on which nobody works any more, and why what they left was refused, if it was."""


class KnownRecords(NamedTuple):
    """The records that this node has in memory."""

    registry: Registry
    keyring: Keyring
    global_keys: GlobalKeys
    sessions: BrowserSessions


class Refresh:
    """Keeps records in memory as other nodes change them: here, nobody does."""

    async def catch_up(self, version: int | None = None) -> None:
        """Read what has changed until now, unless a version is known already.

        Args:
            version: enough if at least this one is known; ``None`` for whatever is committed now.

        Raises:
            StorageUnavailable: the database refuses.
        """

    async def look_up(self, refusal: Sentence) -> None:
        """Read what has changed for somebody who may be a stranger: why the database refuses is not told.

        Raises:
            Unavailable: with ``refusal``: the database refuses.
        """
        try:
            await self.catch_up()
        except StorageUnavailable as error:
            raise Unavailable(refusal, retry_after=error.retry_after) from error

    def alone(self) -> AbstractAsyncContextManager[None]:
        """Hold the lock of the fleet, with the newest records, while changing what all nodes share."""
        return nullcontext()


class Work(Protocol):
    """What a node does for its shards."""

    async def acquire(self, shards: Collection[int]) -> None:
        """Begin to work on shards. Raises ``Unavailable`` if it could not begin with any of them.

        It calls :meth:`ThisNode.hold` when it has read what a former holder has left.
        """

    async def release(self, shards: Collection[int], released: Released | None = None) -> None:
        """Stop working on shards, and return once everything of it is on disk, or refused.

        It calls :meth:`ThisNode.drop` first. Shards that were not acquired, or not all of them, may be given.

        Args:
            released: called with those of which everything is on disk, or refused, as soon as there are some.
                Without it, a refusal is raised at the end.
        """

    def busy(self) -> Collection[int]:
        """Return the shards for which a release would have to wait now."""

    def suspend(self) -> None:
        """Begin nothing until :meth:`unsuspend`."""

    def unsuspend(self) -> None:
        """Go on."""

    async def seen(self, view: FleetView) -> None:
        """Called with the current view of the fleet after each confirmed heartbeat; may raise
        ``StorageUnavailable``.
        """


_NOT_WAITING: AbstractAsyncContextManager[None] = nullcontext()
"""One for all calls: it has no state."""


class ThisNode:
    """The only node; :class:`hookgw.fleet.fleet_node.FleetNode` is one of several.

    Attributes:
        name: of the node.
        label: the same where nodes must be told apart; empty if there can be no other.
        is_shared: whether others may use the storage. Ask for this only where a user sees the difference.
        clocks_apart: the largest difference, in seconds, that is expected between the clocks of two nodes.
        view: the fleet at the last heartbeat.
        shards: those that this node acts for.
        refusal: why the database refused the last heartbeat; empty if it did not.
    """

    is_shared = False
    clocks_apart = 0.0

    def __init__(self, settings: FleetSettings) -> None:
        self.name, self.label = settings.node or socket.gethostname(), ""
        self.view = FleetView((FleetMember(self.name, 1, "", 0.0),), (1,) * SHARDS)
        self.shards: set[int] = set(range(SHARDS))
        self.refusal: tuple[str, ...] = ()

    def starting(self) -> AbstractAsyncContextManager[None]:
        """Enter the fleet, and hold its lock for the block.

        Read the records in the block. What every node makes if it is missing is made once there.

        Raises:
            StartError: a node of this name lives, or nodes could not reach each other.
        """
        return nullcontext()

    def refresh_of(self, records: KnownRecords) -> Refresh:
        """Return what keeps records in memory as other nodes change them."""
        return Refresh()

    def held_shards(self, registration: Callable[[str], Registration | None]) -> HeldShards:
        """Return the shards of lanes. Hear from now on what others append to these."""
        return EveryLane()

    def holds(self, instance: str) -> bool:
        """Return whether this node has an instance, by its name."""
        return True

    def check(self, instance: str) -> None:
        """Check that this node has an instance.

        Raises:
            StorageUnavailable: another node does, or will in a moment.
        """

    def epoch_of(self, instance: str) -> ShardEpoch | None:
        """Return in which epoch this node holds an instance's shard, for the commit to check.

        Raises:
            StorageUnavailable: this node may not act for it.
        """
        return None

    def is_responsible(self) -> bool:
        """Return whether this node does what one node has to do for all, such as pruning the history."""
        return True

    def may_act(self) -> bool:
        """Return whether this node holds what it holds: it is in touch with the database."""
        return True

    def has_begun(self) -> bool:
        """Return whether this node has worked on its first shards, or is due none."""
        return True

    def waiting(self, answer: Answer) -> AbstractAsyncContextManager[None]:
        """Answer a call and cancel the block if the database keeps it waiting for too long."""
        return _NOT_WAITING

    def hold(self, shards: Collection[int]) -> None:
        """Act for shards from now on."""
        self.shards.update(shards)

    def drop(self, shards: Collection[int]) -> None:
        """Act for shards no longer: no change of their instances begins."""
        self.shards.difference_update(shards)

    async def run(self, work: Work, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Work on the shards until cancelled. Call it after :meth:`starting`."""
        await work.acquire(self.shards)
        task_status.started()
        await trio.sleep_forever()

    async def hand_over(self, ends: float) -> None:
        """Give all shards to other nodes until ``ends``, those without attempts in flight at once."""

    async def leave(self, flush: Callable[[], Awaitable[None]]) -> None:
        """Leave the fleet, once :meth:`run` has ended and ``flush`` has put everything on disk."""
