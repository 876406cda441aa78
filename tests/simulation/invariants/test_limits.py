import pytest

from tests.simulation.history import Measured
from tests.simulation.invariants import limits
from tests.simulation.invariants.building import HOOK, final, rules, troubles


@pytest.mark.parametrize(
    ("over", "trouble"),
    [
        ({"pending": ((HOOK, 7),), "limit": 6}, "has 7 pending deliveries"),
        ({"total": 13, "total_limit": 12}, "13 deliveries are pending"),
        ({"memory": 9000, "memory_limit": 4000}, "lanes hold 9000 bytes"),
        ({"lent": 3, "lent_limit": 2}, "3 connections lead to a host"),
    ],
)
def test_a_figure_above_its_limit_is_found(over: dict[str, int], trouble: str) -> None:
    [found] = troubles(limits.check, rules(), Measured(at=1, life=1, **over))  # type: ignore[arg-type]
    assert trouble in found
    at = {name: value for name, value in over.items() if name.endswith("limit")}
    assert troubles(limits.check, rules(), Measured(at=1, life=1, **at)) == []  # type: ignore[arg-type]


def test_what_counts_is_what_is_pending() -> None:
    wrong = Measured(at=1, life=1, pending=((HOOK, 1),), counted=((HOOK, 2),))
    assert troubles(limits.check, rules(), wrong) == [
        "{'shop-default-1': 2} count as pending, and {'shop-default-1': 1} are"
    ]


def test_an_operational_event_counts_before_it_is_written() -> None:
    stored = Measured(at=1, life=1, pending=((HOOK, 1),), counted=((HOOK, 1), (limits.OPERATIONS, 1)))
    assert troubles(limits.check, rules(), stored) == []
    lost = Measured(at=1, life=1, pending=((HOOK, 1), (limits.OPERATIONS, 1)), counted=((HOOK, 1),))
    assert len(troubles(limits.check, rules(), lost)) == 1


def test_nothing_is_held_at_the_end() -> None:
    assert troubles(limits.check, rules(), final(memory=10, lent=1)) == [
        "at the end, 1 connections are lent, though nothing is sent",
        "at the end, lanes hold 10 bytes, though nothing is pending",
    ]
