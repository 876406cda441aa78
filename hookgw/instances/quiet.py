"""Notices instances whose connection is open and that no event comes from any more.

What users of all gateways report most is a webhook that silently stops: the connection seems open, and
nothing arrives. Nobody but hookgw can notice that, because there is no failure anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple, NoReturn

import structlog
import trio

from hookgw.concurrency.clock import Clock
from hookgw.core.operational.events import OperationalEvents
from hookgw.core.registry import Registry
from hookgw.instances.connectors.states import ConnectionStates
from hookgw.kernel.collaborator import Collaborator
from hookgw.kernel.errors import StorageUnavailable
from hookgw.kernel.units import Duration, at_a_glance
from hookgw.records.connectors import ConnectionState
from hookgw.records.events import Event
from hookgw.records.instances import Instance
from hookgw.records.rhythms import GAPS, HOUR, Rhythm
from hookgw.store import Store

LOOK_EVERY = 5.0
"""Seconds between two looks at all instances."""
STORE_EVERY = 15.0
"""Seconds between two writes of what was counted. A kill loses at most that much of it."""
SETTLE_FOR = 15.0
"""Seconds after a connection has opened before its silence is reported: what waited comes first."""
_OF_THE_CONNECTION = frozenset({"CONNECTION_UPDATE", "QRCODE_UPDATED"})
_AT_ONCE = 200

logger = structlog.get_logger("hookgw.instances")


class Sign(NamedTuple):
    """A sign of life of another node's instance: how many events, and when the last one came."""

    instance: str
    events: int
    at: float


class _Watched:
    """A watched instance.

    Attributes:
        rhythm: until it was read from the store, only what this process has counted.
        is_read: whether it was.
        signs: what came before, as a time and a number of events for each hour.
        opened_at: since when the connection is open; ``None`` if it is not.
        seen_at: when this process has looked at it last.
    """

    def __init__(self, instance: Instance, now: float) -> None:
        self.instance_id = instance.id
        self.rhythm = Rhythm(now)
        self.signs: list[tuple[float, int]] = []
        self.is_read = False
        self.opened_at: float | None = None
        self.seen_at = now


class QuietWatch(Collaborator):
    """Counts the events of instances, and reports those that are quiet, and those that are heard again.

    Args:
        quiet_after: ``instances.quiet_after``; 0 for never.
        holds: whether this node has an instance, by its name.
    """

    _registry: Registry
    _states: ConnectionStates
    _operational: OperationalEvents
    _store: Store
    _clock: Clock
    _quiet_after: float
    _holds: Callable[[str], bool]

    def __post_init__(self) -> None:
        self._watched: dict[str, _Watched] = {}
        self._unstored: set[str] = set()
        self._for_others: dict[str, Sign] = {}
        self._has_for_others = trio.Event()

    def accepted(self, events: Iterable[Event]) -> None:
        """Count accepted events. It never waits."""
        signs: dict[str, int] = {}
        for event in events:
            instance = self._registry.find_instance(event.instance)
            if instance is None or not self._limit(instance):
                continue
            of_connection = event.kind in _OF_THE_CONNECTION
            if of_connection and self._holds(instance.name):
                self._watch(instance).opened_at = self._clock.steady()  # if it is open at the next look
            # hookgw itself raises these for a connector. Without one, the producer has sent them.
            if not (of_connection and instance.integration):
                signs[event.instance] = signs.get(event.instance, 0) + 1
        for name, count in signs.items():
            self.heard(name, count)

    def heard(self, name: str, events: int) -> None:
        """Take events that came now. Those of another node's instance wait in :meth:`take_for_others`."""
        instance = self._registry.find_instance(name)
        if instance is None or not self._limit(instance):
            return
        at = self._clock.steady()
        if not self._holds(name):
            known = self._for_others.get(name)
            self._for_others[name] = Sign(name, events + (known.events if known else 0), at)
            self._has_for_others.set()
            return
        watched = self._watch(instance)
        if not watched.is_read:
            if watched.signs and watched.signs[-1][0] // HOUR == at // HOUR:
                watched.signs[-1] = at, watched.signs[-1][1] + events
            else:
                watched.signs.append((at, events))
            return
        self._count(name, watched, at, events)

    def _count(self, name: str, watched: _Watched, at: float, events: int) -> None:
        rhythm = watched.rhythm
        silence, since = max(0.0, rhythm.silence(at)), rhythm.heard_at
        was_quiet, rhythm.quiet_since = rhythm.quiet_since is not None, None
        rhythm.heard(max(at, rhythm.heard_at), events)
        self._unstored.add(name)
        if was_quiet:
            self._operational.instance_heard(name, since=since, seconds=silence)

    def _watch(self, instance: Instance) -> _Watched:
        watched = self._watched.get(instance.name)
        if watched is None or watched.instance_id != instance.id:
            watched = self._watched[instance.name] = _Watched(instance, self._clock.steady())
        return watched

    def _limit(self, instance: Instance) -> float:
        """Return after how many seconds of silence an instance counts as quiet; 0 for never."""
        return self._quiet_after if instance.quiet_after is None else instance.quiet_after

    def quiet_since(self, name: str) -> float | None:
        """Return the time of the last event of a quiet instance; ``None`` if it is not quiet or not open."""
        watched = self._watched.get(name)
        if watched is None or watched.rhythm.quiet_since is None or watched.opened_at is None:
            return None
        return watched.rhythm.heard_at

    def quiet(self) -> list[str]:
        return [name for name in self._watched if self.quiet_since(name) is not None]

    async def run(self) -> NoReturn:
        """Look at all instances again and again, until cancelled."""
        stored_at = self._clock.steady()
        while True:
            await trio.sleep(LOOK_EVERY)
            for number, instance in enumerate(self._registry.instances()):
                if number % _AT_ONCE == 0:
                    await trio.lowlevel.checkpoint()  # ten thousand take longer than others should wait
                if not self._limit(instance):
                    self._watched.pop(instance.name, None)
                elif self._holds(instance.name):
                    await self._look(instance)
            for name in [*self._watched]:
                if self._registry.find_instance(name) is None:
                    del self._watched[name]
            if self._clock.steady() >= stored_at + STORE_EVERY:
                await self.store()
                stored_at = self._clock.steady()

    async def _look(self, instance: Instance) -> None:
        watched = self._watch(instance)
        if not watched.is_read and not await self._read(instance, watched):
            return
        now, rhythm, limit = self._clock.steady(), watched.rhythm, self._limit(instance)
        elapsed, watched.seen_at = now - watched.seen_at, now
        is_open = self._states.state(instance.name) is ConnectionState.OPEN
        if not is_open and not instance.integration and not self._states.is_reported(instance.name):
            is_open = rhythm.is_open  # nobody has said anything since a former process or node had it
        if is_open is not rhythm.is_open:
            rhythm.is_open = is_open
            self._unstored.add(instance.name)
        if not is_open:
            watched.opened_at = None
            rhythm.not_connected(min(elapsed, max(0.0, rhythm.silence(now))))
            return
        if watched.opened_at is None:
            watched.opened_at = now
        silence = rhythm.silence(now)
        if rhythm.quiet_since is not None or now - watched.opened_at < min(SETTLE_FOR, limit):
            return
        if silence <= limit and not rhythm.is_unusual(now):
            return
        reason = f"No event has come for {at_a_glance(silence)}"
        if silence > limit:
            reason += f" (quietAfter: {Duration(limit)})."
        elif (gap := rhythm.usual_gap(int(now // HOUR))) is not None:
            reason += f"; at this hour of the week, one comes every {at_a_glance(gap)}."
        else:  # the silence is of the hours before, as after a restart
            reason += f"; that is at least {GAPS} times the usual gap of these hours."
        rhythm.quiet_since = now
        self._unstored.add(instance.name)
        self._operational.instance_quiet(instance.name, since=rhythm.heard_at, seconds=silence, reason=reason)

    async def _read(self, instance: Instance, watched: _Watched) -> bool:
        """Read what a former process or node has counted."""
        try:
            stored = await self._store.load_rhythm(instance.id)
        except StorageUnavailable as error:
            logger.debug("rhythm not read yet", instance=instance.name, reason=str(error))
            return False
        if stored is not None:
            watched.rhythm = Rhythm.restored(stored)
        watched.is_read = True
        for at, events in watched.signs:  # those during the read, too
            self._count(instance.name, watched, at, events)
        watched.signs.clear()
        return True

    async def store(self) -> None:
        """Store what was counted since the last write. If the disk refuses, the next write has it."""
        names, self._unstored = self._unstored, set()
        rhythms = {
            watched.instance_id: watched.rhythm.stored()
            for name in names
            if (watched := self._watched.get(name)) is not None and self._registry.find_instance(name)
        }
        if not rhythms:
            return
        try:
            await self._store.put_rhythms(rhythms)
        except StorageUnavailable as error:
            self._unstored |= names
            logger.debug("rhythms not stored yet", reason=str(error))

    async def leave(self, names: Collection[str]) -> None:
        """Store and forget instances that move to another node."""
        await self.store()
        for name in names:
            self._watched.pop(name, None)
            self._unstored.discard(name)

    async def take_for_others(self) -> Mapping[str, Sign]:
        """Wait for signs of life of other nodes' instances, and return them, by instance."""
        await self._has_for_others.wait()
        self._has_for_others = trio.Event()
        taken, self._for_others = self._for_others, {}
        return taken
