from tests.simulation.history import Listed, Removed
from tests.simulation.invariants import erasing, kept
from tests.simulation.invariants.building import accepted, arrived, erased, final, killed, rules, troubles

TWO = (rules(), accepted(1, "e1", chats=("c1",)), accepted(2, "e2", chats=("c2",)))
STORED = final(("e1", "delivered"), ("e2", "delivered"))


def test_what_was_erased_is_not_sent() -> None:
    assert troubles(erasing.check, *TWO, arrived(3, 1), erased(5), arrived(6, 2, "e2")) == []
    found = troubles(erasing.check, *TWO, erased(5), killed(5.5), arrived(6, 1))
    assert found == ["e1 went to shop-default-1, though c1 was erased at 5.000000"]


def test_what_was_erased_is_not_listed() -> None:
    listed = Listed(at=6, life=1, began=5.5, instance="shop", events=("e1", "e2"))
    found = troubles(erasing.check, *TWO, erased(5), listed)
    assert found == ["e1 was listed, though c1 was erased at 5.000000"]


def test_a_list_that_was_answered_in_the_moment_before_is_no_trouble() -> None:
    """Seed 15222."""
    listed = Listed(at=5, life=1, began=5, instance="shop", events=("e1", "e2"))
    assert troubles(erasing.check, *TWO, listed, erased(5)) == []
    assert troubles(erasing.check, *TWO, erased(5), listed) != []


def test_what_was_erased_is_not_in_the_data_file() -> None:
    found = ["e1 is in the data file, though c1 was erased at 5.000000"]
    assert troubles(erasing.check, *TWO, erased(5), STORED) == found
    assert troubles(erasing.check, *TWO, erased(5, done=False), STORED) == found
    assert troubles(erasing.check, *TWO, erased(5, answered=False, done=False), STORED) == []


def test_what_is_accepted_later_stays() -> None:
    assert troubles(erasing.check, *TWO, erased(1.5, began=0.5), STORED) == []
    assert troubles(kept.check, *TWO, erased(1.5), final(("e1", "delivered"))) == [
        "e2 was accepted for shop-default-1, and is nowhere"
    ]
    assert troubles(kept.check, *TWO, erased(1.5), final(("e2", "delivered"))) == []
    assert troubles(kept.check, *TWO, erased(0.5), final(("e2", "delivered"))) == [
        "e1 was accepted for shop-default-1, and is nowhere"
    ]


def test_the_events_of_a_former_instance_are_not_those_of_the_next_one() -> None:
    removed = Removed(at=3, life=1, began=2.5, instance="shop")
    assert troubles(erasing.check, *TWO, removed, erased(5), STORED) == []
