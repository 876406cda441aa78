"""Shares the count of the backlog among the nodes, so that limits hold on every node.

Counting the outbox takes a second for a million deliveries, and would have to be done every second. So each
node tells the others its changes, and adds theirs to its count: :data:`EXCHANGE_EVERY`, and
:data:`TIGHT_EVERY` near a limit. What a node accepts counts for the others after twice that time at most: by
what all nodes accept in that time, a limit may be exceeded.

The whole outbox is counted when something may have been missed: a node came or went, an instance was deleted
(its events have another name since), rows are missing, or the database was away. The exchange goes on
meanwhile. Changes of others that they had made but not told when the count looked are counted twice: so the
outbox is counted again, now and then, until each holder of a backlog was once counted while it was quiet. The
count of a holder that is never quiet may be off by a second's changes.

::

    told by this node    ── 7 ──┬── 8 ────── 9 ──┬── 10
    heard of another     ── 3 ──┼──── 4 ─── 5 ───┼──── 6
                                │                │
                          the count begins       it ends: rows up to 4 were there when it looked.
                                                 What it found, and 8, 9 and 5, is the count of this moment.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial

import structlog
import trio

from hookgw.core.backlog import Backlog, Need
from hookgw.fleet.fleet_node import FleetNode
from hookgw.kernel.collaborator import Collaborator
from hookgw.kernel.errors import StorageUnavailable
from hookgw.store.fleet import BacklogNews, SharedBacklog
from hookgw.store.records import PendingChange

logger = structlog.get_logger("hookgw.fleet")

EXCHANGE_EVERY = 0.4
"""Seconds between two exchanges."""

TIGHT_EVERY = 0.1
"""Seconds between exchanges while some limit is nearly reached."""

COUNT_EVERY = 5.0
"""Seconds between two counts of the whole outbox, at least, until one fits together with what is told."""

REST = 5
"""How many times the length of a count must pass before the next one: a slow server needs a rest."""

TOLD_WITHIN = 1.0
"""Seconds after which all nodes have told what they had changed."""

COUNT_PART = 100
"""At most a hundredth of the time is spent on counting."""

REMOVED_EVERY = 1.0
"""Seconds between two reports of removed deliveries: after each, lanes count everything on disk."""

UNKNOWN = -1
"""The number of a node of which nothing was heard yet."""


class BacklogExchange(Collaborator):
    """Tells other nodes this node's changes of the backlog, and hears of theirs.

    Args:
        removed: called with the id of a registration from which another node has taken deliveries away, at
            most once in :data:`REMOVED_EVERY`; ``None`` if only the owner of a registration does that.
    """

    _shared: SharedBacklog
    _backlog: Backlog
    _node: FleetNode
    _removed: Callable[[str], None] | None = None

    def __post_init__(self) -> None:
        self._with_less: set[str] = set()
        self._removed_at = -math.inf
        # Of this node's own news.
        self._generation = 0
        self._number = 0
        self._has_begun = False
        self._telling: BacklogNews | None = None
        # The last number that was heard of each other node.
        self.known: dict[int, int] = {}
        self.must_count = False
        # By holder, how many changes the present count may have missed or counted twice.
        self._unsure: Counter[tuple[str, str]] = Counter()
        # When this node told or heard what, for about as long as it takes until all know.
        self._recent: deque[tuple[float, PendingChange]] = deque()
        self._told_at = self.rest_until = -math.inf
        self.count_at = math.inf
        self.is_counting = self._is_away = False
        # Since the count in progress has begun.
        self._told: list[PendingChange] = []
        self._heard: list[BacklogNews] = []

    async def run(self) -> None:
        """Exchange until cancelled. A node that is alone notes and tells nothing."""
        async with trio.open_nursery() as nursery:
            while True:
                has_others = self._look()
                if has_others:
                    self._prepare()
                elif self.must_count and not self.is_counting:
                    self._backlog.take_noted()  # nobody else needs it
                elif not self.is_counting:
                    self._backlog.stop_noting()
                now = trio.current_time()
                is_late = has_others and bool(self._unsure) and now >= self.count_at
                if (is_late or (self.must_count and now >= self.rest_until)) and not self.is_counting:
                    # No checkpoint since the node's own changes were taken: later ones are noted.
                    nursery.start_soon(partial(self._count, is_check=not self.must_count))
                    self.must_count, self.is_counting = False, True
                    self._told, self._heard = [], []
                if has_others:
                    await self._exchange()
                self._tell_removed()
                until = trio.current_time() + EXCHANGE_EVERY
                self._backlog.is_tight = False
                while trio.current_time() < until:
                    await trio.sleep(TIGHT_EVERY)
                    if has_others and self._backlog.is_tight:
                        break

    def _look(self) -> bool:
        """Look which nodes are there; return whether there are others."""
        view, generation = self._node.view, self._node.generation
        others = {node.generation for node in view.nodes} - {generation}
        if self.known.keys() - others:
            self.must_count = True  # a node that is gone may have changed more than it has told
        if others and self._backlog.has_retired:
            # Others may have told changes under its former name until they heard of it.
            self.must_count = True
        self._backlog.has_retired = False
        self.known = {other: self.known.get(other, UNKNOWN) for other in others}
        if generation != self._generation:
            self._generation, self._number, self._telling = generation, 0, None
            self._has_begun = False
        if not others:
            self._has_begun, self._telling = False, None
        return bool(others)

    def _prepare(self) -> None:
        """Take this node's changes, to tell them."""
        # What may have been told already is told again as it was.
        if self._telling is not None:
            return
        noted = self._backlog.take_noted()
        self._remember(noted)
        if self.is_counting and noted:
            self._told.append(noted)
        if not self._has_begun:
            # What has changed until now, the others count when they hear this.
            self._has_begun, self.must_count = True, True
            self._number += 1
            self._telling = BacklogNews(self._generation, self._number, None)
        elif noted:  # also that of which nothing is left: a count in this moment may have seen a part
            self._number += 1
            self._telling = BacklogNews(self._generation, self._number, noted)

    async def _exchange(self) -> None:
        known = {other: max(number, 0) for other, number in self.known.items()}
        try:
            news = await self._shared.exchange(self._telling, known)
        except StorageUnavailable as error:
            self._refused(error)
            return
        # Not while a count has not succeeded: telling may work, and counting fail.
        self._is_away = self._is_away and (self.must_count or self.is_counting)
        self._telling = None
        now = trio.current_time()
        if now > self._told_at + TOLD_WITHIN:
            # The others may have counted without what this node had not told in time.
            self._has_begun = False
        self._told_at = now
        for one in news:
            self._hear(one)

    def _hear(self, news: BacklogNews) -> None:
        known = self.known[news.generation]
        self.known[news.generation] = news.number
        if news.changes is None or news.number != known + 1:
            self.must_count = True
        # What was told before this node came is in its count.
        if news.changes is not None and known != UNKNOWN:
            self._backlog.heard({of: amount for of, amount in news.changes.items() if amount != (0, 0)})
            self._remember(news.changes)
            if self._removed is not None:
                self._with_less.update(name for (name, _), (count, _) in news.changes.items() if count < 0)
            if self.is_counting:
                self._heard.append(news)

    def _remember(self, changes: PendingChange) -> None:
        now = trio.current_time()
        while not self.is_counting and self._recent and self._recent[0][0] < now - TOLD_WITHIN:
            self._recent.popleft()
        if changes:
            self._recent.append((now, changes))

    def _tell_removed(self) -> None:
        now = trio.current_time()
        if self._removed is not None and self._with_less and now >= self._removed_at + REMOVED_EVERY:
            found, self._with_less, self._removed_at = self._with_less, set(), now
            for registration_id in found:
                self._removed(registration_id)

    async def _count(self, *, is_check: bool) -> None:
        """Count the outbox, and correct this node's count.

        With ``is_check``, a holder keeps its count unless the new one fits the reported changes better.
        """
        begun = trio.current_time()
        try:
            found, last = await self._shared.count()
            took = trio.current_time() - begun
            if not is_check:
                self._backlog.recount(self._brought_up_to_date(found, last))
            # Whatever anybody had changed when the count looked is told by then. What was told just before it
            # looked may have been committed after that.
            await trio.sleep_until(begun + TOLD_WITHIN)
            unsure: Counter[tuple[str, str]] = Counter()
            around = [changes for at, changes in self._recent if at >= begun - TOLD_WITHIN]
            for changes in (*around, self._backlog.noted):
                for holder, (count, _) in changes.items():
                    unsure[holder] += max(1, abs(count))
            if is_check:
                # Each holder by itself: most of what is pending for long rests, however busy others are.
                better = {holder for holder, count in self._unsure.items() if unsure[holder] < count}
                if better:
                    self._backlog.recount(self._brought_up_to_date(found, last), better)
                unsure = Counter({holder: min(unsure[holder], n) for holder, n in self._unsure.items()})
            self._unsure = +unsure
            now = trio.current_time()
            self.count_at = now + max(COUNT_EVERY, COUNT_PART * took)
            self.rest_until = now + REST * took
        except StorageUnavailable as error:
            self._refused(error)
            self.must_count = True
        finally:
            self.is_counting = False

    def _brought_up_to_date(self, found: PendingChange, last: Mapping[int, int]) -> Need:
        """Update a count of a moment ago with all changes but those that this node has noted and not told
        yet.
        """
        since = (one.changes or {} for one in self._heard if one.number > last.get(one.generation, 0))
        return _sum([found, *self._told, *since])

    def _refused(self, error: StorageUnavailable) -> None:
        if not self._is_away:  # once, until it works again
            self._is_away = True
            logger.warning("the backlog of other nodes is not known", reason=str(error))


def _sum(changes: Iterable[PendingChange]) -> Need:
    total: Need = {}
    for change in changes:
        for holder, (count, size) in change.items():
            has = total.get(holder, (0, 0))
            total[holder] = (has[0] + count, has[1] + size)
    return total
