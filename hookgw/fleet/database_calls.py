"""Calls of clients that wait for a database that is slow, or cannot be reached.

A call may read and write several times, one after the other, and wait for changes before it: each of these
waits is bounded, and their sum is not. A client must hear within ten seconds that it has to try again. A
change that the call has begun goes on: cut off half-way, it would be worse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import trio

from hookgw.core.this_node import Answer
from hookgw.fleet.lease import HEARTBEAT
from hookgw.kernel.collaborator import Collaborator
from hookgw.kernel.errors import StorageUnavailable

ANSWER_AFTER = 8.0
"""Seconds after which a call is answered for the database."""


class _Call(Collaborator):
    answer: Answer
    scope: trio.CancelScope
    since: float


class DatabaseCalls:
    """The calls of clients at this node."""

    def __init__(self, is_slow: Callable[[], bool]) -> None:
        self._is_slow = is_slow
        self._calls: set[_Call] = set()

    @contextmanager
    def waiting(self, answer: Answer) -> Iterator[None]:
        """Answer a call and cancel the block if the database keeps it waiting for too long."""
        with trio.CancelScope() as scope:
            call = _Call(answer, scope, trio.current_time())
            self._calls.add(call)
            try:
                yield
            finally:
                self._calls.discard(call)

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            while True:
                await trio.sleep(HEARTBEAT)
                if self._is_slow():
                    due = trio.current_time() - ANSWER_AFTER
                    for call in [call for call in self._calls if call.since <= due]:
                        self._calls.discard(call)
                        nursery.start_soon(self._answer, call)

    async def _answer(self, call: _Call) -> None:
        error = StorageUnavailable.of(
            "fleet.database_slow",
            "The database is slow, or cannot be reached. The call may have been carried out, or may yet be.",
            retry_after=1.0,
        )
        # The call may take longer to end: a change is shielded.
        with trio.move_on_after(ANSWER_AFTER):
            await call.answer(error)
        call.scope.cancel()
