import msgspec

from tests.simulation.history import Cancelled, Record, Removed, Requeued, Skipped, Unanswered
from tests.simulation.invariants import accounting
from tests.simulation.invariants.building import HOOK, answered, arrived, final, rules, troubles


def test_what_is_pending_at_the_end_is_stuck() -> None:
    found = troubles(accounting.check, rules(), final(("e1", "pending"), backlog=((HOOK, 1),)))
    assert found == ["e1 is still pending for shop-default-1, though all works"]


def test_a_delivery_that_nobody_took_is_not_delivered() -> None:
    history = (rules(), arrived(1, 1), answered(1, 1, "failed"), final(("e1", "delivered")))
    assert troubles(accounting.check, *history) == [
        "e1 counts as delivered, but shop-default-1 did not take it"
    ]


def test_an_answer_that_may_not_have_come_through_counts_for_both() -> None:
    history = (rules(), arrived(1, 1), answered(1, 1, "unknown"))
    assert troubles(accounting.check, *history, final(("e1", "delivered"))) == []
    assert troubles(accounting.check, *history, final(("e1", "dead"))) == []


def test_a_skip_may_cut_off_an_answer_that_is_on_the_way() -> None:
    """Seeds 13182, 13566."""
    skip = Skipped(at=1.2, life=1, began=0.9, instance="shop", event="e1", registration=HOOK, attempts=1)
    history = (rules(), arrived(0.5, 1), answered(1, 1, "delivered"), skip)
    assert troubles(accounting.check, *history, final(("e1", "dead"))) == []
    later = msgspec.structs.replace(skip, began=1.1)
    assert troubles(accounting.check, *history[:3], later, final(("e1", "dead"))) != []


def test_a_late_answer_does_not_bring_back_what_was_cancelled() -> None:
    """Seed 9316."""
    cancelled = Cancelled(at=2, life=1, instance="shop")
    broken = ["e1 is dead, but shop-default-1 has taken it"]

    def found(*records: Record) -> list[str]:
        return troubles(accounting.check, rules(), arrived(1, 1), *records, final(("e1", "dead")))

    late = answered(40, 1, "delivered", is_late=True)
    assert found(cancelled, late) == []
    assert found(late) == broken
    assert found(late, msgspec.structs.replace(cancelled, at=41)) == broken
    assert found(msgspec.structs.replace(cancelled, instance="other"), late) == broken
    assert found(cancelled, answered(10, 1, "delivered")) == broken


def test_what_was_taken_is_not_dead() -> None:
    history = (rules(), arrived(1, 1), answered(1, 1, "delivered"), final(("e1", "dead")))
    broken = ["e1 is dead, but shop-default-1 has taken it"]
    assert troubles(accounting.check, *history) == broken
    # What is sent again may end in another way, but no other event.
    resend = Requeued(at=5, life=1, began=5, what="resend", instance="shop", events=("e1",))
    assert troubles(accounting.check, *history, resend) == []
    other = msgspec.structs.replace(resend, events=("e2",))
    assert troubles(accounting.check, *history, other) == broken


def test_a_delivery_exists_once() -> None:
    history = (rules(), arrived(1, 1), answered(1, 1, "delivered"))
    end = final(("e1", "delivered"), ("e1", "delivered"))
    assert troubles(accounting.check, *history, end) == ["e1 has two deliveries to shop-default-1"]
    # Seed 23566: its instance was deleted, and the client sent the id again, to the new one.
    anew = Removed(at=2, life=1, began=2, instance="shop"), Unanswered(at=3, life=1, events=("e1",))
    assert troubles(accounting.check, *history, *anew, end) == []


def test_the_figures_are_those_of_the_file() -> None:
    end = msgspec.structs.replace(final(), backlog=((HOOK, 3),))
    [found] = troubles(accounting.check, rules(), end)
    assert found.startswith("the gateway counts {'shop-default-1': 3} as pending")
