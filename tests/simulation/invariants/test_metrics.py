from typing import Any

from tests.simulation.history import Cancelled, Metered, Record, Refused, Removed, Skipped, Unanswered
from tests.simulation.invariants import metrics
from tests.simulation.invariants.building import HOOK, accepted, answered, arrived, rules, troubles
from tests.simulation.invariants.limits import OPERATIONS


def metered(at: float = 100.0, life: int = 1, **more: Any) -> Metered:
    given: dict[str, Any] = {"accepted": 0, "delivered": 0, "dropped": 0, "taken": 0, **more}
    return Metered(at=at, life=life, **given)


def found(*records: Record) -> list[str]:
    return troubles(metrics.check, rules(), *records)


def test_an_event_counts_once() -> None:
    two = accepted(1, "e1", "e2")
    assert found(two, metered(accepted=2)) == []
    assert found(two, metered(accepted=3)) == [
        "at 100.000000, 3 events count as accepted, and 2 were, 0 may be"
    ]
    assert len(found(two, metered(accepted=1))) == 1
    assert len(found(two, metered(accepted=2, life=2))) == 1


def test_an_event_without_an_answer_may_count() -> None:
    lost = Unanswered(at=2, life=1, events=("e2", "e3"))
    for count, troubled in ((0, 1), (1, 0), (3, 0), (4, 1)):
        assert len(found(accepted(1, "e1"), lost, metered(accepted=count))) == troubled
    # It was sent again, and then answered.
    assert len(found(lost, accepted(3, "e2", "e3"), metered(accepted=3))) == 1


def test_an_instance_that_is_made_again_has_other_events_of_the_same_ids() -> None:
    removed = Removed(at=2, life=1, began=2, instance="shop")
    first, again = accepted(1, "e1"), accepted(3, "e1")
    assert found(first, removed, again, metered(accepted=2)) == []
    assert found(first, removed, again, metered(accepted=1)) == []
    assert len(found(first, removed, again, metered(accepted=3))) == 1
    assert len(found(first, removed, metered(accepted=2))) == 1
    assert len(found(first, again, metered(accepted=2))) == 1
    before = Removed(at=2, life=2, began=2, instance="shop")
    assert len(found(first, before, again, metered(accepted=2))) == 1
    lost = Unanswered(at=3, life=1, events=("e1",))
    assert found(first, removed, lost, metered(accepted=2)) == []


def test_a_delivery_counts_once() -> None:
    taken = answered(1, 1, "delivered")
    assert found(taken, metered(taken=1, delivered=1)) == []
    assert found(taken, metered(taken=1, delivered=2)) == [
        "at 100.000000, 2 deliveries count as delivered, and 1 certainly were, 1 at most"
    ]
    assert len(found(taken, metered())) == 2


def test_an_answer_at_the_same_time_may_count() -> None:
    assert found(answered(99, 1, "delivered"), metered()) == []
    assert found(answered(1, 1, "unknown"), metered(taken=1, delivered=1)) == []
    assert found(answered(1, 1, "unknown"), metered()) == []


def test_an_answer_to_an_attempt_that_is_cut_off_may_count() -> None:
    """Seed 1293."""
    skipped = Skipped(at=3, life=1, began=1, instance="shop", event="e1", registration=HOOK, attempts=1)
    taken = answered(2, 1, "delivered")
    assert found(taken, skipped, metered()) == []
    assert found(taken, skipped, metered(taken=1, delivered=1)) == []
    assert found(answered(0.5, 1, "delivered"), skipped, metered()) != []


def test_a_skip_that_the_disk_refuses_may_cut_off_an_answer() -> None:
    """Seed 31725."""
    call = Cancelled(at=2, life=1, instance="shop")
    refused = Refused(at=2.5, life=1, what="skip", why="StorageUnavailable")
    taken = arrived(1, 1), answered(2, 1, "delivered")
    again = arrived(3, 2), answered(3, 2, "delivered")
    once = metered(taken=1, delivered=1)
    assert found(call, *taken, refused, *again, once) == []
    assert found(call, *taken, *again, once) != []
    assert found(call, *taken, refused, metered()) != []


def test_a_receiver_that_is_still_answering_may_have_answered() -> None:
    """Seed 34658."""
    taken = metered(taken=1, delivered=1)
    assert found(arrived(99, 1), taken, answered(101, 1, "unknown")) == []
    assert found(arrived(100.5, 1), taken, answered(101, 1, "unknown")) != []


def test_what_is_pending_is_what_is_in_the_data_file() -> None:
    assert found(metered(registrations=((HOOK, 2),), pending=((HOOK, 2),))) == []
    [trouble] = found(metered(registrations=((HOOK, 2),), pending=((HOOK, 1),)))
    assert trouble.endswith(
        "show {'shop-default-1': 2} as pending, and the data file has {'shop-default-1': 1}"
    )
    # An operational event counts before it is written.
    assert found(metered(registrations=((HOOK, 2), (OPERATIONS, 1)), pending=((HOOK, 2),))) == []
