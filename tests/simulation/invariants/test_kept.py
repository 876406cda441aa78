import msgspec

from tests.simulation.history import Dead, Ended, Raised, Record
from tests.simulation.invariants import kept
from tests.simulation.invariants.building import HOOK, accepted, arrived, final, killed, rules, troubles

LOST = ["e1 was accepted for shop-default-1, and is nowhere"]


def lost(*between: Record, complete: bool = False, at: float = 9000.0) -> list[str]:
    """Return what is wrong if an event of second 1 is nowhere at the end."""
    end = msgspec.structs.replace(final(complete=complete), at=at)
    return troubles(kept.check, rules(), accepted(1, "e1"), *between, end)


def test_an_event_without_a_delivery_is_lost() -> None:
    found = troubles(kept.check, rules(), accepted(1, "e1", "e2"), final(("e1", "delivered")))
    assert found == ["e2 was accepted for shop-default-1, and is nowhere"]


def test_every_state_counts() -> None:
    rows = [("e1", "dead"), ("e2", "dropped"), ("e3", "pending")]
    assert troubles(kept.check, rules(), accepted(1, "e1", "e2", "e3"), final(*rows)) == []


def test_without_a_history_an_arrival_is_enough() -> None:
    history = (rules(), accepted(1, "e1", "e2"), arrived(2, 1), final(complete=False))
    assert troubles(kept.check, *history) == ["e2 was accepted for shop-default-1, and is nowhere"]


def test_without_a_history_what_a_disabled_registration_parked_leaves_nothing() -> None:
    disabled = "The registration was disabled: its receiver failed for 5 days."
    dead = Dead(at=5000, life=1, event="e9", registration=HOOK, reason=disabled)
    assert lost(dead) == []
    assert lost(dead, complete=True) == LOST
    assert lost(msgspec.structs.replace(dead, registration="shop-crm-2")) == LOST
    assert lost(msgspec.structs.replace(dead, reason="The receiver rejected this payload.")) == LOST


def test_without_a_history_all_may_be_parked_at_once() -> None:
    """Seed 101727: the delivery that failed for too long was the first of its instance, and died of that."""
    disabled = Raised(at=5000, life=1, event="m1", kind="REGISTRATION_DISABLED", about=HOOK)
    assert lost(disabled) == []
    assert lost(disabled, complete=True) == LOST
    assert lost(msgspec.structs.replace(disabled, about="shop-crm-2")) == LOST
    assert lost(msgspec.structs.replace(disabled, kind="DELIVERY_DEAD")) == LOST


def test_without_a_history_what_became_too_old_before_a_kill_leaves_nothing() -> None:
    too_old = killed(1 + kept.AGE)
    assert lost(too_old) == []
    assert lost(too_old, complete=True) == LOST
    assert lost(killed(kept.AGE)) == LOST
    assert lost(Ended(at=1 + kept.AGE, life=1, how="stop")) == LOST
