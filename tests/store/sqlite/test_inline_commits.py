"""Commits in the event loop's thread: when, and what an ``fsync`` that takes long does there."""

import random
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

import pytest
import trio
import trio.testing

from hookgw.store.commits import inline
from tests.public.concurrency import NO_HUB, Clock, Hub, LoopLoad, SystemThreads
from tests.public.config import StorageSettings
from tests.public.kernel import Invalid, StorageUnavailable
from tests.public.sqlite import Transaction, Writer, open_database
from tests.public.store import (
    INLINE_ROWS,
    QUICK,
    QUICK_COMMITS,
    SLOW,
    SLOW_PAUSE,
    AppendRequest,
    Changes,
    CommitGroup,
    Committed,
    FunctionRequest,
    GroupCommit,
    InlineCommits,
    Store,
    open_storage,
)
from tests.store.sqlite.test_group_commit import append_job
from tests.store.support import LANE, Watch, delivered, ids_of, pending_of, to
from tests.support.stores import turn_of
from tests.support.waits import until

T = TypeVar("T")
Group = CommitGroup[Transaction]


def group_of(*jobs: AppendRequest[Transaction], settled: int = 0) -> Group:
    group: Group = CommitGroup()
    group.appends += jobs
    group.settlements += [delivered(number) for number in range(settled)]
    group.rows = settled + sum(1 + len(new.deliveries) for job in jobs for new in job.news)
    return group


class Inline(InlineCommits[Transaction]):
    """It writes nothing, and the test sets its time."""

    def __init__(self, load: LoopLoad | None = None, *, is_quick: bool = True) -> None:
        self.time = 100.0
        super().__init__(lambda _: None, load or LoopLoad(), lambda: self.time)
        for _ in range(QUICK_COMMITS if is_quick else 0):
            self.took(QUICK, in_loop=False)


# Which commits


def test_an_event_that_is_alone_is_written_in_the_loops_thread() -> None:
    """Outcomes that have gathered go with it."""
    rules = Inline()
    assert rules.admits([group_of(append_job(1))])
    assert rules.admits([group_of(append_job(1), settled=3)])


def test_whatever_is_more_than_one_small_append_is_not() -> None:
    rules = Inline()
    with_function, with_flush = group_of(append_job(1)), group_of(append_job(1))
    with_function.functions.append(FunctionRequest(lambda _: None))
    with_flush.flushes.append(FunctionRequest(lambda _: None))
    for groups in (
        [group_of(settled=1)],
        [group_of(append_job(1), append_job(2))],
        [group_of(append_job(1)), group_of(append_job(2))],
        [group_of(append_job(1, INLINE_ROWS))],
        [group_of(append_job(1), settled=INLINE_ROWS - 1)],
        [with_function],
        [with_flush],
        [],
    ):
        assert not rules.admits(groups)


def test_another_request_or_another_lane_at_work_keeps_commits_out_of_the_loops_thread() -> None:
    load = LoopLoad()
    rules, groups = Inline(load), [group_of(append_job(1))]
    load.requests = 1  # the one that the event came with
    load.lanes.add(LANE)
    assert rules.admits(groups)
    load.requests = 2
    assert not rules.admits(groups)
    load.requests = 0
    load.lanes.add("reg_2:0")
    assert not rules.admits(groups)


def test_a_disk_must_have_been_quick() -> None:
    rules, groups = Inline(is_quick=False), [group_of(append_job(1))]
    for _ in range(QUICK_COMMITS):
        assert not rules.admits(groups)
        rules.took(QUICK, in_loop=False)
    assert rules.admits(groups)
    rules.took(SLOW, in_loop=True)
    assert not rules.admits(groups)
    for _ in range(QUICK_COMMITS):
        rules.took(0.0, in_loop=False)
    assert rules.admits(groups)


def test_a_slow_commit_keeps_others_out_of_the_loops_thread_for_a_minute() -> None:
    rules, groups = Inline(), [group_of(append_job(1))]
    rules.took(SLOW + 0.001, in_loop=True)
    rules.time += SLOW_PAUSE - 1
    for _ in range(100):
        rules.took(0.0, in_loop=False)
        assert not rules.admits(groups)
    rules.time += 1
    for _ in range(QUICK_COMMITS):
        assert not rules.admits(groups)
        rules.took(0.0, in_loop=False)
    assert rules.admits(groups)


def test_a_commit_of_the_writers_thread_that_waited_for_pythons_lock_says_nothing_for_a_minute() -> None:
    rules, groups = Inline(), [group_of(append_job(1))]
    rules.took(SLOW + 0.001, in_loop=False)
    assert not rules.admits(groups)
    for _ in range(QUICK_COMMITS):
        rules.took(QUICK, in_loop=False)
    assert rules.admits(groups)


# A disk that stalls


def test_a_stall_of_the_disk_may_stop_the_loop_once_a_minute_for_as_long_as_it_lasts() -> None:
    """So it is off by default: the loop's lag is not bounded, only how often it occurs."""
    chance, rules, groups = random.Random(44), Inline(), [group_of(append_job(1))]
    stalls: list[tuple[float, float]] = []
    began = rules.time
    for _ in range(10_000):
        for fsync in (*[0.0003] * chance.randrange(40), chance.uniform(0.005, 0.5)):
            rules.time += chance.uniform(0.0, 5.0)  # until the next event
            is_inline = rules.admits(groups)
            rules.time += fsync
            rules.took(fsync, in_loop=is_inline)
            if is_inline and fsync > SLOW:
                stalls.append((rules.time, fsync))
    times = [time for time, _ in stalls]
    assert all(later - former > SLOW_PAUSE for former, later in pairwise(times))
    assert 0 < len(stalls) <= (rules.time - began) / SLOW_PAUSE
    assert max(seconds for _, seconds in stalls) > 0.45
    assert not StorageSettings().inline_commits


class ModelDisk(SystemThreads):
    """Calls take as long as the test says, on a mock clock; those in the loop's thread stop all else."""

    def __init__(self, clock: trio.testing.MockClock) -> None:
        super().__init__()
        self._clock = clock
        self.fsync = 0.0003
        self.here = 0

    def worker(self, name: str, hub: Hub = NO_HUB) -> "ModelDisk":
        return self

    async def run(self, call: Callable[[], T], **_: object) -> T:
        with trio.CancelScope(shield=True):
            await trio.sleep(self.fsync)
        return call()

    def run_here(self, call: Callable[[], T]) -> T:
        self.here += 1
        self._clock.jump(self.fsync)
        return call()

    def close(self) -> None: ...


class ModelWriter:
    def __init__(self) -> None:
        self.is_locked = False
        self.refusal: StorageUnavailable | None = None

    def commit(self, groups: list[Group], *, probe: bool = False) -> Committed:
        if self.refusal is not None:
            raise self.refusal
        for job in (job for group in groups for job in group.appends):
            job.note_added({new.seq for new in job.news})
        return Committed(0.001, Changes(rows=sum(group.rows for group in groups)))

    def commit_at_once(self, groups: list[Group]) -> Committed | None:
        return None if self.is_locked else self.commit(groups)


@asynccontextmanager
async def committing(writer: ModelWriter, disk: ModelDisk) -> AsyncIterator[GroupCommit[Transaction]]:
    rules = InlineCommits(writer.commit_at_once, LoopLoad())
    commits: GroupCommit[Transaction] = GroupCommit(writer, Watch(), inline=rules, threads=disk)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(commits.run)
        try:
            yield commits
        finally:
            await commits.close()


async def append(commits: GroupCommit[Transaction], seq: int = 1) -> None:
    job = append_job(seq)
    commits.append_nowait(job)
    assert await job.wait_finished() == [True]


async def test_the_loop_stands_still_for_a_commit_in_its_thread_and_not_for_others(
    autojump_clock: trio.testing.MockClock,
) -> None:
    lags: list[float] = []

    async def tick() -> None:
        while True:
            due = trio.current_time() + 0.001
            await trio.sleep_until(due)
            lags.append(trio.current_time() - due)

    disk = ModelDisk(autojump_clock)
    async with committing(ModelWriter(), disk) as commits:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(tick)
            for _ in range(QUICK_COMMITS):
                await append(commits)
            assert disk.here == 0
            await append(commits)
            assert disk.here == 1
            disk.fsync = 0.5
            await append(commits)
            await trio.sleep(0.1)
            assert disk.here == 2
            assert max(lags) > 0.4
            lags.clear()
            await append(commits)
            disk.fsync = 0.0003
            for _ in range(2 * QUICK_COMMITS):
                await append(commits)
            assert disk.here == 2
            assert max(lags) < 0.001
            nursery.cancel_scope.cancel()
        await trio.sleep(SLOW_PAUSE)
        for _ in range(QUICK_COMMITS + 1):
            await append(commits)
        assert disk.here == 3


async def test_a_thread_at_work_keeps_commits_out_of_the_loops_thread(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """It would keep Python's lock each time that SQLite has given it away."""
    disk = ModelDisk(autojump_clock)
    async with committing(ModelWriter(), disk) as commits:
        for _ in range(QUICK_COMMITS):
            await append(commits)
        disk.at_work = 1
        await append(commits)
        assert disk.here == 0
        disk.at_work = 0
        await append(commits)
        assert disk.here == 1


async def test_a_lock_that_is_held_is_waited_for_in_the_thread(
    autojump_clock: trio.testing.MockClock,
) -> None:
    disk, writer = ModelDisk(autojump_clock), ModelWriter()
    async with committing(writer, disk) as commits:
        for _ in range(QUICK_COMMITS):
            await append(commits)
        writer.is_locked = True
        await append(commits)
        assert disk.here == 1  # it tried


async def test_a_disk_that_refuses_in_the_loops_thread_refuses(
    autojump_clock: trio.testing.MockClock,
) -> None:
    disk, writer = ModelDisk(autojump_clock), ModelWriter()
    async with committing(writer, disk) as commits:
        for _ in range(QUICK_COMMITS):
            await append(commits)
        writer.refusal = StorageUnavailable("full")
        with pytest.raises(StorageUnavailable, match="full"):
            await append(commits)
        assert (disk.here, commits.failing) == (1, writer.refusal)
        writer.refusal = None
        await trio.sleep(10)
        await append(commits)
        assert (disk.here, commits.failing) == (2, None)


# With a real file


@pytest.fixture
def writing_threads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Where each commit of events ran: "loop" or "thread".

    A disk counts as quick, however long they take, and no other thread as at work.
    """
    monkeypatch.setattr(SystemThreads, "at_work", property(lambda _: 0, lambda *_: None), raising=False)
    found: list[str] = []
    commit, commit_at_once, loop = Writer.commit, Writer.commit_at_once, threading.get_ident()

    def note(groups: list[Group]) -> None:
        if any(group.appends for group in groups):
            found.append("loop" if threading.get_ident() == loop else "thread")

    def noting(self: Writer, groups: list[Group], *, probe: bool = False) -> Committed:
        note(groups)
        return commit(self, groups, probe=probe)

    def noting_at_once(self: Writer, groups: list[Group]) -> Committed | None:
        committed = commit_at_once(self, groups)
        if committed is not None:
            note(groups)
        return committed

    monkeypatch.setattr(Writer, "commit", noting)
    monkeypatch.setattr(Writer, "commit_at_once", noting_at_once)
    monkeypatch.setattr(inline, "QUICK_COMMITS", 0)
    return found


@asynccontextmanager
async def opened(path: Path, *, is_on: bool = True) -> AsyncIterator[Store]:
    settings = StorageSettings(path=str(path), inline_commits=is_on)
    async with open_storage(settings, clock=Clock(), loop_load=LoopLoad()) as store:
        yield store


async def test_events_are_written_in_either_thread(path: Path, writing_threads: list[str]) -> None:
    async with opened(path) as store:
        await store.append(to("a"))
        assert await store.append(to("a")) == [False]
        await store.append([*to("b"), *to("other", registration="reg_2")])
        assert writing_threads == ["loop"] * 3
        async with trio.open_nursery() as nursery:
            nursery.start_soon(store.append, to("c"))
            nursery.start_soon(store.append, to("d"))
        assert writing_threads[3:] == ["thread"]
        assert sorted(await ids_of(store)) == ["a", "b", "c", "d"]
        assert await pending_of(store) == 5


async def test_a_value_that_cannot_be_stored_is_refused_in_either_thread(
    path: Path, writing_threads: list[str]
) -> None:
    async with opened(path) as store:
        with pytest.raises(Invalid):
            await store.append(to("bad", kind="\ud800"))
        await store.append(to("good"))
        assert writing_threads == ["loop", "loop"]
        assert await ids_of(store) == ["good"]


async def test_without_the_setting_no_commit_runs_in_the_loops_thread(
    path: Path, writing_threads: list[str]
) -> None:
    async with opened(path, is_on=False) as store:
        await store.append(to("there"))
        assert writing_threads == ["thread"]


async def test_the_loop_does_not_wait_for_a_checkpoint(path: Path, writing_threads: list[str]) -> None:
    async with opened(path) as store, trio.open_nursery() as nursery:
        async with turn_of(store):
            nursery.start_soon(store.append, to("late"))
            await trio.testing.wait_all_tasks_blocked()
        assert writing_threads == []
    assert writing_threads == ["thread"]


async def test_the_loop_does_not_wait_for_another_program(path: Path, writing_threads: list[str]) -> None:
    async with opened(path) as store:
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            async with trio.open_nursery() as nursery:
                nursery.start_soon(store.append, to("late"))
                await until(lambda: writing_threads)
                other.execute("ROLLBACK")
        assert writing_threads == ["thread"]
        assert await ids_of(store) == ["late"]


def test_the_loop_does_not_wait_for_a_backup(path: Path) -> None:
    """A backup uses the connection in a thread of its own, and holds the lock during each step."""
    path.parent.mkdir()
    with open_database(path) as connections:
        in_use = threading.Lock()
        writer = Writer(connections.writer, connections.file, in_use=in_use)
        with in_use:
            assert writer.commit_at_once([group_of(append_job(1))]) is None
        committed = writer.commit_at_once([group_of(append_job(1))])
        assert committed is not None
        assert committed.changes.events == 1
        assert connections.writer.execute("PRAGMA busy_timeout").fetchone() == (5000,)
        assert not in_use.locked()
