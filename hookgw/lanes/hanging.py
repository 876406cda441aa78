"""Asks the history whether a receiver hung before its lane forgot it, after a restart or a long rest."""

from __future__ import annotations

from hookgw.kernel.errors import StorageUnavailable
from hookgw.records.deliveries import Attempt, Delivery, DeliveryState, Outcome
from hookgw.store import DeliveryQuery, History

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
            died = found.state is DeliveryState.DEAD and _is_unanswered(found.last_attempt)
            return died and not any(map(_is_response, report.attempts if report else ()))
    return False


def _is_unanswered(attempt: Attempt | None) -> bool:
    return attempt is not None and attempt.outcome is Outcome.UNANSWERED


def _is_response(attempt: Attempt) -> bool:
    return attempt.status is not None and attempt.outcome is not Outcome.UNANSWERED
