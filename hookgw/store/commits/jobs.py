"""The jobs of a group commit: created and finished in the Trio thread, done by the writer thread."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from itertools import compress
from typing import Any, Generic, TypeVar

import msgspec

from hookgw.concurrency.light import Waiter
from hookgw.records.deliveries import Delivery, Settlement
from hookgw.records.events import Event
from hookgw.records.fleet import ShardEpoch
from hookgw.store.commits.changes import CountedTransaction

Tx = TypeVar("Tx", bound=CountedTransaction)
Tx_contra = TypeVar("Tx_contra", bound=CountedTransaction, contravariant=True)

# A group with this many rows accepts no more, so that a commit under load stays short.
GROUP_ROWS = 2048


class AppendedEvent(msgspec.Struct, gc=False):
    seq: int
    event: Event
    accepted_at: float
    deliveries: list[Delivery]


class CommitRequest(Waiter):
    """Something that one task waits for: ``result``, or ``error``, which the waiter is to raise."""

    # Defaults of the class: for each request of a producer.
    error: Exception | None = None
    result: Any = None
    _is_finished = False

    async def wait_finished(self) -> Any:
        """Wait for the outcome, and return the result.

        Cancellation leaves the job in its group: it is done all the same.

        Raises:
            Exception: the error of the job.
        """
        if not self._is_finished:
            await self
        if self.error is not None:
            raise self.error
        return self.result

    def finish(self, error: Exception | None = None) -> None:
        """Wake the waiter; an error that the job has already is kept."""
        # An append with a bad value fails alone, while the rest of its group is on disk.
        if error is not None and self.error is None:
            self.error = error
        self._is_finished = True
        self.wake()


class AppendRequest(CommitRequest, Generic[Tx]):
    """One call of ``append``: all of it is stored, or nothing.

    Cancellation does not end the wait: the caller cannot take the events back, and must count them. The store
    bounds the wait: it writes, refuses, or closes.

    Attributes:
        also: writes more in the same commit, whether the events are duplicates or not.
        version: of the records that the events were addressed by; ``None`` if only this process changes
            records.
        epoch: in which a node of a fleet must hold a shard for this.
        result: for each event whether it was stored; ``False`` is a duplicate.
    """

    is_cancellable = False
    version: int | None = None
    epoch: ShardEpoch | None = None

    def __init__(self, news: list[AppendedEvent], also: Callable[[Tx], None] | None = None) -> None:
        super().__init__()
        self.news = news
        self.also = also

    def note_added(self, numbers: Collection[int]) -> None:
        """Set the result: these numbers of events are in the store now, and the others are duplicates."""
        self.result = [new.seq in numbers for new in self.news]


class FunctionRequest(CommitRequest, Generic[Tx]):
    """A function that runs inside a commit; it may run again if the commit has to be repeated."""

    def __init__(self, function: Callable[[Tx], Any]) -> None:
        super().__init__()
        self.function = function


class CommitGroup(Generic[Tx]):
    """Jobs that are done in this order: appends, settlements, functions.

    The order between appends and settlements does not matter, because they never concern one delivery. A
    write that is requested after a function goes into the next group. ``flushes`` only wait for the disk;
    ``rows`` does not count what functions write.
    """

    def __init__(self) -> None:
        self.appends: list[AppendRequest[Tx]] = []
        self.settlements: list[Settlement] = []
        self.functions: list[FunctionRequest[Tx]] = []
        self.flushes: list[CommitRequest] = []
        self.rows = 0

    def finish(self, error: Callable[[], Exception] | None = None) -> None:
        """Wake all waiters: the group is on disk, or each of them gets an error of its own."""
        for job in (*self.appends, *self.functions, *self.flushes):
            job.finish(error() if error else None)

    def refuse(self, error: Callable[[], Exception]) -> None:
        """Fail and remove the appends and functions. Settlements and flushes remain for the next attempt."""
        for job in (*self.appends, *self.functions):
            # The transaction was rolled back, so an earlier error of the job alone no longer says why.
            job.error = None
            job.finish(error())
        self.appends, self.functions = [], []
        self.rows = len(self.settlements)


def appended_by(jobs: Iterable[AppendRequest[Tx]]) -> list[Delivery]:
    appended: list[Delivery] = []
    for job in jobs:
        if not job.error:
            for new in compress(job.news, job.result):
                appended += new.deliveries
    return appended
