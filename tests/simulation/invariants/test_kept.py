from __future__ import annotations

from tests.simulation.invariants import kept
from tests.simulation.invariants.building import accepted, arrived, final, rules, troubles


def test_an_event_without_a_delivery_is_lost() -> None:
    found = troubles(kept.check, rules(), accepted(1, "e1", "e2"), final(("e1", "delivered")))
    assert found == ["e2 was accepted for shop-default-1, and is nowhere"]


def test_every_state_counts() -> None:
    rows = [("e1", "dead"), ("e2", "dropped"), ("e3", "pending")]
    assert troubles(kept.check, rules(), accepted(1, "e1", "e2", "e3"), final(*rows)) == []


def test_without_a_history_an_arrival_is_enough() -> None:
    history = (rules(), accepted(1, "e1", "e2"), arrived(2, 1), final(complete=False))
    assert troubles(kept.check, *history) == ["e2 was accepted for shop-default-1, and is nowhere"]
