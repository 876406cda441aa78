"""The judge of the crash run must itself notice each kind of broken promise."""

import pytest

from tests.crash.account import SETTLE_WINDOW, Arrival, Figures, Kill, judge, total

KILLS = [Kill(10.0, 10.5), Kill(20.0, 20.5)]


def ok(number: int, at: float) -> Arrival:
    return Arrival(number, at, delivered=True)


def failed(number: int, at: float) -> Arrival:
    return Arrival(number, at, delivered=False)


def test_all_once_and_in_order() -> None:
    assert judge([ok(0, 1), ok(1, 2)], KILLS, 2) == Figures(2, 2, 0, 0, 0, 0.0)


def test_nothing_is_in_order() -> None:
    assert judge([], KILLS, 0) == Figures(0, 0, 0, 0, 0, 0.0)


def test_retries_are_no_repeats() -> None:
    figures = judge([failed(0, 1), failed(0, 2), ok(0, 3), ok(1, 4)], KILLS, 2)
    assert (figures.retries, figures.repeats) == (2, 0)


def test_what_was_unsettled_at_a_kill_may_come_again() -> None:
    arrivals = [ok(0, 1), ok(1, 9.5), ok(2, 10.25), ok(1, 11), ok(2, 12), ok(3, 13)]
    assert judge(arrivals, KILLS, 4) == Figures(4, 6, 0, 2, 2, 0.5)


def test_it_may_fail_and_be_tried_again_on_its_way_back() -> None:
    figures = judge([ok(0, 9.5), failed(0, 11), ok(0, 12)], KILLS, 1)
    assert (figures.repeats, figures.most_repeats) == (2, 2)


def test_two_kills_may_repeat_the_same_event() -> None:
    figures = judge([ok(0, 9.5), ok(0, 19.5), ok(0, 21)], KILLS, 1)
    assert (figures.repeats, figures.most_repeats) == (2, 1)


def test_a_kill_may_cut_short_what_the_kill_before_repeats() -> None:
    arrivals = [ok(0, 9.4), ok(1, 9.5), ok(0, 19.9), ok(0, 21), ok(1, 22)]
    figures = judge(arrivals, KILLS, 2)
    assert (figures.repeats, figures.most_repeats) == (3, 2)


@pytest.mark.parametrize(
    ("arrivals", "events", "message"),
    [
        ([ok(0, 1)], 2, "1 accepted events never arrived: .1."),
        ([ok(1, 1), ok(0, 2)], 2, "out of order"),
        ([ok(0, 1), ok(0, 2)], 1, "without a kill"),
        ([ok(0, 10 - SETTLE_WINDOW - 0.1), ok(0, 11)], 1, "came again 2.100 s after"),
        ([ok(0, 20.75), ok(0, 21)], 1, "after the last kill"),
        ([ok(0, 9.5), ok(1, 9.6), ok(0, 11), ok(2, 12)], 3, "no tail"),
    ],
)
def test_a_broken_promise_is_noticed(arrivals: list[Arrival], events: int, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        judge(arrivals, KILLS, events)


def test_figures_add_up() -> None:
    assert total([Figures(1, 2, 3, 4, 5, 0.5), Figures(1, 1, 1, 1, 1, 1.5)]) == Figures(2, 3, 4, 5, 5, 1.5)
