"""Surveys the figures of lanes, registrations and instances for the metrics.

There may be tens of thousands of each, and a look at all of them takes longer than other tasks should wait.
So a survey is a generator that pauses often.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Generator, Iterable, Sequence
from itertools import islice
from typing import TypeAlias, get_args

import msgspec

from hookgw.records.deliveries import LaneState, LaneStatistics, WaitsFor
from hookgw.records.registrations import Registration

WORST_LANES = 100
"""How many lanes have their own metric: those with the largest backlogs."""

WORST_INSTANCES = 100
"""How many instances have their own metric: those with the most pending."""

WORST_REGISTRATIONS = 100
"""How many registrations have their own metrics: the largest backlogs, the longest waits of a next delivery,
and the longest times of failing."""

STEP = 200
"""Lanes that are looked at between two pauses: about a millisecond."""

_RANKED_AT_ONCE = 2000

Ranked: TypeAlias = list[tuple[str, float]]
"""The worst of a figure, as pairs of an id and the figure, the worst first."""


class Sources(msgspec.Struct):
    """The sources of a survey, empty until the gateway is composed.

    Attributes:
        now: reads the steady clock.
        lanes: yields a snapshot of every lane; it may be paused.
        backlogs: yields the registrations with pending deliveries, by id, and how many each has.
        failing: yields the registrations that fail, and since when by the steady clock.
        instances: yields the instances with pending deliveries, and the deliveries and bytes of each.
    """

    now: Callable[[], float] = float
    lanes: Callable[[], Iterable[LaneStatistics]] = tuple
    backlogs: Callable[[], Iterable[tuple[str, int]]] = tuple
    failing: Callable[[], Iterable[tuple[Registration, float]]] = tuple
    instances: Callable[[], Iterable[tuple[str, tuple[int, int]]]] = tuple


class Survey(msgspec.Struct):
    """The figures of a survey.

    Attributes:
        lanes, backlog, oldest: the lanes, their pending deliveries, and the seconds since the oldest of these
            entered the outbox, by state.
        waiting: the lanes with a delivery to send, by the reason of their wait.
        unfetched: the longest time, in seconds, for which a delivery waits for a receiver that fetches, and
            that has not fetched.
        worst_lanes, registrations: with the largest backlogs, registrations by id.
        heads: the seconds for which the next delivery of a registration has been in the outbox, by id.
        failing: the seconds since the first failure in a row of a registration, by id.
        instances: the instances with the most deliveries, and those with the most bytes.
    """

    lanes: dict[LaneState, int] = msgspec.field(default_factory=lambda: dict.fromkeys(LaneState, 0))
    backlog: dict[LaneState, int] = msgspec.field(default_factory=lambda: dict.fromkeys(LaneState, 0))
    oldest: dict[LaneState, float] = msgspec.field(default_factory=lambda: dict.fromkeys(LaneState, 0.0))
    waiting: dict[WaitsFor, int] = msgspec.field(default_factory=lambda: dict.fromkeys(get_args(WaitsFor), 0))
    unfetched: float = 0.0
    worst_lanes: list[LaneStatistics] = []
    registrations: Ranked = []
    heads: Ranked = []
    failing: Ranked = []
    instances: tuple[Ranked, Ranked] = ([], [])


def survey(sources: Sources) -> Generator[None, None, Survey]:
    """Look at everything once, with pauses.

    A change during a pause may be counted or not.
    """
    found, now = Survey(), sources.now()
    # Only those with a backlog: idle lanes would crowd out the ones to look at.
    backlogs: list[LaneStatistics] = []
    heads: dict[str, float] = {}
    lanes = iter(sources.lanes())
    while step := list(islice(lanes, STEP)):
        for lane in step:
            found.lanes[lane.state] += 1
            found.backlog[lane.state] += lane.backlog
            if lane.backlog:
                backlogs.append(lane)
            if lane.waits_for is not None:
                found.waiting[lane.waits_for] += 1
            if lane.waits_for == "fetch" and lane.head_since is not None:
                since = max(lane.head_since, lane.fetched_at or 0.0)
                found.unfetched = max(found.unfetched, now - since)
            if lane.head_since is not None:
                age = now - lane.head_since
                found.oldest[lane.state] = max(found.oldest[lane.state], age)
                heads[lane.registration] = max(heads.get(lane.registration, 0.0), age)
        # Now and then only the worst are kept, to save memory.
        if len(backlogs) > STEP + WORST_LANES:
            backlogs = _largest_backlogs(backlogs)
        yield
    found.worst_lanes = _largest_backlogs(backlogs)
    yield
    found.heads = yield from _worst(WORST_REGISTRATIONS, list(heads.items()))
    # Each source is read at once: what it yields from changes during a pause.
    found.registrations = yield from _worst(WORST_REGISTRATIONS, list(sources.backlogs()))
    failing = [(registration.id, now - since) for registration, since in sources.failing()]
    found.failing = yield from _worst(WORST_REGISTRATIONS, failing)
    held = list(sources.instances())
    deliveries = yield from _worst(WORST_INSTANCES, [(name, amount[0]) for name, amount in held])
    size = yield from _worst(WORST_INSTANCES, [(name, amount[1]) for name, amount in held])
    found.instances = deliveries, size
    return found


def _largest_backlogs(lanes: list[LaneStatistics]) -> list[LaneStatistics]:
    return heapq.nlargest(WORST_LANES, lanes, key=lambda lane: lane.backlog)


def _worst(count: int, figures: Sequence[tuple[str, float]]) -> Generator[None, None, Ranked]:
    worst: Ranked = []
    for start in range(0, len(figures), _RANKED_AT_ONCE):
        some = figures[start : start + _RANKED_AT_ONCE]
        worst = heapq.nlargest(count, [*worst, *some], key=lambda figure: figure[1])
        yield
    return worst
