"""Statements on the path of every delivery stay on their index, also before the server has statistics."""

import re
from collections.abc import Iterator
from itertools import count, pairwise
from typing import Any

import psycopg
import pytest

from hookgw.store import searches
from hookgw.store.postgresql import append, feed, held, outbox, settle
from tests.public.postgresql import WRITE_PATIENCE, Server

LANE = "reg_3"


@pytest.fixture(params=[False, True], ids=["new", "analyzed"])
def backlog(connection: psycopg.Connection, request: pytest.FixtureRequest) -> psycopg.Connection:
    """A connection to tables with a long backlog in a few lanes."""
    connection.execute("INSERT INTO instance_numbers (name) SELECT 'i' || g FROM generate_series(0, 9) g")
    connection.execute(
        """INSERT INTO events SELECT g, g % 10 + 1, g, 'CALL', g, g, '', NULL, NULL, 1
        FROM generate_series(1, 20000) g"""
    )
    connection.execute(
        """INSERT INTO deliveries SELECT g, g, g % 10 + 1, 'CALL', 'reg_' || g % 10, 'reg_' || g % 10 || ':0',
            'pending', g, 2, 3, g, g, 0, 0, 0, NULL, NULL FROM generate_series(1, 20000) g"""
    )
    if request.param:
        connection.execute("ANALYZE")
    return connection


def plan(connection: psycopg.Connection, statement: str, given: Any) -> str:
    rows = connection.execute(f"EXPLAIN (COSTS OFF) {statement.replace('%b', '%s')}".encode(), given)
    return "\n".join(line for (line,) in rows)


def test_a_page_of_a_lane(backlog: psycopg.Connection) -> None:
    given = {"registration": "reg_3", "lane": "reg_3:0", "xid": 3, "position": 9, "limit": 100, "size": None}
    given |= {"before_xid": searches.LAST, "before": searches.LAST}
    found = plan(backlog, outbox.PAGE_STATEMENT, given)
    assert "outbox" in found
    assert not {"feed", "waiting"} & set(found.split())
    assert "deliveries_pkey" in found


def test_what_is_settled(backlog: psycopg.Connection) -> None:
    found = plan(backlog, settle.STILL_PENDING, (list(range(1, 500)),))
    assert "deliveries_pkey" in found
    assert not {"feed", "outbox"} & set(found.split())
    rows = ([1], ["delivered"], [1], [0], [0], [5], [None], [1])
    assert "using deliveries_pkey" in plan(backlog, settle.SETTLE, rows)


def test_the_feed(backlog: psycopg.Connection) -> None:
    found = plan(backlog, feed.NEXT, (5, 0, [7], 1000))
    assert "feed" in found
    found = plan(backlog, feed.READ, ([1, 2, 3],))
    assert "deliveries_pkey" in found
    assert not {"feed", "outbox"} & set(found.split())


def test_what_is_held_back(backlog: psycopg.Connection) -> None:
    with backlog.transaction():
        backlog.execute(held.IN_ORDER.encode())
        found = plan(backlog, held.HELD.format(most=held.MOST), (9,))
    assert "Index Scan using feed" in found
    assert "Sort" not in found


@pytest.fixture(params=["new", "analyzed"])
def writer(database: Server, request: pytest.FixtureRequest) -> Iterator[psycopg.Connection]:
    """The connection that writes, to tables with a few rows."""
    connection = database.connect(WRITE_PATIENCE)
    connection.execute("INSERT INTO instance_numbers (name) VALUES ('shop')")
    connection.execute("INSERT INTO events VALUES (1, 1, 'e1', 'CALL', 1, 1, '', NULL, NULL, 1)")
    connection.execute(
        """INSERT INTO deliveries VALUES (1, 1, 1, 'CALL', 'reg', 'reg:0', 'pending', 1, 2, 3, 1, 1, 0, 0, 0,
            NULL, NULL)"""
    )
    if request.param == "analyzed":
        connection.execute("ANALYZE")
    yield connection
    connection.close()


@pytest.mark.parametrize(
    "statement",
    [settle.STILL_PENDING, settle.SETTLE, feed.NEXT, feed.READ, append.APPEND, append.PREPARE],
    ids=["pending", "settle", "next", "read", "append", "prepare"],
)
def test_a_plan_that_is_made_while_tables_are_small_serves_when_they_are_large(
    writer: psycopg.Connection, statement: str
) -> None:
    """The server keeps the plans of a connection until it has new statistics, a minute later or more."""
    numbers = count(1)
    prepared = re.sub("%[bs]", lambda _: f"${next(numbers)}", statement)
    nothing = ", ".join(["NULL"] * (next(numbers) - 1))
    writer.execute("SET plan_cache_mode = force_generic_plan")
    writer.execute(f"PREPARE known AS {prepared}".encode())
    found = [line for (line,) in writer.execute(f"EXPLAIN (COSTS OFF) EXECUTE known ({nothing})".encode())]
    assert "Seq Scan on" not in "\n".join(found)
    for scan, condition in pairwise([*found, ""]):
        if re.search("Index (Only )?Scan .*on (events|deliveries)", scan):
            assert "Index Cond" in condition, "\n".join(found)
