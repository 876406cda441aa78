"""The group commit: sharing, order, cancellation, functions, closing. First with a fake writer."""

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import msgspec
import pytest
import trio
import trio.testing
from structlog.testing import capture_logs
from trio.testing import MockClock

from hookgw import Delivery
from tests.public.concurrency import Hub
from tests.public.kernel import StorageUnavailable
from tests.public.sqlite import Transaction
from tests.public.store import (
    CLOSE_GRACE,
    COMMIT_GROUPS,
    FIRST_RETRY,
    GATHERING,
    GROUP_ROWS,
    HANGING_LOOKS,
    LAST_RETRY,
    LOOK_EVERY,
    PROOF,
    SETTLE_AT_ONCE,
    SETTLE_DELAY,
    AppendedEvent,
    AppendRequest,
    Changes,
    CommitGroup,
    Committed,
    FunctionRequest,
    GroupCommit,
    Store,
)
from tests.store.sqlite.support import hold_commits, opened, peek
from tests.store.support import (
    LANE,
    Listener,
    Watch,
    delivered,
    event,
    ids_of,
    pending_of,
    refusal_of,
    seqs_of,
    to,
)
from tests.support.stores import commits_of


class Gate:
    """A writer that notes what it is given, and may be held or told to refuse."""

    def __init__(self) -> None:
        self.batches: list[list[CommitGroup[Transaction]]] = []
        self.probes: list[bool] = []
        self.refusal: StorageUnavailable | None = None
        self.free = threading.Event()
        self.free.set()
        self.began = trio.Event()
        self.changes = Changes()
        self._token = trio.lowlevel.current_trio_token()

    def commit(self, groups: list[CommitGroup[Transaction]], *, probe: bool = False) -> Committed:
        self.batches.append(list(groups))
        self.probes.append(probe)
        self._token.run_sync_soon(self.began.set)
        assert self.free.wait(30)
        if self.refusal is not None:
            raise self.refusal
        for job in (job for group in groups for job in group.appends):
            job.note_added({new.seq for new in job.news})
        rows = sum(group.rows for group in groups)
        return Committed(0.001, msgspec.structs.replace(self.changes, rows=rows))


@asynccontextmanager
async def committing(
    gate: Gate,
    watch: Watch | None = None,
    settle_limit: int = 10,
    *,
    hub: bool = False,
    in_use: trio.CapacityLimiter | None = None,
) -> AsyncIterator[GroupCommit[Transaction]]:
    steps = Hub(is_on=hub)
    commits = GroupCommit(gate, watch or Watch(), settle_limit=settle_limit, hub=steps, in_use=in_use)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(commits.run)
        await nursery.start(steps.run)
        try:
            yield commits
        finally:
            gate.free.set()
            await commits.close()
            nursery.cancel_scope.cancel()


def append_job(seq: int, rows: int = 1) -> AppendRequest[Transaction]:
    deliveries = [
        Delivery(
            seq=seq + n,
            event=event("e"),
            registration="r",
            lane=LANE,
            accepted_at=0.0,
            position=seq + n,
            queued_at=0.0,
        )
        for n in range(rows)
    ]
    return AppendRequest([AppendedEvent(seq, event("e"), 0.0, deliveries)])


async def hold(gate: Gate, commits: GroupCommit[Transaction]) -> None:
    """Have a commit under way that does not end before ``gate.free`` is set."""
    gate.free.clear()
    gate.began = trio.Event()
    commits.append_nowait(append_job(1))
    await gate.began.wait()


async def test_what_is_asked_for_during_a_commit_shares_the_next() -> None:
    gate = Gate()
    async with committing(gate) as commits:
        await hold(gate, commits)
        jobs = [append_job(seq) for seq in range(2, 50)]
        for job in jobs:
            commits.append_nowait(job)
        commits.settle_nowait(delivered(1))
        gate.free.set()
        for job in jobs:
            await job.wait_finished()
        assert len(gate.batches) == 2
        [group] = gate.batches[1]
        assert (group.appends, group.settlements) == (jobs, [delivered(1)])


async def test_a_commit_that_does_not_end_is_logged_once_and_so_is_its_end(mock_clock: MockClock) -> None:
    gate = Gate()
    async with committing(gate) as commits, trio.open_nursery() as nursery:
        await hold(gate, commits)
        with capture_logs() as logs:
            nursery.start_soon(commits.watch)
            for _ in range(3 * HANGING_LOOKS):
                await trio.testing.wait_all_tasks_blocked()
                mock_clock.jump(LOOK_EVERY)
            gate.free.set()
            await commits.flush()
            mock_clock.jump(LOOK_EVERY)
            await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert [line["event"] for line in logs] == [
        "the storage hangs: a write does not end, and further ones are refused",
        "the storage no longer hangs",
    ]


async def test_while_a_commit_hangs_what_has_not_begun_is_refused(mock_clock: MockClock) -> None:
    gate, watch = Gate(), Watch()
    async with committing(gate, watch) as commits, trio.open_nursery() as nursery:
        await hold(gate, commits)
        [begun] = gate.batches[0][0].appends
        waiting, later = append_job(2), append_job(3)
        commits.append_nowait(waiting)
        commits.settle_nowait(delivered(1))
        nursery.start_soon(commits.watch)
        for _ in range(HANGING_LOOKS + 1):
            await trio.testing.wait_all_tasks_blocked()
            mock_clock.jump(LOOK_EVERY)
        with pytest.raises(StorageUnavailable, match="hangs"):
            await waiting.wait_finished()
        with pytest.raises(StorageUnavailable, match="hangs"):
            commits.append_nowait(later)
        gate.free.set()
        assert await begun.wait_finished() == [True]
        await commits.flush()
        commits.append_nowait(later)
        assert await later.wait_finished() == [True]
        mock_clock.jump(LOOK_EVERY)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert [heard.partition(":")[0] for heard in watch.heard] == ["failed", "recovered"]
    assert [one for batch in gate.batches for group in batch for one in group.appends] == [begun, later]
    assert [one for batch in gate.batches for group in batch for one in group.settlements] == [delivered(1)]


async def test_a_machine_that_slept_during_a_commit_has_no_storage_that_hangs(mock_clock: MockClock) -> None:
    gate = Gate()
    async with committing(gate) as commits, trio.open_nursery() as nursery:
        await hold(gate, commits)
        with capture_logs() as logs:
            nursery.start_soon(commits.watch)
            for _ in range(2):
                await trio.testing.wait_all_tasks_blocked()
                mock_clock.jump(1_000.0)
            await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert logs == []


@pytest.mark.parametrize("producers", [1, 2])
async def test_a_commit_of_several_waits_for_the_next_rounds(producers: int) -> None:
    gate = Gate()
    async with committing(gate) as commits:
        gate.free.clear()
        await trio.testing.wait_all_tasks_blocked()
        jobs = [append_job(seq) for seq in range(1, producers + 2)]
        for job in jobs[:producers]:
            commits.append_nowait(job)
        for _ in range(GATHERING - 1):
            await trio.lowlevel.checkpoint()
        commits.append_nowait(jobs[-1])
        gate.free.set()
        for job in jobs:
            await job.wait_finished()
        assert [len(group.appends) for [group] in gate.batches] == ([1, 1] if producers == 1 else [3])


@pytest.fixture
def slow_clock() -> trio.testing.MockClock:
    """It runs, and so slowly that the delay of settlements takes longer than any test."""
    return trio.testing.MockClock(rate=SETTLE_DELAY / 600)


async def test_a_settlement_waits_for_a_commit_to_share(slow_clock: trio.testing.MockClock) -> None:
    gate = Gate()
    async with committing(gate) as commits:
        commits.settle_nowait(delivered(1))
        await trio.testing.wait_all_tasks_blocked()
        assert gate.batches == []
        job = append_job(2)
        commits.append_nowait(job)
        await job.wait_finished()
        [[group]] = gate.batches
        assert (group.appends, group.settlements) == ([job], [delivered(1)])


async def test_a_settlement_does_not_wait_for_long(slow_clock: trio.testing.MockClock) -> None:
    gate = Gate()
    async with committing(gate) as commits:
        commits.settle_nowait(delivered(1))
        await trio.testing.wait_all_tasks_blocked()
        slow_clock.jump(SETTLE_DELAY)
        await gate.began.wait()
        [[group]] = gate.batches
        assert group.settlements == [delivered(1)]


@pytest.mark.parametrize("hub", [False, True])
@pytest.mark.parametrize("refuses", [False, True])
@pytest.mark.parametrize(
    "moment", ["as it begins", "as it begins to wait", "before it writes", "while it writes"]
)
async def test_the_delay_may_end_in_the_middle_of_a_commit(
    slow_clock: trio.testing.MockClock, moment: str, *, hub: bool, refuses: bool
) -> None:
    gate, in_use = Gate(), trio.CapacityLimiter(1)
    async with committing(gate, hub=hub, in_use=in_use) as commits:
        commits.settle_nowait(delivered(1))
        await trio.testing.wait_all_tasks_blocked()
        gate.refusal = StorageUnavailable("full") if refuses else None
        must_wait = moment in ("as it begins to wait", "before it writes")
        if must_wait:
            in_use.acquire_on_behalf_of_nowait(gate)
        if moment.startswith("as it begins"):
            slow_clock.jump(SETTLE_DELAY)
        elif moment == "while it writes":
            gate.free.clear()
        job = append_job(2)
        commits.append_nowait(job)
        if must_wait:
            await trio.testing.wait_all_tasks_blocked()
            slow_clock.jump(SETTLE_DELAY)
            await trio.testing.wait_all_tasks_blocked()
            in_use.release_on_behalf_of(gate)
        elif moment == "while it writes":
            await gate.began.wait()
            slow_clock.jump(SETTLE_DELAY)
            await trio.testing.wait_all_tasks_blocked()
            gate.free.set()
        if refuses:
            with pytest.raises(StorageUnavailable, match="full"):
                await job.wait_finished()
            await trio.testing.wait_all_tasks_blocked()
            gate.refusal = None
            slow_clock.jump(FIRST_RETRY)
        await commits.wait_settled(1)
        await commits.call(lambda _: None)
        later = append_job(3)
        commits.append_nowait(later)
        assert await later.wait_finished() == [True]
        commits.settle_nowait(delivered(3))
        await trio.testing.wait_all_tasks_blocked()
        # The next one waits for as long as the first.
        written = [one.seq for batch in gate.batches for group in batch for one in group.settlements]
        assert written == [1] if not refuses else set(written) == {1}


async def test_many_settlements_do_not_wait(slow_clock: trio.testing.MockClock) -> None:
    gate = Gate()
    async with committing(gate, settle_limit=SETTLE_AT_ONCE) as commits:
        for seq in range(SETTLE_AT_ONCE):
            commits.settle_nowait(delivered(seq))
        await gate.began.wait()
        assert len(gate.batches[0][0].settlements) == SETTLE_AT_ONCE


@pytest.mark.parametrize("call", ["flush", "call", "close"])
async def test_who_waits_does_not_wait_for_the_delay(call: str, slow_clock: trio.testing.MockClock) -> None:
    gate = Gate()
    async with committing(gate) as commits:
        commits.settle_nowait(delivered(1))
        await trio.testing.wait_all_tasks_blocked()
        if call == "call":
            await commits.call(lambda _: None)
        else:
            await getattr(commits, call)()
        assert gate.batches[0][0].settlements == [delivered(1)]


async def test_a_settlement_during_a_commit_waits_for_the_next(slow_clock: trio.testing.MockClock) -> None:
    gate = Gate()
    async with committing(gate) as commits:
        await hold(gate, commits)
        commits.settle_nowait(delivered(1))
        gate.free.set()
        await trio.testing.wait_all_tasks_blocked()
        job = append_job(2)
        commits.append_nowait(job)
        await job.wait_finished()
        assert [len(group.settlements) for batch in gate.batches for group in batch] == [0, 1]


async def test_a_commit_is_bounded_and_nothing_is_left_behind() -> None:
    gate = Gate()
    async with committing(gate) as commits:
        await hold(gate, commits)
        for number in range(COMMIT_GROUPS + 1):
            commits.append_nowait(append_job(10_000 * (number + 1), rows=GROUP_ROWS))
        gate.free.set()
        await commits.flush()
        assert [len(batch) for batch in gate.batches] == [1, COMMIT_GROUPS, 1]


async def test_a_group_is_full_at_its_limit() -> None:
    gate = Gate()
    async with committing(gate) as commits:
        await hold(gate, commits)
        commits.append_nowait(append_job(2, rows=GROUP_ROWS - 2))
        commits.settle_nowait(delivered(1))
        commits.settle_nowait(delivered(2))
        gate.free.set()
        await commits.flush()
        assert [group.rows for group in gate.batches[1]] == [GROUP_ROWS, 1]


async def test_functions_run_after_what_was_asked_before_and_before_what_comes_after() -> None:
    gate = Gate()
    async with committing(gate) as commits:
        await hold(gate, commits)
        function: FunctionRequest[Transaction] = FunctionRequest(lambda _: None)
        commits.settle_nowait(delivered(1))
        commits.call_nowait(function)
        commits.settle_nowait(delivered(2))
        gate.free.set()
        await commits.flush()
        first, second = gate.batches[1]
        assert (first.settlements, first.functions) == ([delivered(1)], [function])
        assert second.settlements == [delivered(2)]


async def test_settlements_beyond_the_limit_hold_lanes_back() -> None:
    gate = Gate()
    async with committing(gate, settle_limit=3) as commits:
        await hold(gate, commits)
        for seq in range(3):
            commits.settle_nowait(delivered(seq))
        with trio.testing.assert_no_checkpoints():
            await commits.wait_settle_capacity()
        commits.settle_nowait(delivered(3))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(commits.wait_settle_capacity)
            await trio.testing.wait_all_tasks_blocked()
            assert nursery.child_tasks
            gate.free.set()
        await commits.wait_settle_capacity()


async def test_a_settlement_waits_for_its_own_commit(mock_clock: trio.testing.MockClock) -> None:
    class OneCommit(Gate):
        def commit(self, groups: list[CommitGroup[Transaction]], *, probe: bool = False) -> Committed:
            done = super().commit(groups, probe=probe)
            self.refusal = StorageUnavailable("full") if len(self.batches) == 1 else None
            return done

    gate = OneCommit()
    async with committing(gate, settle_limit=0) as commits:
        await hold(gate, commits)
        number = commits.settle_nowait(delivered(1))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(commits.wait_settled, number)
            nursery.start_soon(commits.wait_settle_capacity)
            await trio.testing.wait_all_tasks_blocked()
            gate.began = trio.Event()
            gate.free.set()
            await gate.began.wait()
            await trio.testing.wait_all_tasks_blocked()
            assert len(nursery.child_tasks) == 2
            gate.refusal = None
            mock_clock.jump(FIRST_RETRY)


async def test_nobody_waits_for_a_settlement_of_a_closed_store() -> None:
    gate = Gate()
    async with trio.open_nursery() as nursery, committing(gate) as commits:
        await hold(gate, commits)
        number = commits.settle_nowait(delivered(1))
        nursery.start_soon(commits.wait_settled, number)
        await trio.testing.wait_all_tasks_blocked()
        gate.free.set()
    with trio.testing.assert_no_checkpoints():
        await commits.wait_settled(number + 1)


async def test_a_refusing_disk_fails_who_waits_and_keeps_settlements(
    mock_clock: trio.testing.MockClock,
) -> None:
    gate, watch = Gate(), Watch()
    async with committing(gate, watch) as commits:
        await hold(gate, commits)
        gate.refusal = StorageUnavailable("The data file x is full.")
        append = append_job(2)
        function: FunctionRequest[Transaction] = FunctionRequest(lambda _: None)
        commits.append_nowait(append)
        commits.settle_nowait(delivered(1))
        commits.call_nowait(function)
        gate.free.set()
        for job in (append, function):
            with pytest.raises(StorageUnavailable, match="x is full"):
                await job.wait_finished()
        with pytest.raises(StorageUnavailable, match="x is full"):
            commits.append_nowait(append_job(3))
        assert commits.failing is gate.refusal
        commits.settle_nowait(delivered(5))
        gate.refusal = None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(commits.flush)
            await trio.testing.wait_all_tasks_blocked()
            assert len(gate.batches) == 1
            mock_clock.jump(FIRST_RETRY)
        assert [s.seq for group in gate.batches[1] for s in group.settlements] == [1, 5]
        assert gate.probes == [False, True]
        assert watch.heard == ["failed: The data file x is full.", "recovered"]
        again = append_job(6)
        commits.append_nowait(again)
        await again.wait_finished()


async def test_the_wait_for_the_disk_grows_to_its_limit(mock_clock: trio.testing.MockClock) -> None:
    gate = Gate()
    gate.refusal = StorageUnavailable("The disk is gone.")
    async with committing(gate) as commits:
        commits.settle_nowait(delivered(1))
        for tries, wait in enumerate([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0], 1):
            await sleeping(gate, commits, tries)
            mock_clock.jump(wait * 0.99)
            await trio.testing.wait_all_tasks_blocked()
            assert len(gate.batches) == tries
            mock_clock.jump(wait * 0.02)
        assert wait == LAST_RETRY
        await sleeping(gate, commits, tries + 1)
        gate.refusal = None
        mock_clock.jump(LAST_RETRY)
        await commits.flush()

        gate.refusal = StorageUnavailable("The disk is gone again.")
        commits.settle_nowait(delivered(2))
        tried = len(gate.batches) + 1
        await sleeping(gate, commits, tried)
        gate.refusal = None
        mock_clock.jump(FIRST_RETRY)
        await commits.flush()


async def sleeping(gate: Gate, commits: GroupCommit[Transaction], tries: int) -> None:
    """Wait until the disk has refused so often, and the commits waits to try again."""
    while len(gate.batches) < tries or commits.failing is None or commits._taken:
        await trio.lowlevel.checkpoint()
    await trio.testing.wait_all_tasks_blocked()


async def test_closing_writes_what_is_queued_even_when_cancelled() -> None:
    gate = Gate()
    with trio.CancelScope() as scope:
        async with committing(gate) as commits:
            await hold(gate, commits)
            commits.settle_nowait(delivered(7))
            scope.cancel()
            await trio.lowlevel.checkpoint()
    assert [s.seq for batch in gate.batches for group in batch for s in group.settlements] == [7]


async def test_closing_gives_a_refusing_disk_a_bounded_time(mock_clock: trio.testing.MockClock) -> None:
    gate = Gate()
    gate.refusal = StorageUnavailable("The disk is gone.")
    async with trio.open_nursery() as nursery:
        commits = GroupCommit(gate, Watch())
        nursery.start_soon(commits.run)
        commits.settle_nowait(delivered(1))
        await sleeping(gate, commits, 1)
        nursery.start_soon(commits.close)
        await trio.testing.wait_all_tasks_blocked()
        mock_clock.jump(CLOSE_GRACE)


async def test_a_refusing_disk_is_one_line_in_the_log_and_its_recovery_another(
    mock_clock: trio.testing.MockClock,
) -> None:
    gate = Gate()
    with capture_logs() as logs:
        async with committing(gate) as commits:
            gate.refusal = StorageUnavailable("The disk is full.")
            gate.free.set()
            commits.settle_nowait(delivered(1))
            for tries in (1, 2, 3):
                await sleeping(gate, commits, tries)
                mock_clock.jump(LAST_RETRY)
            await sleeping(gate, commits, 4)
            gate.refusal = None
            mock_clock.jump(LAST_RETRY)
            await commits.flush()
    assert [(entry["log_level"], entry["event"]) for entry in logs] == [
        ("warning", "the storage refuses writes, and events with them"),
        ("info", "the storage takes writes again"),
    ]
    assert logs[0]["reason"] == "The disk is full."


@pytest.mark.parametrize("is_quiet", [False, True])
async def test_a_full_disk_that_takes_small_commits_is_failing_until_it_takes_an_event(
    mock_clock: trio.testing.MockClock, is_quiet: bool
) -> None:
    class Full(Gate):
        is_full = True

        def commit(self, groups: list[CommitGroup[Transaction]], *, probe: bool = False) -> Committed:
            done = super().commit(groups, probe=probe)
            if self.is_full and any(group.appends for group in groups):
                raise StorageUnavailable("The disk is full.")
            return done

    gate = Full()
    with capture_logs() as logs:
        async with committing(gate) as commits:

            async def append(seq: int) -> bool:
                job = append_job(seq)
                commits.append_nowait(job)
                try:
                    return bool(await job.wait_finished())
                except StorageUnavailable:
                    return False

            for seq in range(1, 5):
                assert not await append(seq)
                await sleeping(gate, commits, len(gate.batches))
                mock_clock.jump(LAST_RETRY)
                await takes_writes(commits)
                # The first recovery is believed, a second one so soon after it is not.
                assert (commits.failing is None) == (seq == 1)
            assert len(logs) == 3
            if is_quiet:
                await trio.testing.wait_all_tasks_blocked()
                mock_clock.jump(PROOF)
                while commits.failing is not None:
                    await trio.lowlevel.checkpoint()
            gate.is_full = False
            assert await append(6)
            assert commits.failing is None
    refuses, again = "the storage refuses writes, and events with them", "the storage takes writes again"
    assert [entry["event"] for entry in logs] == [refuses, again, refuses, again]


async def takes_writes(commits: GroupCommit[Transaction]) -> None:
    while True:
        await trio.testing.wait_all_tasks_blocked()
        with suppress(StorageUnavailable):
            return commits.check_open()


async def test_a_closed_group_commit_takes_no_more() -> None:
    gate = Gate()
    async with committing(gate) as commits:
        pass
    with pytest.raises(StorageUnavailable, match="stopping"):
        commits.append_nowait(append_job(1))
    with pytest.raises(StorageUnavailable, match="stopping"):
        await commits.flush()
    commits.settle_nowait(delivered(1))


async def test_a_bug_in_the_listener_ends_it_and_leaves_nobody_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stored, next_one = append_job(1), append_job(2)

    def broken(_: object) -> None:
        commits.append_nowait(next_one)
        raise RuntimeError("a bug")

    listener = Listener()
    monkeypatch.setattr(listener, "appended", broken)
    commits = GroupCommit(Gate(), Watch())
    commits.subscribe(listener)
    commits.append_nowait(stored)
    with pytest.raises(RuntimeError, match="a bug"):
        await commits.run()
    await stored.wait_finished()  # it is on disk
    with pytest.raises(StorageUnavailable, match="stopping"):
        await next_one.wait_finished()
    await commits.close()


async def test_who_waits_is_woken_after_the_counts_and_before_the_lanes() -> None:
    """An answer that needs no task leaves before lanes begin to send, and says what is pending by then."""
    listener = Listener()

    class Noting(AppendRequest[Transaction]):
        def finish(self, error: Exception | None = None) -> None:
            super().finish(error)
            listener.calls.append(("woken", None))

    gate = Gate()
    gate.changes = Changes(requeued={LANE: 1}, change={("reg_1", "shop"): (1, 2)})
    async with committing(gate) as commits:
        commits.subscribe(listener)
        job = Noting(append_job(1).news)
        commits.append_nowait(job)
        await job.wait_finished()
        assert [name for name, _ in listener.calls] == ["requeued", "changed", "woken", "appended"]


# With the real writer


async def test_producers_share_commits(path: Path) -> None:
    watch = Watch()
    async with opened(path, watch) as store:

        async def produce(number: int) -> None:
            await store.append(to(f"e{number}"))

        async with trio.open_nursery() as nursery:
            for number in range(200):
                nursery.start_soon(produce, number)
        assert watch.commits < 10


async def test_a_function_that_fails_fails_alone(path: Path, store: Store) -> None:
    listener = Listener()
    store.subscribe(listener)

    def bad(transaction: Transaction) -> None:
        transaction.connection.execute("UPDATE deliveries SET state = 'dead'")
        transaction.count_finished({("reg_1", "shop"): (1, 2)})
        transaction.names.ids(["never"])
        raise LookupError("no such thing")

    def good(transaction: Transaction) -> str:
        transaction.connection.execute("INSERT INTO probe VALUES (1, 7)")
        return "done"

    async def expect_failure() -> None:
        with pytest.raises(LookupError, match="no such thing"):
            await commits_of(store).call(bad)

    async def expect_success() -> None:
        assert await commits_of(store).call(good) == "done"

    await store.append(to("e0"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(expect_failure)
        nursery.start_soon(expect_success)
        nursery.start_soon(store.append, to("e1"))
    assert peek(path, "SELECT writes FROM probe") == [(7,)]
    assert await ids_of(store) == ["e0", "e1"]
    assert await pending_of(store) == 2
    assert [name for name, _ in listener.calls] == ["appended", "appended"]
    await store.append(to("e2", registration="never"))
    assert await ids_of(store, "never:0") == ["e2"]


async def test_check_writes(path: Path, store: Store) -> None:
    await store.check()
    await store.check()
    assert peek(path, "SELECT writes FROM probe") == [(2,)]


# A disk that is slow


async def append_cancelled(store: Store) -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        await store.append(to("e2"))


async def test_a_commit_that_takes_long_holds_up_nothing_but_what_waits_for_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(path) as store:
        await store.append(to("e0"))
        [seq] = await seqs_of(store)
        began, disk = hold_commits(monkeypatch)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(store.append, to("e1"))
            await trio.to_thread.run_sync(began.wait)
            with trio.testing.assert_no_checkpoints():
                store.settle_nowait(delivered(seq))
            assert await ids_of(store) == ["e0"]  # reads go on
            nursery.start_soon(append_cancelled, store)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(store.append, to("e3"))
            await trio.testing.wait_all_tasks_blocked()
            assert refusal_of(store) is None
            assert len(nursery.child_tasks) == 3
            disk.set()
        await store.flush()
        assert await ids_of(store) == ["e1", "e2", "e3"]
