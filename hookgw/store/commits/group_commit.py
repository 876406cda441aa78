"""The group commit: one task writes, and all writes requested meanwhile share the next commit.

While the disk refuses, appends and functions fail at once with the reason. Settlements are kept, because the
attempts they report have happened already; they are tried again after waits that grow. The same holds while a
commit hangs, except for what that commit has: it waits for the end.

On a full disk, a commit that has little to write may succeed, and the next event is refused. So after a
relapse, appends and functions are tried again once a commit succeeds, but the disk counts as failing until it
has taken an append, or has refused nothing for :data:`PROOF`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import Any, Generic, Protocol, TypeVar

import structlog
import trio

from hookgw.concurrency.hub import NO_HUB, Hub
from hookgw.concurrency.light import LightTask, Waiter, in_task, may_leave_task
from hookgw.concurrency.threads import SYSTEM_THREADS, Threads, Worker
from hookgw.kernel.errors import StorageLost, StorageUnavailable
from hookgw.records.deliveries import Delivery, Settlement
from hookgw.store.commits.changes import Committed
from hookgw.store.commits.inline import InlineCommits
from hookgw.store.commits.jobs import (
    GROUP_ROWS,
    AppendRequest,
    CommitGroup,
    CommitRequest,
    FunctionRequest,
    Tx,
    appended_by,
)
from hookgw.store.protocol.outbox import StoreListener
from hookgw.store.records import PendingChange, StoreObserver

T = TypeVar("T")
logger = structlog.get_logger("hookgw.store")

# The wait, in seconds, before the disk is tried again: doubled from the first up to the last.
FIRST_RETRY = 0.1
LAST_RETRY = 5.0
# The seconds after a recovery in which a refusal is a relapse.
RELAPSE = 60.0
# Longer than the last retry waits: nothing is refused meanwhile, because nothing is tried.
PROOF = 2 * LAST_RETRY

# The most groups in one commit, so that no waiter waits long for the others of its commit.
COMMIT_GROUPS = 4

# Rounds of the event loop for which a commit waits if several producers do: under load each round brings
# more, and a commit costs as much as several events. One producer alone does not wait.
GATHERING = 3

# How long, in seconds, settlements wait for a write that somebody waits for, and how many begin a commit at
# once. A producer that emits one event after the other needs one commit for each, and not two. A kill in that
# time repeats the deliveries.
SETTLE_DELAY = 0.005
SETTLE_AT_ONCE = 64
# A clock that needs this many seconds for the delay stands still, as in tests.
_STANDSTILL = 3600.0

# The seconds between two looks at the commit, and after how many of them the same commit hangs. Looks are
# counted, not seconds: a machine that sleeps during a commit makes only one late look.
LOOK_EVERY = 1.0
HANGING_LOOKS = 10

# How long, in seconds, closing waits for queued writes.
CLOSE_GRACE = 5.0


class Commits(Protocol[Tx]):
    """The part of the writer that the group commit uses."""

    def commit(self, groups: list[CommitGroup[Tx]], *, probe: bool = False) -> Committed:
        """Write groups in one commit, and set the result or error of each job.

        Args:
            probe: write something even if there is nothing to write.

        Returns:
            What was done; it is on disk.

        Raises:
            StorageUnavailable: the storage refused, and nothing was stored.
        """


class _NoListener:
    def requeued(self, lanes: Mapping[str, int]) -> None:
        pass

    def appended(self, deliveries: Sequence[Delivery]) -> None:
        pass

    def changed(self, change: PendingChange) -> None:
        pass


_NOBODY = _NoListener()


class GroupCommit(Generic[Tx]):
    """Collects jobs and writes them, group after group, in the order in which they were requested.

    Whatever queues a job raises ``StorageUnavailable`` if the disk refuses, or the store is closed.

    Args:
        writer: runs in a thread of its own, one call at a time.
        in_use: held while the writer writes.
        on_committed: called in the Trio thread after each commit.
        inline: decides which commits run in the Trio thread; ``None`` for none.
        settle_limit: with more queued settlements than this, :meth:`wait_settle_capacity` waits.
        unusable: returns why nothing more is to be accepted although the disk may work.
        hub: makes the steps of :meth:`run`.

    Attributes:
        failing: why the disk refuses; ``None`` while it works.
        events, unwanted: how many were appended since the store was opened, and the bytes of those without
            deliveries.
    """

    def __init__(
        self,
        writer: Commits[Tx],
        observer: StoreObserver,
        *,
        in_use: trio.CapacityLimiter | None = None,
        on_committed: Callable[[], None] = lambda: None,
        settle_limit: int = 10_000,
        inline: InlineCommits[Tx] | None = None,
        unusable: Callable[[], StorageUnavailable | None] = lambda: None,
        threads: Threads = SYSTEM_THREADS,
        hub: Hub = NO_HUB,
    ) -> None:
        self.failing: StorageUnavailable | None = None
        self.events = self.unwanted = 0
        self._writer = writer
        self._observer = observer
        self._listener: StoreListener = _NOBODY
        self._in_use = in_use or trio.CapacityLimiter(1)
        self._on_committed = on_committed
        self._settle_limit = settle_limit
        self._inline = inline
        self._unusable = unusable
        self._refusal: StorageUnavailable | None = None  # what writes are answered with, untried
        self._failing_since = 0.0
        self._began: float | None = None  # the commit that is under way in the thread
        self._recovered_at = float("-inf")
        # For how many seconds it must refuse nothing until any commit shows that it works, and when that is.
        self._proof = self._proven_at = 0.0
        self._threads = threads
        self._hub = hub
        self._groups: deque[CommitGroup[Tx]] = deque()
        self._taken: list[CommitGroup[Tx]] = []
        self._is_urgent = False  # whether somebody waits for what is to be committed
        self._woken = Waiter()
        # Its deadline is the end of the delay of what nobody waits for.
        self._delay = trio.CancelScope()
        self._room = trio.Event()
        self._room.set()
        # Cancellation of the nursery must not cut off writes that were requested before; close() ends it.
        self._scope = trio.CancelScope(shield=True)
        self._closed: StorageUnavailable | None = None
        # The settlements that were ever requested, and those of them that are on disk, which are the first.
        self._requested = 0
        self._settled = 0
        self._settling = trio.lowlevel.ParkingLot()

    def subscribe(self, listener: StoreListener) -> None:
        """See :class:`hookgw.store.Outbox`."""
        if self._listener is not _NOBODY:
            raise RuntimeError("The store has a listener already.")
        self._listener = listener

    async def run(self) -> None:
        """Commit until :meth:`close` is called.

        Cancellation from outside does not stop it: the writes that cancelled tasks requested are still done.
        An error of the listener or a bug in the writer is raised.
        """
        thread = self._threads.worker("hookgw writer", self._hub)
        try:
            with self._scope:
                while True:
                    with self._delay:
                        await LightTask(self._write(thread), self._hub.steps).run()
                    self._delay = trio.CancelScope()
                    self._is_urgent = True
        finally:
            thread.close()
            # However it ended, nobody may wait for a task that no longer runs.
            self._closed = _CLOSED
            self._room.set()
            self._settling.unpark_all()
            for group in chain(self._taken, self._groups):
                group.finish(lambda: _copy(_CLOSED))
            self._groups.clear()

    async def watch(self) -> None:
        """Log a commit that does not end, and refuse what comes meanwhile, until cancelled.

        A disk that hangs raises nothing. Nobody knows whether what the commit has will be stored, so only the
        callers of the rest can be told that nothing is.
        """
        looks, began = 0, None
        while True:
            await trio.sleep(LOOK_EVERY)
            if self._began is not None and self._began == began:
                looks += 1
                if looks == HANGING_LOOKS:
                    self._refusal = _HANGS
                    self._refuse_groups(self._groups, _HANGS)
                    self._observer.disk_failed(_HANGS)
                    logger.warning(
                        "the storage hangs: a write does not end, and further ones are refused",
                        seconds=round(trio.current_time() - began, 1),
                    )
                continue
            if looks >= HANGING_LOOKS:
                logger.info("the storage no longer hangs")
                if self.failing is None:
                    self._observer.disk_recovered()
            looks, began = 0, self._began

    async def _write(self, thread: Worker) -> None:
        """Commit until the delay of what nobody waits for is over."""
        wait = FIRST_RETRY
        clock = trio.lowlevel.current_clock()
        clock_runs = clock.deadline_to_sleep_time(clock.current_time() + SETTLE_DELAY) < _STANDSTILL
        delay = SETTLE_DELAY if clock_runs else 0.0
        while True:
            is_delayed = False
            while not self._has_work() or (not self._is_urgent and (delay or self.failing is not None)):
                if self._has_work():
                    due = trio.current_time() + delay if self._groups else self._proven_at
                    self._delay.deadline = due
                    is_delayed = True
                await self._woken
            if is_delayed:
                self._delay.deadline = float("inf")
                if self._delay.cancel_called:  # just as somebody came: what begins here must not be cut off
                    return
            if self._groups and len(self._groups[0].appends) > 1:
                for _ in range(GATHERING):
                    await trio.lowlevel.checkpoint()
            if await self._commit(thread):
                if self.failing is None:
                    wait = FIRST_RETRY
                continue
            await in_task()
            await trio.sleep(wait)
            may_leave_task()
            wait = min(2 * wait, LAST_RETRY)
            self._is_urgent = True

    def _has_work(self) -> bool:
        # While the disk refuses, an empty commit asks whether it still does.
        return bool(self._groups) or self.failing is not None

    def _hurry(self) -> None:
        self._is_urgent = True
        self._woken.wake()

    async def close(self) -> None:
        """Refuse new writes, write what is queued within :data:`CLOSE_GRACE`, and end :meth:`run`.

        Cancellation does not cut it short. Settlements that the disk does not accept in that time are lost,
        and their deliveries are repeated after the next start.
        """
        closed, self._closed = self._closed, _CLOSED
        if closed is None and not isinstance(self.failing, StorageLost):
            with trio.move_on_after(CLOSE_GRACE, shield=True), suppress(StorageUnavailable):
                await self._flush()
        self._scope.cancel()

    def check_open(self) -> None:
        """Check that a write would be accepted now."""
        refusal = self._closed or self._refusal or self._unusable()
        if refusal is not None:
            raise _copy(refusal)

    def try_soon(self) -> None:
        """Try a commit, although nobody has requested one, to learn whether the storage takes it."""
        if self.failing is None and self._closed is None:
            self._last_group()
            self._hurry()

    def append_nowait(self, job: AppendRequest[Tx]) -> None:
        self.check_open()
        group = self._open_group()
        if not group.appends:  # others have hurried it already
            self._hurry()
        group.appends.append(job)
        group.rows += job.also is not None
        for new in job.news:
            group.rows += 1 + len(new.deliveries)

    def call_nowait(self, job: FunctionRequest[Tx]) -> None:
        """Queue a function. It runs in the writer thread after everything that was queued before."""
        self.check_open()
        self._last_group().functions.append(job)
        self._hurry()

    def call(self, function: Callable[[Tx], T]) -> Coroutine[Any, Any, T]:
        """Run a function inside a commit and return its result, once it is on disk.

        All other writes wait for the function, so it must be quick. It runs again if the commit has to be
        repeated. If it raises, its changes are undone, and nothing else is; the error comes out here.
        """
        job = FunctionRequest(function)
        self.call_nowait(job)
        return job.wait_finished()

    def settle_nowait(self, settlement: Settlement) -> int:
        """Queue a settlement; ignored once the store is closed. The number is for :meth:`wait_settled`."""
        # Not an error: a lane that ends with the gateway may still settle. Its delivery is repeated.
        if self._closed is not None:
            return 0
        group = self._open_group()
        group.settlements.append(settlement)
        group.rows += 1
        self._requested += 1
        if group.rows >= SETTLE_AT_ONCE and not group.appends:  # these have hurried it
            self._hurry()
        if self._requested - self._settled > self._settle_limit and self._room.is_set():
            self._room = trio.Event()
        return self._requested

    async def wait_settled(self, number: int | None = None) -> None:
        """See :class:`hookgw.store.Outbox`. It hurries the commit."""
        await in_task()
        if number is None:
            number = self._requested
        while number > self._settled and self._closed is None:
            self._hurry()
            await self._settling.park()

    async def wait_settle_capacity(self) -> None:
        """See :class:`hookgw.store.Outbox`."""
        if self._requested - self._settled > self._settle_limit:
            await in_task()
            while not self._room.is_set():
                await self._room.wait()

    async def flush(self) -> None:
        """See :class:`hookgw.store.Outbox`. Raises ``StorageUnavailable`` if the store is closed."""
        if self._closed is not None:
            raise _copy(self._closed)
        await self._flush()

    async def _flush(self) -> None:
        job = CommitRequest()
        self._last_group().flushes.append(job)
        self._hurry()
        await job.wait_finished()

    def _open_group(self) -> CommitGroup[Tx]:
        # A function sees everything that was requested before it, and nothing that was requested after it.
        if self._groups:
            group = self._groups[-1]
            if not group.functions and group.rows < GROUP_ROWS:
                return group
        return self._new_group()

    def _last_group(self) -> CommitGroup[Tx]:
        return self._groups[-1] if self._groups else self._new_group()

    def _new_group(self) -> CommitGroup[Tx]:
        group: CommitGroup[Tx] = CommitGroup()
        self._groups.append(group)
        # While the disk refuses, this wakes nobody: only the growing waits of _write() start a commit.
        self._woken.wake()
        return group

    async def _commit(self, thread: Worker) -> bool:
        """Write the next groups; return whether the disk accepted them."""
        # What is requested from here on gathers in new groups, for the next commit.
        self._taken = [self._groups.popleft() for _ in range(min(COMMIT_GROUPS, len(self._groups)))]
        self._is_urgent = bool(self._groups)  # they have waited for one commit already
        commit = partial(self._writer.commit, self._taken, probe=self.failing is not None)
        try:
            committed = self._commit_here(thread)
            if committed is None:
                try:
                    self._in_use.acquire_on_behalf_of_nowait(self)
                except trio.WouldBlock:
                    await in_task()
                    await self._in_use.acquire_on_behalf_of(self)
                    may_leave_task()
                try:
                    began = self._began = trio.current_time()
                    committed = await thread.run(commit)
                finally:
                    self._began = None
                    self._in_use.release_on_behalf_of(self)
                if self._inline is not None:
                    self._inline.took(trio.current_time() - began, in_loop=False)
        except StorageUnavailable as error:
            self._refuse(error)
            return False
        self._refusal = None
        if self.failing is not None and (
            trio.current_time() >= self._proven_at or any(group.appends for group in self._taken)
        ):
            self.failing = None
            self._recovered_at = trio.current_time()
            self._is_urgent = True
            seconds = round(self._recovered_at - self._failing_since, 1)
            logger.info("the storage takes writes again", seconds=seconds)
            self._observer.disk_recovered()
        self._finish(committed)
        return True

    def _commit_here(self, thread: Worker) -> Committed | None:
        """Write the groups in the Trio thread if that is admitted, and needs no wait for others."""
        if self._inline is None or self.failing is not None or not self._inline.admits(self._taken):
            return None
        # A thread that computes keeps Python's lock for 5 ms each time that SQLite has given it away.
        if self._threads.at_work:
            return None
        try:
            self._in_use.acquire_on_behalf_of_nowait(self)
        except trio.WouldBlock:
            return None
        began = trio.current_time()
        try:
            return thread.run_here(partial(self._inline.commit, self._taken))
        finally:
            self._inline.took(trio.current_time() - began, in_loop=True)
            self._in_use.release_on_behalf_of(self)

    def _finish(self, committed: Committed) -> None:
        """Count a commit, wake the waiters, and only then tell the lanes what was appended."""
        groups, changes = self._taken, committed.changes
        if not committed.is_empty:
            self.events += changes.events
            self.unwanted += changes.unwanted
        self._settled += sum(len(group.settlements) for group in groups)
        if self._settling:
            self._settling.unpark_all()
        if self._requested - self._settled <= self._settle_limit:
            self._room.set()
        # Requeued deliveries first: a lane that hears of an appended delivery first takes it for the next
        # one, and would pass over the requeued delivery before it.
        if changes.requeued:
            self._listener.requeued(changes.requeued)
        # Before the waiters: what a producer hears of the backlog does not count what this commit settled.
        if changes.change:
            self._listener.changed(changes.change)
        self._taken = []
        for group in groups:
            group.finish()
        # After them: an answer that needs no task leaves before lanes begin to send. A task that is woken
        # here runs later, and finds the deliveries dispatched.
        appended = committed.appended
        if appended is None:
            appended = appended_by(chain.from_iterable(group.appends for group in groups))
        if appended:
            self._listener.appended(appended)
        self._on_committed()
        if not committed.is_empty:
            self._observer.committed(committed.seconds, changes.rows)

    def _refuse(self, error: StorageUnavailable) -> None:
        """Fail all waiters, and keep the settlements in order."""
        began, now = self.failing is None, trio.current_time()
        self.failing = self._refusal = error
        # Settlements first requested stay first: the attempts of a delivery keep their order.
        groups, self._taken = [*self._taken, *self._groups], []
        self._refuse_groups(groups, error)
        if began:
            self._failing_since = now
            self._proof = PROOF if now < self._recovered_at + RELAPSE else 0.0
            # Once: the writes are tried again until they succeed.
            logger.warning("the storage refuses writes, and events with them", reason=str(error))
            self._observer.disk_failed(error)
        self._proven_at = now + self._proof

    def _refuse_groups(self, groups: Iterable[CommitGroup[Tx]], error: StorageUnavailable) -> None:
        """Fail the waiters of groups that no commit has, and keep only what is left of these groups."""
        groups = tuple(groups)
        for group in groups:
            group.refuse(lambda: _copy(error))
        self._groups = deque(group for group in groups if group.settlements or group.flushes)


_HANGS = StorageUnavailable.of(
    "storage.hangs", "The storage hangs: a write does not end. Nothing was stored; retry later."
)
_CLOSED = StorageUnavailable.of("storage.closed", "The store is closed: hookgw is stopping.")


def _copy(error: StorageUnavailable) -> StorageUnavailable:
    """Copy an error for one more task to raise: a raised exception collects the traceback of its task."""
    return type(error)(*error.messages, retry_after=error.retry_after)
