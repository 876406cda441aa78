"""When a lane fails and when it has recovered."""

import pytest

from hookgw import Attempt, Outcome
from tests.public.core import LaneHealth

LANE, NOW = "https://crm.example/hook", 5.0


def attempt(outcome: Outcome, at: float = 10.0) -> Attempt:
    return Attempt(number=1, at=at, duration=0.1, outcome=outcome)


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.UNREACHABLE])
def test_a_lane_that_waits_after_a_failure_fails_once(outcome: Outcome) -> None:
    health = LaneHealth()
    assert health.attempted(LANE, "reg_1", attempt(outcome), NOW) is None
    failing = health.waits(LANE)
    assert failing is not None
    assert (failing.since, failing.registration, failing.last.outcome) == (10.0, "reg_1", outcome)
    health.attempted(LANE, "reg_2", attempt(outcome, at=20.0), NOW)
    assert health.waits(LANE) is None


def test_the_next_delivered_one_ends_it() -> None:
    health = LaneHealth()
    health.attempted(LANE, "reg_1", attempt(Outcome.UNREACHABLE), NOW)
    health.waits(LANE)
    health.attempted(LANE, "reg_1", attempt(Outcome.FAILED, at=20.0), NOW)
    ended = health.attempted(LANE, "reg_1", attempt(Outcome.DELIVERED, at=30.0), NOW)
    assert ended is not None
    assert ended.since == 10.0
    assert health.attempted(LANE, "reg_1", attempt(Outcome.DELIVERED), NOW) is None


def test_a_failure_without_a_wait_is_no_news() -> None:
    health = LaneHealth()
    health.attempted(LANE, "reg_1", attempt(Outcome.FAILED), NOW)
    assert health.attempted(LANE, "reg_1", attempt(Outcome.DELIVERED), NOW) is None
    assert health.waits(LANE) is None


@pytest.mark.parametrize(
    "outcome", [Outcome.FAILED, Outcome.UNANSWERED, Outcome.UNREACHABLE, Outcome.BLOCKED]
)
def test_whatever_a_lane_waits_for_is_reported(outcome: Outcome) -> None:
    health = LaneHealth()
    health.attempted(LANE, "reg_1", attempt(outcome), NOW)
    assert health.waits(LANE) is not None


@pytest.mark.parametrize("outcome", [Outcome.REJECTED, Outcome.GONE])
def test_what_is_final_for_one_payload_says_nothing_of_the_lane(outcome: Outcome) -> None:
    health = LaneHealth()
    health.attempted(LANE, "reg_1", attempt(outcome), NOW)
    assert health.waits(LANE) is None
    health.attempted(LANE, "reg_1", attempt(Outcome.FAILED), NOW)
    health.waits(LANE)
    assert health.attempted(LANE, "reg_1", attempt(outcome), NOW) is None
    assert health.attempted(LANE, "reg_1", attempt(Outcome.DELIVERED), NOW) is not None


def test_lanes_have_nothing_to_do_with_each_other() -> None:
    health = LaneHealth()
    health.attempted(LANE, "reg_1", attempt(Outcome.FAILED), NOW)
    assert health.waits("https://other.example/") is None
    health.waits(LANE)
    assert health.attempted("https://other.example/", "reg_1", attempt(Outcome.DELIVERED), NOW) is None


def test_a_lane_that_ended_fails_anew() -> None:
    health = LaneHealth()
    for _ in range(2):
        health.attempted(LANE, "reg_1", attempt(Outcome.FAILED), NOW)
        assert health.waits(LANE) is not None
        health.ended(LANE)
    assert health.attempted(LANE, "reg_1", attempt(Outcome.DELIVERED), NOW) is None
