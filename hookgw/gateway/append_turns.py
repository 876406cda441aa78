"""Appends in turns: how many rows are on their way to the disk, and whose.

All appends that are requested while a commit runs share the next one. So an instance that floods hookgw would
fill each commit, and everybody else would wait for two full ones: the one that runs, and their own. Therefore
only as many rows are on their way as reach the disk within :data:`DELAY`. Further appends wait here, and
instances take turns. An instance with few rows on their way never waits.

::

                                 few rows of the instance, or fewer than the window of all
    begin ─────────────────────────────────────────────────────────────────> ON ITS WAY ──> end
      │                                                                          ^
      └───────────────> WAITING (instances in turn, each in its order) ──────────┘
                                                                   an append ends

How many rows that are (the window) is measured, because a busy machine or a slow disk writes fewer.
"""

from __future__ import annotations

from collections import deque

import trio

DELAY = 0.02
"""Seconds from the beginning of an append to its end, while many rows are on their way. A shorter time costs
throughput: each commit has a fixed cost, and contains half of these rows."""
FEWEST = 128
"""The smallest window, in rows, however slow the disk is."""
MOST = 8192
"""The largest window, in rows, however fast the disk is."""
FEW = 64
"""Rows that an instance may have on their way whatever others have."""
_FIRST = 1024
_WEIGHT = 0.125
"""How much one append changes the window. A single slow write must not close it."""


class Turn:
    """An append that is on its way or waits for its turn. Made by :meth:`AppendTurns.begin`."""

    __slots__ = ("ahead", "began", "instance", "rows")

    def __init__(self, instance: str, rows: int) -> None:
        self.instance = instance
        self.rows = rows
        self.ahead = 0  # rows on their way when it began, its own included
        self.began = 0.0


class AppendTurns:
    """The appends of all instances."""

    def __init__(self) -> None:
        self._window = float(_FIRST)
        self._rows = 0
        self._rows_of: dict[str, int] = {}
        # The instance that has the next turn is the first one. Whoever waits, some rows are on their way.
        self._waiting: dict[str, deque[tuple[Turn, trio.lowlevel.Task]]] = {}

    @property
    def window(self) -> int:
        """How many rows may be on their way before appends wait."""
        return int(self._window)

    async def begin(self, instance: str, rows: int) -> Turn:
        """Wait for the turn of an append. There is no checkpoint if it need not wait.

        Args:
            instance: the append's.
            rows: how many it will write, about.

        Returns:
            What to pass to :meth:`end` when the append is on disk or was refused.
        """
        turn = Turn(instance, rows)
        # Behind those of its instance that wait, so that events keep the order in which they were emitted.
        if instance not in self._waiting and (self._rows < self._window or self._has_few(turn)):
            self._admit(turn)
            return turn

        def abort(_: object) -> trio.lowlevel.Abort:
            self._waiting[instance].remove(entry)
            if not self._waiting[instance]:
                del self._waiting[instance]
            return trio.lowlevel.Abort.SUCCEEDED

        entry = turn, trio.lowlevel.current_task()
        self._waiting.setdefault(instance, deque()).append(entry)
        await trio.lowlevel.wait_task_rescheduled(abort)
        return turn

    def end(self, turn: Turn) -> None:
        """Let appends that wait take the place of one that is on disk, or was refused."""
        instance = turn.instance
        self._rows -= turn.rows
        self._rows_of[instance] -= turn.rows
        if not self._rows_of[instance]:
            del self._rows_of[instance]
        took = trio.current_time() - turn.began
        # With few rows on their way, that is the time of the commit itself, and says nothing about rows.
        if took > 0 and turn.ahead >= FEWEST:
            measured = min(max(turn.ahead * DELAY / took, FEWEST), MOST)
            self._window += (measured - self._window) * _WEIGHT
        while instance in self._waiting and self._has_few(self._waiting[instance][0][0]):
            self._admit_next_of(instance)
        while self._waiting and self._rows < self._window:
            self._admit_next_of(next(iter(self._waiting)))

    def _has_few(self, turn: Turn) -> bool:
        return self._rows_of.get(turn.instance, 0) + turn.rows <= FEW

    def _admit_next_of(self, instance: str) -> None:
        waiting = self._waiting.pop(instance)
        turn, task = waiting.popleft()
        if waiting:  # behind all other instances
            self._waiting[instance] = waiting
        self._admit(turn)
        trio.lowlevel.reschedule(task)

    def _admit(self, turn: Turn) -> None:
        self._rows += turn.rows
        self._rows_of[turn.instance] = self._rows_of.get(turn.instance, 0) + turn.rows
        turn.ahead = self._rows
        turn.began = trio.current_time()
