from tests.simulation.history import Removed
from tests.simulation.invariants import known
from tests.simulation.invariants.building import accepted, erased, killed, troubles

TWICE = ["e2 was answered as new at 1.000000, and again at 5.000000"]
FIRST, SECOND = accepted(1, "e1", "e2"), accepted(5, "e2", "e3")


def test_an_id_that_is_new_twice_is_found() -> None:
    assert troubles(known.check, FIRST, accepted(5, "e3")) == []
    assert troubles(known.check, FIRST, SECOND) == TWICE


def test_a_kill_excuses_nothing() -> None:
    assert troubles(known.check, FIRST, killed(2), SECOND) == TWICE


def test_each_instance_has_its_own_ids() -> None:
    assert troubles(known.check, FIRST, accepted(5, "e2", instance="bank")) == []
    removed = Removed(at=3, life=1, began=2.5, instance="shop")
    assert troubles(known.check, FIRST, removed, SECOND) == []
    another = Removed(at=3, life=1, began=2.5, instance="bank")
    assert troubles(known.check, FIRST, another, SECOND) == TWICE


def test_an_erasure_leaves_the_ids() -> None:
    assert troubles(known.check, FIRST, erased(3), SECOND) == TWICE


def test_an_id_is_known_for_days() -> None:
    day = 86_400.0
    assert troubles(known.check, FIRST, accepted(2 * day, "e2")) != []
    assert troubles(known.check, FIRST, accepted(9 * day, "e2")) == []
