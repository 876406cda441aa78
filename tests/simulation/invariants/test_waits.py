import pytest

from tests.simulation.history import Dead, Started
from tests.simulation.invariants import waits
from tests.simulation.invariants.building import (
    HOOK,
    answered,
    arrived,
    changed,
    committed,
    killed,
    rules,
    troubles,
)

SET = (rules(first_wait=1.0), changed(0))


@pytest.mark.parametrize(
    ("outcome", "wait", "least"),
    [
        ("failed", 0.0, 5.0),
        ("unreachable", 0.0, 1.0),
        ("failed", 60.0, 60.0),
        ("unreachable", 9000.0, 3600.0),
        ("unanswered", 0.0, 5.0),
    ],
)
def test_a_wait_is_not_undercut(outcome: str, wait: float, least: float) -> None:
    failed = (*SET, arrived(1, 1), answered(2, 1, outcome, wait=wait, status=500))
    assert troubles(waits.check, *failed, arrived(2 + least, 2, attempt=2)) == []
    [found] = troubles(waits.check, *failed, arrived(2 + least - 0.01, 2, attempt=2))
    assert found.endswith(f"not {least:.3f} s")


def test_the_schedule_goes_on() -> None:
    first = (
        *SET,
        arrived(1, 1),
        answered(1, 1, "failed"),
        arrived(6, 2, attempt=2),
        answered(6, 2, "failed"),
    )
    assert troubles(waits.check, *first, arrived(12, 3, attempt=3)) != []
    assert troubles(waits.check, *first, arrived(21, 3, attempt=3)) == []


def test_a_kill_excuses_what_was_not_on_disk() -> None:
    failed = (*SET, arrived(1, 1), answered(2, 1, "failed"))
    assert troubles(waits.check, *failed, killed(2.001), arrived(3, 2)) == []
    assert troubles(waits.check, *failed, committed(2.005), killed(2.1), arrived(3, 2)) != []
    # It reads what came of the attempts before, before it stores this one (seed 71111).
    unanswered = (*SET, arrived(1, 1), answered(2, 1, "unanswered"), committed(2.005))
    assert troubles(waits.check, *unanswered, killed(2.1), arrived(3, 2)) == []
    assert troubles(waits.check, *unanswered, arrived(3, 2), killed(3.1)) != []


def test_a_jump_of_the_clock_while_hookgw_is_down_excuses() -> None:
    starts = (Started(at=0, life=1, offset=0.0), Started(at=2.5, life=2, offset=3600.0))
    failed = (*SET, *starts, arrived(1, 1), answered(2, 1, "failed"), committed(2.005), killed(2.1))
    assert troubles(waits.check, *failed, arrived(3, 2, life=2)) == []


def test_a_change_of_the_registration_excuses() -> None:
    failed = (*SET, arrived(100, 1), answered(101, 1, "failed"))
    assert troubles(waits.check, *failed, changed(102, "resume"), arrived(103, 2)) == []


def test_a_used_connection_that_is_closed_is_replaced_at_once() -> None:
    closed = (*SET, arrived(1, 1), answered(1.9, 1, "unanswered"))
    assert troubles(waits.check, *closed, arrived(1.9, 2, dialled=1.9)) == []
    assert troubles(waits.check, *closed, arrived(1.9, 2, dialled=1.9, attempt=2)) != []
    later = (*SET, arrived(1, 1), answered(2.1, 1, "unanswered"))
    assert troubles(waits.check, *later, arrived(2.1, 2, dialled=2.1)) != []


def test_a_receiver_that_limits_its_callers_is_left_alone_for_a_second() -> None:
    limited = (rules(), changed(0), arrived(1, 1), answered(1, 1, "unreachable", status=429))
    assert troubles(waits.check, *limited, arrived(1.9, 2, attempt=2)) != []
    assert troubles(waits.check, *limited, arrived(2, 2, attempt=2)) == []


def test_what_a_hanging_receiver_leaves_unanswered_does_not_count() -> None:
    history = (
        *SET,
        arrived(1, 1),
        answered(1, 1, "unanswered"),
        arrived(601, 2, attempt=2),
        answered(601, 2, "failed"),
        arrived(606, 3, attempt=3),
    )
    assert troubles(waits.check, *history) != []
    died = Dead(at=0.5, life=1, registration=HOOK, event="e0", reason="The schedule is exhausted.")
    assert troubles(waits.check, died, *history) == []


def test_failures_of_a_former_target_do_not_count() -> None:
    """Seeds 12093 and 14769: the change came before the attempt's end, or during it."""
    first = (*SET, arrived(1, 1), answered(1.5, 1, "failed"))
    second = (arrived(6, 2, attempt=2), answered(6, 2, "failed"), arrived(12, 3, attempt=3))
    assert troubles(waits.check, *first, *second) != []
    assert troubles(waits.check, *first, changed(1.2), *second) == []
    assert troubles(waits.check, *first, changed(0.8), *second) != []
    assert troubles(waits.check, *first, changed(1, "pause"), *second) != []


def test_an_attempt_that_waited_for_its_connection_may_end_before_the_receiver_closes_it() -> None:
    """Seed 12065: it had a third of a second left for its request."""
    closed = answered(50.5, 1, "unreachable")
    waited = (*SET, arrived(50, 1, dialled=50.0))
    assert troubles(waits.check, *waited, arrived(50.2, 2, attempt=2), closed) == []
    assert troubles(waits.check, *waited, arrived(50.2, 2), closed) != []
    assert troubles(waits.check, *SET, arrived(50, 1), arrived(50.2, 2, attempt=2), closed) != []
    assert troubles(waits.check, *waited, closed, arrived(50.7, 2, attempt=2)) != []
