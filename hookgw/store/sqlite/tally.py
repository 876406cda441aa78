"""What happened to an instance lately, counted and not listed: a few numbers for a page."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Mapping
from typing import Any

from hookgw.records.registrations import GLOBAL_ID_PREFIX
from hookgw.store.records import seconds
from hookgw.store.sqlite.name_ids import of_instance

_MINUTE = 60 * 1_000_000

# The index of the history ends the walk, and has the time; only rows of the wanted time are read. One JSON
# value, and one row for all: each step of a statement costs a wait for Python's lock. An event and its
# deliveries are appended together, so numbers of both fall together: the event at the end of the part before
# is counted there.
_TALLY = f"""
    WITH looked_at AS MATERIALIZED (
        SELECT seq, accepted_at FROM deliveries INDEXED BY history
        WHERE instance = (SELECT number FROM names WHERE name = :instance) AND seq < :before
        ORDER BY seq DESC LIMIT :rows
    ),
    wanted AS MATERIALIZED (
        SELECT d.event AS event, d.accepted_at AS at, d.state AS state
        FROM looked_at part CROSS JOIN deliveries d ON d.seq = part.seq
        WHERE part.accepted_at >= :since AND (NOT :without_global OR (
            SELECT substr(name, 1, {len(GLOBAL_ID_PREFIX)}) FROM names WHERE number = d.registration
        ) <> '{GLOBAL_ID_PREFIX}')
    ),
    minutes AS (
        SELECT at / {_MINUTE} AS minute, count(DISTINCT iif(event < :event, event, NULL)) AS events,
            sum(state = 'delivered') AS delivered, sum(state = 'dead') AS dead
        FROM wanted part GROUP BY minute
    )
    SELECT (SELECT count(*) FROM looked_at), (SELECT min(seq) FROM looked_at),
        (SELECT min(accepted_at) FROM looked_at), (SELECT min(event) FROM wanted),
        (SELECT json_group_array(json_array(minute, events, delivered, dead)) FROM minutes part)"""  # noqa: S608
_NEWEST = """SELECT json_group_object(substr(name, 2), at) FROM (
    SELECT value AS name, (
        SELECT accepted_at FROM deliveries INDEXED BY history
        WHERE instance = (SELECT number FROM names WHERE name = value) ORDER BY seq DESC LIMIT 1
    ) AS at FROM json_each(?)) WHERE at IS NOT NULL"""


def tally(connection: sqlite3.Connection, instance: str, given: Mapping[str, Any]) -> tuple[Any, ...]:
    *counts, minutes = connection.execute(_TALLY, {**given, "instance": of_instance(instance)}).fetchone()
    return *counts, json.loads(minutes)


def newest(connection: sqlite3.Connection, instances: Collection[str]) -> dict[str, float]:
    names = json.dumps([of_instance(name) for name in instances])
    found = json.loads(connection.execute(_NEWEST, (names,)).fetchone()[0])
    return {name: seconds(at) for name, at in found.items()}
