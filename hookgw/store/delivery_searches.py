"""Searches for the deliveries of a selection, in parts of bounded size, in every engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from typing import Any, Generic, Protocol, TypeVar, cast

from hookgw.records.lanes import LaneRule
from hookgw.records.selection import DeliverySelection
from hookgw.store import searches
from hookgw.store.erasure_statements import Now_contra
from hookgw.store.reader import C, C_contra, ConnectionReader
from hookgw.store.records import NO_LIMIT, CancelQuery, ReplayQuery

Now = TypeVar("Now")
"""What an engine calls a moment."""
Found = TypeVar("Found", bound=Mapping[int, Any])
Found_co = TypeVar("Found_co", bound=Mapping[int, Any], covariant=True)
"""Deliveries that are to be sent again, as the search of an engine gives them."""


class SearchStatements(Protocol[C_contra, Now_contra, Found_co]):
    """What an engine brings, as a module; see :class:`hookgw.store.steps.PendingStatements`."""

    def find_pending(
        self,
        connection: C_contra,
        query: CancelQuery,
        *,
        after: int,
        now: Now_contra,
        limit: int,
        rows: int,
        spared: Collection[int],
    ) -> tuple[list[int], int | None]:
        """Find the next deliveries to cancel."""

    def find_finished(
        self,
        connection: C_contra,
        query: ReplayQuery,
        rules: Mapping[str, LaneRule],
        *,
        after: int,
        now: Now_contra,
        limit: int,
        size: int,
        rows: int,
    ) -> tuple[Found_co, int | None]:
        """Find the next deliveries to replay, in the order of their numbers.

        They go to registrations that have a rule, and have up to ``size`` bytes of payload, unless the first
        one alone has more.
        """

    def look_at_payloads(
        self, connection: C_contra, query: DeliverySelection, seqs: Collection[int]
    ) -> searches.Looked:
        """Look at the payloads of deliveries, in their order; bounded by their bytes."""

    def count_by_registration(self, connection: C_contra, seqs: Collection[int]) -> dict[str, int]:
        """Return how many of these deliveries go to each registration."""


class DeliverySearches(Generic[C, Now, Found]):
    """Each search begins behind a number, and returns what it found, and where the next one begins."""

    def __init__(self, reader: ConnectionReader[C], statements: SearchStatements[C, Now, Found]) -> None:
        self._reader = reader
        self._sql = statements

    async def find_pending(
        self, query: CancelQuery, after: int, now: Now, limit: int, spared: Collection[int], rows: int
    ) -> tuple[list[int], int | None]:
        limit = min(limit, searches.PAYLOAD_ROWS) if query.reads_payloads else limit
        after = max(after, (query.failed_since or 0) - 1)
        find = partial(self._sql.find_pending, query=query, after=after, now=now, limit=limit)
        found, last = await self._reader.run(partial(find, rows=rows, spared=spared))
        matches, last = await self._look(query, found, last)
        return [seq for seq in found if seq in matches], last

    async def find_finished(
        self,
        query: ReplayQuery,
        rules: Mapping[str, LaneRule],
        after: int,
        now: Now,
        limit: int,
        size: int,
        rows: int,
    ) -> tuple[Found, int | None]:
        limit = min(limit, searches.PAYLOAD_ROWS) if query.reads_payloads else limit
        after = max(after, (query.failed_since or 0) - 1)
        find = partial(self._sql.find_finished, query=query, rules=rules, after=after, now=now, size=size)
        found, last = await self._reader.run(partial(find, limit=limit, rows=rows))
        matches, last = await self._look(query, found, last)
        if len(matches) < len(found):
            found = cast("Found", {seq: found[seq] for seq in found if seq in matches})
        return found, last

    async def _look(
        self, query: DeliverySelection, found: Collection[int], last: int | None
    ) -> tuple[Collection[int], int | None]:
        """Return which deliveries have payloads that match, and behind which number the search goes on."""
        if not query.reads_payloads or not found:
            return found, last
        seqs = sorted(found)
        look = partial(self._sql.look_at_payloads, query=query, seqs=seqs)
        looked = await self._reader.run(look)
        return looked.found, last if looked.looked_at == len(seqs) else seqs[looked.looked_at - 1]

    async def count_pending(self, query: CancelQuery, now: Now, most: int, rows: int) -> Mapping[str, int]:
        async def find(after: int, left: int) -> tuple[Collection[int], int | None]:
            return await self.find_pending(query, after, now, left, (), rows)

        return await self._count(find, most)

    async def count_finished(
        self, query: ReplayQuery, rules: Mapping[str, LaneRule], now: Now, most: int, *, step: int, rows: int
    ) -> Mapping[str, int]:
        async def find(after: int, left: int) -> tuple[Collection[int], int | None]:
            return await self.find_finished(query, rules, after, now, min(left, step), NO_LIMIT, rows)

        return await self._count(find, most)

    async def _count(
        self, find: Callable[[int, int], Awaitable[tuple[Collection[int], int | None]]], most: int
    ) -> Mapping[str, int]:
        counts: Counter[str] = Counter()
        after: int | None = 0
        while after is not None and counts.total() < most:
            found, after = await find(after, most - counts.total())
            if found:
                seqs = list(found)
                counts.update(await self._reader.run(partial(self._sql.count_by_registration, seqs=seqs)))
        return counts


def end_of_search(
    found: Collection[int], limit: int, after: int, last: int | None, *, is_end: bool
) -> int | None:
    """Return behind which number a search goes on; ``None`` at the end.

    Args:
        found: what it returns.
        limit: the most that it may return.
        after: where it began.
        last: the last number that it looked at.
        is_end: whether there was no more to look at.
    """
    if len(found) == limit:
        return max(found, default=after)
    return None if is_end else last
