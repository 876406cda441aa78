"""Statements over many rows."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest

from tests.public.sqlite import MAX_ROWS, Bulk

ADD = Bulk("INSERT INTO found (a, b) SELECT * FROM", 2, "WHERE column1 <> 0")
CHANGE = Bulk("UPDATE found SET b = column2 FROM", 2, "WHERE found.a = column1")


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as opened:
        opened.execute("CREATE TABLE found (a, b)")
        yield opened


@pytest.mark.parametrize("count", [0, 1, 2, 3, 5, 8, 9, MAX_ROWS, 2 * MAX_ROWS + 3])
def test_every_row_is_written_once_and_in_order(connection: sqlite3.Connection, count: int) -> None:
    rows = [(number + 1, f"row {number}") for number in range(count)]
    assert ADD.run(connection, rows) == count
    assert connection.execute("SELECT a, b FROM found").fetchall() == rows
    assert CHANGE.run(connection, [(a, None) for a, _ in rows]) == count
    assert connection.execute("SELECT count(*) FROM found WHERE b IS NULL").fetchone() == (count,)


def test_texts_and_values_that_look_like_the_filling_are_rows(connection: sqlite3.Connection) -> None:
    rows = [("0", 0), ("", None), (-1, 0)]
    assert ADD.run(connection, rows) == 3
    assert connection.execute("SELECT a, b FROM found").fetchall() == rows


def test_an_update_of_one_row_binds_its_values_in_order() -> None:
    """Python 3.12 before 3.12.4 warns of numbers of parameters, and hookgw stopped where that is an error."""
    executed: list[tuple[str, list[object]]] = []

    def execute(statement: str, values: list[object]) -> SimpleNamespace:
        executed.append((statement, values))
        return SimpleNamespace(rowcount=1)

    connection: Any = SimpleNamespace(execute=execute)
    assert CHANGE.run(connection, [(7, "x")]) == 1
    assert executed == [("UPDATE found SET b = ?  WHERE found.a = ?", ["x", 7])]
