from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookgw import DeliveryState, Outcome, Registration
from tests.public.config import DeliverySettings
from tests.public.lanes import Decision, Policy, decide, is_expired, longest_wait, policy_of
from tests.public.records import RetryOptions

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


WAITED_FOR = (Outcome.UNREACHABLE, Outcome.BLOCKED, Outcome.UNANSWERED)


def judge(outcome: Outcome, **more: Any) -> Decision:
    given = {"failures": 0, "streak": 0, "age": 0.0, "retry_after": None, "chance": 0.0, **more}
    return decide(outcome, POLICY, **given)


def test_a_delivery_is_settled() -> None:
    assert judge(Outcome.DELIVERED, failures=2) == Decision(DeliveryState.DELIVERED, failures=2)


@pytest.mark.parametrize("outcome", [Outcome.REJECTED, Outcome.GONE])
def test_a_final_outcome_is_dead_at_once(outcome: Outcome) -> None:
    decision = judge(outcome)
    assert decision.state is DeliveryState.DEAD
    assert decision.reason
    assert decision.disables is (outcome is Outcome.GONE)


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.UNANSWERED])
@pytest.mark.parametrize(("failures", "wait"), [(0, 5.0), (1, 15.0), (2, 30.0)])
def test_a_failure_waits_as_the_schedule_says(failures: int, wait: float, outcome: Outcome) -> None:
    decision = judge(outcome, failures=failures)
    assert decision == Decision(DeliveryState.PENDING, wait=wait, failures=failures + 1)


@pytest.mark.parametrize(("failures", "wait"), [(0, 15.0), (1, 15.0), (2, 30.0)])
def test_after_a_deadline_no_wait_is_shorter_than_the_timeout(failures: int, wait: float) -> None:
    assert judge(Outcome.UNANSWERED, failures=failures, timed_out=True).wait == wait


def test_a_receiver_that_hangs_is_waited_for() -> None:
    for failures in (0, 2, 3):
        decision = judge(Outcome.UNANSWERED, failures=failures, streak=7, hangs=True)
        assert decision == Decision(DeliveryState.PENDING, wait=30.0, failures=failures)
    assert judge(Outcome.UNANSWERED, hangs=True, age=1000.1).state is DeliveryState.DEAD
    # Another answer is about this event, whatever became of the one before.
    assert judge(Outcome.FAILED, failures=3, hangs=True).state is DeliveryState.DEAD


def test_without_a_schedule_an_attempt_that_was_sent_is_the_only_one() -> None:
    policy = msgspec.structs.replace(POLICY, schedule=())
    for hangs in (False, True):
        given = {"failures": 0, "streak": 0, "age": 0.0, "retry_after": None, "chance": 0.0, "hangs": hangs}
        assert decide(Outcome.UNANSWERED, policy, **given).state is DeliveryState.DEAD  # type: ignore[arg-type]
        assert decide(Outcome.UNREACHABLE, policy, **given).state is DeliveryState.PENDING  # type: ignore[arg-type]


@pytest.mark.parametrize(("broken_sends", "wait", "failures"), [(1, 1.0, 0), (2, 1.0, 0), (3, 5.0, 1)])
def test_the_third_request_that_breaks_in_its_body_follows_the_schedule(
    broken_sends: int, wait: float, failures: int
) -> None:
    decision = judge(Outcome.UNREACHABLE, broken_sends=broken_sends)
    assert decision == Decision(DeliveryState.PENDING, wait=wait, failures=failures)


@pytest.mark.parametrize(
    "facts", [{"outcome": Outcome.BLOCKED}, {"outcome": Outcome.UNREACHABLE, "status": 429}]
)
@pytest.mark.parametrize(("streak", "wait"), [(0, 1.0), (1, 2.0), (9, 300.0)])
def test_a_refused_address_and_a_limit_are_waited_for_from_a_second_on(
    facts: dict[str, Any], streak: int, wait: float
) -> None:
    outcome, status = facts["outcome"], facts.get("status")
    policy = msgspec.structs.replace(POLICY, first_wait=0.05)
    decision = decide(
        outcome, policy, status=status, failures=2, streak=streak, age=0.0, retry_after=None, chance=0.0
    )
    assert decision == Decision(DeliveryState.PENDING, wait=wait, failures=2)


def test_the_reason_of_an_expiry_names_what_was_waited_for() -> None:
    reasons = [judge(outcome, age=2000.0, hangs=True).reason or "" for outcome in WAITED_FOR]
    assert [reason.split(" until ")[0] for reason in reasons] == [
        "The receiver was unreachable",
        "The target address was refused",
        "The receiver did not respond",
    ]


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


@pytest.mark.parametrize(
    "outcome", [Outcome.FAILED, Outcome.UNANSWERED, Outcome.UNREACHABLE, Outcome.BLOCKED]
)
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
        ({"retry_after_max": 0.0, "schedule": (), "max_wait": 10.0}, 16.5),  # the timeout
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
