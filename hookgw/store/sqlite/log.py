"""The log of events, and its index; see :mod:`hookgw.store.log`.

The number of a run is that of its last event. Events without an entry have higher numbers than every run.
"""

from __future__ import annotations

import sqlite3
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any

import msgspec

from hookgw.records.instances import is_retired
from hookgw.store import searches
from hookgw.store.generations import Generations
from hookgw.store.history_rows import event_of, summary_of
from hookgw.store.log import (
    TAIL_ROWS,
    LogPart,
    LogSearch,
    LogState,
    Run,
    Unwanted,
    entry_of,
)
from hookgw.store.records import EventQuery, EventReport, LoggedEvent, micros, seconds
from hookgw.store.sqlite.bulk import Bulk, as_json, numbers_of, pairs_of
from hookgw.store.sqlite.event_ids import keep_ids
from hookgw.store.sqlite.history import SUMMARIES, delivery_rows_of
from hookgw.store.sqlite.name_ids import of_instance
from hookgw.store.sqlite.recent_events import RecentEvents
from hookgw.store.sqlite.selection import DIALECT, IS_LISTED
from hookgw.store.sqlite.transaction import Transaction

_STATE = """SELECT generation, (SELECT max(at) FROM log_begins WHERE instance = 0 OR {ours}),
    indexed, (SELECT max(seq) FROM events) FROM log_state"""
_OURS = "instance = (SELECT number FROM names WHERE name = :instance)"
_AMONG = "instance IN (SELECT number FROM names WHERE name IN (SELECT value FROM json_each(:among)))"
_WAS_WHOLE = "SELECT is_whole, EXISTS (SELECT 1 FROM log_begins WHERE instance = 0) FROM log_state"
# Behind what was accepted before, whatever the clock says.
_BEGIN = """REPLACE INTO log_begins
    SELECT 0, max(?, coalesce((SELECT accepted_at + 1 FROM events ORDER BY seq DESC LIMIT 1), 0))"""

# One row for all events, and one with their payloads end to end: see history.py. One statement for both, with
# windows that cut it to size, takes twice as long.
_UNINDEXED = """SELECT (SELECT indexed FROM log_state),
    json_group_array(json_array(seq, instance, kind, accepted_at, heard, sender, length(data))) FROM (
        SELECT * FROM events WHERE seq > (SELECT indexed FROM log_state) ORDER BY seq LIMIT ?)"""
_PAYLOADS = """SELECT CAST(group_concat(CAST(data AS TEXT), '') AS BLOB) FROM (
    SELECT data FROM events WHERE seq > ? AND seq <= ? ORDER BY seq)"""
_ADVANCE = "UPDATE log_state SET indexed = ? WHERE indexed = ?"
# An event may have been removed since it was read. Looking for each takes a third of the time, so they are
# counted first.
_COUNT_EVENTS = "SELECT count(*) FROM events WHERE seq > ? AND seq <= ?"
_INSERT = """INSERT INTO log (run, instance, seq, kind, accepted_at, chat, sender, message, unwanted)
    SELECT * FROM"""
_ADD_ENTRIES = Bulk(_INSERT, 9, "WHERE column1 <> 0")
_ADD_THOSE_LEFT = Bulk(_INSERT, 9, "WHERE column1 <> 0 AND EXISTS (SELECT 1 FROM events WHERE seq = column3)")
_ADD_RUN = "INSERT INTO log_runs VALUES (?, ?, ?)"

# CROSS JOIN fixes the order: for each run, the entries of the instance, which are sorted as wanted.
_ENTRIES = """SELECT l.seq, l.accepted_at, {conditions} AS matches
    FROM log_runs r CROSS JOIN log l ON l.run = r.run
    WHERE r.run > :after AND r.run <= coalesce((SELECT min(run) FROM log_runs WHERE run >= :until), :until)
        {times} AND l.instance = (SELECT number FROM names WHERE name = :instance)
        AND l.seq > :after AND l.seq <= :until
    ORDER BY r.run {order}, l.seq {order} LIMIT :rows"""
_TAIL = """SELECT l.seq, l.accepted_at, length(l.data) > 0 AND {conditions} AS matches
    FROM events l WHERE l.seq > :after AND l.seq <= :until ORDER BY l.seq {order} LIMIT :rows"""
# A run has the events behind the run before it. Of several instances, no more is of use here than its times.
# max and min, because a search goes through every row between the bounds that SQLite takes for the walk.
_FROM_RUN = """max(:after, coalesce((SELECT max(run) FROM log_runs
    WHERE run < coalesce((SELECT min(run) FROM log_runs WHERE until >= :since_time), :last)), -1))"""
_TO_RUN = "min(:until, coalesce((SELECT max(run) FROM log_runs WHERE since < :until_time), -1))"
_SEARCH = """
WITH looked_at AS MATERIALIZED ({source}),
chosen AS MATERIALIZED (
    SELECT e.seq, length(e.data) AS size FROM looked_at one CROSS JOIN events e ON e.seq = one.seq
    WHERE one.matches AND {payload} ORDER BY one.seq {order} LIMIT :wanted
),
summed AS (SELECT seq, sum(size) OVER (ORDER BY seq {order}) - size AS before_it FROM chosen),
page AS MATERIALIZED (SELECT seq FROM summed WHERE before_it < :bytes)
SELECT (SELECT count(*) FROM looked_at), (SELECT count(*) FROM chosen),
    (SELECT json_array(seq, accepted_at) FROM looked_at ORDER BY seq {reverse} LIMIT 1),
    (SELECT json_group_array(json(line)) FROM (
        SELECT json_array(e.seq, substr(i.name, 2), e.id, k.name, e.time, e.accepted_at, CAST(e.data AS TEXT),
            e.sender, e.server_url) AS line
        FROM page p CROSS JOIN events e ON e.seq = p.seq CROSS JOIN names i ON i.number = e.instance
            CROSS JOIN names k ON k.number = e.kind
        ORDER BY p.seq {order}))"""
_END_OF_TAIL = "SELECT seq, accepted_at FROM events WHERE seq > ? ORDER BY seq LIMIT 1 OFFSET ?"

_EVENT = """SELECT e.seq, k.name, e.time, e.accepted_at, e.data, e.sender, e.server_url
    FROM events e CROSS JOIN names k ON k.number = e.kind
    WHERE e.id = :id AND e.instance = (SELECT number FROM names WHERE name = :instance) AND length(e.data)"""
_DELIVERIES = f"""SELECT json_group_array(seq) FROM (
    SELECT seq FROM deliveries INDEXED BY deliveries_of_event WHERE event = :event AND {IS_LISTED}
    ORDER BY seq DESC LIMIT :rows)"""  # noqa: S608 - constants

# The number of a run is that of its last event.
_COUNT = """WITH part AS MATERIALIZED (SELECT run FROM log_runs WHERE run > :after
        AND run <= (SELECT min(run) FROM log_runs WHERE run > :after) + :events),
    counted AS (
        SELECT l.instance, count(*) AS entries, sum(l.unwanted) AS size
        FROM part p CROSS JOIN log l ON l.run = p.run GROUP BY l.instance
    )
    SELECT (SELECT max(run) FROM part), coalesce(sum(entries), 0),
        json_group_array(json_array(instance, size)) FILTER (WHERE size)
    FROM counted"""
_OLDEST = """SELECT json_group_array(json_array(run, instance, seq, unwanted)) FROM (
    SELECT l.run, l.instance, l.seq, l.unwanted FROM log_runs r CROSS JOIN log l ON l.run = r.run
    WHERE r.run >= :run AND (l.run, l.instance, l.seq) > (:run, :instance, :seq) AND l.unwanted
        AND l.instance IN (SELECT value FROM json_each(:holders))
    ORDER BY r.run, l.instance, l.seq LIMIT :rows)"""
_STILL_UNWANTED = """SELECT json_group_array(seq), count(*) FROM events
    WHERE seq IN (SELECT value FROM json_each(?)) AND heard = 0"""
_EMPTY_RUNS = """SELECT json_group_array(run) FROM (
    SELECT r.run FROM log_runs r WHERE NOT EXISTS (SELECT 1 FROM log l WHERE l.run = r.run)
    ORDER BY r.run LIMIT ?)"""
_FORGET_RUNS = "DELETE FROM log_runs WHERE run IN (SELECT value FROM json_each(?))"


class _EventRow(msgspec.Struct, array_like=True):
    seq: int
    instance: str
    id: str
    kind: str
    time: int
    accepted_at: int
    data: str
    sender: str | None
    server_url: str | None


_unindexed_of = msgspec.json.Decoder(list[tuple[int, int, int, int, int, str | None, int]]).decode
_events_of = msgspec.json.Decoder(list[_EventRow]).decode
_pair_of = msgspec.json.Decoder(tuple[int, int]).decode
_unwanted_of = msgspec.json.Decoder(list[tuple[int, int, int, int]]).decode


def begin_log(connection: sqlite3.Connection, now: float, *, is_whole: bool) -> None:
    """Note at a start whether the log has all events from now on: unwanted ones with their payloads, too."""
    row = connection.execute(_WAS_WHOLE).fetchone()
    was_whole, has_begun = map(bool, row)
    if was_whole != is_whole or not has_begun:
        with connection:
            connection.execute("BEGIN IMMEDIATE")
            if not has_begun or is_whole:
                connection.execute(_BEGIN, (micros(now),))
            connection.execute("UPDATE log_state SET is_whole = ?", (is_whole,))


def read_state(connection: sqlite3.Connection, query: EventQuery) -> LogState:
    ours, given = _instances(query)
    row = connection.execute(_STATE.format(ours=ours), given).fetchone()
    generation, begins_at, indexed, newest = row
    state = LogState(Generations.parse(generation), begins_at, (0, indexed))
    if newest is not None and newest - indexed >= TAIL_ROWS:
        end = connection.execute(_END_OF_TAIL, (indexed, TAIL_ROWS)).fetchone()
        if end is not None:
            state = state._replace(end=(0, end[0]), reached=end[1])
    return state


def _instances(query: EventQuery) -> tuple[str, dict[str, Any]]:
    """Return the condition for the number of an instance that a query is for, and its values."""
    if query.instance is not None:
        return _OURS, {"instance": of_instance(query.instance)}
    if query.among is not None:
        return _AMONG, {"among": as_json([of_instance(name) for name in query.among])}
    return "1", {}


def read_unindexed(
    connection: sqlite3.Connection, rows: int, size: int, *, recent: RecentEvents | None = None
) -> Run | None:
    if recent is not None:
        (after,) = connection.execute("SELECT indexed FROM log_state").fetchone()
        if newest := recent.take(after, rows):
            newest = newest[: _within(size, [len(row[6]) for row in newest])]
            return Run(
                (0, after),
                (0, newest[-1][0]),
                sorted(
                    [
                        entry_of(instance, seq, kind, accepted_at, heard, sender, data)
                        for seq, instance, _, kind, _, accepted_at, data, sender, _, heard in newest
                        if data
                    ]
                ),
                len(newest),
            )
    after, records = connection.execute(_UNINDEXED, (rows,)).fetchone()
    found = _unindexed_of(records)
    if not found:
        return None
    found = found[: _within(size, [one[-1] for one in found])]
    payloads = connection.execute(_PAYLOADS, (after, found[-1][0])).fetchone()[0]
    entries, at, data = [], 0, memoryview(payloads or b"")
    for seq, instance, kind, accepted_at, heard, sender, length in found:
        if length:
            payload = data[at : at + length]
            at += length
            entries.append(entry_of(instance, seq, kind, accepted_at, heard, sender, payload))
    return Run((0, after), (0, found[-1][0]), sorted(entries), len(found))


def _within(size: int, sizes: Sequence[int]) -> int:
    """Return how many of the first payloads have so many bytes, but at least 1."""
    return max(1, bisect_right(list(accumulate(sizes)), size))


def add_run(transaction: Transaction, run: Run) -> None:
    connection, number = transaction.connection, run.last[1]
    if not connection.execute(_ADVANCE, (number, run.after[1])).rowcount or not run.entries:
        return
    (left,) = connection.execute(_COUNT_EVENTS, (run.after[1], number)).fetchone()
    statement = _ADD_ENTRIES if left == run.events else _ADD_THOSE_LEFT
    statement.run(connection, [(number, *entry) for entry in run.entries])
    connection.execute(_ADD_RUN, (number, *run.times))


def search_entries(connection: sqlite3.Connection, search: LogSearch) -> LogPart:
    query = search.query
    if query.instance is None:
        source = _TAIL if query.since is None else _TAIL.replace(":after", _FROM_RUN)
        source = source if query.until is None else source.replace("<= :until", f"<= {_TO_RUN}")
        return _search(connection, search, source, [_instances(query)[0]])
    times = ""
    if query.since is not None:
        times += " AND r.until >= :since_time"
    if query.until is not None:
        times += " AND r.since < :until_time"
    return _search(connection, search, _ENTRIES, search.sought.conditions(), times)


def search_tail(connection: sqlite3.Connection, search: LogSearch) -> LogPart:
    return _search(connection, search, _TAIL, [_instances(search.query)[0]])


def _search(
    connection: sqlite3.Connection,
    search: LogSearch,
    source: str,
    conditions: Iterable[str],
    times: str = "",
) -> LogPart:
    query, sought = search.query, search.sought
    limits, payload, given = search.conditions(DIALECT)
    given |= _instances(query)[1] | {"last": searches.LAST}
    given["after"] = -1 if search.after is None else search.after[1]
    given["until"] = searches.LAST if search.until is None else search.until[1]
    order, reverse = ("ASC", "DESC") if query.is_oldest_first else ("DESC", "ASC")
    source = source.format(conditions=" AND ".join(["1", *conditions, *limits]), times=times, order=order)
    statement = _SEARCH.format(source=source, payload=" AND ".join(payload), order=order, reverse=reverse)
    looked_at, chosen, last, lines = connection.execute(statement, given).fetchone()
    page = _events_of(lines)
    behind, searched = (0, None) if last is None else _pair_of(last)
    is_end = looked_at < search.rows
    if len(page) < chosen or chosen == search.wanted:
        behind, is_end = page[-1].seq, False
    found = []
    for one in page:
        data = one.data.encode()
        if not is_retired(one.instance) and sought.concerns(data, one.sender):
            event = event_of(one.instance, one.id, one.kind, one.time, data, one.sender, one.server_url)
            found.append(((0, one.seq), LoggedEvent(event, seconds(one.accepted_at))))
    return LogPart(found, None if is_end else (0, behind), searched)


def find_event(
    connection: sqlite3.Connection, instance: str, event_id: str, *, without_global: bool = False
) -> EventReport | None:
    row = connection.execute(_EVENT, {"id": event_id, "instance": of_instance(instance)}).fetchone()
    if row is None:
        return None
    seq, kind, at, accepted_at, data, sender, server_url = row
    given = {"event": seq, "without_global": without_global, "rows": searches.MOST_ATTEMPTS}
    lines = connection.execute(SUMMARIES, connection.execute(_DELIVERIES, given).fetchone()).fetchone()[0]
    return EventReport(
        event_of(instance, event_id, kind, at, bytes(data), sender, server_url),
        seconds(accepted_at),
        [summary_of(one) for one in delivery_rows_of(lines)],
    )


def count_unwanted(
    connection: sqlite3.Connection, after: int, events: int
) -> tuple[int | None, int, dict[int, int]]:
    last, entries, sizes = connection.execute(_COUNT, {"after": after, "events": events}).fetchone()
    return last, entries, dict(pairs_of(sizes))


def oldest_unwanted(
    connection: sqlite3.Connection, holders: Sequence[int], after: Unwanted | None, rows: int
) -> list[Unwanted]:
    former = after or Unwanted(0, 0, (0, 0), 0)
    given = {"run": former.run, "instance": former.instance, "seq": former.place[1], "rows": rows}
    rows_found = connection.execute(_OLDEST, {**given, "holders": as_json(holders)}).fetchone()[0]
    return [Unwanted(run, instance, (0, seq), size) for run, instance, seq, size in _unwanted_of(rows_found)]


def remove_unwanted(transaction: Transaction, seqs: Sequence[int]) -> int:
    given = (as_json(seqs),)
    events, count = transaction.connection.execute(_STILL_UNWANTED, given).fetchone()
    keep_ids(transaction.connection, events)
    transaction.count_rows(count)
    return int(count)


def empty_runs(connection: sqlite3.Connection, most: int) -> list[int]:
    return sorted(numbers_of(connection.execute(_EMPTY_RUNS, (most,)).fetchone()[0]))


def forget_runs(transaction: Transaction, runs: Sequence[int]) -> None:
    transaction.connection.execute(_FORGET_RUNS, (as_json(runs),))
