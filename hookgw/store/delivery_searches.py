"""Searches for the deliveries of a selection, in parts of bounded size, in every engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, cast

from hookgw.records.lanes import LaneRule
from hookgw.records.selection import DeliverySelection
from hookgw.store import searches
from hookgw.store.erasure_statements import Now_contra
from hookgw.store.new_lanes import fitting
from hookgw.store.reader import C, C_contra, ConnectionReader
from hookgw.store.records import CancelQuery, ReplayQuery

Now = TypeVar("Now")
"""What an engine calls a moment."""
Now_co = TypeVar("Now_co", covariant=True)
Found = TypeVar("Found", bound=Mapping[int, Any])
Found_co = TypeVar("Found_co", bound=Mapping[int, Any], covariant=True)
"""Deliveries that are to be sent again, as the search of an engine gives them."""


class Bounds(NamedTuple, Generic[Now_co]):
    """What a part of a search looks at, and returns.

    Attributes:
        after: only deliveries with a higher number.
        now: only deliveries that were pending by this moment.
        limit: the most deliveries to return.
        rows: the most deliveries to look at, whether they match or not.
    """

    after: int
    now: Now_co
    limit: int
    rows: int

    def end(self, found: Collection[int], looked_at: int, last: int | None) -> int | None:
        """Return behind which number the search goes on; ``None`` at the end.

        Args:
            found: what this part returns.
            looked_at: how many deliveries it has looked at, and ``last`` the highest number of these.
        """
        if len(found) == self.limit:
            return max(found, default=self.after)
        return None if looked_at < self.rows else last


class PayloadStatements(Protocol[C_contra]):
    """What an engine brings to look at payloads."""

    def look_at_payloads(
        self, connection: C_contra, query: DeliverySelection, seqs: Collection[int]
    ) -> searches.Looked:
        """Look at the payloads of deliveries, in their order; bounded by their bytes."""


class SearchStatements(PayloadStatements[C_contra], Protocol[C_contra, Now_contra, Found_co]):
    """What an engine brings, as a module; see :class:`hookgw.store.steps.PendingStatements`."""

    def search(
        self,
        connection: C_contra,
        query: CancelQuery | ReplayQuery,
        registrations: Collection[str],
        bounds: Bounds[Now_contra],
        spared: Collection[int] = (),
    ) -> tuple[list[int], int | None]:
        """Find the next deliveries to cancel or to replay, to these registrations, by their numbers."""

    def sizes_of(self, connection: C_contra, seqs: Collection[int]) -> Iterable[tuple[int, str, int]]:
        """Return deliveries in the order of their numbers, with their registration and bytes of payload."""

    def to_requeue(self, connection: C_contra, rules: Mapping[int, LaneRule]) -> Found_co:
        """Return what makes deliveries pending again by their registrations' rules, by number."""


class DeliverySearches(Generic[C, Now, Found]):
    """Each search begins behind a number, and returns what it found, and where the next one begins."""

    def __init__(self, reader: ConnectionReader[C], statements: SearchStatements[C, Now, Found]) -> None:
        self._reader = reader
        self._sql = statements

    async def find_pending(
        self, query: CancelQuery, bounds: Bounds[Now], spared: Collection[int]
    ) -> tuple[list[int], int | None]:
        find = partial(self._sql.search, query=query, registrations=query.registrations, spared=spared)
        found, last = await self._reader.run(partial(find, bounds=_within(query, bounds)))
        matches, last = await self._look(query, found, last)
        return [seq for seq in found if seq in matches], last

    async def find_finished(
        self, query: ReplayQuery, rules: Mapping[str, LaneRule], bounds: Bounds[Now], size: int
    ) -> tuple[Found, int | None]:
        """Find deliveries to registrations that have a rule, in the order of their numbers.

        They have up to ``size`` bytes of payload, unless the first one alone has more.
        """

        def find(connection: C) -> tuple[Found, int | None]:
            seqs, last = self._sql.search(connection, query, rules, _within(query, bounds))
            chosen, is_cut = fitting(self._sql.sizes_of(connection, seqs), rules, size)
            return self._sql.to_requeue(connection, chosen), max(chosen) if is_cut else last

        found, last = await self._reader.run(find)
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

    async def count(
        self,
        find: Callable[[Bounds[Now]], Awaitable[tuple[Collection[int], int | None]]],
        bounds: Bounds[Now],
        most: int,
    ) -> Mapping[str, int]:
        """Count what searches within such bounds find, by registration; it ends at about ``most``."""
        counts: Counter[str] = Counter()
        after: int | None = bounds.after
        while after is not None and counts.total() < most:
            limit = min(most - counts.total(), bounds.limit)
            found, after = await find(bounds._replace(after=after, limit=limit))
            sizes = await self._reader.run(partial(self._sql.sizes_of, seqs=list(found)))
            counts.update(registration for _, registration, _ in sizes)
        return counts


def _within(query: DeliverySelection, bounds: Bounds[Now]) -> Bounds[Now]:
    """Return what a search for a selection looks at, if it looks at no more than it has to."""
    limit = min(bounds.limit, searches.PAYLOAD_ROWS) if query.reads_payloads else bounds.limit
    return bounds._replace(limit=limit, after=max(bounds.after, (query.failed_since or 0) - 1))
