"""Reads what a lane lost by a restart or a long rest: whether its receiver hung, its head's last attempt."""

from __future__ import annotations

from hookgw.kernel.errors import StorageUnavailable
from hookgw.lanes.lane_memory import LaneMemory
from hookgw.records.deliveries import Delivery, DeliveryState, Outcome
from hookgw.store import DeliveryQuery, History, Outbox

_NEWEST = 100
"""How many deliveries are looked at: the one before is among them, unless a registration has many lanes."""


async def died_unanswered(history: History, head: Delivery) -> bool:
    """Return whether the delivery before a lane's head died *unanswered*, without any answer since."""
    query = DeliveryQuery(
        instance=head.event.instance,
        registrations=(head.registration,),
        until=head.accepted_at + 0.001,  # those of one batch were accepted at the same time
        limit=_NEWEST,
    )
    try:
        page = await history.list_deliveries(query)
        report = await history.find_delivery(head.event.instance, head.id) if head.attempts else None
    except StorageUnavailable:
        return False
    for found in page.deliveries:
        if found.lane == head.lane and found.seq < head.seq and found.attempts:
            last = found.last_attempt
            was_unanswered = last is not None and last.outcome is Outcome.UNANSWERED
            is_answered = any(
                attempt.status is not None and attempt.outcome is not Outcome.UNANSWERED
                for attempt in (report.attempts if report else ())
            )
            return found.state is DeliveryState.DEAD and was_unanswered and not is_answered
    return False


async def recall_last_attempt(memory: LaneMemory, outbox: Outbox, head: Delivery) -> None:
    """Note the head's last attempt, which another process made: before a restart or a takeover."""
    try:
        attempt = await outbox.last_attempt(head.seq)
    except StorageUnavailable:
        return  # it is only shown; the next attempt says it, too
    if attempt is not None:
        memory.recall(attempt)
