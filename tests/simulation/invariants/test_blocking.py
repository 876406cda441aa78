from __future__ import annotations

from typing import Any

from tests.simulation.history import Accepted, Arrived, Faulted, Record
from tests.simulation.invariants import blocking
from tests.simulation.invariants.building import accepted, answered, arrived, changed, killed, rules, troubles

HOOK = "global-every-0"
HELD_UP = ["global-every-0 got e2 only after an event of shop that it had refused"]


def heard(at: float, event: str, instance: str) -> Accepted:
    return accepted(at, event, instance=instance, wanted=(HOOK,))


def got(at: float, number: int, event: str, **more: Any) -> Arrived:
    return arrived(at, number, event, registration=HOOK, **more)


def refused(*between: Record) -> tuple[Record, ...]:
    """Return a history in which one instance's event waits from 11 to 311, and what happens meanwhile."""
    return (
        rules(),
        changed(0, registration=HOOK, ordering="instance"),
        heard(10, "e1", "shop"),
        got(11, 1, "e1"),
        answered(11, 1, "failed", registration=HOOK),
        *between,
        got(311, 2, "e1", attempt=2),
        got(312, 3, "e2"),
    )


def test_an_event_of_another_instance_is_not_held_up() -> None:
    assert troubles(blocking.check, *refused(heard(20, "e2", "bank"))) == HELD_UP
    assert troubles(blocking.check, *refused(heard(20, "e2", "bank"), got(21, 9, "e2"))) == []
    assert troubles(blocking.check, *refused(heard(20, "e2", "shop"))) == []


def test_what_else_disturbs_excuses_it() -> None:
    hangs = Faulted(at=15, life=1, what="h1.example is hanging")
    works = Faulted(at=16, life=1, what="h1.example is healthy")
    before = answered(13, 8, "failed", "e0", registration=HOOK)
    waits = (heard(12, "e0", "bank"), got(13, 8, "e0"), before)
    assert troubles(blocking.check, *refused(hangs, heard(20, "e2", "bank"))) == []
    assert troubles(blocking.check, *refused(hangs, works, heard(20, "e2", "bank"))) == HELD_UP
    assert troubles(blocking.check, *refused(heard(20, "e2", "bank"), killed(30))) == []
    assert troubles(blocking.check, *refused(*waits, heard(20, "e2", "bank"))) == []
