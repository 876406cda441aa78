"""Many rows in one statement.

Python releases and takes back its lock around each step of a statement, and beside a busy Trio thread each
time costs a wait. A commit should therefore take few steps, however many rows it writes: the rows are bound
to one multi-row ``VALUES``, filled up to the next power of two with rows of zeros. That keeps the number of
different statements small enough for all of them to stay prepared. (Zeros, not NULL: Python looks for an
adapter of every ``None``, which takes ten times as long as to bind an integer.)

An ``UPDATE`` of one row has its values in the statement itself. From ``VALUES``, SQLite would first fill a
table, which takes longer than the update.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import msgspec

# With ten columns 5,120 parameters, of the 32,766 that SQLite allows.
MAX_ROWS = 512


class Bulk:
    """A statement that reads rows from a ``VALUES`` table named ``given``.

    Args:
        before: the statement up to the table.
        columns: how many columns the rows have; their names are ``column1`` and up.
        after: the rest. It must skip rows whose ``column1`` is the number 0.
    """

    def __init__(self, before: str, columns: int, after: str) -> None:
        self._before = before
        self._after = after
        self._columns = columns
        self._statements: dict[int, str] = {}
        # Of one row, the columns in the order of the statement. Not as "?2": before 3.12.4, Python 3.12 warns
        # of numbers, and takes longer.
        alone = f"{before.removesuffix('FROM')} {after}" if before.startswith("UPDATE ") else ""
        self._order = [int(number) - 1 for number in re.findall(r"\bcolumn(\d+)", alone)]
        if alone:
            self._statements[1] = re.sub(r"\bcolumn\d+", "?", alone)

    def run(self, connection: sqlite3.Connection, rows: Sequence[tuple[Any, ...]]) -> int:
        """Run over all rows in order; return how many changed. If it fails, earlier rows may be done."""
        changed = 0
        for start in range(0, len(rows), MAX_ROWS):
            part = rows[start : start + MAX_ROWS]
            size = 1 << (len(part) - 1).bit_length()
            statement = self._statements.get(size)
            if statement is None:
                statement = self._statements[size] = self._statement(size)
            if size == 1 and self._order:
                row = part[0]
                values = [row[place] for place in self._order]
            else:
                values = list(chain.from_iterable(part))
                values += [0] * ((size - len(part)) * self._columns)
            changed += connection.execute(statement, values).rowcount
        return changed

    def _statement(self, rows: int) -> str:
        row = f"({', '.join('?' * self._columns)})"
        return f"{self._before} (VALUES {', '.join([row] * rows)}) AS given {self._after}"


def as_json(values: Iterable[Any]) -> str:
    """Return values as a JSON array: one parameter of a statement, which reads them with ``json_each``."""
    return msgspec.json.encode(list(values)).decode()


numbers_of = msgspec.json.Decoder(list[int]).decode
pairs_of = msgspec.json.Decoder(list[tuple[int, int]]).decode
"""Read what ``json_group_array`` has made of many rows: a statement that returns one takes one step."""
