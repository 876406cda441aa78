"""Figures over time, without a store."""

import random

from hookgw import Attempt, Outcome
from tests.public.records import (
    GATEWAY,
    FigureCounts,
    Holder,
    Span,
    bucket_of,
    failure_number,
    percentiles_of,
)


def test_percentiles_are_within_five_percent() -> None:
    chance = random.Random(7)
    for scale in (0.001, 0.05, 1.0, 30.0, 3600.0):
        durations = sorted(scale * chance.lognormvariate(0, 1.5) for _ in range(2_000))
        counts = FigureCounts()
        # In parts, as steps and nodes count them.
        for start in range(0, len(durations), 500):
            part: dict[int, int] = {}
            for one in durations[start : start + 500]:
                part[bucket_of(one)] = part.get(bucket_of(one), 0) + 1
            counts.add(FigureCounts(whole=part))
        found = counts.figures().whole
        assert found is not None
        for value, rank in zip(found, (1_000, 1_900, 1_980), strict=True):
            assert abs(value / durations[rank - 1] - 1) < 0.05


def test_nothing_has_no_percentiles() -> None:
    assert percentiles_of({}) is None
    assert bucket_of(0.0) == bucket_of(-1.0) == 0


def test_failures_are_by_status_or_outcome() -> None:
    made = [
        Attempt(number=1, at=0, duration=0, outcome=outcome, status=status)
        for outcome, status in ((Outcome.FAILED, 500), (Outcome.UNREACHABLE, None), (Outcome.BLOCKED, None))
    ]
    counts = FigureCounts(failed={failure_number(one): 2 for one in made})
    assert counts.figures().failed == {"500": 2, "blocked": 2, "unreachable": 2}
    assert counts.figures().failures == 6


def test_only_the_gateway_and_tags_have_minutes() -> None:
    assert [holder.step_of(Span.HOUR) for holder in (GATEWAY, Holder("webhook", "reg_1"))] == [60, 300]
    assert all(one.seconds % GATEWAY.step_of(one) == 0 for one in Span)
