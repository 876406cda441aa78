"""The gate of the outbox: what the limits allow goes in, and at a limit the oldest may make room."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import trio

from hookgw.config.settings import LimitsSettings
from hookgw.gateway.backlog import Backlog, BacklogFull, Need, need_of
from hookgw.store import Append, Store

_SLACK = 100
"""Where room is made, a hundredth of the limit is added, so that not every event has to make some."""


class Drops(Protocol):
    """What makes room."""

    async def __call__(self, registration: str, reason: str, /, *, count: int, size: int) -> int:
        """Give up the oldest pending deliveries; see :meth:`hookgw.gateway.keeper.Keeper.drop_oldest`."""


class LimitedOutbox:
    """Appends events within the limits, and keeps count of what is pending.

    Args:
        store: takes the events.
        backlog: what is pending.
        settings: what happens at a limit.
        drop: gives up the oldest deliveries of a registration.
    """

    def __init__(self, store: Store, backlog: Backlog, settings: LimitsSettings, drop: Drops) -> None:
        self._store = store
        self._backlog = backlog
        self._drops = settings.on_full == "drop_oldest"
        self._drop = drop
        self._making_room = trio.Lock()

    async def append(self, address: Callable[[], Sequence[Append]]) -> list[bool]:
        """Put events on disk; see :meth:`hookgw.store.Store.append`.

        Args:
            address: gives the events with their targets as they are now. It is called again after each
                wait for room, since registrations may have gone to other lanes meanwhile.

        At a limit everything is refused, also for those registrations that have room, so that an event
        that is accepted reaches all who want it. With ``on_full: drop_oldest`` the oldest deliveries
        make room: those of the registration whose limit it is, or of the one that has the most.

        Raises:
            BacklogFull: a limit is reached, and the oldest may not, or cannot, make room.
            TooLarge: the events alone are over a limit.
            StorageUnavailable: the disk refused. Nothing was kept, in any of these cases.
            Exception: what ``address`` raised.
        """
        appends = address()
        need = need_of(appends)
        try:
            self._backlog.check(need)
        except BacklogFull:
            if not self._drops:
                raise
            return await self._append_in_turn(address)
        self._backlog.add(need)
        return await self._append(appends, need)

    async def append_always(self, appends: Sequence[Append]) -> list[bool]:
        """As :meth:`append`, without limits: for what hookgw itself has to say."""
        need = need_of(appends)
        self._backlog.add(need)
        return await self._append(appends, need)

    async def _append(self, appends: Sequence[Append], need: Need) -> list[bool]:
        """Append what is counted already; what is not kept is taken back.

        A caller that is cancelled cannot take back what it asked for: it is written all the same, and
        has to be counted. The store ends the wait by itself: it writes, refuses, or closes.
        """
        kept = [False] * len(appends)
        try:
            with trio.CancelScope(shield=True):
                kept = await self._store.append(appends)
        finally:
            if not all(kept):
                self._backlog.take(need_of(a for a, fresh in zip(appends, kept, strict=True) if not fresh))
        self._backlog.watch(need)
        return kept

    async def _append_in_turn(self, address: Callable[[], Sequence[Append]]) -> list[bool]:
        """Make room, one caller at a time, and append."""
        async with self._making_room:
            appends, need = await self._make_room(address)
            self._backlog.add(need)
        return await self._append(appends, need)

    async def _make_room(self, address: Callable[[], Sequence[Append]]) -> tuple[Sequence[Append], Need]:
        """Drop until there is room for what is to be appended; each turn is one small commit.

        There is no checkpoint between the last look at where the events go and the return.
        """
        while True:
            appends = address()
            need = need_of(appends)
            full = self._lack(need)
            if full is None:
                return appends, need
            if not await self._drop_some(full):
                raise full

    def _lack(self, need: Need) -> BacklogFull | None:
        try:
            self._backlog.check(need)
        except BacklogFull as full:
            return full
        return None

    async def _drop_some(self, full: BacklogFull) -> int:
        registration = full.registration or self._backlog.largest(by_bytes=full.is_of_bytes)
        if registration is None:
            return 0
        wanted = full.over + full.largest // _SLACK
        count, size = (0, wanted) if full.is_of_bytes else (wanted, 0)
        reason = f"Dropped as the oldest when the backlog had reached {full.limit} ({full.largest:,})."
        return await self._drop(registration, reason, count=count, size=size)
