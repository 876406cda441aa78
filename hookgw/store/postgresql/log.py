"""The log of events, and its index; see :mod:`hookgw.store.log`.

The order of the log is that of ``(xid, seq)``, as that of lanes is, and only what is settled is read; see
:mod:`hookgw.store.postgresql.schema`. The server keeps one index of all entries: here, a run is no more than
what is written at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from psycopg import Connection

from hookgw.records.instances import is_retired
from hookgw.store import searches
from hookgw.store.generations import Generations
from hookgw.store.history_rows import event_of
from hookgw.store.log import TAIL_ROWS, LogPart, LogSearch, LogState, Run, Unwanted, entry_of
from hookgw.store.postgresql.database import one_moment
from hookgw.store.postgresql.event_ids import keep_ids
from hookgw.store.postgresql.history import summaries
from hookgw.store.postgresql.lookups import columns_of, instance_number, one_row, sought
from hookgw.store.postgresql.schema import SETTLED
from hookgw.store.postgresql.selection import DIALECT, IS_LISTED
from hookgw.store.postgresql.transaction import Transaction
from hookgw.store.records import EventQuery, EventReport, LoggedEvent, micros, seconds

_WAS_WHOLE = "SELECT is_whole, EXISTS (SELECT FROM log_begins WHERE instance = 0) FROM log_state"
# Behind what was accepted before, whatever the clock says.
_BEGIN = """INSERT INTO log_begins SELECT 0, greatest(%s,
        coalesce((SELECT accepted_at + 1 FROM events ORDER BY seq DESC LIMIT 1), 0))
    ON CONFLICT (instance) DO UPDATE SET at = excluded.at"""

_STATE = f"""SELECT generation, (SELECT max(at) FROM log_begins
        WHERE instance = 0 OR %(all)s OR instance = ANY(%(numbers)s)),
    xid, seq, {SETTLED} FROM log_state"""  # noqa: S608 - a constant
_NUMBERS = "SELECT array_agg(number) FROM instance_numbers WHERE name = ANY(%s)"
_END_OF_TAIL = """SELECT xid, seq, accepted_at FROM events
    WHERE heard >= 0 AND (xid, seq) > (%s, %s) AND xid < %s ORDER BY xid, seq LIMIT 1 OFFSET %s"""
_UNINDEXED = f"""
WITH next AS MATERIALIZED (
    SELECT e.xid, e.seq, e.instance, e.kind, e.accepted_at, e.heard, e.sender, octet_length(e.data) AS size
    FROM events e WHERE e.heard >= 0 AND (e.xid, e.seq) > (%s, %s) AND e.xid < {SETTLED}
    ORDER BY e.xid, e.seq LIMIT %s
),
summed AS (
    SELECT *, sum(size) OVER (ORDER BY xid, seq ROWS UNBOUNDED PRECEDING) - size AS before_it FROM next
)
SELECT s.xid, s.seq, s.instance, s.kind, s.accepted_at, s.heard, s.sender, e.data
FROM summed s CROSS JOIN LATERAL (SELECT data FROM events WHERE events.seq = s.seq OFFSET 0) e
WHERE s.before_it < %s ORDER BY s.xid, s.seq"""  # noqa: S608 - a constant
# Another node that is about to write the same run, or to remove events of it, is not waited for.
_FREE = "SELECT FROM log_state WHERE (xid, seq) = (%s, %s) FOR UPDATE SKIP LOCKED"
_ADVANCE = "UPDATE log_state SET xid = %s, seq = %s"
_ADD_ENTRIES = """INSERT INTO log (instance, xid, seq, kind, accepted_at, chat, sender, message, unwanted)
    SELECT given.* FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[], %s::text[], %s::bigint[],
        %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[])
        AS given (instance, xid, seq, kind, accepted_at, chat, sender, message, unwanted)
    JOIN events e ON e.seq = given.seq AND e.heard >= 0
    ORDER BY given.instance, given.xid, given.seq"""

# By the whole key of the index; see history.py.
_ENTRIES = """SELECT l.xid, l.seq, l.accepted_at, {conditions} AS matches FROM log l
    WHERE (l.instance, l.xid, l.seq) > (%(instance)s, %(after_xid)s, %(after)s)
        AND (l.instance, l.xid, l.seq) <= (%(instance)s, %(until_xid)s, %(until)s)
    ORDER BY l.instance {order}, l.xid {order}, l.seq {order} LIMIT %(rows)s"""
_TAIL = """SELECT l.xid, l.seq, l.accepted_at,
        octet_length(l.data) > 0 AND {conditions} AS matches
    FROM events l
    WHERE l.heard >= 0 AND (l.xid, l.seq) > (%(after_xid)s, %(after)s)
        AND (l.xid, l.seq) <= (%(until_xid)s, %(until)s)
    ORDER BY l.xid {order}, l.seq {order} LIMIT %(rows)s"""
_SEARCH = """
WITH looked_at AS MATERIALIZED ({source}),
chosen AS MATERIALIZED (
    SELECT l.xid, l.seq, e.size FROM looked_at l CROSS JOIN LATERAL (
        SELECT octet_length(data) AS size FROM events
        WHERE events.seq = l.seq AND heard >= 0 AND {payload} OFFSET 0
    ) e
    WHERE l.matches ORDER BY l.xid {order}, l.seq {order} LIMIT %(wanted)s
),
summed AS (SELECT *, sum(size) OVER (ORDER BY xid {order}, seq {order}) - size AS before_it FROM chosen)
SELECT (SELECT count(*) FROM looked_at), (SELECT count(*) FROM chosen),
    (SELECT ARRAY[xid, seq, accepted_at] FROM looked_at ORDER BY xid {reverse}, seq {reverse} LIMIT 1),
    ARRAY(SELECT seq FROM summed WHERE before_it < %(bytes)s ORDER BY xid {order}, seq {order})"""
_PAYLOADS = """SELECT e.xid, e.seq, e.accepted_at,
        (SELECT name FROM instance_numbers WHERE number = e.instance), e.id, e.kind,
        e.time, e.data, e.sender, e.server_url
    FROM unnest(%s::bigint[]) WITH ORDINALITY AS wanted (seq, place)
    CROSS JOIN LATERAL (SELECT * FROM events WHERE events.seq = wanted.seq AND heard >= 0 OFFSET 0) e
    ORDER BY wanted.place"""

_EVENT = """SELECT seq, accepted_at, id, kind, time, data, sender, server_url FROM events
    WHERE id = %s AND instance = %s AND octet_length(data) > 0"""
_DELIVERIES = f"""SELECT seq FROM deliveries WHERE event = %(event)s AND {IS_LISTED}
    ORDER BY seq DESC LIMIT %(rows)s"""  # noqa: S608 - constants

_COUNT = "SELECT instance, count(*), coalesce(sum(unwanted), 0)::bigint FROM log GROUP BY instance"
_OLDEST = """SELECT instance, xid, seq, unwanted FROM log
    WHERE (instance, xid, seq) > (%s, %s, %s) AND instance = ANY(%s) AND unwanted > 0
    ORDER BY instance, xid, seq LIMIT %s"""
_STILL_UNWANTED = "SELECT seq FROM events WHERE seq = ANY(%s) AND heard = 0 ORDER BY seq FOR UPDATE"


def begin_log(connection: Connection, now: float, *, is_whole: bool) -> None:
    """Note at a start whether the log has all events from now on: unwanted ones with their payloads, too."""
    was_whole, has_begun = one_row(connection, _WAS_WHOLE)
    if was_whole == is_whole and has_begun:
        return
    with connection.transaction():
        if not has_begun or is_whole:
            connection.execute(_BEGIN, (micros(now),))
        connection.execute("UPDATE log_state SET is_whole = %s", (is_whole,))


def read_state(connection: Connection, query: EventQuery) -> LogState:
    numbers = _numbers(connection, query)
    given = {"all": numbers is None, "numbers": numbers or []}
    generation, begins_at, xid, seq, settled = one_row(connection, _STATE, given)
    state = LogState(Generations.parse(generation), begins_at, (xid, seq), (settled - 1, searches.LAST))
    end = connection.execute(_END_OF_TAIL, (xid, seq, settled, TAIL_ROWS)).fetchone()
    return state if end is None else state._replace(end=(end[0], end[1]), reached=end[2])


def _numbers(connection: Connection, query: EventQuery) -> list[int] | None:
    """Return the numbers of the instances that a query is for; ``None`` for all."""
    names = query.among if query.instance is None else (query.instance,)
    if names is None:
        return None
    return one_row(connection, _NUMBERS, ([sought(name) for name in names],))[0] or []


def read_unindexed(connection: Connection, rows: int, size: int) -> Run | None:
    after = one_row(connection, "SELECT xid, seq FROM log_state")
    found = connection.execute(_UNINDEXED, (*after, rows, size)).fetchall()
    if not found:
        return None
    entries, places = [], {}
    for xid, seq, instance, kind, accepted_at, heard, account, data in found:
        if data:
            places[seq] = xid
            entries.append(entry_of(instance, seq, kind, accepted_at, heard, account, data))
    last = found[-1]
    return Run((after[0], after[1]), (last[0], last[1]), entries, len(found), places)


def add_run(transaction: Transaction, run: Run) -> None:
    connection = transaction.connection
    if connection.execute(_FREE, run.after).fetchone() is None:
        return
    connection.execute(_ADVANCE, run.last)
    if run.entries:
        rows = [(one[0], run.transactions[one[1]], *one[1:]) for one in run.entries]
        connection.execute(_ADD_ENTRIES, columns_of(rows))


def search_entries(connection: Connection, search: LogSearch) -> LogPart:
    if search.query.instance is None:
        return search_tail(connection, search)
    return _search(connection, search, _ENTRIES, search.sought.conditions())


def search_tail(connection: Connection, search: LogSearch) -> LogPart:
    is_all = search.query.instance is None and search.query.among is None
    return _search(connection, search, _TAIL, [] if is_all else ["l.instance = ANY(%(numbers)s)"])


def _search(connection: Connection, search: LogSearch, source: str, conditions: Iterable[str]) -> LogPart:
    query = search.query
    numbers = _numbers(connection, query)
    if numbers == []:
        return LogPart([], None)
    limits, payload, given = search.conditions(DIALECT)
    given |= {"instance": numbers[0] if numbers else None, "numbers": numbers}
    given["after_xid"], given["after"] = search.after or (-searches.LAST, -1)
    given["until_xid"], given["until"] = search.until or (searches.LAST, searches.LAST)
    order, reverse = ("ASC", "DESC") if query.is_oldest_first else ("DESC", "ASC")
    source = source.format(conditions=" AND ".join(["true", *conditions, *limits]), order=order)
    statement = _SEARCH.format(source=source, payload=" AND ".join(payload), order=order, reverse=reverse)
    looked_at, chosen, last, seqs = one_row(connection, statement, given)
    page = connection.execute(_PAYLOADS, (seqs,)).fetchall() if seqs else []
    behind, searched, is_end = (0, 0), None, looked_at < search.rows
    if last is not None:
        behind, searched = (last[0], last[1]), last[2]
    if len(seqs) < chosen or chosen == search.wanted:
        # An event that was removed just now is not in the page: the next one looks at its neighbours again.
        is_end = False
        if page:
            behind = page[-1][0], page[-1][1]
    found = []
    for xid, seq, accepted_at, *fields in page:
        if not is_retired(fields[0]) and search.sought.concerns(fields[4], fields[5]):
            found.append(((xid, seq), LoggedEvent(event_of(*fields), seconds(accepted_at))))
    return LogPart(found, None if is_end else behind, searched)


def find_event(
    connection: Connection, instance: str, event_id: str, *, without_global: bool = False
) -> EventReport | None:
    number = instance_number(connection, instance)
    if number is None:
        return None
    with one_moment(connection):
        row = connection.execute(_EVENT, (sought(event_id), number)).fetchone()
        if row is None:
            return None
        given = {"event": row[0], "without_global": without_global, "rows": searches.MOST_ATTEMPTS}
        seqs = [seq for (seq,) in connection.execute(_DELIVERIES, given)]
        return EventReport(event_of(instance, *row[2:]), seconds(row[1]), summaries(connection, seqs))


def count_unwanted(
    connection: Connection,
    after: int,  # noqa: ARG001 -- the server lets others read meanwhile
    events: int,  # noqa: ARG001
) -> tuple[int | None, int, dict[int, int]]:
    rows = connection.execute(_COUNT).fetchall()
    return None, sum(count for _, count, _ in rows), {instance: size for instance, _, size in rows if size}


def oldest_unwanted(
    connection: Connection, holders: Sequence[int], after: Unwanted | None, rows: int
) -> list[Unwanted]:
    former = (0, 0, 0) if after is None else (after.instance, *after.place)
    found = connection.execute(_OLDEST, (*former, list(holders), rows))
    return [Unwanted(0, instance, (xid, seq), size) for instance, xid, seq, size in found]


def remove_unwanted(transaction: Transaction, seqs: Sequence[int]) -> int:
    found = [seq for (seq,) in transaction.connection.execute(_STILL_UNWANTED, (sorted(seqs),))]
    keep_ids(transaction.connection, found)
    transaction.count_rows(len(found))
    return len(found)


def empty_runs(connection: Connection, most: int) -> list[int]:  # noqa: ARG001 -- there are no runs
    return []


def forget_runs(transaction: Transaction, runs: Sequence[int]) -> None:
    """There are none."""
