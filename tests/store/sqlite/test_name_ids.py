"""Names kept once."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from hookgw.store.sqlite import name_ids as names_module
from tests.public.sqlite import NameIds, migrate


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        migrate(connection, Path(":memory:"))
        yield connection


def test_each_name_has_one_number(connection: sqlite3.Connection) -> None:
    names = NameIds(connection)
    first = dict(names.ids(["a", "é", "a", ""]))
    assert sorted(first) == ["", "a", "é"]
    assert len(set(first.values())) == 3
    assert names.ids(["é", "b"])["é"] == first["é"]
    assert NameIds(connection).ids(["b", "a"])["a"] == first["a"]
    assert connection.execute("SELECT count(*) FROM names").fetchone() == (4,)


def test_known_names_ask_nothing_of_the_disk(connection: sqlite3.Connection) -> None:
    names = NameIds(connection)
    names.ids(["a", "b"])
    asked: list[str] = []
    connection.set_trace_callback(asked.append)
    names.ids(["b", "a"])
    assert asked == []


def test_what_was_undone_is_forgotten(connection: sqlite3.Connection) -> None:
    names = NameIds(connection)
    connection.execute("BEGIN")
    names.ids(["a"])
    connection.execute("ROLLBACK")
    names.forget()
    assert names.ids(["b", "a"]) == dict(connection.execute("SELECT name, number FROM names"))


def test_the_memory_is_bounded(connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names_module, "MAX_REMEMBERED", 3)
    names = NameIds(connection)
    first = dict(names.ids(["a", "b", "c"]))
    assert len(first) == 3
    assert set(names.ids(["a", "d"])) == {"a", "d"}
    assert names.ids(["a", "d"])["a"] == first["a"]
