"""Many rows in one statement.

Python gives up its lock and takes it back round each step of a statement, and beside a busy Trio
thread each time costs a wait. So a commit should take few steps, however many rows it writes:
rows are bound to one multi-row ``VALUES``, filled up to the next power of two with rows of NULL,
which keeps the number of different statements small enough to stay prepared.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from itertools import chain
from typing import Any

MAX_ROWS = 512


class Bulk:
    """A statement that reads rows from a ``VALUES`` table called ``given``.

    Args:
        before: the statement up to the table.
        columns: how many columns the rows have; their names are ``column1`` and up.
        after: the rest. It must pass over rows whose ``column1`` is NULL.
    """

    def __init__(self, before: str, columns: int, after: str) -> None:
        self._before = before
        self._after = after
        self._columns = columns
        self._statements: dict[int, str] = {}

    def run(self, connection: sqlite3.Connection, rows: Sequence[tuple[Any, ...]]) -> int:
        """Run it over all rows, in order; return how many rows it changed.

        Raises:
            sqlite3.Error: as the statement does; some rows may be done.
        """
        return sum(
            self._run(connection, rows[start : start + MAX_ROWS]) for start in range(0, len(rows), MAX_ROWS)
        )

    def _run(self, connection: sqlite3.Connection, rows: Sequence[tuple[Any, ...]]) -> int:
        size = 1 << (len(rows) - 1).bit_length()
        values = list(chain.from_iterable(rows))
        values += [None] * ((size - len(rows)) * self._columns)
        return connection.execute(self._statement(size), values).rowcount

    def _statement(self, size: int) -> str:
        statement = self._statements.get(size)
        if statement is None:
            row = f"({', '.join('?' * self._columns)})"
            table = f"(VALUES {', '.join([row] * size)}) AS given"
            statement = self._statements[size] = f"{self._before} {table} {self._after}"
        return statement
