"""The audit: entries written with the changes they describe, listed, and removed when they are old."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

import msgspec

from hookgw.records.audit import AuditEntry
from hookgw.store import audit_entries
from hookgw.store.audit_entries import AuditPart, AuditRow
from hookgw.store.records import AuditQuery, micros
from hookgw.store.searches import in_time
from hookgw.store.sqlite.transaction import Transaction

_ADD = "INSERT INTO audit (at, instance, instance_id, action, entry) VALUES (?, ?, ?, ?, ?)"
OLD = "SELECT json_group_array(seq) FROM (SELECT seq FROM audit WHERE at < ? ORDER BY at, seq LIMIT ?)"
# The condition is that of the index.
OLDEST_OF = """SELECT json_group_array(seq) FROM (
    SELECT seq FROM audit WHERE instance IS NOT NULL AND instance = ? ORDER BY at, seq LIMIT ?)"""
_TOO_MANY = """SELECT instance, count(*) - ? FROM audit INDEXED BY audited_instances
    WHERE instance IS NOT NULL GROUP BY instance HAVING count(*) > ?"""
_REMOVE = "DELETE FROM audit WHERE seq IN (SELECT value FROM json_each(?))"


_rows_of = msgspec.json.Decoder(list[AuditRow]).decode


def write_audit(transaction: Transaction, entries: Sequence[AuditEntry]) -> None:
    for entry in entries:
        row = (micros(entry.at), entry.instance, entry.instance_id, entry.action, audit_entries.stored(entry))
        transaction.connection.execute(_ADD, row)
    transaction.count_rows(len(entries))


def search_audit(
    connection: sqlite3.Connection, query: AuditQuery, before: tuple[int, int] | None, rows: int
) -> AuditPart:
    # These conditions limit a range of an index. The others are checked row by row.
    times, given = in_time(query, ":{}", "at")
    places, matches = ["1", *times], ["1"]
    given |= {"rows": rows, "wanted": query.limit + 1}
    if query.instance is not None:
        places += ["instance IS NOT NULL", "instance = :instance"]
        given["instance"] = query.instance
    if query.instance_id is not None:
        matches.append("instance_id = :instance_id")
        given["instance_id"] = query.instance_id
    if query.among is not None:
        matches.append("instance_id IN (SELECT value FROM json_each(:among))")
        given["among"] = msgspec.json.encode(query.among).decode()
    if before is not None:
        places.append("(at, seq) < (:before, :seq)")
        given["before"], given["seq"] = before
    if query.action is not None:
        # Of a whole resource, too: "key" finds "key.create".
        matches.append("(action = :action OR substr(action, 1, length(:action) + 1) = :action || '.')")
        given["action"] = query.action
    statement = f"""
        WITH looked_at AS MATERIALIZED (
            SELECT at, seq, {" AND ".join(matches)} AS matches FROM audit
            WHERE {" AND ".join(places)} ORDER BY at DESC, seq DESC LIMIT :rows
        ),
        chosen AS (SELECT seq FROM looked_at WHERE matches ORDER BY at DESC, seq DESC LIMIT :wanted)
        SELECT count(*), min(at), (SELECT seq FROM looked_at ORDER BY at, seq LIMIT 1), (
            SELECT json_group_array(json(line)) FROM (
                SELECT json_array(a.at, a.seq, a.instance, a.instance_id, a.action, json(a.entry)) AS line
                FROM chosen c CROSS JOIN audit a ON a.seq = c.seq ORDER BY a.at DESC, a.seq DESC))
        FROM looked_at"""  # noqa: S608 - only the texts above are in it
    count, at, seq, lines = connection.execute(statement, given).fetchone()
    return AuditPart(_rows_of(lines), count, (at, seq))


def remove_entries(transaction: Transaction, statement: str, given: tuple[Any, ...]) -> int:
    found = transaction.connection.execute(statement, given).fetchone()[0]
    return transaction.connection.execute(_REMOVE, (found,)).rowcount


def count_too_many(connection: sqlite3.Connection, most: int) -> list[tuple[str, int]]:
    return connection.execute(_TOO_MANY, (most, most)).fetchall()


def remove_old(transaction: Transaction, before: int, count: int) -> int:
    return remove_entries(transaction, OLD, (before, count))


def remove_oldest_of(transaction: Transaction, instance: str, count: int) -> int:
    return remove_entries(transaction, OLDEST_OF, (instance, count))
