"""Removes names that no row refers to: of deleted instances and registrations, and the URLs of attempts, once
the history is gone.

No index leads from a name to its rows, and one would cost every append a page. So the rows are walked, a part
at a time, on a reading connection. Meanwhile appends may take a name into use again, or give rows that were
walked another lane. All of them get the number from :class:`~hookgw.store.sqlite.name_ids.NameIds`, which
forgets what it knows at the beginning of a walk: what it knows at the end was used meanwhile, and stays.

Names of kinds are few and stay.
"""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from functools import partial
from typing import NamedTuple

import msgspec
import trio

from hookgw.kernel.errors import StorageUnavailable
from hookgw.store.commits.group_commit import GroupCommit
from hookgw.store.commits.jobs import FunctionRequest
from hookgw.store.reader import ConnectionReader
from hookgw.store.sqlite.bulk import as_json
from hookgw.store.sqlite.transaction import Transaction

WALK_EVERY = 3600.0
"""Seconds between two walks."""
FIRST_AFTER = 600.0
"""Seconds from a start to the first walk: hookgw may not run for an hour at a time."""
FEW_NAMES = 1_000
"""With no more names than this, there is no walk."""
# How many rows are looked at, and names removed, in one turn; and the rest between two turns, in seconds.
ROWS = 5_000
BATCH = 1_000
REST = 0.01

# Instances begin with "@", URLs with ">", tags with "#", see name_ids.py; lanes with their registration.
_CANDIDATES = """SELECT json_group_array(number) FROM names WHERE substr(name, 1, 1) IN ('@', '>', '#')
    OR substr(name, 1, 4) = 'reg_' OR substr(name, 1, 7) = 'global_' OR substr(name, 1, 10) = 'operations'"""
_COUNT = "SELECT count(*) FROM names"
_DELIVERIES = """SELECT count(*), max(seq), json_group_array(DISTINCT instance),
    json_group_array(DISTINCT registration), json_group_array(DISTINCT lane)
    FROM (SELECT seq, instance, registration, lane FROM deliveries WHERE seq > ? ORDER BY seq LIMIT ?)"""
# An event with deliveries has an instance that they have, too. The others have no payload.
_UNHEARD = """SELECT count(*), max(accepted_at), max(seq), json_group_array(DISTINCT instance)
    FROM (SELECT accepted_at, seq, instance FROM events INDEXED BY unheard
        WHERE heard = 0 AND (accepted_at, seq) > (?, ?) ORDER BY accepted_at, seq LIMIT ?)"""
# Of others, the id alone is left; see event_ids.py. In the order of the index. The columns beside the one
# max() are those of the row that has it: the last one. Its place is how many rows there are.
_REMEMBERED = """SELECT max(place), accepted_at, heard, seq, json_group_array(DISTINCT instance)
    FROM (SELECT *, row_number() OVER (ORDER BY accepted_at, heard, seq) AS place FROM (
        SELECT accepted_at, heard, seq, instance FROM events INDEXED BY remembered
        WHERE heard < 0 AND (accepted_at, heard, seq) > (?, ?, ?)
        ORDER BY accepted_at, heard, seq LIMIT ?))"""
# In the order of the primary key. Few attempts of one delivery have different URLs, but a resend may.
_ATTEMPTS = """SELECT max(place), delivery, number, json_group_array(DISTINCT url)
        FILTER (WHERE url IS NOT NULL)
    FROM (SELECT *, row_number() OVER (ORDER BY delivery, number) AS place FROM (
        SELECT delivery, number, url FROM attempts WHERE (delivery, number) > (?, ?)
        ORDER BY delivery, number LIMIT ?))"""
# In the order of the primary key, as above.
_FIGURES = """SELECT max(place), step, at, holder, json_group_array(DISTINCT holder)
    FROM (SELECT *, row_number() OVER (ORDER BY step, at, holder) AS place FROM (
        SELECT step, at, holder FROM figures WHERE (step, at, holder) > (?, ?, ?)
        ORDER BY step, at, holder LIMIT ?))"""
# What counts commits of the last minute: the registration and the instance of each entry.
_NEWS = """SELECT json_group_array(number) FROM (
    SELECT one.value ->> 1 AS number FROM figure_news, json_each(entries, '$[1]') one
    UNION SELECT one.value ->> 2 FROM figure_news, json_each(entries, '$[1]') one)
    WHERE typeof(number) = 'integer'"""
# Of instances without events: the number may be given to another one.
_REMOVE_BEGINS = "DELETE FROM log_begins WHERE instance IN (SELECT value FROM json_each(?))"
_REMOVE = "DELETE FROM names WHERE number IN (SELECT value FROM json_each(?))"

_numbers_of = msgspec.json.Decoder(set[int]).decode


class _Part(NamedTuple):
    """A part of a walk: where it ended, ``None`` at the end of all rows, and the names in it."""

    last: tuple[int, ...] | None
    used: set[int]


class NamePruning:
    def __init__(
        self, commits: GroupCommit[Transaction], reader: ConnectionReader[sqlite3.Connection]
    ) -> None:
        self._commits = commits
        self._reader = reader
        self._due_at = trio.current_time() + FIRST_AFTER

    async def prune_if_due(self) -> int:
        """Remove names that no row refers to, unless that was done not long ago; return how many."""
        now = trio.current_time()
        if now < self._due_at or await self._reader.run(_count) <= FEW_NAMES:
            return 0
        self._due_at = now + WALK_EVERY
        return await self.prune()

    async def prune(self) -> int:
        """Remove names that no row refers to; return how many."""
        await self._commits.call(lambda transaction: transaction.names.begin_walk())
        try:
            # After the commit above: a name that is new by now is in the memory of the names.
            unused = await self._reader.run(
                lambda connection: _numbers_of(connection.execute(_CANDIDATES).fetchone()[0])
            )
            walks = (walk_unheard, walk_remembered, walk_attempts, walk_figures, _walk_news)
            for walk in (_walk_deliveries, *walks):
                last: tuple[int, ...] | None = ()
                while last is not None and unused:
                    last, used = await self._reader.run(partial(walk, after=last))
                    unused -= used
                    await trio.sleep(REST)
            removed, numbers = 0, sorted(unused)
            for start in range(0, len(numbers), BATCH):
                remove = partial(remove_names, numbers=numbers[start : start + BATCH])
                removed += await self._commits.call(remove)
                await trio.sleep(REST)
            return removed
        finally:
            # Only to free memory: the next walk begins anew in any case.
            with suppress(StorageUnavailable):
                self._commits.call_nowait(FunctionRequest(lambda transaction: transaction.names.end_walk()))


def _count(connection: sqlite3.Connection) -> int:
    return int(connection.execute(_COUNT).fetchone()[0])


def _walk(statement: str, width: int, connection: sqlite3.Connection, after: tuple[int, ...]) -> _Part:
    """Look at the rows behind a place; an empty one is before all rows.

    ``width`` is how many columns a place has. The statement returns how many rows there were, the place of
    the last one, and lists of names.
    """
    count, *row = connection.execute(statement, (*(after or (-1,) * width), ROWS)).fetchone()
    used: set[int] = set().union(*map(_numbers_of, row[width:]))
    return _Part(tuple(row[:width]) if count == ROWS else None, used)


_walk_deliveries = partial(_walk, _DELIVERIES, 1)
walk_unheard = partial(_walk, _UNHEARD, 2)
walk_remembered = partial(_walk, _REMEMBERED, 3)
walk_attempts = partial(_walk, _ATTEMPTS, 2)
walk_figures = partial(_walk, _FIGURES, 3)


def _walk_news(connection: sqlite3.Connection, after: tuple[int, ...]) -> _Part:  # noqa: ARG001 -- they are few
    return _Part(None, _numbers_of(connection.execute(_NEWS).fetchone()[0]))


def remove_names(transaction: Transaction, numbers: list[int]) -> int:
    used = transaction.names.used_since_walk_began()
    free = as_json(number for number in numbers if number not in used)
    removed = transaction.connection.execute(_REMOVE, (free,)).rowcount
    transaction.names.forget()  # a number may be given again
    transaction.connection.execute(_REMOVE_BEGINS, (free,))
    transaction.count_rows(removed)
    return removed
