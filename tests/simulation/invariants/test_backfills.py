import msgspec
import pytest

from tests.simulation.history import Backfilled, Backfilling, Record
from tests.simulation.invariants import backfills, order
from tests.simulation.invariants.building import (
    HOOK,
    accepted,
    arrived,
    changed,
    erased,
    final,
    rules,
    troubles,
)

BEGUN = Backfilling(at=20, life=1, number=1, began=20, registration=HOOK)
DONE = Backfilled(at=22, life=1, number=1, began=20, registration=HOOK, events=("e1",))
MISSED = [accepted(1, "e1", wanted=()), accepted(2, "e2", wanted=())]


def test_what_a_backfill_owes_is_there_at_the_end() -> None:
    given = [rules(), *MISSED, BEGUN, DONE]
    assert troubles(backfills.check, *given, final(("e1", "delivered"))) == []
    assert troubles(backfills.check, *given, final()) == [
        f"{HOOK} had missed e1 at 20.000000, and never got it"
    ]
    assert troubles(backfills.check, *given, final(complete=False)) == []


@pytest.mark.parametrize("end", [changed(30, "delete"), changed(30, enabled=False), erased(30)])
def test_what_ends_it(end: Record) -> None:
    assert troubles(backfills.check, rules(), *MISSED, BEGUN, DONE, end, final()) == []


def test_it_comes_behind_what_was_pending_and_before_what_comes_later() -> None:
    before, after = accepted(10, "before"), accepted(30, "after")
    given = [rules(), *MISSED, before, BEGUN, DONE, after, changed(0)]
    right = ["before", "e1", "e2", "after"]
    assert troubles(order.check, *given, *arrivals(right)) == []
    assert troubles(order.check, *given, *arrivals(["e1", "before", "e2", "after"])) == [
        f"{HOOK} got e1 before before, which was accepted before it"
    ]
    assert troubles(order.check, *given, *arrivals(["before", "e1", "after", "e2"])) == [
        f"{HOOK} got after before e2, which was accepted before it"
    ]
    assert troubles(order.check, *given, *arrivals(["before", "e2", "e1", "after"])) == [
        f"{HOOK} got e2 before e1, which was accepted before it"
    ]


def test_one_that_was_not_answered_has_no_end() -> None:
    given = [rules(), *MISSED, BEGUN, accepted(30, "after"), changed(0)]
    assert troubles(order.check, *given, *arrivals(["after", "e1", "e2"])) == []


def test_of_two_any_may_have_sent_it() -> None:
    other = msgspec.structs.replace(BEGUN, at=25, number=2, began=25)
    given = [rules(), *MISSED, BEGUN, DONE, other, accepted(30, "after"), changed(0)]
    assert troubles(order.check, *given, *arrivals(["after", "e2", "e1"])) == []


def arrivals(events: list[str]) -> list[Record]:
    return [arrived(40 + number, number, event) for number, event in enumerate(events, 1)]
