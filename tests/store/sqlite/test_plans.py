"""Statements use the indexes that were made for them, so that their cost does not grow with the file."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hookgw.models.deliveries import DeliveryState
from hookgw.store import DeliveryQuery
from hookgw.store.sqlite import drop_oldest as dropping
from hookgw.store.sqlite import history, outbox
from hookgw.store.sqlite import pending_counts as tallies
from hookgw.store.sqlite import relane as moving
from hookgw.store.sqlite import settle as settling
from hookgw.store.sqlite.migrations import migrate
from hookgw.store.sqlite.name_ids import NameIds
from tests.store.sqlite.support import AT, delivered


class Explaining:
    """A connection that explains each statement before it runs it."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.plan: list[str] = []

    def execute(self, statement: str, given: Any = ()) -> sqlite3.Cursor:
        rows = self._connection.execute(f"EXPLAIN QUERY PLAN {statement}", given)
        self.plan += [row[3] for row in rows]
        return self._connection.execute(statement, given)


@pytest.fixture
def connection() -> Iterator[Explaining]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        migrate(connection, Path(":memory:"))
        connection.execute("INSERT INTO names VALUES (1, 'shop'), (2, 'lane'), (3, 'reg'), (4, 'K')")
        connection.execute("INSERT INTO events VALUES (1, 1, 'e', 4, 0, 0, '{}', NULL, NULL, 1)")
        connection.execute(
            "INSERT INTO deliveries VALUES (1, 1, 1, 4, 3, 2, 'pending', 0, 2, 1, 0, 0, 0, 0, NULL, NULL)"
        )
        yield Explaining(connection)


STATEMENTS: dict[str, Callable[[Any], object]] = {
    "page": lambda c: outbox.page(c, "lane", 0, 10),
    "backlog": outbox.backlog,
    "count": outbox.count_pending,
    "count of a lane": lambda c: outbox.count_pending(c, "lane"),
    "settle": lambda c: settling.settle(c, [delivered(1)]),
    "list": lambda c: history.list_deliveries(c, DeliveryQuery(instance="shop")),
    "list with all filters": lambda c: history.list_deliveries(
        c, DeliveryQuery(instance="shop", kind="K", since=0.0, until=AT, cursor=9)
    ),
    "find by delivery": lambda c: history.find_delivery(c, "shop", "dlv_1"),
    "find by event": lambda c: history.find_delivery(c, "shop", "e"),
    "prune": lambda c: (settling.settle(c, [delivered(1)]), history.prune(c, AT + 1, 10)),
    "park": lambda c: moving.park(c, "reg", ["lane"], "off", AT, moving.START, 10),
    "relane": lambda c: moving.relane(c, NameIds(c), "reg", ["lane"], "other", moving.START, 10),
    "relane by a function": lambda c: moving.relane(
        c, NameIds(c), "reg", ["lane"], lambda _: "other", moving.START, 10
    ),
    "drop the oldest": lambda c: dropping.drop_oldest(
        c, "reg", ["lane"], "full", AT, count=1, size=0, spared=[], limit=10
    ),
    "weigh": lambda c: tallies.weight(c, [1]),
}


@pytest.mark.parametrize("name", STATEMENTS)
def test_nothing_scans_a_table(connection: Explaining, name: str) -> None:
    STATEMENTS[name](connection)
    tables = (
        "events",
        "deliveries",
        "attempts",
        "bodies",
        "d",
        "e",
        "a",
        "b",
        "i",
        "k",
        "r",
        "l",
        "n",
        "m",
        "names",
    )
    allowed = {"SCAN deliveries USING INDEX outbox", "SCAN deliveries USING COVERING INDEX outbox"}
    scans = [line for line in connection.plan if line.startswith(tuple(f"SCAN {table}" for table in tables))]
    assert connection.plan
    assert {line for line in scans if line.split()[1] in tables} <= allowed


@pytest.mark.parametrize("state", [state for state in DeliveryState if state is not DeliveryState.DELIVERED])
def test_what_is_not_delivered_has_an_index_of_its_own(connection: Explaining, state: DeliveryState) -> None:
    history.list_deliveries(connection, DeliveryQuery(instance="shop", state=state, kind="K"))  # type: ignore[arg-type]
    assert any("COVERING INDEX undelivered (instance=? AND state=?" in line for line in connection.plan)


def test_a_list_reads_an_index_until_it_has_enough(connection: Explaining) -> None:
    query = DeliveryQuery(instance="shop", kind="K", since=0.0, until=AT, cursor=9)
    history.list_deliveries(connection, query)  # type: ignore[arg-type]
    assert "SEARCH deliveries USING COVERING INDEX history (instance=? AND seq<?)" in connection.plan
