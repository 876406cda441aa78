from typing import Any

from tests.simulation.history import Arrived, Dead, Ended, Faulted, Raised
from tests.simulation.invariants import operational
from tests.simulation.invariants.building import answered, arrived, committed, final, killed, rules, troubles

RULES = rules(reports=True)


def raised(at: float, event: str) -> Raised:
    return Raised(at=at, life=1, event=event, kind="LANE_FAILING")


def reported(at: float, number: int, event: str, **more: Any) -> Arrived:
    return arrived(at, number, event, registration=operational.OPERATIONS, **more)


TWO = (RULES, raised(1, "m1"), raised(2, "m2"))


def test_an_operational_event_that_overtakes_is_found() -> None:
    assert troubles(operational.check, *TWO, reported(3, 1, "m1"), reported(4, 2, "m2")) == []
    assert troubles(operational.check, *TWO, reported(3, 1, "m2"), reported(4, 2, "m1")) == [
        "m2 came to operations.url before m1, which was raised before it"
    ]


def test_plugins_and_a_kill_excuse_it() -> None:
    """Found by seed 5009."""
    two = (raised(1, "m1"), raised(2, "m2"), reported(3, 1, "m2"), killed(3.5), reported(4, 2, "m1"))
    assert troubles(operational.check, rules(reports=True, alters=True), *two) == []
    assert troubles(operational.check, RULES, *two) != []


def test_what_a_plugin_gave_up_may_be_there_again_if_the_disk_refused_it() -> None:
    """Seed 9548."""
    stop = Ended(at=3.5, life=1, how="stop")
    alters = rules(reports=True, alters=True)
    arrivals = reported(3, 1, "m2"), reported(4, 2, "m1")
    overtaken = ["m2 came to operations.url before m1, which was raised before it"]
    assert troubles(operational.check, alters, *TWO[1:], stop, *arrivals) == []
    assert troubles(operational.check, alters, *TWO[1:], committed(3.2), stop, *arrivals) == overtaken
    assert troubles(operational.check, *TWO, stop, *arrivals) == overtaken


def test_what_was_given_up_for_its_age_may_be_there_again() -> None:
    """Seed 8402: the disk refused, and the next start had an earlier clock."""
    old = Dead(at=2.5, life=1, event="m1", registration=operational.OPERATIONS, reason="too old")
    arrivals = reported(3, 1, "m2"), killed(3.5), reported(4, 2, "m1")
    assert troubles(operational.check, *TWO, old, *arrivals) == []
    assert troubles(operational.check, *TWO, *arrivals) != []


def test_there_is_one_at_a_time() -> None:
    end = answered(3.5, 1, "delivered", "m1", registration=operational.OPERATIONS)
    assert troubles(operational.check, *TWO, reported(3, 1, "m1"), end, reported(4, 2, "m2")) == []
    assert troubles(operational.check, *TWO, reported(3, 1, "m1"), reported(3.2, 2, "m2"), end) == [
        "m2 came to operations.url during the attempt of m1"
    ]


def test_an_operational_event_that_is_nowhere_is_found() -> None:
    missing = ["the operational event m2 was raised, and is nowhere"]
    assert troubles(operational.check, *TWO, reported(3, 1, "m1"), final()) == missing
    stored = committed(3.5), committed(4)
    assert troubles(operational.check, *TWO, reported(3, 1, "m1"), *stored, killed(5000), final()) == missing


def test_a_kill_and_a_disk_that_refuses_excuse_it() -> None:
    full = Faulted(at=1, life=1, what="the disk has 0 room")
    assert troubles(operational.check, *TWO, reported(3, 1, "m1"), killed(4), final()) == []
    # Seed 101215: the second commit since then was cut off, after hours in three moves of the clock.
    first = committed(3.5)
    assert troubles(operational.check, *TWO, reported(3, 1, "m1"), first, killed(7000), final()) == []
    assert troubles(operational.check, full, *TWO, reported(3, 1, "m1"), final()) == []
