from tests.simulation.history import Ended, Known, Requeued
from tests.simulation.invariants import order
from tests.simulation.invariants.building import (
    HOOK,
    accepted,
    arrived,
    changed,
    committed,
    killed,
    rules,
    troubles,
)

OVERTAKEN = ["shop-default-1 got e2 before e1, which was accepted before it"]
TWO = (rules(), accepted(1, "e1", chats=("c1",)), accepted(2, "e2", chats=("c2",)))


def test_an_event_that_overtakes_is_found() -> None:
    assert troubles(order.check, *TWO, arrived(3, 1, "e2"), arrived(4, 2, "e1")) == OVERTAKEN


def test_the_order_within_a_batch_counts() -> None:
    history = (rules(), accepted(1, "e1", "e2", began=0.5), arrived(3, 1, "e2"), arrived(4, 2, "e1"))
    assert troubles(order.check, *history) == OVERTAKEN


def test_calls_at_the_same_time_have_no_order() -> None:
    first, second = accepted(2, "e1", began=1), accepted(2, "e2", began=1.5)
    assert troubles(order.check, rules(), first, second, arrived(3, 1, "e2"), arrived(4, 2, "e1")) == []


def test_only_first_arrivals_count() -> None:
    again = arrived(5, 3, "e1")
    assert troubles(order.check, *TWO, arrived(3, 1, "e1"), arrived(4, 2, "e2"), again) == []


def test_the_ordering_decides() -> None:
    arrivals = arrived(3, 1, "e2"), arrived(4, 2, "e1")
    assert troubles(order.check, *TWO, changed(0, ordering="instance"), *arrivals) == OVERTAKEN
    assert troubles(order.check, *TWO, changed(0, ordering="chat"), *arrivals) == []
    assert troubles(order.check, *TWO, changed(0, ordering="none"), *arrivals) == []


def test_the_ordering_of_a_change_that_was_not_answered_decides_after_a_start() -> None:
    """Seed 16729: a kill came between the commit and the answer."""
    arrivals = arrived(3, 1, "e2"), arrived(4, 2, "e1")
    maybe = changed(0.5, "maybe"), killed(0.6)
    known = Known(at=0.7, life=2, registrations=((HOOK, 1),), orderings=((HOOK, "none"),))
    assert troubles(order.check, TWO[0], *maybe, known, *TWO[1:], *arrivals) == []
    assert troubles(order.check, TWO[0], *maybe, *TWO[1:], *arrivals) == OVERTAKEN


def test_what_was_sent_again_on_purpose_comes_later() -> None:
    replay = Requeued(at=3.5, life=1, began=3.5, what="replay", instance="shop")
    assert troubles(order.check, *TWO, arrived(3, 1, "e2"), replay, arrived(4, 2, "e1")) == []


def test_a_kill_excuses_nothing() -> None:
    assert troubles(order.check, *TWO, arrived(3, 1, "e2"), killed(3.5), arrived(4, 2, "e1")) == OVERTAKEN


def test_what_a_plugin_gave_up_may_be_there_again_if_the_disk_refused_it() -> None:
    """Seed 908."""
    stop = Ended(at=3.5, life=1, how="stop")
    alters = rules(alters=True)
    arrivals = arrived(3, 1, "e2"), arrived(4, 2, "e1")
    assert troubles(order.check, alters, *TWO[1:], stop, *arrivals) == []
    assert troubles(order.check, alters, *TWO[1:], committed(3.2), stop, *arrivals) == OVERTAKEN
    assert troubles(order.check, *TWO, stop, *arrivals) == OVERTAKEN
