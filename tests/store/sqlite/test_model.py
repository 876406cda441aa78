"""The outbox against a dictionary: appends, settlements, moves, restarts, in any order."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from hookgw.models.deliveries import Delivery, DeliveryState, Page, Settlement
from hookgw.store.sqlite.jobs import AppendJob, FunctionJob, Group
from hookgw.store.sqlite.migrations import migrate
from hookgw.store.sqlite.outbox import (
    NewEvent,
    backlog,
    count_pending,
    last_numbers,
    page,
    pending_by_registration,
)
from hookgw.store.sqlite.pending_counts import Change, counted
from hookgw.store.sqlite.pending_counts import added as total
from hookgw.store.sqlite.relane import START, Cursor
from hookgw.store.sqlite.transaction import Transaction
from hookgw.store.sqlite.writer import Committed, Writer
from tests.store.sqlite.support import AT, attempt, event

LANES = ["http://a.test", "http://b.test", "http://c.test"]
IDS = st.sampled_from([f"e{number}" for number in range(12)])
TARGETS = st.lists(st.tuples(st.sampled_from(["reg_1", "reg_2"]), st.sampled_from(LANES)), max_size=3)
BATCH = st.lists(st.tuples(IDS, TARGETS), max_size=6)
SETTLED = st.tuples(
    st.integers(1, 40),
    st.sampled_from(DeliveryState),
    st.integers(1, 3),
    st.none() | st.binary(max_size=5),
)


class Outbox(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.connection = sqlite3.connect(":memory:", isolation_level=None)
        migrate(self.connection, Path(":memory:"))
        self.writer = Writer(self.connection, Path(":memory:"))
        self.events: dict[str, list[int]] = {}
        self.deliveries: dict[int, Delivery] = {}
        self.finished: dict[int, Delivery] = {}
        self.seq = self.event_seq = 0
        self.tallies: Change = {}

    def teardown(self) -> None:
        self.connection.close()

    @rule(batches=st.lists(BATCH, min_size=1, max_size=3), settled=st.lists(SETTLED, max_size=6))
    def commit(self, batches: list[list[tuple[str, list[tuple[str, str]]]]], settled: list[tuple]) -> None:  # type: ignore[type-arg]
        group = Group()
        settlements = [_settlement(*given) for given in settled if given[0] in self.deliveries]
        group.settlements = settlements
        group.appends = [self._job(batch) for batch in batches]
        before = len(self.deliveries)
        gone = sum(self._settle(settlement) for settlement in settlements)
        added = sum(self._append(job) for job in group.appends)
        committed = self.writer.commit([group])
        assert committed.pending == added - gone
        self._tally(committed, [d for job in group.appends for d in job.deliveries()])
        assert len(self.deliveries) == before + sum(len(job.deliveries()) for job in group.appends) - gone

    def _job(self, batch: list[tuple[str, list[tuple[str, str]]]]) -> AppendJob:
        news = []
        for name, targets in batch:
            deliveries = []
            for registration, lane in targets:
                self.seq += 1
                deliveries.append(
                    Delivery(
                        seq=self.seq,
                        event=event(name),
                        registration=registration,
                        lane=lane,
                        accepted_at=AT,
                        position=self.seq,
                        queued_at=AT,
                    )
                )
            self.event_seq += 1
            news.append(NewEvent(self.event_seq, event(name), AT, deliveries))
        return AppendJob(news)

    def _append(self, job: AppendJob) -> int:
        added = 0
        for new in job.news:
            if new.event.id not in self.events:
                self.events[new.event.id] = [delivery.seq for delivery in new.deliveries]
                self.deliveries.update((delivery.seq, delivery) for delivery in new.deliveries)
                added += len(new.deliveries)
        return added

    def _settle(self, settlement: Settlement) -> bool:
        delivery = self.deliveries.get(settlement.seq)
        if delivery is None:
            return False
        assert settlement.attempt is not None
        delivery.attempts = settlement.attempt.number
        delivery.failures = settlement.failures
        delivery.next_at = settlement.next_at
        delivery.body = delivery.body if settlement.body is None else settlement.body
        if settlement.state is not DeliveryState.PENDING:
            self._finish(settlement.seq)
            return True
        return False

    def _finish(self, seq: int) -> None:
        self.finished[seq] = self.deliveries.pop(seq)

    @rule(
        registration=st.sampled_from(["reg_1", "reg_2"]),
        old=st.sampled_from(LANES),
        new=st.sampled_from(LANES),
    )
    def relane(self, registration: str, old: str, new: str) -> None:
        self._walk(
            lambda transaction, place: transaction.relane(registration, [old], lambda _: new, place, 2)
        )
        for delivery in self.deliveries.values():
            if (delivery.registration, delivery.lane) == (registration, old):
                delivery.lane = new

    @rule(registration=st.sampled_from(["reg_1", "reg_2"]), lane=st.sampled_from(LANES))
    def park(self, registration: str, lane: str) -> None:
        count = 0

        def park(transaction: Transaction, place: Cursor) -> Cursor | None:
            nonlocal count
            parked, then = transaction.park(registration, [lane], "off", AT, place, 2)
            count += parked
            return then

        self._walk(park)
        parked = [s for s, d in self.deliveries.items() if (d.registration, d.lane) == (registration, lane)]
        assert count == len(parked)
        for seq in parked:
            self._finish(seq)

    @rule(
        registration=st.sampled_from(["reg_1", "reg_2"]),
        count=st.integers(0, 3),
        size=st.integers(0, 6),
        spared=st.lists(st.integers(1, 40), max_size=3),
        limit=st.integers(1, 4),
    )
    def drop_oldest(self, registration: str, count: int, size: int, spared: list[int], limit: int) -> None:
        job = FunctionJob(
            lambda transaction: transaction.drop_oldest(
                registration, LANES, "full", AT, count=count, size=size, spared=spared, limit=limit
            )
        )
        self._call(job)
        mine = [d for d in self.deliveries.values() if d.registration == registration and d.seq not in spared]
        mine.sort(key=lambda d: d.position)
        wanted = min(max(count, -(-size // 2)), limit, len(mine))  # a payload has two bytes
        assert job.result == wanted
        for delivery in mine[:wanted]:
            self._finish(delivery.seq)

    @rule(chosen=st.lists(st.integers(1, 40), max_size=6, unique=True), lane=st.sampled_from(LANES))
    def requeue(self, chosen: list[int], lane: str) -> None:
        first = self.seq + 1
        self.seq += len(chosen)
        job = FunctionJob(
            lambda transaction: transaction.requeue(dict.fromkeys(chosen, lane), first, AT + first)
        )
        self._call(job)
        again = [(place, seq) for place, seq in enumerate(chosen, first) if seq in self.finished]
        assert job.result == len(again)
        for place, seq in again:
            delivery = self.deliveries[seq] = self.finished.pop(seq)
            delivery.lane, delivery.position, delivery.queued_at = lane, place, AT + first
            delivery.failures, delivery.next_at = 0, 0.0

    @rule()
    def prune_all(self) -> None:
        self._call(FunctionJob(lambda transaction: transaction.prune(AT + 1, 1000)))
        self.finished = {}
        self.events = {
            name: seqs for name, seqs in self.events.items() if any(seq in self.deliveries for seq in seqs)
        }

    def _walk(self, step: Callable[[Transaction, Cursor], Cursor | None]) -> None:
        place: Cursor | None = START
        while place is not None:
            place = self._take(step, place)

    def _take(self, step: Callable[[Transaction, Cursor], Cursor | None], place: Cursor) -> Cursor | None:
        job = FunctionJob(lambda transaction: step(transaction, place))
        self._call(job)
        then: Cursor | None = job.result
        return then

    def _call(self, job: FunctionJob) -> None:
        group = Group()
        group.functions = [job]
        committed = self.writer.commit([group])
        assert job.error is None
        self._tally(committed)

    def _tally(self, committed: Committed, appended: Sequence[Delivery] = ()) -> None:
        """Count along, as those do who are told of commits alone."""
        more = Counter(d.registration for d in appended)
        sizes = {d.registration: len(d.event.data_json) for d in appended}
        self.tallies = total(self.tallies, {name: (n, n * sizes[name]) for name, n in more.items()})
        self.tallies = total(self.tallies, committed.change)
        assert counted(committed.change) + len(appended) == committed.pending

    @rule()
    def restart(self) -> None:
        self.writer = Writer(self.connection, Path(":memory:"))
        assert last_numbers(self.connection) <= (self.event_seq, self.seq)

    @invariant()
    def pages_are_what_is_pending(self) -> None:
        for lane in LANES:
            expected = sorted(
                (d for d in self.deliveries.values() if d.lane == lane), key=lambda d: d.position
            )
            assert page(self.connection, lane, 0, 10_000) == Page(expected, more=False)
            if expected:
                after = expected[len(expected) // 2].position
                rest = [d for d in expected if d.position > after]
                assert page(self.connection, lane, after, 2) == Page(rest[:2], more=len(rest) > 2)

    @invariant()
    def counts_are_right(self) -> None:
        assert count_pending(self.connection) == len(self.deliveries)
        assert sum(lane.count for lane in backlog(self.connection)) == len(self.deliveries)
        counted_along = {name: tally for name, tally in self.tallies.items() if tally != (0, 0)}
        assert pending_by_registration(self.connection) == counted_along


def _settlement(seq: int, state: DeliveryState, number: int, body: bytes | None) -> Settlement:
    made = attempt(number, status=500)
    return Settlement(
        seq=seq, state=state, at=AT, attempt=made, failures=number, next_at=AT + number, body=body
    )


def test_the_outbox_is_what_a_dictionary_would_be() -> None:
    run_state_machine_as_test(
        Outbox, settings=settings(max_examples=60, stateful_step_count=20, deadline=None)
    )
