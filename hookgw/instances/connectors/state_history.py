"""The former states of an instance's connection, read from the log of its events."""

from __future__ import annotations

from typing import NamedTuple

from hookgw.deliveries.history import DeliveryHistory
from hookgw.instances.connectors.session import kept_reason
from hookgw.instances.connectors.states import STATES
from hookgw.records.connectors import ConnectionState
from hookgw.store import EventQuery

CHANGES = 20
"""Changes on a page."""


class StateChange(NamedTuple):
    """A reported state: since when, in seconds since the epoch, and the ``statusReason``."""

    at: float
    state: ConnectionState
    reason: int | None


class StateChanges(NamedTuple):
    """The newest first. The cursor leads to older ones; ``None`` if there are none."""

    changes: list[StateChange]
    cursor: str | None


async def read_changes(history: DeliveryHistory, instance: str, cursor: str | None) -> StateChanges:
    """Return a page of the states that an instance's connection had; repetitions count once.

    Raises:
        Conflict, Invalid: the cursor is of another log, or none.
        TooManyRequests: too many reads of the instance are in progress.
        StorageUnavailable: the disk refuses.
    """
    page = await history.list_events(
        EventQuery(instance=instance, kinds=("CONNECTION_UPDATE",), cursor=cursor, limit=CHANGES)
    )
    changes: list[StateChange] = []
    for one in page.events:
        data = one.event.data if isinstance(one.event.data, dict) else {}
        word = data.get("state")
        state = STATES.get(word) if isinstance(word, str) else None
        if state is None:
            continue
        change = StateChange(one.accepted_at, state, kept_reason(data.get("statusReason")))
        if changes and changes[-1][1:] == change[1:]:
            changes.pop()  # it was so since the earlier of the two
        changes.append(change)
    return StateChanges(changes, page.cursor)
