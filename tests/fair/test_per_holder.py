from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookgw.fair import PerHolder

changes = st.lists(st.tuples(st.sampled_from(["take", "give"]), st.sampled_from("abc"), st.integers(1, 5)))


@given(changes)
def test_it_counts_what_was_taken_and_not_given_back_and_forgets_who_has_nothing(
    steps: list[tuple[str, str, int]],
) -> None:
    counts = PerHolder[str]()
    expected = Counter[str]()
    for step, holder, amount in steps:
        if step == "take":
            counts.take(holder, amount)
            expected[holder] += amount
        elif amount <= expected[holder]:
            counts.give(holder, amount)
            expected[holder] -= amount
        else:
            with pytest.raises(ValueError if expected[holder] else KeyError):
                counts.give(holder, amount)
        assert {holder: counts.held(holder) for holder in "abc"} == {h: expected[h] for h in "abc"}
        assert counts.used == expected.total()
        assert set(counts) == set(+expected)
        assert [holder in counts for holder in "abc"] == [expected[holder] > 0 for holder in "abc"]


def test_a_unit_is_counted_by_default() -> None:
    counts = PerHolder[tuple[str, bool]]()
    counts.take(("shop", True))
    assert counts.held(("shop", True)) == 1
    counts.give(("shop", True))
    assert not list(counts)


def test_it_says_when_something_was_given_back() -> None:
    counts, heard = PerHolder[str](), list[int]()
    counts.take("shop", 3)
    counts.on_given = lambda: heard.append(counts.used)
    counts.give("shop", 1)
    counts.give("shop", 2)
    assert heard == [2, 0]
