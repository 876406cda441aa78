"""The parts of long searches: how large they are, and what one of them found. The same for every engine."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from hookgw.store.reader import C, T
from hookgw.store.records import DeliveryQuery, DeliverySummary, micros

# A list with a filter may have to look at millions of deliveries to fill a page. After this many seconds it
# returns what it has found, with a cursor.
LIST_SECONDS = 1.0
# It looks at FIRST_ROWS deliveries, then at twice as many if that was quick, so that each part takes about
# PART_SECONDS: others take turns in between.
FIRST_ROWS = 1_000
LEAST_ROWS = 100
MOST_ROWS = 2**20
PART_SECONDS = 0.01

RECENT = 15.0
"""Seconds: what finished since then is found by its time, for all instances together. Beyond it, a list reads
the instance's deliveries: otherwise a client could make one statement read all that ever finished."""

EVENT_BYTES = 256 * 1024
"""A page of events has this many bytes of payloads at most, or one event."""

MOST_ATTEMPTS = 1_000
"""The most attempts in a report, the newest ones."""

LAST = 2**63 - 1
"""Behind every number."""


PAYLOAD_ROWS = 500
PAYLOAD_BYTES = 8 * 2**20
"""A part of a search in payloads looks at this many deliveries at most, and bytes, or at one payload."""


def next_rows(rows: int, seconds: float) -> int:
    """Return how many rows the next part looks at, after one with so many that took some seconds."""
    if seconds < PART_SECONDS / 2:
        return min(rows * 2, MOST_ROWS)
    # A disk that is not in memory may take a thousand times as long for a row.
    return max(LEAST_ROWS, rows // 2) if seconds > PART_SECONDS * 2 else rows


def is_recent(query: DeliveryQuery, now: float) -> bool:
    """Return whether to look for deliveries by the time at which they finished.

    A page that shows an instance asks for them every second. Deliveries that finished just now may be
    anywhere in a backlog of millions, but there are few of them.
    """
    since = query.finished_since if query.state is None else None
    return since is not None and now - since <= RECENT


def timed(search: Callable[[C], T]) -> Callable[[C], tuple[T, float]]:
    """Return a search that also tells how many seconds it took, without the wait for a connection."""

    def run(connection: C) -> tuple[T, float]:
        started = time.perf_counter()
        return search(connection), time.perf_counter() - started

    return run


class Looked(NamedTuple):
    """Which of some deliveries have payloads that match, and at how many of them the search has looked."""

    found: frozenset[int]
    looked_at: int


class SearchPart(NamedTuple):
    """A part of a search: the matching deliveries, the newest first.

    ``last`` is the lowest number among the deliveries that it looked at, ``None`` if there were none.
    """

    found: list[DeliverySummary]
    rows: int
    last: int | None


def spellings(text: str) -> tuple[bytes, bytes]:
    """Return how a text is spelled in a payload: as it is, and with escapes beyond ASCII."""
    plain = json.dumps(text, ensure_ascii=False)[1:-1]
    return plain.encode("utf-8", "surrogatepass"), json.dumps(text)[1:-1].encode()


def in_time(query: Any, mark: str, column: str = "accepted_at") -> tuple[list[str], dict[str, Any]]:
    """Return the conditions for ``since`` and ``until`` of a query, and their values.

    Args:
        query: has both, in seconds since the epoch.
        mark: how the engine writes a parameter; ``{}`` stands for its name.
        column: has the time.
    """
    conditions, given = [], {}
    for name, sign in (("since", ">="), ("until", "<")):
        moment = getattr(query, name)
        if moment is not None:
            conditions.append(f"{column} {sign} {mark.format(name)}")
            given[name] = micros(moment)
    return conditions, given
