"""Tables: made once, whoever comes first; of the right version; and restored from another server."""

import threading

import psycopg
import pytest

from hookgw import DeliveryState, Outcome
from tests.public.concurrency import Clock
from tests.public.kernel import Conflict, StartError
from tests.public.postgresql import SCHEMA_VERSION as VERSION
from tests.public.postgresql import Server, migrate, open_store, raise_sequences, set_aside
from tests.public.records import Settlement
from tests.public.store import Append, EventPage, EventQuery
from tests.store.support import AT, LANE, attempt, event, failed, ids_of, report, seqs_of, settle, to
from tests.support.postgres import PostgresServer
from tests.support.stores import index_log


def test_nodes_that_start_together_make_the_tables_once(postgres: PostgresServer) -> None:
    with postgres.new_schema() as schema:
        failures: list[BaseException] = []
        together = threading.Barrier(3)

        def start() -> None:
            server = Server(postgres.url(), schema)
            try:
                with server.connect() as connection:
                    together.wait(30)
                    migrate(connection, schema, server.place)
            except (psycopg.Error, StartError) as error:
                failures.append(error)

        threads = [threading.Thread(target=start) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        assert postgres.execute(f"SELECT version FROM {schema}.hookgw_schema") == [(VERSION,)]


@pytest.mark.parametrize(
    ("version", "message"), [(VERSION + 1, "newer hookgw wrote them"), (5, "migrates from 6 on")]
)
def test_tables_of_another_version(
    database: Server, connection: psycopg.Connection, version: int, message: str
) -> None:
    connection.execute("UPDATE hookgw_schema SET version = %s", (version,))
    with pytest.raises(StartError, match=message):
        migrate(connection, database.schema, database.place)


async def test_a_schema_that_the_operator_has_made(postgres: PostgresServer) -> None:
    with postgres.new_schema() as schema:
        postgres.execute(f"CREATE SCHEMA {schema}")
        async with open_store(Server(postgres.url(), schema), clock=Clock()) as store:
            assert await store.append(to("e1")) == [True]


async def test_a_database_that_cannot_be_reached() -> None:
    with pytest.raises(StartError, match=r"127\.0\.0\.1:1/hooks cannot be used") as caught:
        async with open_store(Server("postgresql://me:hush@127.0.0.1:1/hooks"), clock=Clock()):
            pass
    assert "hush" not in str(caught.value)


async def test_deliveries_from_another_server_keep_their_order(
    database: Server, connection: psycopg.Connection
) -> None:
    async with open_store(database, clock=Clock()) as store:
        await store.append(to("e1", "e2"))
        await store.append(to("e3"))
    # As a dump has them: transactions of a server that has made many more. The first two are swapped, as if
    # they had been sent again.
    connection.execute(
        """UPDATE deliveries SET xid = 1000000000000 - seq % 2, position = position + 1000000000 - 2 * seq
        WHERE seq < 3"""
    )
    async with open_store(database, clock=Clock()) as store:
        await store.append(to("e4"))
        assert await ids_of(store, LANE) == ["e3", "e1", "e2", "e4"]
    async with open_store(database, clock=Clock()) as store:
        await store.append(to("e5"))
        assert await ids_of(store, LANE) == ["e3", "e1", "e2", "e4", "e5"]


def log_ids(page: EventPage) -> list[str]:
    return [one.event.id for one in page.events]


async def test_a_log_from_another_server_keeps_its_order_and_refuses_cursors(
    database: Server, connection: psycopg.Connection
) -> None:
    query = EventQuery(instance="shop", is_oldest_first=True)
    async with open_store(database, clock=Clock()) as store:
        for name in ("e1", "e2", "e3"):
            await store.append([Append(event(name), ())])
        await index_log(store)
        cursor = (await store.list_events(EventQuery(instance="shop", limit=1))).cursor
    # As a dump has it: the last event was committed first, by a server that has made many transactions more.
    connection.execute("UPDATE events SET xid = 1000000000000 - seq")
    connection.execute("UPDATE log_state SET xid = 1000000000000")
    for _ in range(2):
        async with open_store(database, clock=Clock()) as store:
            with pytest.raises(Conflict):
                await store.list_events(EventQuery(instance="shop", cursor=cursor))
            assert log_ids(await store.list_events(query))[:3] == ["e3", "e2", "e1"]
            await store.append([Append(event("e4"), ())])
            await index_log(store)
            page = await store.list_events(query)
            assert log_ids(page) == ["e3", "e2", "e1", "e4"]
            first = await store.list_events(EventQuery(instance="shop", is_oldest_first=True, limit=1))
            rest = EventQuery(instance="shop", is_oldest_first=True, cursor=first.cursor)
            assert log_ids(await store.list_events(rest)) == ["e2", "e1", "e4"]


async def test_a_log_that_was_restored_into_the_same_server_refuses_cursors(
    database: Server, connection: psycopg.Connection
) -> None:
    async with open_store(database, clock=Clock()) as store:
        await store.append([Append(event(name), ()) for name in ("e1", "e2")])
        cursor = (await store.list_events(EventQuery(instance="shop", limit=1))).cursor
    # A dump is restored by making the tables anew.
    connection.execute("ALTER TABLE log_state RENAME TO former")
    connection.execute("CREATE TABLE log_state (LIKE former INCLUDING ALL)")
    connection.execute("INSERT INTO log_state SELECT * FROM former")
    connection.execute("DROP TABLE former")
    async with open_store(database, clock=Clock()) as store:
        with pytest.raises(Conflict):
            await store.list_events(EventQuery(instance="shop", cursor=cursor))


async def test_tables_of_version_6(database: Server, connection: psycopg.Connection) -> None:
    async with open_store(database, clock=Clock()) as store:
        await store.append(to("e1"))
        [seq] = await seqs_of(store)
        await settle(store, failed(seq))
    connection.execute("DROP TABLE figures, figure_news")
    connection.execute("ALTER TABLE attempts DROP COLUMN heads")
    connection.execute("UPDATE hookgw_schema SET version = 6")
    async with open_store(database, clock=Clock()) as store:
        await store.append(to("e2"))
        assert await store.fold_figures({})
        assert await ids_of(store, LANE) == ["e1", "e2"]
        made = attempt(2, Outcome.FAILED, request_head="POST / HTTP/1.1")
        await settle(store, Settlement(seq=seq, state=DeliveryState.DEAD, at=AT, attempt=made))
        assert [one.request_head for one in (await report(store)).attempts] == [None, "POST / HTTP/1.1"]
    assert connection.execute("SELECT version FROM hookgw_schema").fetchone() == (VERSION,)
    assert connection.execute("SELECT DISTINCT accepted FROM figures").fetchall() == [(1,)]


SEQUENCES = ("event_numbers", "delivery_numbers", "instance_numbers_number_seq", "audit_seq_seq")


def set_back(connection: psycopg.Connection) -> None:
    """What logical replication does to sequences: it does not copy them."""
    for name in (*SEQUENCES, "record_versions", "node_generations"):
        connection.execute(f"ALTER SEQUENCE {name} RESTART")


async def test_sequences_that_were_not_copied_are_raised_at_the_start(
    database: Server, connection: psycopg.Connection
) -> None:
    async with open_store(database, clock=Clock()) as store:
        await store.append(to("a", "b"))
    set_back(connection)
    async with open_store(database, clock=Clock()) as store:
        assert await store.append(to("c", instance="another")) == [True]
        assert [found.lane for found in await store.pending_lanes()] == ["reg_1:0"]
    assert raise_sequences(connection) == []


async def test_a_number_that_is_given_twice_is_nobodys_fault(
    database: Server, connection: psycopg.Connection
) -> None:
    """The server was switched under a running node: its next commit raises the sequences."""
    async with open_store(database, clock=Clock()) as store:
        await store.append(to("a", "b"))
        set_back(connection)
        assert await store.append(to("c", instance="another")) == [True]
        assert await store.append(to("a")) == [False]


async def test_a_start_does_not_make_a_new_gateway_beside_the_remains_of_one(
    database: Server, connection: psycopg.Connection
) -> None:
    connection.execute("DROP TABLE hookgw_schema, nodes")
    with pytest.raises(StartError, match=r"missing in the schema .*: nodes, hookgw_schema\..*serve --new"):
        async with open_store(database, clock=Clock()):
            pass
    aside = set_aside(connection, database.schema)
    assert aside is not None
    assert set_aside(connection, database.schema) is None
    async with open_store(database, clock=Clock()) as store:
        assert await store.pending_lanes() == []
    # What remained is still there, for whoever wants to repair it.
    row = connection.execute("SELECT to_regclass(%s)", (f"{aside}.deliveries",)).fetchone()
    assert row is not None
    assert row[0] is not None
    connection.execute(f"DROP SCHEMA {aside} CASCADE")


def test_a_whole_schema_is_never_set_aside(database: Server, connection: psycopg.Connection) -> None:
    assert set_aside(connection, database.schema) is None
