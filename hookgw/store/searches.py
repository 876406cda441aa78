"""Long searches of the history, in parts of bounded size: the same steps for every engine.

An engine searches one part at a time, and others take turns in between.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

import trio

from hookgw.kernel.errors import Invalid
from hookgw.records.deliveries import parse_delivery_id
from hookgw.store.records import (
    DeliveryPage,
    DeliveryQuery,
    DeliverySummary,
    MinuteTally,
    Tally,
)

# A list with a filter may have to look at millions of deliveries to fill a page. After this many seconds it
# returns what it has found, with a cursor.
LIST_SECONDS = 1.0
# It looks at FIRST_ROWS deliveries, then at twice as many if that was quick, so that each part takes about
# PART_SECONDS: others take turns in between.
FIRST_ROWS = 1_000
LEAST_ROWS = 100
PART_SECONDS = 0.01

RECENT = 15.0
"""Seconds: what finished since then is found by its time, for all instances together. Beyond it, a list reads
the instance's deliveries: otherwise a client could make one statement read all that ever finished."""

EVENT_ROWS = 1_000
EVENT_BYTES = 256 * 1024
"""A page of events looks at this many deliveries at most, and has this many bytes of payloads at most, or one
event."""

MOST_ATTEMPTS = 1_000
"""The most attempts in a report, the newest ones."""

TALLY_ROWS = 2_000
"""Deliveries that one turn of the reader looks at: about 10 ms."""
TALLY_MOST = 50_000
"""Deliveries that all turns look at, the newest ones."""
LAST = 2**63 - 1
"""Behind every number."""


class SearchPart(NamedTuple):
    """A part of a search.

    Attributes:
        found: the matching deliveries, the newest first.
        rows: how many deliveries it looked at.
        last: the lowest number among those; ``None`` if there were none.
        seconds: how long it took.
    """

    found: list[DeliverySummary]
    rows: int
    last: int | None
    seconds: float


class TallyPart(NamedTuple):
    """A part of the counting.

    Attributes:
        minutes: of these deliveries.
        before, event: where the next part begins: the lowest numbers of a delivery and of an event so far.
        is_last: whether there are no further ones of the wanted time.
    """

    minutes: list[MinuteTally]
    before: int
    event: int
    is_last: bool


async def list_deliveries(
    query: DeliveryQuery, search: Callable[[int | None, int, int], Awaitable[SearchPart]]
) -> DeliveryPage:
    """Return a page of deliveries; see :meth:`hookgw.store.protocol.History.list_deliveries`.

    Args:
        query: which deliveries.
        search: searches a part, given the number that all deliveries must be below (``None`` for all), how
            many it may look at, and how many it may return.
    """
    before = None
    if query.cursor is not None:
        before = parse_delivery_id(query.cursor)
        if before is None:
            raise Invalid("cursor must be that of the previous page; leave it out for the first page.")
    deadline = trio.current_time() + LIST_SECONDS
    found: list[DeliverySummary] = []
    rows = max(FIRST_ROWS, query.limit + 1)
    while True:
        # One more than wanted, to know whether there is a next page.
        part = await search(before, rows, query.limit + 1 - len(found))
        found += part.found
        if len(found) > query.limit:
            page = found[: query.limit]
            return DeliveryPage(page, page[-1].cursor)
        if part.rows < rows:
            return DeliveryPage(found)
        before = part.last
        if trio.current_time() >= deadline:
            return DeliveryPage(found, f"dlv_{before}")
        # A disk that is not in memory may take a thousand times as long for a row.
        if part.seconds < PART_SECONDS / 2:
            rows *= 2
        elif part.seconds > PART_SECONDS * 2:
            rows = max(LEAST_ROWS, rows // 2)


async def tally(count: Callable[[TallyPart], Awaitable[TallyPart]]) -> Tally:
    """Count deliveries by minute; see :meth:`hookgw.store.protocol.History.tally`.

    Args:
        count: counts the part behind another one, of :data:`TALLY_ROWS` deliveries.
    """
    found: dict[float, MinuteTally] = {}
    part = TallyPart([], LAST, LAST, is_last=False)
    for _ in range(0, TALLY_MOST, TALLY_ROWS):
        part = await count(part)
        for at, *counts in part.minutes:
            former = found.get(at, MinuteTally(at, 0, 0, 0))
            found[at] = MinuteTally(at, *map(sum, zip(former[1:], counts, strict=True)))
        if part.is_last:
            break
    return Tally([found[at] for at in sorted(found)], is_complete=part.is_last)
