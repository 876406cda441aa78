import msgspec

from tests.simulation.history import Requeued, Skipped
from tests.simulation.invariants import skipped
from tests.simulation.invariants.building import HOOK, accepted, arrived, rules, troubles

SKIPPED = Skipped(at=30, life=1, began=29, instance="shop", event="e1", registration=HOOK, attempts=1)
FIRST = arrived(20, 1)
AGAIN = msgspec.structs.replace(arrived(40, 1), attempt=2)


def test_what_arrives_after_the_answer_is_a_violation() -> None:
    assert troubles(skipped.check, rules(), accepted(1, "e1"), FIRST, SKIPPED) == []
    found = troubles(skipped.check, rules(), accepted(1, "e1"), FIRST, SKIPPED, AGAIN)
    assert found == [f"e1 was skipped, and went to {HOOK}"]


def test_the_attempt_that_was_cut_off_may_arrive_late() -> None:
    late = msgspec.structs.replace(FIRST, at=31)
    assert troubles(skipped.check, rules(), accepted(1, "e1"), SKIPPED, late) == []


def test_a_replay_that_is_under_way_may_send_it_again() -> None:
    """Seeds 2856, 4989."""
    replay = Requeued(at=5, life=1, began=5, what="replay", instance="shop")
    reached = msgspec.structs.replace(SKIPPED, is_replayed=True)
    assert troubles(skipped.check, rules(), accepted(1, "e1"), FIRST, replay, reached, AGAIN) == []
    assert troubles(skipped.check, rules(), accepted(1, "e1"), FIRST, replay, SKIPPED, AGAIN) != []


def test_one_that_is_sent_again_may_arrive() -> None:
    requeued = Requeued(at=35, life=1, began=34, what="resend", instance="shop", events=("e1",))
    assert troubles(skipped.check, rules(), accepted(1, "e1"), FIRST, SKIPPED, requeued, AGAIN) == []
