"""Appends in turns: decides which rows go to the disk next, and how many.

All appends that are requested while a commit runs share the next one. So an instance that floods hookgw would
fill each commit, and all other instances would wait for two full commits: the running one, and their own.

Therefore appends go in waves. A wave has as many rows as the disk takes in :data:`DELAY`. When it is on disk,
the next one begins. Until then, further appends wait here, and instances take turns. An instance with few
rows on their way never waits: it is stored after the commit that runs, and before the next wave.

::

                        few rows of the instance; or room in the wave, and no one waits
    begin ─────────────────────────────────────────────────────────────────> ON ITS WAY ──> end
      │                                                                          ^
      └───────────────> WAITING (instances in turn, each in its order) ──────────┘
                                                                     the next wave

How many rows make a wave is measured, because a busy machine or a slow disk takes fewer.
"""

from __future__ import annotations

import msgspec
import trio

from hookgw.concurrency.light import Waiter
from hookgw.fair import PerHolder, Turns

DELAY = 0.02
"""Seconds that a wave takes. Each commit has a fixed cost: with half of this, batches over HTTP reach three
quarters of their rate, and others gain only 5 ms."""
FEWEST = 128
"""The rows of the smallest wave, however slow the disk is."""
MOST = 8192
"""The rows of the largest wave, however fast the disk is."""
FEW = 64
"""Rows that an instance may have on their way, however many others have."""
_FIRST = 1024
_WEIGHT = 0.25
"""How much one wave changes the size of the next. A single slow write must not decide it."""


class Turn(msgspec.Struct, eq=False):
    """An append that is stored or waits for its turn. Made by :meth:`AppendTurns.begin`."""

    instance: str
    rows: int
    is_in_wave: bool = False


class _WaitingTurn(Turn, eq=False, kw_only=True):
    waiter: Waiter


class AppendTurns:
    def __init__(self) -> None:
        self.size = float(_FIRST)
        """The rows of a wave."""
        # The wave: how many of its rows are not on disk yet. If it was let in all at once, also its size and
        # the time, from which its speed is measured.
        self._rows = 0
        self._began: tuple[int, float] | None = None
        self._on_their_way = PerHolder[str]()
        # While anything waits, a wave is on its way.
        self._waiting = Turns[str, _WaitingTurn]()

    def begin_nowait(self, instance: str, rows: int) -> Turn | None:
        """Return the turn of an append of about so many rows; ``None`` if it must :meth:`begin` and wait.

        Pass the result to :meth:`end` when the append is on disk or was refused.
        """
        turn = Turn(instance, rows or 1)
        # Behind those of its instance that wait, so that events keep the order in which they were emitted.
        waits = self._rows and self._waiting.first_of(instance)
        if not waits and self._on_their_way.take_within(instance, turn.rows, FEW):
            return turn
        if self._rows < self.size and not self._waiting:
            self._join_wave(turn)
            return turn
        return None

    async def begin(self, instance: str, rows: int) -> Turn:
        """Wait for a turn that :meth:`begin_nowait` has refused."""
        turn = _WaitingTurn(instance, rows or 1, waiter=Waiter())
        self._waiting.add(instance, turn)
        try:
            await turn.waiter
        except trio.Cancelled:
            self._waiting.remove(instance, turn)
            raise
        return turn

    def end(self, turn: Turn) -> None:
        """Let waiting appends take the place of an append that is on disk, or was refused."""
        instance = turn.instance
        self._on_their_way.give(instance, turn.rows)
        while (
            self._rows
            and (first := self._waiting.first_of(instance))
            and self._on_their_way.take_within(instance, first.rows, FEW)
        ):
            self._waiting.pop(instance).waiter.wake()
        if turn.is_in_wave:
            self._rows -= turn.rows
            if not self._rows:
                self._begin_wave()

    def _begin_wave(self) -> None:
        now = trio.current_time()
        if self._began is not None:
            rows, began = self._began
            if now > began:
                measured = min(max(rows * DELAY / (now - began), FEWEST), MOST)
                self.size += (measured - self.size) * _WEIGHT
        while self._waiting and self._rows < self.size:
            turn = self._waiting.pop()
            self._join_wave(turn)
            turn.waiter.wake()
        # Appends that did not wait join a wave one by one, so such a wave cannot be measured.
        self._began = (self._rows, now) if self._rows else None

    def _join_wave(self, turn: Turn) -> None:
        self._on_their_way.take(turn.instance, turn.rows)
        turn.is_in_wave = True
        self._rows += turn.rows
