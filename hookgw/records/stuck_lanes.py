"""Finds lanes that one delivery holds up, and words the advice. No I/O."""

from __future__ import annotations

from hookgw.records.deliveries import LaneState, LaneStatistics

STUCK_AFTER = 600.0
"""A lane is stuck if its head has been tried for more than so many seconds,"""
STUCK_BEHIND = 100
"""and at least so many deliveries wait behind it."""


def is_stuck(lane: LaneStatistics, now: float) -> bool:
    """Return whether one delivery holds a lane up. ``now`` is by the clock of the snapshot."""
    return (
        lane.tried_since is not None
        and now - lane.tried_since > STUCK_AFTER
        and lane.backlog > STUCK_BEHIND
        and lane.state is not LaneState.PAUSED
        and _may_be_of_event(lane)
    )


def _may_be_of_event(lane: LaneStatistics) -> bool:
    # A refused address or connection is not the event's fault, nor are too many requests: to skip it would
    # help nothing.
    return lane.has_reached and not lane.is_throttled


def skippable(lane: LaneStatistics) -> str:
    """Return the delivery that a lane tries in vain, as ``<instance>/<id>``.

    Empty if it tries none, or if the next delivery would fare no better.
    """
    # The head has failed, or waits on disk for its next attempt since before the start.
    fails = lane.tried_since is not None or (lane.state is LaneState.WAITING and lane.waits_for is None)
    if not fails or lane.head is None or not _may_be_of_event(lane):
        return ""
    return f"{lane.head_instance}/dlv_{lane.head}"


def advice_for(lane: LaneStatistics, now: float) -> str | None:
    """Return why a lane is held up, and the two remedies, in sentences; ``None`` if it is not stuck."""
    if not is_stuck(lane, now) or lane.head is None or lane.tried_since is None:
        return None
    minutes = int((now - lane.tried_since) // 60)
    return (
        f"The delivery dlv_{lane.head} of {lane.head_instance} has been tried for {minutes} minutes, and "
        f"{lane.backlog - 1:,} wait behind it. If the receiver fails on this one alone, skip it: hookgw "
        f"delivery cancel {lane.head_instance} dlv_{lane.head}. To give such a delivery up sooner, set "
        "retry.maxAge of the webhook."
    )
