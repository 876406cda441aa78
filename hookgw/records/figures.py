"""Figures over time: what became of events and deliveries, counted in steps of time. No I/O.

Durations are counted in a histogram with logarithmic buckets, of which each is 8 % wider than the one before:
histograms of several steps, webhooks or nodes are added up, and a percentile is within 4 % of the exact one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Literal, NamedTuple

import msgspec

from hookgw.kernel.units import DAY
from hookgw.records.deliveries import Attempt, Outcome
from hookgw.records.rhythms import HOUR

_RATIO = 1.08
_SCALE = 1 / math.log(_RATIO)
# In seconds; what is shorter is in the bucket 0, and takes half of it.
_LEAST = 0.0001
_OFFSET = 1 - math.log(_LEAST) * _SCALE


class Span(StrEnum):
    """How far back figures go."""

    HOUR = "1h"
    DAY = "24h"
    WEEK = "7d"
    MONTH = "30d"

    @property
    def seconds(self) -> float:
        return _SECONDS[self]


MINUTE, FIVE_MINUTES = 60, 300
"""Lengths of steps in seconds; those of more than a day ago are hours."""
_SECONDS = {Span.HOUR: HOUR, Span.DAY: DAY, Span.WEEK: 7 * DAY, Span.MONTH: 30 * DAY}
# 48 to 60 steps, for which a chart has room.
_STEPS = {Span.HOUR: FIVE_MINUTES, Span.DAY: HOUR // 2, Span.WEEK: 3 * HOUR, Span.MONTH: 12 * HOUR}


def bucket_of(duration: float) -> int:
    """Return the number of the bucket that a duration in seconds is counted in."""
    # Called twice for each delivery.
    return int(math.log(duration) * _SCALE + _OFFSET) if duration > _LEAST else 0


class Holder(NamedTuple):
    """Who has figures.

    Attributes:
        kind: what it is.
        name: ``name=value`` of a tag, the name of an instance, the id of a registration; empty for a gateway.
    """

    kind: Literal["gateway", "tag", "instance", "webhook"]
    name: str = ""

    @property
    def step(self) -> int:
        """The length of the steps in which its figures are kept for a day."""
        return MINUTE if self.kind in ("gateway", "tag") else FIVE_MINUTES

    def step_of(self, span: Span) -> int:
        """Return the length of the steps of a series."""
        return self.step if span is Span.HOUR else _STEPS[span]


GATEWAY = Holder("gateway")


class Percentiles(NamedTuple):
    """Durations in seconds that 50, 95 and 99 % of the others do not exceed."""

    p50: float
    p95: float
    p99: float


def percentiles_of(buckets: Mapping[int, int]) -> Percentiles | None:
    """Return the percentiles of a histogram: counts by bucket; ``None`` if it is empty."""
    total = sum(buckets.values())
    if not total:
        return None
    ranks = [math.ceil(total * share) for share in (0.5, 0.95, 0.99)]
    found: list[float] = []
    seen = 0
    for bucket in sorted(buckets):
        seen += buckets[bucket]
        while len(found) < len(ranks) and seen >= ranks[len(found)]:
            # The geometric mean of the bucket's ends stands for its durations.
            found.append(math.exp((bucket + 0.5 - _OFFSET) / _SCALE) if bucket else _LEAST / 2)
    return Percentiles(*found)


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """What happened in some time.

    Attributes:
        accepted: events; for a webhook, the events that it wanted.
        delivered, dead, dropped: deliveries that reached this state. A delivery that is sent again is
            counted again.
        failed: attempts that did not deliver, by the status of the response, such as ``500``, or else by
            their outcome, such as ``unreachable``.
        receiver: how long receivers took to respond, or let an attempt wait in vain.
        whole: how long deliveries took from acceptance, or from when they were sent again, to a 2xx.
        oldest_pending: the greatest age of a pending delivery, in seconds, as it was noted once a minute;
            ``None`` if none was pending then.
    """

    accepted: int = 0
    delivered: int = 0
    dead: int = 0
    dropped: int = 0
    failed: Mapping[str, int] = {}
    receiver: Percentiles | None = None
    whole: Percentiles | None = None
    oldest_pending: float | None = None

    @property
    def failures(self) -> int:
        """How many attempts failed."""
        return sum(self.failed.values())


class FigurePoint(NamedTuple):
    """The figures of one step of a series, which begins at ``at``, in seconds since the epoch."""

    at: float
    figures: Figures


class FigureSeries(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a gateway, a tag, an instance or a webhook over a span.

    Attributes:
        since, until: the span, in seconds since the epoch; both are multiples of ``step``, and the last step
            has not ended.
        step: the length of a step in seconds.
        points: in the order of time, without steps in which nothing happened and nothing was pending.
        total: of the whole span.
        oldest_pending: since when the oldest pending delivery is pending now; ``None`` if none is.
    """

    span: Span
    since: float
    until: float
    step: float
    points: Sequence[FigurePoint] = ()
    total: Figures = Figures()
    oldest_pending: float | None = None


class Sparkline(NamedTuple):
    """How many deliveries reached a state in each step of a span, the oldest first, zeros included."""

    delivered: Sequence[int]
    dead: Sequence[int]


class FigureCounts(msgspec.Struct):
    """Figures that can be added up.

    Attributes:
        failed: by :func:`failure_number`.
        receiver, whole: by bucket.
        oldest: the age of the oldest pending delivery in milliseconds, 0 for none: of two, the greater one.
    """

    accepted: int = 0
    delivered: int = 0
    dead: int = 0
    dropped: int = 0
    failed: dict[int, int] = {}
    receiver: dict[int, int] = {}
    whole: dict[int, int] = {}
    oldest: int = 0

    def add(self, other: FigureCounts) -> None:
        self.accepted += other.accepted
        self.delivered += other.delivered
        self.dead += other.dead
        self.dropped += other.dropped
        self.oldest = max(self.oldest, other.oldest)
        for mine, theirs in (
            (self.failed, other.failed),
            (self.receiver, other.receiver),
            (self.whole, other.whole),
        ):
            for number, count in theirs.items():
                mine[number] = mine.get(number, 0) + count

    def figures(self) -> Figures:
        return Figures(
            accepted=self.accepted,
            delivered=self.delivered,
            dead=self.dead,
            dropped=self.dropped,
            failed={_WORDS.get(number, str(number)): count for number, count in sorted(self.failed.items())},
            receiver=percentiles_of(self.receiver),
            whole=percentiles_of(self.whole),
            oldest_pending=self.oldest / 1000 if self.oldest else None,
        )


# Of attempts without a status. No status is below 100. The numbers are stored: new outcomes come behind.
_CODES = {outcome: number for number, outcome in enumerate(Outcome, 1)}
_WORDS = {number: outcome.value for outcome, number in _CODES.items()}


def failure_number(attempt: Attempt) -> int:
    """Return the number under which a failed attempt is counted: its status, or one of its outcome."""
    return attempt.status or _CODES[attempt.outcome]
