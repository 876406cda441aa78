"""The outbox behind its limits: appends what fits; at a limit, the oldest deliveries may make room."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import contextmanager

from hookgw.config.settings import LimitsSettings
from hookgw.core.backlog import Amount, Backlog, BacklogFull, Need, ShareFull, need_of
from hookgw.core.disk_space import DiskSpaceWatch
from hookgw.core.keyed_locks import KeyedLocks
from hookgw.core.pending import PendingDeliveries
from hookgw.kernel.collaborator import Collaborator
from hookgw.records.fleet import ShardEpoch
from hookgw.store import Append, ConnectorState, Store
from hookgw.store.fleet import RecordsChanged
from hookgw.store.records import DROPPED_AS_OLDEST

_ROW = 1000
"""Bytes that a delivery takes on disk beside its payload, about."""


LEAST_BACKFILL: Amount = (100, 2**20)
"""The deliveries and bytes by which a backfill goes beyond a full backlog, if nothing else makes room."""


class LimitedOutbox(Collaborator):
    """Appends events within the limits, and counts pending deliveries.

    Args:
        catch_up: reads the records that other nodes have changed, up to a version at least.
    """

    _store: Store
    _backlog: Backlog
    _settings: LimitsSettings
    _pending: PendingDeliveries
    _disk: DiskSpaceWatch
    _catch_up: Callable[[int], Awaitable[None]]

    def __post_init__(self) -> None:
        self._drops = self._settings.on_full == "drop_oldest"
        # By instance. A lock exists only while it is held or awaited.
        self._making_room = KeyedLocks()

    async def append(
        self,
        address: Callable[[], Sequence[Append]],
        *,
        state: ConnectorState | None = None,
        epoch: ShardEpoch | None = None,
        is_limited: bool = True,
    ) -> list[bool]:
        """Append events; see :meth:`hookgw.store.Outbox.append`.

        At a limit everything is refused, also deliveries to registrations that have room, so that an accepted
        event reaches every registration that wants it. With ``limits.on_full: drop_oldest``, the oldest
        deliveries of the same instance make room: those to the registration at its limit, or else to the
        registration with the most of them. Only as many are dropped as the events need.

        Args:
            address: returns the events with their targets. It is called again after each wait for room, and
                if another node has changed records, because registrations may have changed meanwhile.
            state: of a connector, stored in the same commit. It takes no room.
            epoch: in which this node must hold the connector's shard; ``None`` without a connector.
            is_limited: whether the limits and the disk's space may refuse the events.

        Raises:
            ShareFull: the instance or a registration is at its limit, and nothing can make room.
            BacklogFull: a total limit is reached, and nothing can make room.
            TooLarge: the events exceed a limit on their own.
            Unavailable: the disk refuses, or has little space left. In all these cases nothing was stored.
        """
        while True:
            if is_limited:
                self._disk.check()
            appends = address()
            need = need_of(appends)
            try:
                if is_limited:
                    self._backlog.check(need)
                to_watch = self._backlog.add(need)
            except (BacklogFull, ShareFull) as full:  # TooLarge passes through: no room can be made for it
                if not self._drops:
                    raise
                # One caller of an instance at a time, or each would drop room for all.
                async with self._making_room.hold(full.shortage.instance):
                    appends, need = await self._make_room(address)
                    to_watch = self._backlog.add(need)
            stored, newer = [False] * len(appends), None
            try:
                stored = await self._store.append(appends, state=state, epoch=epoch)
            except RecordsChanged as changed:
                newer = changed.version
            finally:
                if not all(stored):
                    pairs = zip(appends, stored, strict=True)
                    self._backlog.take(need_of(append for append, is_new in pairs if not is_new))
            if newer is None:
                break
            await self._catch_up(newer)
        self._backlog.watch(to_watch)
        written = 0
        for count, size in need.values():
            written += size + _ROW * count
        self._disk.written(written)
        return stored

    async def append_always(self, appends: Sequence[Append]) -> list[bool]:
        """Append operational events, ignoring the limits."""
        return await self.append(lambda: appends, is_limited=False)

    @contextmanager
    def holding(self, need: Need) -> Iterator[None]:
        """Hold room within the block for finished deliveries that become pending again.

        Nothing is dropped for them.

        Raises:
            ShareFull, BacklogFull, TooLarge, Unavailable: as for :meth:`append`.
        """
        self._disk.check()
        self._backlog.check(need)
        self._backlog.add(need)
        try:
            yield
        finally:
            self._backlog.take(need)

    @contextmanager
    def holding_for_replay(self, instance: str, registrations: Collection[str]) -> Iterator[Amount]:
        """Hold the room of one step of a replay to these registrations, within the block.

        Yields:
            How many deliveries and bytes; zeros if there is no room now.
        """
        room = (0, 0)
        if self._disk.shortage is None:
            room = self._backlog.replay_room(instance, registrations)
        self._backlog.hold(instance, room)
        try:
            yield room
        finally:
            self._backlog.release(instance, room)

    @contextmanager
    def holding_for_backfill(self, instance: str, registration: str, is_drained: bool) -> Iterator[Amount]:
        """Hold the room of one step of a backfill, within the block; see :meth:`holding_for_replay`.

        Args:
            is_drained: whether the registration's lanes have nothing to send before the barrier. New events
                fill the backlog behind it, and go nowhere before the backfill ends. So there is always room
                for a few deliveries then, or the backfill would wait for ever.
        """
        with self.holding_for_replay(instance, [registration]) as room:
            if not room[0] and is_drained and self._disk.shortage is None:
                room = LEAST_BACKFILL
            yield room

    async def _make_room(self, address: Callable[[], Sequence[Append]]) -> tuple[Sequence[Append], Need]:
        """Drop deliveries until the events fit; each turn is one small commit."""
        freed = (0, 0)
        while True:
            # No checkpoint between this look at the targets and the return.
            appends = address()
            need = need_of(appends)
            try:
                self._backlog.check(need, freed)
            except (BacklogFull, ShareFull) as full:
                refusal, shortage = full, full.shortage
            else:
                return appends, need
            instance, by_bytes = shortage.instance, shortage.is_of_bytes
            registration = shortage.registration or self._backlog.largest(instance, by_bytes=by_bytes)
            if registration is None:
                raise refusal
            most = self._backlog.to_free(need, freed)[by_bytes]
            excess = int(min(shortage.excess, most))
            count, size = (0, excess) if by_bytes else (excess, 0)
            reason = f"{DROPPED_AS_OLDEST}the backlog had reached {shortage.limit} ({shortage.value:,})."
            dropped = await self._pending.drop_oldest(registration, instance, reason, count=count, size=size)
            if not dropped[0]:
                raise refusal
            freed = (freed[0] + dropped[0], freed[1] + dropped[1])
