import pytest

from tests.crash.account import Arrival
from tests.fleet.account import Fault, explain, judge

KILL = Fault("kill", "a", 10.0, 14.0)


def arrivals(*found: tuple[int, float]) -> list[Arrival]:
    return [Arrival(number, at, delivered=True) for number, at in found]


def test_repeats_and_takeovers_are_counted_by_fault() -> None:
    lane = judge(arrivals((0, 9.0), (1, 9.9), (1, 13.5), (2, 13.6)), [KILL], 3)
    assert not lane.problems()
    assert lane.repeats == [KILL]
    assert lane.takeovers == {KILL: 3.5}


def test_a_gap_with_two_faults_is_no_takeover_of_the_first() -> None:
    later = Fault("kill", "b", 12.0, 13.0)
    lane = judge(arrivals((0, 9.0), (1, 9.9), (2, 15.0)), [KILL, later], 3)
    assert lane.takeovers == {later: 3.0}


@pytest.mark.parametrize(("accepted", "expected"), [(9.95, 6.0), (12.0, 4.0), (15.5, None), (16.1, None)])
def test_a_lane_without_anything_to_send_takes_nothing_over(accepted: float, expected: float | None) -> None:
    found = arrivals((0, 9.0), (1, 9.9), (2, 16.0))
    takeovers = judge(found, [KILL], 3, accepted=[8.9, 9.8, accepted]).takeovers
    assert takeovers == ({} if expected is None else {KILL: expected})


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ([(0, 1.0), (2, 2.0)], "never arrived"),
        ([(0, 1.0), (2, 2.0), (1, 3.0)], "out of order"),
        ([(0, 1.0), (1, 2.0), (2, 3.0), (2, 4.0)], "for no reason"),
        ([(0, 1.0), (1, 7.0), (2, 7.5), (2, 13.0)], "for no reason"),  # settled long before the kill
        ([(0, 9.7), (1, 9.8), (2, 9.9), (1, 13.0), (2, 13.1)], "more than one repeat by one fault"),
    ],
)
def test_broken_promises_are_found(found: list[tuple[int, float]], message: str) -> None:
    [problem] = judge(arrivals(*found), [KILL], 3).problems()
    assert message in problem


def test_a_repeat_that_is_refused_and_retried_is_one() -> None:
    found = arrivals((0, 9.8), (1, 9.9))
    found += [Arrival(1, 13.0, delivered=False), Arrival(1, 13.1, delivered=True), *arrivals((2, 13.2))]
    assert judge(found, [KILL], 3).repeats == [KILL]


def test_each_repeat_has_a_fault_of_its_own() -> None:
    later = Fault("kill", "b", 11.0, 12.0)
    found = arrivals((0, 9.0), (1, 9.9), (1, 11.5), (2, 11.6), (2, 13.0))
    assert set(judge(found, [KILL, later], 3).repeats or ()) == {KILL, later}
    assert set(explain([[KILL, later], [KILL]]) or ()) == {KILL, later}
    assert explain([[KILL], [KILL]]) is None
