"""Statements use the indexes that were made for them, so that their cost does not grow with the file."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from hookgw import DeliveryState
from hookgw.store import searches
from hookgw.store.sqlite import audit, dead_letters, event_ids, history, log, name_pruning, outbox
from hookgw.store.sqlite.repartition import repartition
from hookgw.store.sqlite.settle import settle
from tests.public.records import DeliverySelection, KnownDelivery, LaneRule, Ordering
from tests.public.sqlite import (
    NameIds,
    Transaction,
    find_concerned,
    find_deliveries,
    find_unwanted,
    make_due,
    migrate,
    newest,
    remove_events,
    resend,
    search,
    sizes_of,
    weight,
)
from tests.public.store import (
    AuditQuery,
    Bounds,
    CancelQuery,
    DeliveryQuery,
    EventQuery,
    LogSearch,
    Oldest,
    ReplayQuery,
    Sought,
    person,
)
from tests.store.support import AT, delivered

NINE = {"before": 9, "rows": 9, "wanted": 9}
RULE = LaneRule("reg", 1, Ordering.URL, 1)
TABLES = {"audit", "events", "log", "deliveries", "attempts", "bodies", "names", *"deaibkrlnm", "new"}


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
        connection.execute("INSERT INTO names VALUES (1, '@shop'), (2, 'reg:0'), (3, 'reg'), (4, 'K')")
        connection.execute("INSERT INTO events VALUES (1, 1, 'e', 4, 0, 0, x'7b7d', NULL, NULL, 1)")
        connection.execute(
            "INSERT INTO deliveries VALUES (1, 1, 1, 4, 3, 2, 'pending', 0, 2, 1, 0, 0, 0, 0, NULL, NULL)"
        )
        yield Explaining(connection)


def transaction(connection: Any) -> Transaction:
    return Transaction(connection, NameIds(connection))


def log_search(**query: Any) -> LogSearch:
    given: dict[str, Any] = {
        "instance": "shop",
        "chat": "a@b.c",
        "text": "x",
        "kinds": ("K",),
        "since": 1,
        "until": 9,
    }
    asked = EventQuery(**given | query)
    return LogSearch(asked, Sought.of(asked), (0, 0), (0, 9), 20, 9)


STATEMENTS: dict[str, Callable[[Any], object]] = {
    "entries of the log, the newest first": lambda c: log.search_entries(c, log_search()),
    "entries of the log, the oldest first": lambda c: log.search_entries(c, log_search(is_oldest_first=True)),
    "the tail of the log": lambda c: log.search_tail(c, log_search()),
    "the log of several instances": lambda c: log.search_entries(
        c, log_search(instance=None, among=("shop", "x"))
    ),
    "the log of all instances": lambda c: log.search_entries(
        c, log_search(instance=None, is_oldest_first=True)
    ),
    "the log by deliveries": lambda c: log.search_entries(
        c,
        log_search(
            delivery=DeliverySelection(state="dead", status=(500, 599), error="x", without_global=True),
            registrations=("reg",),
            person="a@b",
        ),
    ),
    "the state of the logs of several instances": lambda c: log.read_state(
        c, EventQuery(instance=None, among=("shop", "x"))
    ),
    "the state of a log": lambda c: log.read_state(c, EventQuery(instance="shop")),
    "events for the index of the log": lambda c: log.read_unindexed(c, 20, 2**20),
    "an event with its deliveries": lambda c: log.find_event(c, "shop", "e", without_global=True),
    "unwanted events of some instances": lambda c: log.oldest_unwanted(c, [1], None, 20),
    "removing unwanted events": lambda c: log.remove_unwanted(transaction(c), [1]),
    "unwanted events of a person": lambda c: find_unwanted(c, "shop", "a@b", after=(0, 0), newest=9),
    "a page of a lane": lambda c: outbox.read_lane(c, "reg:0", 0, 10),
    "all lanes": outbox.pending_lanes,
    "counts of the lanes of a registration": lambda c: outbox.pending_lanes(c, "reg"),
    "lanes of a registration": lambda c: outbox.lanes_of(c, "reg"),
    "count by instance": outbox.pending_counts,
    "count of a lane": lambda c: outbox.count_pending(c, "reg:0"),
    "settle": lambda c: settle(transaction(c), [delivered(1)]),
    "settle by count": lambda c: settle(
        transaction(c), [replace(delivered(1), known=KnownDelivery("reg", "shop", 2, 0.0))], by_count=True
    ),
    "settle without history": lambda c: settle(transaction(c), [delivered(1)], keep_history=False),
    "list": lambda c: history.search_deliveries(c, DeliveryQuery(instance="shop"), NINE),
    "list with all filters": lambda c: history.search_deliveries(
        c, DeliveryQuery(instance="shop", kinds=("K",), since=0.0, until=AT, without_global=True), NINE
    ),
    "list of what just finished": lambda c: history.search_deliveries(
        c, DeliveryQuery(instance="shop", kinds=("K",), finished_since=AT), NINE, by_time=True
    ),
    "list of what finished long ago": lambda c: history.search_deliveries(
        c, DeliveryQuery(instance="shop", finished_since=0.0), NINE
    ),
    "newest": lambda c: newest(c, ["shop"]),
    "find by delivery": lambda c: history.find_delivery(c, "shop", "dlv_1"),
    "find by event": lambda c: history.find_delivery(c, "shop", "e"),
    "prune": lambda c: (settle(transaction(c), [delivered(1)]), history.prune(transaction(c), AT + 1, 0, 9)),
    "oldest of some instances": lambda c: history.find_oldest(c, [1, 2], Oldest(9, 9, 0, 0), AT, rows=9),
    "remove the oldest": lambda c: history.remove_oldest(transaction(c), [Oldest(9, 1, 1, 0)], AT),
    "oldest ids of some instances": lambda c: event_ids.oldest_ids(c, [1, 2], Oldest(9, 9, 0, 9), 9),
    "forget found ids": lambda c: event_ids.forget_found(transaction(c), [Oldest(9, 1, 1, 9)]),
    "forget ids": lambda c: event_ids.forget_ids(transaction(c), AT, 0, 9),
    "bytes of ids": event_ids.remembered_bytes,
    "names of attempts": lambda c: name_pruning.walk_attempts(c, (1, 1)),
    "names of ids": lambda c: name_pruning.walk_remembered(c, (1, 1, 1)),
    "park": lambda c: dead_letters.next_pending(c, "reg", 9, None, 10, [2]),
    "drop the oldest": lambda c: list(dead_letters.oldest_first(c, RULE, "shop", 10, [])),
    "bury": lambda c: dead_letters.bury(c, [1], "off", AT),
    "cancel": lambda c: search(
        c,
        CancelQuery(instance="shop", registrations=("reg",), since=0.0, until=AT, kinds=("K",)),
        ("reg",),
        Bounds(0, 9, 9, 9),
        [1],
    ),
    "cancelled": lambda c: dead_letters.still_meant(c, [1], 9),
    "concerned": lambda c: find_concerned(c, "shop", "a@b", after=0, now=9, pending=False),
    "concerned and pending": lambda c: find_concerned(c, "shop", "a@b", after=0, now=9, pending=True),
    "deliveries of erased events": lambda c: find_deliveries(c, [1]),
    "erase": lambda c: remove_events(c, [1], [1], person("a@b")),
    "re-partition": lambda c: repartition(transaction(c), RULE, None, 10),
    "re-partition by instance": lambda c: repartition(
        transaction(c), LaneRule("reg", 1, Ordering.INSTANCE, 4), None, 10
    ),
    "re-partition by chat": lambda c: repartition(
        transaction(c), LaneRule("reg", 1, Ordering.CHAT, 4), None, 10
    ),
    "make due": lambda c: make_due(c, "reg"),
    "resend": lambda c: resend(transaction(c), "shop", 1, RULE, 5, AT),
    "replay": lambda c: search(c, ReplayQuery(instance="shop"), {"reg": RULE}, Bounds(0, 9, 10, 9)),
    "sizes of what is sent again": lambda c: sizes_of(c, [1]),
    "audit": lambda c: audit.search_audit(c, AuditQuery(since=0.0, until=AT, action="key"), (9, 9), 9),
    "audit of an instance": lambda c: audit.search_audit(c, AuditQuery(instance="shop"), (9, 9), 9),
    "old entries of the audit": lambda c: audit.remove_entries(transaction(c), audit.OLD, (9, 9)),
    "oldest entries of an instance": lambda c: audit.remove_entries(
        transaction(c), audit.OLDEST_OF, ("shop", 9)
    ),
    "count and bytes": lambda c: weight(c, [1]),
}


@pytest.mark.parametrize("name", STATEMENTS)
def test_no_table_is_scanned(connection: Explaining, name: str) -> None:
    STATEMENTS[name](connection)
    scans = [line for line in connection.plan if line.startswith("SCAN ") and line.split()[1] in TABLES]
    assert connection.plan
    allowed = {"SCAN deliveries USING INDEX outbox", "SCAN deliveries USING COVERING INDEX outbox"}
    if name == "bytes of ids":
        allowed = {"SCAN events USING COVERING INDEX remembered"}
    whole = ("all lanes", "count", "count by instance", "bytes of ids")
    assert set(scans) <= (allowed if name in whole else set())


@pytest.mark.parametrize(
    "name", ["audit", "audit of an instance", "old entries of the audit", "oldest entries of an instance"]
)
def test_entries_of_the_audit_come_in_the_order_of_an_index(connection: Explaining, name: str) -> None:
    STATEMENTS[name](connection)
    index = "audited_instances" if "instance" in name else "audited"
    assert any(
        f"SEARCH audit USING COVERING INDEX {index} " in line or f"SEARCH audit USING INDEX {index} " in line
        for line in connection.plan
    )


@pytest.mark.parametrize("name", ["forget ids", "names of ids"])
def test_ids_come_in_the_order_of_their_index(connection: Explaining, name: str) -> None:
    STATEMENTS[name](connection)
    [searched] = [line for line in connection.plan if "INDEX remembered" in line]
    assert searched.startswith("SEARCH events USING")
    # A walk sorts one part, to know which row is the last one. Newer versions of SQLite sort none.
    sorts = [line for line in connection.plan if "TEMP B-TREE FOR" in line and "DISTINCT" not in line]
    assert len(sorts) <= (name == "names of ids")


@pytest.mark.parametrize(
    "name", ["a page of a lane", "lanes of a registration", "count of a lane", "park", "drop the oldest"]
)
def test_the_lanes_of_a_registration_are_searched_in_the_index_of_the_outbox(
    connection: Explaining, name: str
) -> None:
    STATEMENTS[name](connection)
    searches = [line for line in connection.plan if "INDEX outbox" in line]
    assert searches
    assert all("SEARCH" in line and "(registration=?" in line for line in searches)
    if name != "a page of a lane":  # it sorts the rows of one page
        assert not [line for line in connection.plan if "TEMP B-TREE FOR ORDER BY" in line]


@pytest.mark.parametrize("name", ["settle", "settle by count"])
def test_what_is_settled_is_searched_by_number(connection: Explaining, name: str) -> None:
    STATEMENTS[name](connection)
    searches = [line for line in connection.plan if line.startswith(("SEARCH deliveries", "SCAN deliveries"))]
    assert set(searches) == {"SEARCH deliveries USING INTEGER PRIMARY KEY (rowid=?)"}


def test_only_waiting_deliveries_become_due(connection: Explaining) -> None:
    make_due(connection, "reg")  # type: ignore[arg-type]
    assert "SEARCH deliveries USING INDEX waiting (registration=?)" in connection.plan


@pytest.mark.parametrize("state", [state for state in DeliveryState if state is not DeliveryState.DELIVERED])
def test_lists_of_undelivered_deliveries_have_an_index_of_their_own(
    connection: Explaining, state: DeliveryState
) -> None:
    query = DeliveryQuery(instance="shop", state=state, kinds=("K",))
    history.search_deliveries(connection, query, NINE)  # type: ignore[arg-type]
    assert any("COVERING INDEX undelivered (instance=? AND state=?" in line for line in connection.plan)


def test_a_list_reads_an_index_until_it_has_enough(connection: Explaining) -> None:
    query = DeliveryQuery(instance="shop", kinds=("K",), since=0.0, until=AT)
    history.search_deliveries(connection, query, NINE)  # type: ignore[arg-type]
    assert "SEARCH deliveries USING COVERING INDEX history (instance=? AND seq<?)" in connection.plan


@pytest.mark.parametrize(("ago", "index"), [(15.0, "INDEX finished"), (16.0, "INDEX history")])
def test_what_just_finished_is_found_by_its_time(connection: Explaining, ago: float, index: str) -> None:
    query = DeliveryQuery(instance="shop", finished_since=AT - ago)
    by_time = searches.is_recent(query, AT)
    history.search_deliveries(connection, query, NINE, by_time=by_time)  # type: ignore[arg-type]
    assert any(f"SEARCH deliveries USING {index} " in line for line in connection.plan)


def test_counting_by_instance_sorts_no_more_than_a_part_of_one_lane(connection: Explaining) -> None:
    connection.execute("INSERT INTO names VALUES (5, '@mall')")
    connection.execute(
        "INSERT INTO deliveries VALUES (2, 1, 5, 4, 3, 2, 'pending', 0, 2, 2, 0, 0, 0, 0, NULL, NULL)"
    )
    connection.plan.clear()
    assert outbox.pending_counts(connection) == {("reg", "shop"): (1, 2), ("reg", "mall"): (1, 2)}  # type: ignore[arg-type]
    # "COVERING" in newer versions of SQLite.
    walks = [line.replace("COVERING ", "") for line in connection.plan if "INDEX outbox" in line]
    assert walks == [
        "SCAN deliveries USING INDEX outbox",
        "SEARCH deliveries USING INDEX outbox (registration=? AND lane=? AND position>?)",
    ]
    assert connection.plan.count("USE TEMP B-TREE FOR GROUP BY") == 1
