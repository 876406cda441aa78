"""The history: deliveries listed, found, and removed when they are too old or too many."""

from __future__ import annotations

import json
import math
import sqlite3
import time
from collections.abc import Collection
from functools import partial
from typing import Any, NamedTuple

import msgspec
import trio

from hookgw.concurrency.clock import Clock
from hookgw.fair.excess import Excess
from hookgw.records.deliveries import Attempt, DeliveryState, parse_delivery_id
from hookgw.records.registrations import GLOBAL_ID_PREFIX
from hookgw.store import searches
from hookgw.store.commits.group_commit import GroupCommit
from hookgw.store.history_rows import (
    DeliveryRow,
    attempt_of,
    event_of,
    event_of_summary,
    summary_of,
)
from hookgw.store.holdings import HistoryExcess, Oldest, measure
from hookgw.store.protocol import NO_LIMIT
from hookgw.store.records import (
    DeliveryPage,
    DeliveryQuery,
    DeliveryReport,
    EventPage,
    Tally,
    micros,
)
from hookgw.store.sqlite.database import Reader
from hookgw.store.sqlite.event_ids import (
    NO_ID,
    forget_found,
    forget_ids,
    keep_ids,
    oldest_ids,
    remembered_by_instance,
    remembered_bytes,
)
from hookgw.store.sqlite.holders import count_held, find_oldest, remove_oldest
from hookgw.store.sqlite.name_ids import of_instance
from hookgw.store.sqlite.name_pruning import NamePruning
from hookgw.store.sqlite.settle import remove
from hookgw.store.sqlite.tally import newest, tally
from hookgw.store.sqlite.transaction import Transaction

# One JSON value for each delivery, and one row for a whole list: each step of a statement costs a wait for
# Python's lock. The names of instances have a prefix; see name_ids.py.
_SUMMARY = """json_array(d.seq, e.id, k.name, substr(i.name, 2), e.time, r.name, l.name, d.state, d.reason,
    d.accepted_at, d.attempts, d.failures, d.next_at, d.finished_at, a.number, a.at, a.duration,
    a.outcome, a.status, a.error, a.answer, (SELECT substr(name, 2) FROM names WHERE number = a.url))"""
_JOINS = """
    CROSS JOIN events e ON e.seq = d.event
    CROSS JOIN names k ON k.number = d.kind
    CROSS JOIN names i ON i.number = d.instance
    CROSS JOIN names r ON r.number = d.registration
    CROSS JOIN names l ON l.number = d.lane
    LEFT JOIN attempts a ON a.delivery = d.seq AND a.number = d.attempts"""
_FOUND = f"SELECT {_SUMMARY}, e.data, e.sender, e.server_url FROM deliveries d {_JOINS}"  # noqa: S608
# Registrations of the configuration, present and past, by the beginning of their ids. Row by row, because the
# names that begin so include those of their lanes, of which there may be one for each instance.
_IS_LISTED = f"""(NOT :without_global OR (SELECT substr(name, 1, {len(GLOBAL_ID_PREFIX)}) FROM names
    WHERE number = registration) <> '{GLOBAL_ID_PREFIX}')"""  # noqa: S608
# Both are short, or kept only up to a limit.
_HAS_TEXT = """(instr(coalesce(reason, ''), :text) OR EXISTS (
    SELECT 1 FROM attempts a WHERE a.delivery = deliveries.seq AND a.number = deliveries.attempts
    AND (instr(coalesce(a.error, ''), :text) OR instr(a.answer, :text))))"""
_BY_SEQ = f"{_FOUND} WHERE d.seq = :seq AND i.name = :instance AND {_IS_LISTED}"
# An event may have several deliveries: people ask about the newest one.
_BY_EVENT = f"""{_FOUND} WHERE d.seq = (
    SELECT max(n.seq) FROM deliveries n JOIN events m ON m.seq = n.event
    WHERE m.id = :id AND m.instance = (SELECT number FROM names WHERE name = :instance) AND {_IS_LISTED})"""  # noqa: S608
_CONTENT = """SELECT k.name, e.data FROM events e
    CROSS JOIN deliveries d ON d.event = e.seq CROSS JOIN names k ON k.number = d.kind
    WHERE e.id = :id AND e.instance = (SELECT number FROM names WHERE name = :instance)
    ORDER BY d.seq DESC LIMIT 1"""
# In the order of the primary key: no sort. A delivery that was resent for days has any number of them.
_ATTEMPTS = """SELECT number, at, duration, outcome, status, error, answer,
        (SELECT substr(name, 2) FROM names WHERE names.number = url)
    FROM attempts WHERE delivery = ? ORDER BY number DESC LIMIT ?"""

_OLD = """
    WITH old AS MATERIALIZED (
        SELECT seq, event, finished_at, size FROM deliveries WHERE finished_at < :end
        ORDER BY finished_at LIMIT :rows
    ),
    summed AS (SELECT *, sum(size) OVER (ORDER BY finished_at, seq) - size AS before_it FROM old)
    SELECT json_group_array(seq), json_group_array(DISTINCT event), count(*), max(finished_at),
        (SELECT count(*) FROM old)
    FROM summed WHERE before_it < :bytes"""
_OLD_UNHEARD = """SELECT json_group_array(seq), count(*) FROM (
    SELECT seq FROM events INDEXED BY unheard WHERE heard = 0 AND accepted_at < :end LIMIT :rows)"""
# Two numbers that the file keeps: it costs next to nothing.
_USED = """SELECT (page_count - freelist_count) * page_size
    FROM pragma_page_count, pragma_freelist_count, pragma_page_size"""
# An event is a row of about 60 bytes beside its payload. As many as fit share a page of 4,096 bytes; a
# larger one fills pages of its own, and its rest shares one. All else of a delivery takes 210 bytes. The
# walk through the index takes 0.1 s for a million pending deliveries, beside the commits.
_NEEDED = """SELECT
    (SELECT coalesce(sum(210 + iif(size < 4000, 4096 / max(1, 4060 / (size + 60)), size + 400)), 0)
        FROM deliveries INDEXED BY outbox WHERE state = 'pending')
    + (SELECT coalesce(sum(length(key) + length(value) + 60), 0) FROM shelves)
    + (SELECT coalesce(sum(length(entry) + 120), 0) FROM audit)"""

# Deliveries removed in one commit, and the seconds between two. Commits are held up for a few milliseconds,
# and pruning still keeps pace with 10,000 deliveries a second. Each page of a payload is overwritten, so a
# commit has at most so many bytes of payloads, or one delivery.
PRUNE_STEP = 200
PRUNE_BYTES = 2 * 2**20
PRUNE_REST = 0.01
# Deliveries that are counted at a time: others read in between.
HELD_ROWS = 100_000
# An id is one narrow row: so many take half the time of those deliveries.
FORGET_STEP = 500

# Row by row, each step would wait for Python's lock, so this is one row. The payload is a text in it.
_EVENTS = """
    WITH looked_at AS MATERIALIZED (
        SELECT seq, kind IN (SELECT number FROM names WHERE name IN (SELECT value FROM json_each(:kinds)))
            AS matches
        FROM deliveries INDEXED BY history
        WHERE instance = (SELECT number FROM names WHERE name = :instance) AND seq < :before
        ORDER BY seq DESC LIMIT :rows
    ),
    matching AS MATERIALIZED (
        SELECT d.event AS event, min(d.seq) AS seq, max(d.size) AS size FROM looked_at l
        CROSS JOIN deliveries d ON d.seq = l.seq WHERE l.matches GROUP BY d.event
    ),
    -- An event's deliveries follow one another, so that those of two events do not mix.
    summed AS (SELECT event, seq, sum(size) OVER (ORDER BY seq DESC) - size AS before_it FROM matching),
    chosen AS MATERIALIZED (SELECT event, seq FROM summed WHERE before_it < :bytes)
    SELECT (SELECT count(*) FROM looked_at), (SELECT min(seq) FROM looked_at),
        (SELECT count(*) FROM matching), (SELECT count(*) FROM chosen), (SELECT min(seq) FROM chosen),
        (SELECT json_group_array(json(line)) FROM (
            SELECT json_array(e.id, k.name, e.time, CAST(e.data AS TEXT), e.sender, e.server_url) AS line
            FROM chosen c CROSS JOIN events e ON e.seq = c.event CROSS JOIN names k ON k.number = e.kind
            ORDER BY c.seq DESC))"""


class _EventRow(msgspec.Struct, array_like=True):
    id: str
    kind: str
    time: int
    data: str
    sender: str | None
    server_url: str | None


_row_of = msgspec.json.Decoder(DeliveryRow).decode
_rows_of = msgspec.json.Decoder(list[DeliveryRow]).decode
_event_rows_of = msgspec.json.Decoder(list[_EventRow]).decode


class SqliteHistory:
    """The finished deliveries; see :class:`hookgw.store.protocol.History`.

    Args:
        commits: writes.
        lists: reads what clients ask for.
        background: reads how large the history is.
        clock: gives the time up to which deliveries may go when the history is too large.
    """

    def __init__(
        self, commits: GroupCommit[Transaction], lists: Reader, background: Reader, clock: Clock
    ) -> None:
        self._commits = commits
        self._lists = lists
        self._background = background
        self._names = NamePruning(commits, background)
        self._clock = clock

    async def list_deliveries(self, query: DeliveryQuery) -> DeliveryPage:
        # A turn for each part: lists of others come in between.
        async def search(before: int | None, rows: int, wanted: int) -> searches.SearchPart:
            now = self._clock.wall()
            return await self._lists.run(
                partial(search_deliveries, query=query, before=before, rows=rows, wanted=wanted, now=now)
            )

        return await searches.list_deliveries(query, search)

    async def find_delivery(
        self, instance: str, name: str, *, without_global: bool = False
    ) -> DeliveryReport | None:
        return await self._lists.run(
            partial(find_delivery, instance=instance, name=name, without_global=without_global)
        )

    async def find_content(self, instance: str, event_id: str) -> tuple[str, bytes] | None:
        return await self._lists.run(partial(find_content, instance=instance, event_id=event_id))

    async def list_events(
        self, instance: str, kinds: Collection[str], *, cursor: str | None = None
    ) -> EventPage:
        before = searches.LAST if cursor is None else int(cursor)
        return await self._lists.run(partial(list_events, instance=instance, kinds=kinds, before=before))

    async def tally(self, instance: str, *, since: float, without_global: bool = False) -> Tally:
        async def count(former: searches.TallyPart) -> searches.TallyPart:
            return await self._lists.run(
                partial(
                    tally,
                    instance=instance,
                    since=since,
                    without_global=without_global,
                    before=former.before,
                    event=former.event,
                )
            )

        return await searches.tally(count)

    async def newest(self, instances: Collection[str]) -> dict[str, float]:
        return await self._lists.run(partial(newest, instances=instances))

    async def enforce_retention(
        self, *, before: float, limit: int, ids_before: float = math.inf, ids_limit: int = NO_LIMIT
    ) -> int:
        await self._names.prune_if_due()
        now = self._clock.steady()
        removed = 0
        while (step := await self._commits.call(partial(_prune, before=before))).removed:
            removed += step.removed
            await trio.sleep(PRUNE_REST)
        await self._forget(ids_before)
        remembered = await self._background.run(remembered_bytes)
        if remembered > ids_limit:
            remembered -= await self._forget_excess(ids_limit)
        return removed + await self._remove_excess(limit, remembered, now)

    async def _remove_excess(self, limit: int, remembered: int, now: float) -> int:
        """Remove the oldest deliveries of the instances that hold most until the history fits."""
        removed, rest = 0, remembered
        if (used := await self._background.run(_used_bytes)) <= limit + rest:
            return 0
        # Once for each call, as it walks through the index of the outbox.
        rest += await self._background.run(_needed_bytes)
        # Nobody loses anything with these: their ids are kept.
        prune_unheard = partial(_prune_unheard, before=now)
        while used > limit + rest and (unheard := await self._commits.call(prune_unheard)):
            removed, rest = removed + unheard.removed, rest + unheard.remembered
            await trio.sleep(PRUNE_REST)
            used = await self._background.run(_used_bytes)
        while used > limit + rest:
            held = await measure(self._background.run, count_held, HELD_ROWS)
            excess = HistoryExcess(held, limit / (used - rest))
            last, found = Oldest(-1, -1, 0, 0), []
            while used > limit + rest and excess.holders:
                find = partial(find_oldest, holders=excess.holders, after=last, before=now)
                find = partial(find, rows=PRUNE_STEP, size=PRUNE_BYTES)
                if not (found := await self._background.run(find)):
                    break
                count, ids = await self._commits.call(partial(remove_oldest, found=found, before=now))
                excess.take(found)
                removed, rest, last = removed + count, rest + ids, found[-1]
                await trio.sleep(PRUNE_REST)
                used = await self._background.run(_used_bytes)
            if not found:
                break  # the rest is pending, or its pages are only partly free
        return removed

    async def _forget(self, before: float) -> None:
        """Remove the ids of before a time."""
        forget = partial(forget_ids, before=before, limit=FORGET_STEP)
        freed = 1
        while freed:
            freed = await self._commits.call(forget)
            await trio.sleep(PRUNE_REST)

    async def _forget_excess(self, limit: int) -> int:
        """Remove the oldest ids of the instances that hold most until all fit; return the bytes freed."""
        excess = Excess(await self._background.run(remembered_by_instance), limit)
        freed, last = 0, NO_ID
        while excess.left:
            find = partial(oldest_ids, holders=list(excess.left), after=last, limit=FORGET_STEP)
            if not (found := await self._background.run(find)):
                break
            freed += await self._commits.call(partial(forget_found, found=found))
            for one in found:
                excess.take(one.instance, one.size)
            last = found[-1]
            await trio.sleep(PRUNE_REST)
        return freed


def search_deliveries(  # noqa: C901 -- reads once from top to bottom
    connection: sqlite3.Connection,
    query: DeliveryQuery,
    before: int | None,
    rows: int,
    wanted: int,
    now: float = 0.0,
) -> searches.SearchPart:
    """Search an instance's newest deliveries for matches of a query.

    Args:
        connection: a reading one.
        query: which ones. Its cursor and limit have no effect.
        before: only deliveries with a lower number; ``None`` for all.
        rows: the most deliveries to look at, whether they match or not.
        wanted: the most deliveries to return.
        now: seconds since the epoch.
    """
    started = time.perf_counter()
    given: dict[str, Any] = {
        "before": searches.LAST if before is None else before,
        "rows": rows,
        "wanted": wanted,
    }
    source, conditions = "deliveries NOT INDEXED WHERE", ["1"]
    if query.instance is not None:
        given["instance"] = of_instance(query.instance)
        source = "deliveries INDEXED BY history WHERE"
    if query.state is DeliveryState.DELIVERED or (query.state is not None and query.instance is None):
        conditions.append(f"state = '{query.state.value}'")
    elif query.state is not None:
        # Written out and said twice, so that the index of undelivered deliveries can be used.
        source = f"""deliveries INDEXED BY undelivered
            WHERE state <> 'delivered' AND state = '{query.state.value}' AND"""
    if query.finished_since is not None:
        conditions.append("finished_at >= :finished")
        given["finished"] = micros(query.finished_since)
        if query.state is None and now - query.finished_since <= searches.RECENT:
            # A page that shows an instance asks for this every second. Deliveries that finished just now
            # may be anywhere in a backlog of millions, but there are few of them.
            source = "deliveries INDEXED BY finished WHERE finished_at >= :finished AND"
    if query.instance is not None:
        source += " instance = (SELECT number FROM names WHERE name = :instance) AND"
    if query.registration is not None:
        conditions.append("registration = (SELECT number FROM names WHERE name = :registration)")
        given["registration"] = query.registration
    if query.text is not None:
        conditions.append(_HAS_TEXT)
        given["text"] = query.text
    if query.kind is not None:
        conditions.append("kind = (SELECT number FROM names WHERE name = :kind)")
        given["kind"] = query.kind
    for name, condition in (("since", ">= :since"), ("until", "< :until")):
        moment = getattr(query, name)
        if moment is not None:
            conditions.append(f"accepted_at {condition}")
            given[name] = micros(moment)
    if query.without_global:
        conditions.append(_IS_LISTED)
        given["without_global"] = True
    statement = f"""
        WITH looked_at AS MATERIALIZED (
            SELECT seq, {" AND ".join(conditions)} AS matches FROM {source} seq < :before
            ORDER BY seq DESC LIMIT :rows
        ),
        chosen AS (SELECT seq FROM looked_at WHERE matches ORDER BY seq DESC LIMIT :wanted)
        SELECT (SELECT count(*) FROM looked_at), (SELECT min(seq) FROM looked_at), (
            SELECT json_group_array(json(line)) FROM (
                SELECT {_SUMMARY} AS line FROM chosen c
                CROSS JOIN deliveries d ON d.seq = c.seq {_JOINS} ORDER BY d.seq DESC))"""  # noqa: S608 - only the texts above are in it
    count, last, lines = connection.execute(statement, given).fetchone()
    found = [summary_of(row) for row in _rows_of(lines)]
    return searches.SearchPart(found, count, last, time.perf_counter() - started)


def find_delivery(
    connection: sqlite3.Connection, instance: str, name: str, *, without_global: bool = False
) -> DeliveryReport | None:
    """Return the delivery with that id, or the newest delivery of the event with that id, or ``None``."""
    given = {
        "seq": parse_delivery_id(name),
        "id": name,
        "instance": of_instance(instance),
        "without_global": without_global,
    }
    found = given["seq"] is not None and connection.execute(_BY_SEQ, given).fetchone()
    # An event may have any id, also an id that looks like a delivery's.
    found = found or connection.execute(_BY_EVENT, given).fetchone()
    if not found:
        return None
    line, data, sender, server_url = found
    summary = summary_of(_row_of(line))
    event = event_of_summary(summary, data, sender, server_url)
    rows = connection.execute(_ATTEMPTS, (summary.seq, searches.MOST_ATTEMPTS))
    attempts = [attempt_of(*row) for row in rows]
    return DeliveryReport(summary=summary, event=event, attempts=tuple(reversed(attempts)))


def find_content(connection: sqlite3.Connection, instance: str, event_id: str) -> tuple[str, bytes] | None:
    """Return the kind and the payload of an event; see :meth:`hookgw.store.protocol.History.find_content`."""
    found = connection.execute(_CONTENT, {"id": event_id, "instance": of_instance(instance)}).fetchone()
    return None if found is None else (found[0], bytes(found[1]))


def last_attempt(connection: sqlite3.Connection, seq: int) -> Attempt | None:
    """Return the newest attempt of a delivery; ``None`` if there was none."""
    row = connection.execute(_ATTEMPTS, (seq, 1)).fetchone()
    return None if row is None else attempt_of(*row)


def list_events(
    connection: sqlite3.Connection, instance: str, kinds: Collection[str], before: int
) -> EventPage:
    """Return a page of an instance's events; see :meth:`hookgw.store.protocol.History.list_events`."""
    given = {
        "instance": of_instance(instance),
        "kinds": json.dumps(list(kinds)),
        "before": before,
        "rows": searches.EVENT_ROWS,
        "bytes": searches.EVENT_BYTES,
    }
    row = connection.execute(_EVENTS, given).fetchone()
    looked_at, last, matching, chosen, last_chosen, lines = row
    events = [
        event_of(instance, one.id, one.kind, one.time, one.data.encode(), one.sender, one.server_url)
        for one in _event_rows_of(lines)
    ]
    if chosen < matching:
        return EventPage(events, str(last_chosen))
    return EventPage(events, str(last) if looked_at == searches.EVENT_ROWS else None)


class _Pruned(NamedTuple):
    """How many deliveries and events were removed, and the bytes that the ids of the events still take."""

    removed: int
    remembered: int


def _prune(transaction: Transaction, before: float) -> _Pruned:
    """Remove the oldest finished deliveries, and old events without any, but for the ids of events."""
    given = {"end": micros(before), "rows": PRUNE_STEP, "bytes": PRUNE_BYTES}
    row: tuple[str, str, int, int, int] = transaction.connection.execute(_OLD, given).fetchone()
    seqs, events, count, last, found = row
    remembered = remove(transaction.connection, seqs, events) if count else 0
    # If older deliveries are left, events without deliveries that are younger than those removed stay too.
    if found == PRUNE_STEP or count < found:
        given["end"] = last
    events, unheard = transaction.connection.execute(_OLD_UNHEARD, given).fetchone()
    if unheard:
        remembered += keep_ids(transaction.connection, events)
    transaction.count_rows(count + unheard)
    return _Pruned(count + unheard, remembered)


def _prune_unheard(transaction: Transaction, before: float) -> _Pruned | None:
    given = {"end": micros(before), "rows": PRUNE_STEP}
    events, count = transaction.connection.execute(_OLD_UNHEARD, given).fetchone()
    transaction.count_rows(count)
    return _Pruned(count, keep_ids(transaction.connection, events)) if count else None


def _used_bytes(connection: sqlite3.Connection) -> int:
    return int(connection.execute(_USED).fetchone()[0])


def _needed_bytes(connection: sqlite3.Connection) -> int:
    return int(connection.execute(_NEEDED).fetchone()[0])
