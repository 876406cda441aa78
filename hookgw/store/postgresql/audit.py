"""The audit: entries written with the changes they describe, listed, and removed when they are old."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from psycopg import Connection

from hookgw.records.audit import AuditEntry
from hookgw.store import audit_entries
from hookgw.store.audit_entries import AuditPart, AuditRow, StoredEntry
from hookgw.store.postgresql.lookups import columns_of, count_rows, one_row, sought
from hookgw.store.postgresql.transaction import Transaction
from hookgw.store.records import AuditQuery, micros
from hookgw.store.searches import in_time

_ADD = """INSERT INTO audit (at, instance, instance_id, action, entry)
    SELECT * FROM unnest(%s::bigint[], %s::text[], %s::text[], %s::text[], %s::text[])"""
# What another node removes at the same time need not be removed here. An array is chosen once. A subquery of
# IN may run again for each row: it then skips the rows that this statement has removed, and chooses the next
# ones, so that more rows are removed than the limit says.
_REMOVE_OLD = """DELETE FROM audit WHERE seq = ANY(ARRAY(
    SELECT seq FROM audit WHERE at < %s ORDER BY at, seq LIMIT %s FOR UPDATE SKIP LOCKED))"""
_REMOVE_OLDEST_OF = """DELETE FROM audit WHERE seq = ANY(ARRAY(
    SELECT seq FROM audit WHERE instance = %s ORDER BY at, seq LIMIT %s FOR UPDATE SKIP LOCKED))"""
_TOO_MANY = """SELECT instance, count(*) - %(most)s FROM audit
    WHERE instance IS NOT NULL GROUP BY instance HAVING count(*) > %(most)s"""
_ENTRIES = """SELECT at, seq, instance, instance_id, action, entry FROM audit
    WHERE seq = ANY(%s) ORDER BY at DESC, seq DESC"""

_stored_of = msgspec.json.Decoder(StoredEntry).decode


def write_audit(transaction: Transaction, entries: Sequence[AuditEntry]) -> None:
    if not entries:
        return
    rows = [
        (micros(entry.at), entry.instance, entry.instance_id, entry.action, audit_entries.stored(entry))
        for entry in entries
    ]
    transaction.connection.execute(_ADD, columns_of(rows))
    transaction.count_rows(len(entries))


def search_audit(
    connection: Connection, query: AuditQuery, before: tuple[int, int] | None, rows: int
) -> AuditPart:
    # These conditions limit a range of an index. The others are checked row by row.
    times, given = in_time(query, "%({})s", "at")
    places, matches = ["true", *times], ["true"]
    order = "at DESC, seq DESC"
    given |= {"rows": rows, "wanted": query.limit + 1}
    if query.instance is not None:
        # As a range, and sorted by the instance, too, so that only its own index fits; see history.py.
        places += ["instance IS NOT NULL", "instance >= %(instance)s", "instance <= %(instance)s"]
        order = "instance DESC, at DESC, seq DESC"
        given["instance"] = sought(query.instance)
    if query.instance_id is not None:
        matches.append("instance_id = %(instance_id)s")
        given["instance_id"] = sought(query.instance_id)
    if query.among is not None:
        matches.append("instance_id = ANY(%(among)s)")
        given["among"] = list(query.among)
    if before is not None:
        places.append("(at, seq) < (%(before)s, %(seq)s)")
        given["before"], given["seq"] = before
    if query.action is not None:
        # Of a whole resource, too: "key" finds "key.create".
        matches.append("(action = %(action)s OR starts_with(action, %(action)s || '.'))")
        given["action"] = sought(query.action)
    statement = f"""
        WITH looked_at AS MATERIALIZED (
            SELECT at, seq, {" AND ".join(matches)} AS matches FROM audit
            WHERE {" AND ".join(places)} ORDER BY {order} LIMIT %(rows)s
        )
        SELECT count(*), (SELECT ARRAY[at, seq] FROM looked_at ORDER BY at, seq LIMIT 1),
            ARRAY(SELECT seq FROM looked_at WHERE matches ORDER BY at DESC, seq DESC LIMIT %(wanted)s)
        FROM looked_at"""  # noqa: S608 - only the texts above are in it
    count, last, seqs = one_row(connection, statement, given)
    lines = connection.execute(_ENTRIES, (seqs,)).fetchall() if seqs else []
    found = [
        AuditRow(at, seq, instance, instance_id, action, _stored_of(entry))
        for at, seq, instance, instance_id, action, entry in lines
    ]
    return AuditPart(found, count, (last[0], last[1]) if last else (0, 0))


def count_too_many(connection: Connection, most: int) -> list[tuple[str, int]]:
    return connection.execute(_TOO_MANY, {"most": most}).fetchall()


def remove_old(transaction: Transaction, before: int, count: int) -> int:
    return count_rows(transaction.connection, _REMOVE_OLD, (before, count))


def remove_oldest_of(transaction: Transaction, instance: str, count: int) -> int:
    return count_rows(transaction.connection, _REMOVE_OLDEST_OF, (instance, count))
