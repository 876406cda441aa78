"""A store does what a dictionary would: random appends, settlements, changes and restarts."""

from collections import defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from hookgw import Delivery, DeliveryState
from tests.public.records import LaneRule, Ordering, Settlement
from tests.public.store import Append, ReplayQuery, Store
from tests.store.conformance.engines import ENGINES, Engine, make_engine
from tests.store.support import AT, attempt, event, park, pending, pending_of

REGISTRATIONS = st.sampled_from(["reg_1", "reg_2"])
INSTANCES = st.sampled_from(["shop", "mall"])
# What is there before the first step, so that most steps find something to change.
FIRST = ("append", [(number, ["reg_1", "reg_2"][: 1 + number % 2]) for number in range(8)])
NUMBERS = st.integers(0, 30)
"""Which of the deliveries ever appended, counted round."""

STEPS = st.one_of(
    st.tuples(
        st.just("append"),
        st.lists(st.tuples(st.integers(6, 16), st.lists(REGISTRATIONS, max_size=3)), max_size=6),
    ),
    st.tuples(
        st.just("settle"),
        st.lists(
            st.tuples(
                NUMBERS, st.sampled_from(DeliveryState), st.integers(1, 3), st.none() | st.binary(max_size=5)
            ),
            max_size=6,
        ),
    ),
    st.tuples(st.just("park"), REGISTRATIONS, st.lists(NUMBERS, max_size=3)),
    st.tuples(
        st.just("drop"),
        REGISTRATIONS,
        INSTANCES,
        st.integers(0, 3),
        st.integers(0, 6),
        st.lists(NUMBERS, max_size=3),
    ),
    st.tuples(st.just("resend"), NUMBERS),
    st.tuples(st.just("replay")),
    st.tuples(st.just("repartition"), REGISTRATIONS, st.sampled_from(Ordering), st.integers(1, 3)),
    st.tuples(st.just("due"), REGISTRATIONS),
    st.tuples(st.just("prune")),
    st.tuples(st.just("restart")),
)


class Model:
    """What the store must hold. Positions are a place in a list."""

    def __init__(self) -> None:
        self.rules = {name: LaneRule(name, 0, Ordering.URL, 1) for name in ("reg_1", "reg_2")}
        self.events: dict[str, set[int]] = {}
        self.pending: dict[int, Delivery] = {}
        self.finished: dict[int, Delivery] = {}
        self.order: list[int] = []
        self.seen: list[int] = []
        self.heard: dict[tuple[str, str], tuple[int, int]] = defaultdict(lambda: (0, 0))

    # The listener, which counts along

    def requeued(self, lanes: Any) -> None:
        pass

    def appended(self, deliveries: Any) -> None:
        for delivery in deliveries:
            holder = delivery.registration, delivery.event.instance
            self.changed({holder: (1, len(delivery.event.data_json))})
            self.seen.append(delivery.seq)
            self.order.append(delivery.seq)
            self.pending[delivery.seq] = delivery
            self.events[delivery.event.id].add(delivery.seq)

    def changed(self, change: Any) -> None:
        for holder, (count, size) in change.items():
            has, has_bytes = self.heard[holder]
            self.heard[holder] = (has + count, has_bytes + size)

    def pick(self, number: int) -> int:
        return self.seen[number % len(self.seen)] if self.seen else 999

    def mine(self, registration: str) -> list[int]:
        return [
            seq
            for seq in self.order
            if seq in self.pending and self.pending[seq].registration == registration
        ]

    def finish(self, seq: int) -> None:
        self.finished[seq] = self.pending.pop(seq)

    def requeue(self, seq: int) -> None:
        delivery = self.pending[seq] = self.finished.pop(seq)
        delivery.lane = self.rules[delivery.registration].lane(delivery.event)
        delivery.failures, delivery.next_at = 0, 0.0
        self.order.remove(seq)
        self.order.append(seq)

    # The steps

    async def append(self, store: Store, batch: list[tuple[int, list[str]]]) -> None:
        appends, fresh = [], []
        for number, targets in batch:
            # Events of two instances, in the same lanes.
            instance = "shop" if number % 3 else "mall"
            one = event(f"e{number}", instance=instance, data=f'{{"remoteJid": "{number % 3}"}}')
            appends.append(Append(one, tuple((name, self.rules[name].lane(one)) for name in targets)))
            fresh.append(one.id not in self.events)
            self.events.setdefault(one.id, set())
        assert await store.append(appends) == fresh

    async def settle(self, store: Store, batch: list[Any]) -> None:
        for number, state, count, body in batch:
            seq = self.pick(number)
            store.settle_nowait(
                Settlement(
                    seq=seq,
                    state=state,
                    at=AT,
                    attempt=attempt(count, status=500),
                    failures=count,
                    next_at=AT + count,
                    body=body,
                )
            )
            if seq in self.pending:
                delivery = self.pending[seq]
                delivery.attempts = delivery.failures = count
                delivery.next_at = AT + count
                delivery.body = delivery.body if body is None else body
                if state is not DeliveryState.PENDING:
                    self.finish(seq)
        await store.flush()

    async def park(self, store: Store, registration: str, spared: list[int]) -> None:
        kept = {self.pick(number) for number in spared}
        parked = [seq for seq in self.mine(registration) if seq not in kept]
        assert await park(store, registration, "off", spared=kept) == len(parked)
        for seq in parked:
            self.finish(seq)

    async def drop(
        self, store: Store, registration: str, instance: str, count: int, size: int, spared: list[int]
    ) -> None:
        kept = {self.pick(number) for number in spared}
        chosen: list[int] = []
        total = 0
        for seq in self.mine(registration):
            if self.pending[seq].event.instance != instance:
                continue
            if seq not in kept and (len(chosen) < count or total < size) and len(chosen) < 4:
                chosen.append(seq)
                total += len(self.pending[seq].event.data_json)
        dropped = await store.drop_oldest(
            self.rules[registration], instance, "full", count=count, size=size, spared=kept
        )
        assert dropped == (len(chosen), total)
        for seq in chosen:
            self.finish(seq)

    async def resend(self, store: Store, number: int) -> None:
        seq = self.pick(number)
        delivery = self.finished.get(seq)
        rule = self.rules[delivery.registration if delivery else "reg_1"]
        lane = await store.resend(delivery.event.instance if delivery else "shop", seq, rule)
        if delivery is None:
            assert lane is None
        else:
            assert lane == rule.lane(delivery.event)
            self.requeue(seq)

    async def replay(self, store: Store) -> None:
        for instance in ("shop", "mall"):
            cursor, count = None, 0
            while True:
                step = await store.replay_step(
                    ReplayQuery(instance=instance, state="all"), self.rules, cursor
                )
                count += step.count
                cursor = step.cursor
                if cursor is None:
                    break
            again = sorted(seq for seq, one in self.finished.items() if one.event.instance == instance)
            assert count == len(again)
            for seq in again:
                self.requeue(seq)

    async def repartition(
        self, store: Store, registration: str, ordering: Ordering, concurrency: int
    ) -> None:
        rule = LaneRule(registration, self.rules[registration].generation + 1, ordering, concurrency)
        self.rules[registration] = rule
        while await store.repartition_step(rule):
            pass
        for seq in self.mine(registration):
            self.pending[seq].lane = rule.lane(self.pending[seq].event)

    async def due(self, store: Store, registration: str) -> None:
        await store.make_due(registration)
        for seq in self.mine(registration):
            self.pending[seq].next_at = 0.0

    async def prune(self, store: Store) -> None:
        unheard = [name for name, seqs in self.events.items() if not seqs]
        # Parked and dropped deliveries finish at the time of the clock, the others in the past.
        removed = await store.enforce_retention(before=9e9, limit=2**40)
        assert removed == len(self.finished) + len(unheard)
        for seq in list(self.finished):
            del self.finished[seq]
            self.seen.remove(seq)
        self.events = {name: seqs for name, seqs in self.events.items() if seqs & self.pending.keys()}

    async def check(self, store: Store) -> None:
        expected: dict[str, list[Delivery]] = {}
        for seq in self.order:
            if seq in self.pending:
                expected.setdefault(self.pending[seq].lane, []).append(self.pending[seq])
        lanes = {lane.lane: lane.count for lane in await store.pending_lanes()}
        assert lanes == {lane: len(deliveries) for lane, deliveries in expected.items()}
        for lane, deliveries in expected.items():
            found = await pending(store, lane)
            assert [show(one) for one in found] == [show(one) for one in deliveries]
            assert [show(one) for one in await pending(store, lane, limit=2)] == list(
                map(show, deliveries[:2])
            )
            assert await store.count_pending(lane) == len(deliveries)
        assert await pending_of(store) == len(self.pending)
        counted = {name: counts for name, counts in self.heard.items() if counts != (0, 0)}
        assert await store.pending_counts() == counted


def show(delivery: Delivery) -> object:
    return (
        delivery.seq,
        delivery.event,
        delivery.registration,
        delivery.attempts,
        delivery.failures,
        delivery.next_at,
        delivery.body,
    )


async def run(engine: Engine, steps: list[Any]) -> None:
    model = Model()
    steps = [FIRST, *steps]
    while steps:
        async with engine.open() as store:
            store.subscribe(model)
            while steps:
                name, *arguments = steps.pop(0)
                if name == "restart":
                    break
                await getattr(model, name)(store, *arguments)
                await model.check(store)


@pytest.mark.parametrize("engine_name", ENGINES)
def test_a_store_is_what_a_dictionary_would_be(engine_name: str, request: pytest.FixtureRequest) -> None:
    # A server takes ten times as long as a file to begin anew.
    @settings(max_examples=50 if engine_name == "sqlite" else 10, deadline=None)
    @given(st.lists(STEPS, min_size=5, max_size=20))
    def check(steps: list[Any]) -> None:
        with (
            TemporaryDirectory() as folder,
            pytest.MonkeyPatch.context() as monkeypatch,
            make_engine(engine_name, Path(folder), monkeypatch, request) as engine,
        ):
            engine.set_step(4)
            trio.run(run, engine, list(steps))

    check()
