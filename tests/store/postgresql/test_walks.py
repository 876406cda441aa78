"""Every walk goes through the index that is made for it, whatever the server believes of the rows."""

from collections.abc import Callable
from typing import Any

import pytest
from psycopg import Connection

from hookgw import DeliveryState
from hookgw.store import searches
from hookgw.store.log import LogSearch, Sought
from hookgw.store.postgresql import dead_letters, event_ids, history, log
from hookgw.store.postgresql.repartition import repartition
from tests.public.postgresql import (
    BEGIN,
    LanePlace,
    Moment,
    Transaction,
    find_concerned,
    newest,
    search,
    search_audit,
)
from tests.public.records import DeliverySelection, LaneRule, Ordering
from tests.public.store import AuditQuery, Bounds, CancelQuery, DeliveryQuery, EventQuery, ReplayQuery

ROWS = 3_000
NOW = Moment(ROWS, 0, 2, 2, ())
BOUNDS = Bounds(9, NOW, 9, 20)
RULE = LaneRule("reg_1", 0, Ordering.URL, 1)


def log_search(**query: Any) -> LogSearch:
    asked = EventQuery(**{"instance": "shop"} | query, chat="a@b.c", text="x", kinds=("CALL",))
    return LogSearch(asked, Sought.of(asked), (0, 9), (9, ROWS), 20, 9)


SEARCH, OLDEST = log_search(), log_search(is_oldest_first=True)
BY_DELIVERY = log_search(delivery=DeliverySelection(state="dead", error="x"), registrations=("reg_1",))


class Explaining:
    """A connection that keeps the plan of every statement."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.plans: list[str] = []

    def execute(self, statement: str, given: Any = ()) -> Any:
        lines = self._connection.execute(f"EXPLAIN {statement}", given).fetchall()
        self.plans.append("\n".join(line for (line,) in lines))
        return self._connection.execute(statement, given)


@pytest.fixture
def explaining(connection: Connection) -> Explaining:
    """Half of all deliveries are of one instance, and nearly all of those are old."""
    connection.execute("INSERT INTO instance_numbers (name) VALUES ('shop'), ('other'), ('third')")
    connection.execute(
        f"""INSERT INTO events SELECT n, CASE WHEN n < {ROWS // 2} THEN 1 ELSE 2 + n % 2 END,
            'e' || n, 'CALL', n, n, '{{}}', NULL, NULL, CASE WHEN n > {ROWS} THEN -100 ELSE 1 END, 1
        FROM generate_series(1, {2 * ROWS}) n"""
    )
    connection.execute(
        f"""INSERT INTO deliveries SELECT seq, seq, instance, kind, 'reg_' || instance, 'reg_1:' || seq % 3,
            CASE seq % 3 WHEN 0 THEN 'pending' WHEN 1 THEN 'delivered' ELSE 'dead' END, accepted_at, 10, 1,
            seq, accepted_at, 0, 0, 0, CASE WHEN seq % 3 > 0 THEN seq END, NULL
        FROM events WHERE seq <= {ROWS}"""
    )
    connection.execute(
        f"""INSERT INTO audit (at, instance, action, entry)
        SELECT n, CASE WHEN n % 3 > 0 THEN 'shop' END, 'key.create', '{{"actor":{{"kind":"hookgw"}}}}'
        FROM generate_series(1, {ROWS}) n"""
    )
    connection.execute(
        """INSERT INTO log SELECT instance, xid, seq, kind, accepted_at, 0, 0, 0, 0 FROM events
        WHERE heard >= 0"""
    )
    connection.execute("ANALYZE")
    return Explaining(connection)


def listing(**query: Any) -> Callable[[Any], object]:
    asked = DeliveryQuery(**{"instance": "shop"} | query)
    bounds = {"before": searches.LAST, "rows": 20, "wanted": 9}
    return lambda c: history.search_deliveries(c, asked, bounds)


WALKS: dict[str, tuple[str, Callable[[Any], object]]] = {
    "list": ("history", listing()),
    "list with filters": (
        "history",
        listing(kinds=("CALL",), registrations=("reg_1",), since=0.0, error="x"),
    ),
    "list of those delivered": ("history", listing(state=DeliveryState.DELIVERED)),
    "list of dead letters": ("undelivered", listing(state=DeliveryState.DEAD)),
    "list of all instances": ("deliveries_pkey", listing(instance=None)),
    "entries of the log": ("log_pkey", lambda c: log.search_entries(c, SEARCH)),
    "entries from the oldest": ("log_pkey", lambda c: log.search_entries(c, OLDEST)),
    "log by deliveries": ("deliveries_of_event", lambda c: log.search_entries(c, BY_DELIVERY)),
    "tail of the log": ("log_order", lambda c: log.search_tail(c, SEARCH)),
    "tail from the oldest": ("log_order", lambda c: log.search_tail(c, OLDEST)),
    "log of all instances": ("log_order", lambda c: log.search_entries(c, log_search(instance=None))),
    "log of several instances": (
        "log_order",
        lambda c: log.search_entries(c, log_search(instance=None, among=("shop", "other"))),
    ),
    "events for the index of the log": ("log_order", lambda c: log.read_unindexed(c, 20, 2**20)),
    "newest": ("history", lambda c: newest(c, ["shop", "other"])),
    "cancellation": (
        "undelivered",
        lambda c: search(c, CancelQuery(instance="shop", registrations=("reg_1",)), ("reg_1",), BOUNDS),
    ),
    "replay": (
        "undelivered",
        lambda c: search(c, ReplayQuery(instance="shop"), ("reg_1",), BOUNDS),
    ),
    "replay of all": (
        "history",
        lambda c: search(c, ReplayQuery(instance="shop", state="all"), ("reg_1",), BOUNDS),
    ),
    "erasure": (
        "history",
        lambda c: find_concerned(c, "shop", "a@b.c", after=9, now=NOW, pending=False),
    ),
    "erasure of what is pending": (
        "undelivered",
        lambda c: find_concerned(c, "shop", "a@b.c", after=9, now=NOW, pending=True),
    ),
    "audit": ("audited", lambda c: search_audit(c, AuditQuery(limit=5), (50, 50), 20)),
    "audit of an instance": (
        "audited_instances",
        lambda c: search_audit(c, AuditQuery(instance="shop", limit=5), None, 20),
    ),
    "parking": (
        "outbox",
        lambda c: dead_letters.next_pending(c, "reg_1", NOW, BEGIN, 9, ()),
    ),
    "dropping": (
        "outbox",
        lambda c: dead_letters.oldest_first(c, RULE, "shop", 9, ()),
    ),
    "re-partition": (
        "outbox",
        lambda c: repartition(Transaction(c, 9), RULE, LanePlace(("reg_1:0",), 0, 5), 9),
    ),
    "pruning": ("finished", lambda c: history.prune(Transaction(c, 9), 0.000_1, 0, 9)),
    "forgetting": ("remembered", lambda c: event_ids.forget_ids(Transaction(c, 9), 0.005, 0, 9)),
}


@pytest.mark.parametrize("walk", WALKS)
def test_a_walk_goes_through_its_index(explaining: Explaining, walk: str) -> None:
    index, function = WALKS[walk]
    function(explaining)
    # The others look up single rows: of tables as small as these, the server may as well read all.
    plans = "\n\n".join(plan for plan in explaining.plans if "Limit" in plan)
    assert f" using {index} on " in plans or f"Index Scan on {index} " in plans, plans
    assert "events_id_instance_key" not in "".join(explaining.plans), explaining.plans
    for table in ("deliveries", "events", "log", "audit"):
        assert f"Seq Scan on {table}" not in plans, plans
