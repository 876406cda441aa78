"""Numbered migrations, each whole or not at all."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from hookgw.models.errors import StartError
from hookgw.store.sqlite.migrations import APPLICATION_ID, MIGRATIONS, Migration, migrate

FIRST = ("CREATE TABLE one (x)", "INSERT INTO one VALUES (1)")
SECOND = ("ALTER TABLE one ADD COLUMN y", "UPDATE one SET y = x + 1")
BROKEN = ("CREATE TABLE three (x)", "INSERT INTO nowhere VALUES (1)")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "data.db"


@pytest.fixture
def connection(file: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        yield connection


def version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def test_a_new_file_gets_all_of_them(connection: sqlite3.Connection, file: Path) -> None:
    migrate(connection, file, (FIRST, SECOND))
    assert version(connection) == 2
    assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
    assert connection.execute("SELECT x, y FROM one").fetchall() == [(1, 2)]


def test_an_older_file_gets_what_it_lacks(connection: sqlite3.Connection, file: Path) -> None:
    migrate(connection, file, (FIRST,))
    connection.execute("UPDATE one SET x = 7")
    migrate(connection, file, (FIRST, SECOND))
    migrate(connection, file, (FIRST, SECOND))
    assert connection.execute("SELECT x, y FROM one").fetchall() == [(7, 8)]


def test_one_that_fails_leaves_the_file_at_the_one_before(connection: sqlite3.Connection, file: Path) -> None:
    with pytest.raises(sqlite3.OperationalError, match="nowhere"):
        migrate(connection, file, (FIRST, SECOND, BROKEN))
    assert version(connection) == 2
    assert not connection.in_transaction
    migrate(connection, file, (FIRST, SECOND, ("CREATE TABLE three (x)",)))
    assert version(connection) == 3


def test_a_newer_file_is_refused(connection: sqlite3.Connection, file: Path) -> None:
    migrate(connection, file, (FIRST, SECOND))
    with pytest.raises(StartError, match=r"data\.db has schema 2, .* up to 1: a newer hookgw"):
        migrate(connection, file, (FIRST,))


@pytest.mark.parametrize(
    "statement", ["CREATE TABLE theirs (x)", "PRAGMA user_version = 1", "PRAGMA application_id = 5"]
)
def test_the_file_of_another_program_is_refused(
    connection: sqlite3.Connection, file: Path, statement: str
) -> None:
    connection.execute(statement)
    with pytest.raises(StartError, match="database of another program"):
        migrate(connection, file)
    assert connection.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'events'").fetchone() == (0,)


@pytest.mark.parametrize("count", range(1, len(MIGRATIONS) + 1))
def test_the_real_ones_apply_one_by_one(connection: sqlite3.Connection, file: Path, count: int) -> None:
    given: tuple[Migration, ...] = MIGRATIONS[:count]
    migrate(connection, file, given)
    assert version(connection) == count


def test_lanes_lose_the_passwords_of_their_urls(connection: sqlite3.Connection, file: Path) -> None:
    migrate(connection, file, MIGRATIONS[:1])
    names = [
        "https://ann:s3cret@a.test/in",
        "https://a.test/in",
        "https://ben:s3cret@b.test/#2",
        "@shop",
        "https://c.test/a@b",
    ]
    connection.executemany("INSERT INTO names (name) VALUES (?)", [(name,) for name in names])
    connection.executemany(
        """INSERT INTO deliveries (event, instance, kind, registration, lane, state, accepted_at, size,
            position, queued_at, attempts, failures, next_at)
            VALUES (1, 4, 4, 4, ?, 'pending', 1, 1, ?, 1, 0, 0, 0)""",
        [(lane, position) for position, lane in enumerate((1, 2, 3, 1, 5))],
    )
    migrate(connection, file)
    lanes = connection.execute(
        "SELECT name FROM deliveries JOIN names ON number = lane ORDER BY position"
    ).fetchall()
    merged = "https://a.test/in"
    assert [name for (name,) in lanes] == [merged, merged, "https://b.test/#2", merged, "https://c.test/a@b"]
    assert "s3cret" not in str(connection.execute("SELECT name FROM names").fetchall())
    assert connection.execute("SELECT number FROM names WHERE name = '@shop'").fetchone() == (4,)
