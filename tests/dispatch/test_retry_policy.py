from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookgw.config.settings import DeliverySettings
from hookgw.dispatch.retry_policy import Decision, Policy, decide, is_expired, longest_wait, policy_of
from hookgw.models.deliveries import DeliveryState, Outcome
from hookgw.models.registrations import Registration, RetryOptions

POLICY = Policy(
    schedule=(5.0, 15.0, 30.0),
    jitter=0.1,
    first_wait=1.0,
    max_wait=300.0,
    retry_after_max=3600.0,
    max_age=1000.0,
    disable_after=5000.0,
    timeout=15.0,
)


def judge(outcome: Outcome, **more: Any) -> Decision:
    given = {"failures": 0, "streak": 0, "age": 0.0, "retry_after": None, "chance": 0.0, **more}
    return decide(outcome, POLICY, **given)


def test_a_delivery_is_settled() -> None:
    assert judge(Outcome.DELIVERED, failures=2) == Decision(DeliveryState.DELIVERED, failures=2)


@pytest.mark.parametrize("outcome", [Outcome.REJECTED, Outcome.BLOCKED, Outcome.GONE])
def test_a_final_outcome_is_dead_at_once(outcome: Outcome) -> None:
    decision = judge(outcome)
    assert decision.state is DeliveryState.DEAD
    assert decision.reason
    assert decision.disables is (outcome is Outcome.GONE)


@pytest.mark.parametrize(("failures", "wait"), [(0, 5.0), (1, 15.0), (2, 30.0)])
def test_a_failure_waits_as_the_schedule_says(failures: int, wait: float) -> None:
    decision = judge(Outcome.FAILED, failures=failures)
    assert decision == Decision(DeliveryState.PENDING, wait=wait, failures=failures + 1)


def test_after_the_schedule_a_failure_is_dead() -> None:
    decision = judge(Outcome.FAILED, failures=3)
    assert decision.state is DeliveryState.DEAD
    assert decision.reason == "The retry schedule is exhausted (failed attempts: 4)."


@pytest.mark.parametrize(
    ("streak", "wait"), [(0, 1.0), (1, 2.0), (2, 4.0), (8, 256.0), (9, 300.0), (5000, 300.0)]
)
def test_waits_for_an_unreachable_receiver_double(streak: int, wait: float) -> None:
    assert judge(Outcome.UNREACHABLE, streak=streak, failures=2) == Decision(
        DeliveryState.PENDING, wait=wait, failures=2
    )


def test_waits_for_an_unreachable_receiver_end_at_max_age() -> None:
    assert judge(Outcome.UNREACHABLE, age=1000.0).state is DeliveryState.PENDING
    assert judge(Outcome.UNREACHABLE, age=1000.1).state is DeliveryState.DEAD


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.UNREACHABLE])
@given(
    chance=st.floats(0, 1),
    retry_after=st.none() | st.floats(0, 1e12),
    failures=st.integers(0, 2),
    streak=st.integers(0, 10_000),
)
def test_a_wait_is_never_early_and_never_over_the_cap(
    outcome: Outcome, chance: float, retry_after: float | None, failures: int, streak: int
) -> None:
    base = judge(outcome, failures=failures, streak=streak).wait
    wait = judge(outcome, failures=failures, streak=streak, chance=chance, retry_after=retry_after).wait
    assert wait >= max(base, min(retry_after or 0.0, POLICY.retry_after_max))
    assert wait <= max(base * (1 + POLICY.jitter), POLICY.retry_after_max)
    assert wait <= longest_wait(POLICY)


@pytest.mark.parametrize(
    ("more", "longest"),
    [
        ({}, 3600.0),
        ({"retry_after_max": 0.0}, 330.0),
        ({"retry_after_max": 0.0, "schedule": (5.0, 400.0, 2.0)}, 440.0),
        ({"retry_after_max": 0.0, "schedule": (), "max_wait": 10.0}, 11.0),
    ],
)
def test_the_longest_wait_of_all_rules(more: dict[str, Any], longest: float) -> None:
    assert longest_wait(msgspec.structs.replace(POLICY, **more)) == pytest.approx(longest)


@pytest.mark.parametrize(
    ("age", "streak", "expired"), [(1000.0, 5, False), (1000.1, 0, False), (1000.1, 1, True)]
)
def test_a_delivery_expires_only_after_an_unreachable_attempt(age: float, streak: int, expired: bool) -> None:
    assert is_expired(POLICY, age=age, streak=streak) is expired


def test_the_rules_of_a_registration_override_the_settings() -> None:
    settings = DeliverySettings()
    plain = Registration(id="reg_1", instance="a", url="http://a/")
    own = Registration(
        id="reg_1",
        instance="a",
        url="http://a/",
        timeout=3.0,
        retry=RetryOptions(schedule=(), max_age=60.0, disable_after=70.0),
    )
    assert policy_of(plain, settings).schedule == tuple(settings.schedule)
    assert policy_of(plain, settings).timeout == settings.timeout
    changed = policy_of(own, settings)
    assert (changed.schedule, changed.max_age, changed.disable_after, changed.timeout) == (
        (),
        60.0,
        70.0,
        3.0,
    )
    assert changed.max_wait == settings.unreachable_max_wait
