"""Which commits run in the event loop's thread.

A commit in the writer's thread lets the loop go on, and costs two changes of thread and a pass of the loop.
A producer that emits one event after the other waits for all of that. A commit in the loop's thread saves it,
but whatever else this process has to do waits for its ``fsync``. So it is for moments in which nothing else
is to be done, on a disk that has been quick.

That is a guess: an ``fsync`` that takes long gives no sign before. The rules here bound how often the loop
stands still, not for how long. So this is off unless ``storage.inline_commits`` is on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic

import trio

from hookgw.concurrency.loop_load import LoopLoad
from hookgw.store.commits.changes import Committed
from hookgw.store.commits.jobs import CommitGroup, Tx

INLINE_ROWS = 16
"""The most rows of such a commit: an event with a few deliveries, and what has been settled meanwhile."""

QUICK = 0.002
"""Seconds that the commits before it took at most."""

QUICK_COMMITS = 8
"""How many of them."""

SLOW = 0.005
"""An inline commit that takes more seconds than this stops inline commits for a while. A commit in the
writer's thread does not: it also waits for Python's lock."""

SLOW_PAUSE = 60.0
"""How long that is, in seconds."""


class InlineCommits(Generic[Tx]):
    """Decides about each commit.

    Args:
        commit: writes groups at once, as the writer does; ``None`` if that had to wait for a lock.
        load: what the loop has to do beside the commit.
        now: the time; Trio's by default.
    """

    def __init__(
        self,
        commit: Callable[[list[CommitGroup[Tx]]], Committed | None],
        load: LoopLoad,
        now: Callable[[], float] = trio.current_time,
    ) -> None:
        self.commit = commit
        self._load = load
        self._now = now
        self._quick = 0
        self._paused_until = 0.0

    def admits(self, groups: list[CommitGroup[Tx]]) -> bool:
        """Return whether a commit of these groups may run in the loop's thread now."""
        if self._quick < QUICK_COMMITS or len(groups) != 1:
            return False
        [group] = groups
        if len(group.appends) != 1 or group.functions or group.flushes or group.rows > INLINE_ROWS:
            return False
        # The lanes of the event itself may be at work: they concern nobody but its registrations.
        return self._load.is_only({one.lane for new in group.appends[0].news for one in new.deliveries})

    def took(self, seconds: float, *, in_loop: bool) -> None:
        """Note how long a commit took, in whichever thread."""
        if in_loop and seconds > SLOW:
            self._paused_until = self._now() + SLOW_PAUSE
        if seconds > QUICK:
            self._quick = 0
        elif self._now() >= self._paused_until:
            self._quick += 1
