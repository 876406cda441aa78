"""The entries that count a commit: a row of ``figure_news``; see :mod:`hookgw.store.figures`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

import msgspec

from hookgw.records.deliveries import DELIVERED_OUTCOME, DeliveryState, Outcome, Settlement
from hookgw.records.figures import FigureCounts, bucket_of, failure_number

Entry: TypeAlias = tuple[int, int | str, int, int, int, int]
"""What is counted: one of the numbers below, the registration, the number of the instance, a status or a
count, and the buckets of the receiver's time and of the whole way, or -1.

A registration is a number or an id, as the engine has it.
"""

# Events of an instance, each with a delivery to the registration, if there is one; further deliveries of
# events; dead letters without an attempt.
ACCEPTED, WANTED, BURIED = 0, 1, 2
# Deliveries, each with its last attempt; of those that stay pending, the attempt.
_PENDING, DELIVERED, _DEAD, _DROPPED = 3, 4, 5, 6
_ENDS = {
    DeliveryState.PENDING: _PENDING,
    DeliveryState.DELIVERED: DELIVERED,
    DeliveryState.DEAD: _DEAD,
    DeliveryState.DROPPED: _DROPPED,
}

encode_news = msgspec.json.Encoder().encode
decode_news = msgspec.json.Decoder(list[tuple[int, list[Entry]]]).decode
"""Return the times, in whole seconds, and the entries of an array of news."""


def entry_of(settlement: Settlement, registration: int | str, instance: int, queued_at: float) -> Entry:
    """Return what counts a settlement of a pending delivery, which was queued at that time."""
    attempt, end = settlement.attempt, _ENDS[settlement.state]
    status, receiver, whole = 0, -1, -1
    if attempt is not None:
        outcome = attempt.outcome
        if outcome is not DELIVERED_OUTCOME:
            status = failure_number(attempt)
        # Without an answer, only a timeout says something of the receiver's time.
        if outcome is DELIVERED_OUTCOME or attempt.status is not None or outcome is Outcome.UNANSWERED:
            receiver = bucket_of(attempt.duration)
    if end == DELIVERED:
        whole = bucket_of(settlement.at - queued_at)
    return end, registration, instance, status, receiver, whole


def count(  # noqa: C901 -- reads once from top to bottom
    counts: Mapping[tuple[int | str, int], FigureCounts], entries: Iterable[Entry]
) -> dict[tuple[int | str, int], int]:
    """Count entries by registration and instance; return how many further deliveries there were."""
    further: dict[tuple[int | str, int], int] = {}
    # No function for one entry: there are two for each event.
    for what, registration, instance, number, receiver, whole in entries:
        found = counts[registration, instance]
        if what == DELIVERED:
            found.delivered += 1
            if whole >= 0:
                found.whole[whole] = found.whole.get(whole, 0) + 1
        elif what == ACCEPTED:
            found.accepted += number
            continue
        elif what == WANTED:
            further[registration, instance] = further.get((registration, instance), 0) + number
            continue
        elif what == BURIED:
            found.dead += number
            continue
        elif what == _DEAD:
            found.dead += 1
        elif what == _DROPPED:
            found.dropped += 1
        if number:
            found.failed[number] = found.failed.get(number, 0) + 1
        if receiver >= 0:
            found.receiver[receiver] = found.receiver.get(receiver, 0) + 1
    return further
