"""Dead letters as they are told of: at once, then summed up."""

import math

from tests.public.core import REST, DeadLetterSummary, Digest


def letters(registration: str = "reg_1", count: int = 1, reason: str = "why") -> DeadLetterSummary:
    return DeadLetterSummary(registration=registration, count=count, reason=reason, delivery=None)


def test_the_first_is_told_of_at_once_and_the_next_are_summed_up() -> None:
    digest = Digest[DeadLetterSummary]()
    first = letters()
    assert digest.add(first, 100.0) is first
    assert [digest.add(letters(count=n, reason=str(n)), 100.5) for n in (1, 2, 3)] == [None] * 3
    assert digest.due(100.0 + REST - 0.01) == []
    assert digest.next_due == 100.0 + REST
    assert digest.due(100.0 + REST) == [letters(count=6, reason="3")]


def test_there_is_a_rest_after_a_sum_too() -> None:
    digest = Digest[DeadLetterSummary]()
    digest.add(letters(), 100.0)
    digest.add(letters(), 100.1)
    digest.due(101.0)
    assert digest.add(letters(), 101.9) is None
    assert digest.due(101.9) == []
    assert digest.due(102.0) == [letters()]


def test_after_a_quiet_second_the_next_is_told_of_at_once() -> None:
    digest = Digest[DeadLetterSummary]()
    digest.add(letters(), 100.0)
    assert digest.due(101.0) == []
    assert digest.next_due == math.inf
    again = letters()
    assert digest.add(again, 101.0) is again


def test_registrations_do_not_hold_each_other_back() -> None:
    digest = Digest[DeadLetterSummary]()
    digest.add(letters("a"), 100.0)
    other = letters("b")
    assert digest.add(other, 100.5) is other
    for name in ("b", "a", "b"):
        digest.add(letters(name), 100.6)
    assert digest.due(101.0) == [letters("a")]
    assert digest.next_due == 101.5
    assert digest.due(101.5) == [letters("b", count=2)]
    assert digest.next_due == 102.0


def test_at_the_end_everything_is_due() -> None:
    digest = Digest[DeadLetterSummary]()
    for name in ("a", "a", "b"):
        digest.add(letters(name), 100.0)
    assert digest.due(math.inf) == [letters("a")]
