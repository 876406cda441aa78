from typing import Any

import pytest

from tests.simulation.history import (
    Accepted,
    Answered,
    Arrived,
    Cancelled,
    Dead,
    Faulted,
    Record,
    Requeued,
    Started,
)
from tests.simulation.invariants import blocking
from tests.simulation.invariants.building import accepted, answered, arrived, changed, killed, rules, troubles

HOOK = "global-every-0"
HELD_UP = ["global-every-0 got e2 only after an event of shop that it had refused"]
CONFIGURED = changed(0, registration=HOOK, ordering="instance", host="h1.example")


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocking, "SOON", 10.0)


def heard(at: float, event: str, instance: str) -> Accepted:
    return accepted(at, event, instance=instance, wanted=(HOOK,))


def got(at: float, number: int, event: str, **more: Any) -> Arrived:
    return arrived(at, number, event, registration=HOOK, **more)


def ended(at: float, number: int, outcome: str, event: str = "e1") -> Answered:
    return answered(at, number, outcome, event, registration=HOOK)


def fault(at: float, what: str) -> Faulted:
    return Faulted(at=at, life=1, what=what)


def refused(*between: Record) -> tuple[Record, ...]:
    """Return a history in which one instance's event waits from 11 to 41, and what happens meanwhile."""
    return (
        rules(),
        CONFIGURED,
        heard(10, "e1", "shop"),
        got(11, 1, "e1"),
        ended(11, 1, "failed"),
        got(16, 2, "e1"),
        ended(16, 2, "failed"),
        *between,
        got(41, 30, "e1"),
        got(42, 40, "e2"),
    )


HEARD = heard(20, "e2", "bank")


def test_an_event_of_another_instance_is_not_held_up() -> None:
    assert troubles(blocking.check, *refused(HEARD)) == HELD_UP
    assert troubles(blocking.check, *refused(HEARD, got(20.5, 9, "e2"))) == []
    assert troubles(blocking.check, *refused(heard(20, "e2", "shop"))) == []


def test_all_its_attempts_hold_up_the_lane() -> None:
    before_the_second = heard(12, "e2", "bank")
    assert troubles(blocking.check, *refused(before_the_second)) == HELD_UP
    assert troubles(blocking.check, *refused(before_the_second, got(17, 9, "e2"))) == []
    just_before_the_last = heard(38, "e2", "bank")
    assert troubles(blocking.check, *refused(just_before_the_last)) == []


@pytest.mark.parametrize(
    "disturbance", ["h1.example is hanging", "the name h1.example is lost", "the disk has 0 room"]
)
def test_what_else_disturbs_excuses_it(disturbance: str) -> None:
    begins = fault(15, disturbance)
    assert troubles(blocking.check, *refused(begins, HEARD)) == []
    assert troubles(blocking.check, *refused(HEARD, fault(25, disturbance))) == []
    assert troubles(blocking.check, *refused(HEARD, fault(35, disturbance))) == HELD_UP
    assert troubles(blocking.check, *refused(begins, fault(16, "everything works"), HEARD)) == HELD_UP


def test_a_lane_may_wait_for_a_while_after_its_address_is_allowed_again() -> None:
    private, works = fault(1, "the name h1.example is private"), fault(2, "everything works")
    assert troubles(blocking.check, *refused(private, works, HEARD)) == []


def test_another_host_excuses_nothing() -> None:
    others = fault(15, "h2.example is hanging"), fault(15, "the name h2.example is lost")
    assert troubles(blocking.check, *refused(*others, HEARD)) == HELD_UP


def test_a_process_that_ends_excuses_it_and_the_next_does_not() -> None:
    started = Started(at=19, life=2, offset=0.0)
    assert troubles(blocking.check, *refused(HEARD, killed(25))) == []
    assert troubles(blocking.check, *refused(killed(18), started, HEARD)) == HELD_UP


def test_a_lane_may_wait_for_as_long_as_the_clock_was_set_back() -> None:
    """Its first event was tried in vain before, at a host that was not there."""
    started = [Started(at=at, life=life, offset=offset) for at, life, offset in ((5, 1, 0.0), (19, 2, -8.0))]
    before, after = heard(26, "e2", "bank"), heard(28, "e2", "bank")
    assert troubles(blocking.check, *refused(started[0], killed(18), started[1], before)) == []
    assert troubles(blocking.check, *refused(started[0], killed(18), started[1], after)) == HELD_UP
    assert troubles(blocking.check, *refused(started[1], killed(18), started[0], before)) == HELD_UP


def test_at_night_a_single_move_of_the_clock_is_longer_than_that() -> None:
    """A night began two seconds after an event, while its lane read from a slow disk."""
    night, day = fault(22, "the clock moves by 60 s or more"), fault(29, "the clock moves as usual")
    assert troubles(blocking.check, *refused(HEARD, night)) == []
    assert troubles(blocking.check, *refused(HEARD, night, day)) == []
    later = heard(29.5, "e2", "bank")
    assert troubles(blocking.check, *refused(night, day, later)) == HELD_UP


def test_its_own_lane_is_free() -> None:
    waits = heard(12, "e0", "bank"), got(13, 8, "e0"), ended(13, 8, "failed", "e0")
    assert troubles(blocking.check, *refused(*waits, HEARD)) == []
    # It was taken in the end, and the event behind it comes then.
    late = got(41, 31, "e0"), ended(41, 31, "delivered", "e0")
    assert troubles(blocking.check, *refused(*waits, HEARD, *late)) == []
    taken = heard(12, "e0", "bank"), got(13, 8, "e0"), ended(13, 8, "delivered", "e0")
    assert troubles(blocking.check, *refused(*taken, HEARD)) == HELD_UP
    # Nobody knows whose event that is.
    assert troubles(blocking.check, *refused(*waits[1:], HEARD)) == []


def test_an_event_that_a_call_ended_comes_when_another_sends_it_again() -> None:
    cancelled = Cancelled(at=21, life=1, instance="bank")
    replay = Requeued(at=40, life=1, began=40, what="replay", instance="bank")
    assert troubles(blocking.check, *refused(HEARD, cancelled, replay)) == []
    assert troubles(blocking.check, *refused(HEARD, replay)) == HELD_UP


def test_a_webhook_that_is_disabled_sends_nothing() -> None:
    gone = got(21, 8, "e7"), ended(21, 8, "gone", "e7")
    dead = Dead(at=21, life=1, event="e7", registration=HOOK, reason="The registration was disabled.")
    assert troubles(blocking.check, *refused(HEARD, *gone)) == []
    assert troubles(blocking.check, *refused(HEARD, dead)) == []
