"""Deliveries that their first attempt delivered are settled without being read: the outcome is the same."""

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from hookgw import Delivery
from hookgw.store.sqlite import dead_letters
from hookgw.store.sqlite.settle import NotAsKnown, settle
from tests.public.records import Settlement, known_of
from tests.public.sqlite import (
    NameIds,
    OpenFile,
    Transaction,
    Writer,
    migrate,
    of_instance,
    remove_events,
    resend,
)
from tests.public.store import AppendedEvent, AppendRequest, Changes, CommitGroup, FunctionRequest, person
from tests.store.support import AT, RULE, attempt, dead, delivered, event, failed

PAIRS = [("shop", "reg_1"), ("shop", "global_1"), ("mall", "reg_2"), ("mall", "global_1")]
UNKNOWN = 9999
"""The number of a delivery that is not there any more."""


class MemoryFile:
    """Stands for the data file of a connection to ``:memory:``, which is never lost."""

    def errors(self) -> nullcontext[None]:
        return nullcontext()

    def check_usable(self) -> None:
        pass

    def check_commit(self, *, is_done: bool) -> None:
        pass


class Side:
    """A data file, its writer, and what a lane knows of each delivery: as it was appended."""

    def __init__(self, connection: sqlite3.Connection, *, is_known: bool) -> None:
        migrate(connection, Path(":memory:"))
        self.connection = connection
        self.writer = Writer(connection, cast("OpenFile", MemoryFile()))
        self.deliveries: list[Delivery] = []
        self._is_known = is_known

    def append(self, *pairs: tuple[str, str]) -> AppendRequest[Transaction]:
        news = []
        for instance, registration in pairs:
            seq = len(self.deliveries) + 1
            at = AT + seq / 3
            one = Delivery(
                seq=seq,
                event=event(f"e{seq}", instance=instance, data="x" * seq),
                registration=registration,
                lane=f"{registration}:0",
                accepted_at=at,
                position=seq,
                queued_at=at,
            )
            self.deliveries.append(one)
            news.append(AppendedEvent(seq, one.event, at, [one]))
        return AppendRequest(news)

    def delivered(self, seq: int) -> Settlement:
        """Return a settlement as a lane makes it."""
        made = attempt(url=f"https://a.example/{seq % 3}", duration=seq / 7)
        delivery = self.deliveries[0 if seq == UNKNOWN else seq - 1]
        known = known_of(delivery) if self._is_known else None
        return replace(delivered(seq), at=AT + seq, attempt=made, known=known)

    def commit(self, *groups: CommitGroup[Transaction]) -> Changes:
        return self.writer.commit(groups).changes

    def settle(self, *settlements: Settlement) -> Changes:
        return self.commit(group(settlements=settlements))

    def rows(self) -> list[str]:
        # But for what names the log, which is random.
        return [row for row in self.connection.iterdump() if '"log_state"' not in row]


def group(
    *functions: Callable[[Transaction], object],
    appends: tuple[AppendRequest[Transaction], ...] = (),
    settlements: tuple[Settlement, ...] = (),
) -> CommitGroup[Transaction]:
    made: CommitGroup[Transaction] = CommitGroup()
    made.appends += appends
    made.settlements += settlements
    made.functions += map(FunctionRequest, functions)
    return made


@contextmanager
def two_files() -> Iterator[tuple[Side, Side]]:
    """Make two equal files. The lanes of the second one say only what was the outcome."""
    memory = partial(sqlite3.connect, ":memory:", isolation_level=None)
    with closing(memory()) as one, closing(memory()) as two:
        yield Side(one, is_known=True), Side(two, is_known=False)


@pytest.fixture
def sides() -> Iterator[tuple[Side, Side]]:
    with two_files() as sides:
        yield sides


def retire(transaction: Transaction, instance_id: str = "0b0c") -> None:
    transaction.names.rename(of_instance("shop"), of_instance(f"shop {instance_id}"))


def replay(transaction: Transaction, number: int) -> None:
    """Make all that is finished pending again, at positions and times that grow with the number."""
    names = [row[0] for row in transaction.connection.execute("SELECT name FROM names WHERE name LIKE '@%'")]
    finished = transaction.connection.execute(
        "SELECT seq FROM deliveries WHERE state <> 'pending'"
    ).fetchall()
    for seq, name in product((row[0] for row in finished), names):
        resend(transaction, name[1:], seq, RULE, 1000 * number + seq, AT + number)


def park(transaction: Transaction, registration: str = "reg_2") -> None:
    connection = transaction.connection
    found, _ = dead_letters.next_pending(connection, registration, 10**9, None, 99, [])
    dead_letters.bury(connection, found, "off", AT)


def erase(transaction: Transaction, seq: int) -> None:
    remove_events(transaction.connection, [seq], [seq], person("a@b"))


def reads_of(side: Side, *settlements: Settlement) -> list[str]:
    asked: list[str] = []
    side.connection.set_trace_callback(asked.append)
    side.settle(*settlements)
    side.connection.set_trace_callback(None)
    return [statement for statement in asked if statement.startswith("SELECT") and "deliveries" in statement]


def test_what_is_known_is_not_read(sides: tuple[Side, Side]) -> None:
    for side, reads in zip(sides, (0, 1), strict=True):
        side.commit(group(appends=(side.append(*PAIRS),)))
        assert len(reads_of(side, *map(side.delivered, range(1, 5)))) == reads
    assert sides[0].rows() == sides[1].rows()


def test_the_deliveries_of_a_deleted_instance_are_counted_under_its_retired_name(
    sides: tuple[Side, Side],
) -> None:
    """The lane knows the name that a new instance has by now."""
    for side in sides:
        side.commit(group(retire, appends=(side.append(("shop", "global_1")),)))
        side.commit(group(appends=(side.append(("shop", "global_1")),)))
        old, new = side.delivered(1), side.delivered(2)
        assert side.settle(old).change == {("global_1", "shop 0b0c"): (-1, -1)}
        assert side.settle(new).change == {("global_1", "shop"): (-1, -2)}
    assert sides[0].rows() == sides[1].rows()


def test_what_was_appended_after_a_deletion_is_not_read_either(sides: tuple[Side, Side]) -> None:
    side, _ = sides
    side.commit(group(retire, appends=(side.append(("shop", "global_1"), ("mall", "global_1")),)))
    side.commit(group(appends=(side.append(("shop", "global_1")),)))
    assert len(reads_of(side, side.delivered(2))) == 1
    assert reads_of(side, side.delivered(3)) == []


@pytest.mark.parametrize(
    "seqs",
    [(1, 2, 1), (1, 3, 2), (4, UNKNOWN), (*range(4, 700), 3, *range(700, 1100)), (*range(4, 700), 4)],
    ids=["twice", "settled before", "gone", "many", "twice in many"],
)
def test_a_commit_whose_count_differs_is_repeated_as_a_whole(
    sides: tuple[Side, Side], seqs: tuple[int, ...]
) -> None:
    found = []
    for side in sides:
        side.commit(group(appends=(side.append(*PAIRS * 300),)))
        side.settle(side.delivered(3))
        job, calls = side.append(("new", "reg_9")), Counter[str]()
        job.also = lambda _, calls=calls: calls.update("x")
        changes = side.commit(group(appends=(job,), settlements=tuple(map(side.delivered, seqs))))
        assert job.result == [True]
        assert sum(count for count, _ in changes.change.values()) == -len({*seqs} - {3, UNKNOWN})
        assert (changes.events, changes.rows) == (1, 2 + len(seqs))
        found.append((changes, side.rows(), calls["x"]))
    assert found[0][:2] == found[1][:2]
    assert [calls for _, _, calls in found] == [2, 1]


def test_a_mismatch_writes_nothing_that_a_rollback_leaves(sides: tuple[Side, Side]) -> None:
    side, _ = sides
    side.commit(group(appends=(side.append(*PAIRS),)))
    before, names = side.rows(), NameIds(side.connection)
    side.connection.execute("BEGIN")
    one = side.delivered(1)
    with pytest.raises(NotAsKnown):
        settle(Transaction(side.connection, names), [one, one], by_count=True)
    side.connection.execute("ROLLBACK")
    assert side.rows() == before


def test_what_was_replayed_is_read(sides: tuple[Side, Side]) -> None:
    """The figures count from when it was queued last."""
    for side in sides:
        side.commit(group(park, appends=(side.append(*PAIRS),)))
        side.commit(group(partial(replay, number=2)))
        side.settle(side.delivered(3))
    assert sides[0].rows() == sides[1].rows()
    assert known_of(replace(sides[0].deliveries[0], position=9)) is None


NUMBERS = st.integers(0, 7)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.lists(st.sampled_from(PAIRS), min_size=1, max_size=3)),
        st.tuples(st.just("settle"), st.lists(st.tuples(NUMBERS, st.sampled_from("kkkksfd")), max_size=4)),
        st.tuples(st.just("settle"), st.lists(st.tuples(NUMBERS, st.just("k")), max_size=4)),
        st.tuples(st.sampled_from(["retire", "park", "replay", "erase"]), NUMBERS),
    ),
    min_size=1,
    max_size=4,
)


def settlement(side: Side, seq: int, kind: str) -> Settlement:
    if kind == "k":
        return side.delivered(seq)
    if kind == "s":  # the second attempt
        return replace(side.delivered(seq), attempt=attempt(2), known=None)
    return failed(seq) if kind == "f" else dead(seq)


def step(side: Side, what: str, how: Any, number: int) -> CommitGroup[Transaction]:
    count = len(side.deliveries)
    seq = 1 + how % count if isinstance(how, int) else 0
    if what == "append":
        return group(appends=(side.append(*how),))
    if what == "settle":
        return group(settlements=tuple(settlement(side, 1 + pick % count, kind) for pick, kind in how))
    if what == "retire":
        return group(partial(retire, instance_id=f"{number}"))
    if what == "replay":
        return group(partial(replay, number=1 + number))
    if what == "erase":
        return group(partial(erase, seq=seq))
    return group(partial(park, registration=PAIRS[how % 4][1]))


def prepare(side: Side) -> None:
    """Append two deliveries, and six that are no longer as the lane knows them."""
    former, parked = side.append(("shop", "reg_1")), side.append(("mall", "reg_2"))
    side.commit(group(retire, appends=(former,)), group(park, partial(replay, number=1), appends=(parked,)))
    side.commit(group(appends=(side.append(*PAIRS[:2], *PAIRS),)))
    side.settle(side.delivered(3))
    side.commit(group(partial(erase, seq=4), partial(park, registration="global_1")))


@settings(deadline=None)
@given(commits=st.lists(STEPS, min_size=1, max_size=6))
def test_both_ways_write_and_count_the_same(commits: list[list[tuple[str, Any]]]) -> None:
    with two_files() as sides:
        number = 0
        for side in sides:
            prepare(side)
        for steps in commits:
            numbered = list(enumerate(steps, number))
            number += len(steps)
            changes = [
                side.commit(*(step(side, what, how, place) for place, (what, how) in numbered))
                for side in sides
            ]
            assert changes[0] == changes[1]
        assert sides[0].rows() == sides[1].rows()
