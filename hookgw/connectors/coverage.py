"""What a connector has of its network: until when all of it is stored, and how it gets what it has missed.

A network that cannot reach hookgw retries for a short time, or not at all. So after an outage, or a downtime
of hookgw, the connector asks for the messages of that time.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing

import msgspec
import structlog
import trio

from hookgw.kernel.collaborator import Collaborator
from hookgw.kernel.errors import NetworkRefused, NotSupported
from hookgw.records.connectors import Missed, NewEvent
from hookgw.records.instances import CatchUp

OVERLAP = 60.0
"""Seconds before a gap that are asked for as well: two clocks differ, and reports are on their way."""
WINDOW = 6 * 3600.0
"""The span of time that is asked for at once. Its events are sorted by their time before they are stored."""
BATCH = 200
_MOST_BYTES = 16 * 2**20
"""Bytes of events in memory. What is beyond is stored, though older events of other chats may follow."""
MOST_HELD = 600.0
"""Seconds for which reports are held at most: perhaps only hookgw's own way to the server is broken."""
MOST_FAULTS, MOST_FAILING = 3, 60.0
"""Faults in a row, and seconds since the first, after which an account opens without what it has missed.

The server was reached just before each of them. A call for old messages alone may fail for good: a large
table behind a proxy that waits for less time is enough.
"""

logger = structlog.get_logger("hookgw.connector")


class Coverage(Collaborator):
    """The coverage of one session.

    Args:
        limits: returns how much is caught up with.
        now: returns the time, in seconds since the epoch.
        load: returns until when everything was stored in a former run; ``None`` if there was none.
        store: stores events.
        report_gap: called with the bounds of a time of which events may be missing.

    Attributes:
        until: everything that the network had until then is stored; ``None`` while that is not known.
    """

    _limits: Callable[[], CatchUp]
    _now: Callable[[], float]
    _load: Callable[[], Awaitable[float | None]]
    _store: Callable[[Sequence[NewEvent]], Awaitable[None]]
    _report_gap: Callable[[float, float], None]

    def __post_init__(self) -> None:
        self.until: float | None = None
        self._is_lost = True
        self._holds = False
        self._held_from = math.inf
        self._faults = 0
        self._failing_from = 0.0
        self._lock = trio.Lock()

    def lose(self) -> None:
        """Hold what the network reports until :meth:`catch_up` has stored what came before."""
        if not self._holds:  # each failed look at the server says so again, and must not put off the end
            self._held_from = math.inf
        self._is_lost = self._holds = True

    @property
    def holds(self) -> bool:
        """Return whether a report that arrives now must wait."""
        if not self._holds:
            return False
        self._held_from = min(self._held_from, trio.current_time())
        return trio.current_time() < self._held_from + MOST_HELD

    async def catch_up(self, missed: Missed) -> None:
        """Store what the network has from the time of a gap, if there is one; see ``Session.catch_up``."""
        async with self._lock:
            now = self._now()
            if not self._is_lost:
                self.until = now
                return
            self._is_lost = False  # a loss during this is another one
            try:
                await self._fetch(missed, now)
            except BaseException:
                self._is_lost = True
                raise
            if not self._is_lost:
                self._holds = False

    async def _fetch(self, missed: Missed, now: float) -> None:
        since = await self._load() if self.until is None else self.until
        limit, span = self._limits().limit_or_default, self._limits().span_or_default
        if since is None or since >= now or not limit:
            self.until = now
            return
        begin = max(since - OVERLAP, now - span)
        if begin > since:
            self._report_gap(since, begin)
        left = limit
        while begin < now:
            end = min(begin + WINDOW, now)
            try:
                taken = await self._store_window(missed, begin, end, left)
            except NotSupported as error:  # the connector's page says so, too
                logger.info("the network has no history", reason=str(error))
                break
            except NetworkRefused as error:
                if self._may_recover():
                    raise
                logger.warning("the network's history fails", reason=str(error))
                self._report_gap(begin, now)
                break
            self._faults = 0
            left -= taken
            if left < 0:
                self._report_gap(begin, now)
                break
            self.until = begin = end
        self._faults = 0
        self.until = now

    async def _store_window(self, missed: Missed, begin: float, end: float, left: int) -> int:
        """Store the events of a window, at most ``left``; return how many there were, or one too many."""
        found: list[NewEvent] = []
        count = size = 0
        try:
            async with aclosing(missed(begin, end)) as pages:
                async for page in pages:
                    found += page[: left - count]
                    count += len(page)
                    size += sum(map(_size_of, page))
                    if count > left:
                        break
                    if size > _MOST_BYTES:
                        await self._store_sorted(found)
                        found, size = [], 0
        except NetworkRefused:
            if not self._faults:
                self._failing_from = trio.current_time()
            self._faults += 1
            if not self._may_recover():  # nobody asks for these again
                await self._store_sorted(found)
            raise
        await self._store_sorted(found)
        return count

    def _may_recover(self) -> bool:
        return self._faults < MOST_FAULTS or trio.current_time() < self._failing_from + MOST_FAILING

    async def _store_sorted(self, found: list[NewEvent]) -> None:
        found.sort(key=lambda event: event.time or 0.0)
        for first in range(0, len(found), BATCH):
            await self._store(found[first : first + BATCH])


def _size_of(event: NewEvent) -> int:
    return len(event.data_json or msgspec.json.encode(event.data, enc_hook=str))
