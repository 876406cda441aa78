"""What waits for a group commit: made in the Trio thread, worked off by the writer, answered there."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import trio

from hookgw.models.deliveries import Delivery, Settlement
from hookgw.store.sqlite.outbox import NewEvent

if TYPE_CHECKING:
    from hookgw.store.sqlite.transaction import Transaction

GROUP_ROWS = 2048
"""A group takes no more once it has so many rows."""


class Job:
    """Something that a task waits for.

    Attributes:
        done: set in the Trio thread once the outcome is known.
        error: what the waiter is to raise.
    """

    def __init__(self) -> None:
        self.done = trio.Event()
        self.error: Exception | None = None

    async def wait(self) -> None:
        """Wait for the outcome.

        Raises:
            Exception: what the job failed with. Being cancelled leaves the job as it is.
        """
        await self.done.wait()
        if self.error is not None:
            raise self.error

    def finish(self, error: Exception | None = None) -> None:
        """Wake the waiter; an error that the job has already is kept."""
        self.error = self.error or error
        self.done.set()


class AppendJob(Job):
    """One call of ``append``: whole or not at all.

    Attributes:
        news: the events with their deliveries, in order.
        added: the sequence numbers of those events that were no duplicates.
    """

    def __init__(self, news: list[NewEvent]) -> None:
        super().__init__()
        self.news = news
        self.added: set[int] = set()

    def deliveries(self) -> list[Delivery]:
        """The deliveries that were appended."""
        return [delivery for new in self.news if new.seq in self.added for delivery in new.deliveries]


class FunctionJob(Job):
    """One call of a function inside a commit; its result is there once it is done."""

    def __init__(self, function: Callable[[Transaction], Any]) -> None:
        super().__init__()
        self.function = function
        self.result: Any = None


class Group:
    """Jobs that are worked off in this order: appends, settlements, functions.

    Appends and settlements never concern the same delivery, so their order among themselves does not
    matter; what is asked for after a function goes into the next group.

    Attributes:
        flushes: those who wait for the group to be on disk.
        rows: how many rows it writes, functions not counted.
    """

    def __init__(self) -> None:
        self.appends: list[AppendJob] = []
        self.settlements: list[Settlement] = []
        self.functions: list[FunctionJob] = []
        self.flushes: list[Job] = []
        self.rows = 0

    @property
    def is_full(self) -> bool:
        """Whether the next append or settlement needs another group."""
        return bool(self.functions) or self.rows >= GROUP_ROWS

    def finish(self) -> None:
        """Wake everybody: it is on disk."""
        for job in self._jobs():
            job.finish()

    def refuse(self, error: Callable[[], Exception]) -> None:
        """Fail and forget the appends and functions; what is left are settlements and flushes.

        Args:
            error: makes the error of one job.
        """
        for job in (*self.appends, *self.functions):
            job.error = None
            job.finish(error())
        self.appends, self.functions = [], []
        self.rows = len(self.settlements)

    def abandon(self, error: Callable[[], Exception]) -> None:
        """Fail everybody."""
        for job in self._jobs():
            job.finish(error())

    def _jobs(self) -> list[Job]:
        return [*self.appends, *self.functions, *self.flushes]
