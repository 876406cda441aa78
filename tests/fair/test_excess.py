"""Who loses how much when there is too much."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookgw.fair import Excess

HELD = st.dictionaries(st.integers(0, 20), st.integers(0, 10**12), max_size=12)


@pytest.mark.parametrize(
    ("held", "total", "left"),
    [
        ({}, 10, {}),
        ({"a": 4, "b": 6}, 10, {}),
        ({"a": 20}, 10, {"a": 10}),
        ({"a": 20}, 0, {"a": 20}),
        ({"greedy": 100, "b": 3, "c": 4}, 20, {"greedy": 87}),
        ({"a": 10, "b": 10, "c": 1}, 11, {"a": 5, "b": 5}),
    ],
)
def test_who_has_most_loses_what_is_too_much(
    held: dict[str, float], total: float, left: dict[str, float]
) -> None:
    assert Excess(held, total).left == left


@given(HELD, st.integers(0, 10**12))
def test_the_rest_fits_and_nobody_keeps_less_than_another_lost_down_to(
    held: dict[int, float], total: int
) -> None:
    left = Excess(held, total).left
    kept = {holder: amount - left.get(holder, 0) for holder, amount in held.items()}
    assert sum(kept.values()) == pytest.approx(min(total, sum(held.values())), abs=1)
    level = min((kept[holder] for holder in left), default=None)
    for holder, amount in held.items():
        if holder in left:
            assert kept[holder] == pytest.approx(level, abs=1)
        elif level is not None:
            assert amount <= level or amount == pytest.approx(level, abs=1)


def test_a_holder_is_spared_once_its_excess_is_gone() -> None:
    excess = Excess({"a": 20.0, "b": 20.0}, 10)
    excess.take("a", 10)
    assert excess.left == {"a": 5, "b": 15}
    excess.take("a", 7)
    excess.take("a", 7)
    excess.take("nobody", 1)
    assert excess.left == {"b": 15}
