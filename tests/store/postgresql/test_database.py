"""Connections: what a lost one means for its callers, and that no call lasts for ever."""

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress

import psycopg
import pytest
import trio

from tests.fleet.links import open_link
from tests.fleet.nodes import url_at
from tests.public.concurrency import Clock
from tests.public.config import FleetSettings
from tests.public.fleet import FleetNode
from tests.public.kernel import StartError, StorageUnavailable
from tests.public.postgresql import (
    DatabaseSession,
    LongReader,
    Reader,
    Server,
    open_store,
    watch,
)
from tests.store.support import ids_of, listed, to
from tests.support.poolers import needs_pgbouncer, pooled_url, run_pgbouncer
from tests.support.ports import free_port
from tests.support.postgres import PostgresServer, run_postgres
from tests.support.waits import until

CONNECTIONS = 8
"""Of a node: as docs/fleet.md says."""


@pytest.fixture
def session(postgres: PostgresServer) -> Iterator[DatabaseSession]:
    with closing(DatabaseSession(Server(postgres.url()))) as session:
        yield session


def lose(session: DatabaseSession, postgres: PostgresServer) -> None:
    """End the session's connection from the other side, as a restart does."""
    pid = session.call(lambda connection: connection.info.backend_pid)
    postgres.execute(f"SELECT pg_terminate_backend({pid}, 5000)")


async def test_a_read_goes_on_after_the_server_was_restarted(
    session: DatabaseSession, postgres: PostgresServer
) -> None:
    reader = Reader(session)
    lose(session, postgres)
    assert await reader.run(lambda connection: connection.execute("SELECT 1").fetchone()) == (1,)


async def test_a_server_that_is_gone() -> None:
    reader = Reader(DatabaseSession(Server("postgresql://me:hush@127.0.0.1:1/hooks")))
    with pytest.raises(StorageUnavailable, match=r"127\.0\.0\.1:1/hooks cannot be used now") as caught:
        await reader.run(lambda connection: connection.execute("SELECT 1"))
    assert "hush" not in str(caught.value)


async def test_bugs_are_not_taken_for_a_lost_server(database: Server) -> None:
    with closing(DatabaseSession(database)) as session, pytest.raises(psycopg.errors.UndefinedTable):
        await Reader(session).run(lambda connection: connection.execute("SELECT * FROM nothing"))


def test_a_function_that_fails_in_a_transaction_leaves_none(session: DatabaseSession) -> None:
    def fail(connection: psycopg.Connection) -> None:
        connection.execute("BEGIN")
        connection.execute("CREATE TABLE public.left_over (a int)")
        raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        session.call(fail)
    assert session.call(lambda one: one.execute("SELECT to_regclass('public.left_over')").fetchone()) == (
        None,
    )


async def test_a_server_that_does_not_answer_is_given_up(postgres: PostgresServer) -> None:
    # It answers, but only after its own limit: the connection is broken off from this side.
    session = DatabaseSession(Server(postgres.url()), patience=0.2)
    with closing(session):
        session.call(lambda connection: connection.execute("SET statement_timeout = 0"))
        server_process = session.call(lambda connection: connection.info.backend_pid)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch, [session], 0.05)
            with pytest.raises(StorageUnavailable, match=r"no answer within 0\.2 s"):
                await Reader(session).run(lambda connection: connection.execute("SELECT pg_sleep(60)"))
            nursery.cancel_scope.cancel()
        assert session.call(lambda connection: connection.execute("SELECT 1").fetchone()) == (1,)
        # It would go on for a minute, and no other test could have a row removed for good.
        session.call(lambda one: one.execute("SELECT pg_terminate_backend(%s, 10000)", (server_process,)))


async def test_a_cancelled_call_of_a_long_reader_ends_at_once(postgres: PostgresServer) -> None:
    """Or a stop would wait for the count of a server that does not answer."""
    with closing(DatabaseSession(Server(postgres.url()))) as session:
        reader = LongReader(session)
        begun = threading.Event()

        def wait(connection: psycopg.Connection) -> object:
            begun.set()
            return connection.execute("SELECT pg_sleep(60)")

        async def cancel() -> None:
            await trio.to_thread.run_sync(begun.wait, 30)
            scope.cancel()

        server_process = await reader.run(lambda connection: connection.info.backend_pid)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(cancel)
            with trio.CancelScope() as scope:
                await reader.run(wait)
        assert scope.cancelled_caught
        assert await reader.run(lambda one: one.execute("SELECT 1").fetchone()) == (1,)
        session.call(lambda one: one.execute("SELECT pg_terminate_backend(%s, 10000)", (server_process,)))


async def test_the_server_ends_a_statement_of_its_own_accord(postgres: PostgresServer) -> None:
    with closing(DatabaseSession(Server(postgres.url()), patience=0.05)) as session:
        with pytest.raises(StorageUnavailable, match="statement timeout"):
            await Reader(session).run(lambda connection: connection.execute("SELECT pg_sleep(60)"))
        assert session.is_connected


def test_only_calls_that_last_too_long_are_broken_off(session: DatabaseSession) -> None:
    session.break_off(time.monotonic() + 1000)  # there is none
    begun, looked = threading.Event(), threading.Event()

    def wait(connection: psycopg.Connection) -> object:
        begun.set()
        assert looked.wait(30)
        return connection.execute("SELECT 1").fetchone()

    def look() -> None:
        assert begun.wait(30)
        session.break_off(time.monotonic())
        looked.set()

    thread = threading.Thread(target=look)
    thread.start()
    assert session.call(wait) == (1,)
    thread.join()


def test_a_connection_that_ends_in_a_pipeline_says_why(
    session: DatabaseSession, postgres: PostgresServer
) -> None:
    """For the driver it is open until it has read its end, and so the pipeline cannot be left."""
    ends = socket.socketpair()

    def lose(connection: psycopg.Connection) -> None:
        with connection.pipeline():
            connection.execute("SELECT 1")
            postgres.execute(f"SELECT pg_terminate_backend({connection.info.backend_pid}, 60000)")
            connection.pgconn.consume_input()
            os.dup2(ends[0].fileno(), connection.fileno())

    with pytest.raises(StorageUnavailable, match="due to administrator command"), session.server.errors():
        session.call(lose)
    for end in ends:
        end.close()


def test_a_server_that_accepts_no_writes_any_more_gets_a_new_connection(session: DatabaseSession) -> None:
    """The URL may name several servers: only a new connection finds the one that was promoted."""
    session.call(lambda connection: connection.execute("SET default_transaction_read_only = on"))
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        session.call(lambda connection: connection.execute("CREATE TABLE never (a int)"))
    assert not session.is_connected
    session.call(lambda connection: connection.execute("CREATE TEMPORARY TABLE found (a int)"))


def test_the_last_words_of_the_server_end_a_connection_whose_end_is_not_read_yet(
    session: DatabaseSession, postgres: PostgresServer
) -> None:
    """The driver calls it open until then, and a call that began with it would not be repeated."""
    with closing(session.server.connect()) as other:
        postgres.execute(f"SELECT pg_terminate_backend({other.info.backend_pid}, 5000)")
        with pytest.raises(psycopg.errors.AdminShutdown) as caught:
            other.execute("SELECT")

    def fail(_: psycopg.Connection) -> None:
        raise caught.value

    session.call(lambda one: one.execute("SELECT"))
    with pytest.raises(psycopg.errors.AdminShutdown):
        session.call(fail)
    assert not session.is_connected


async def test_a_column_whose_type_an_operator_changes_ends_no_reads(
    session: DatabaseSession, postgres: PostgresServer
) -> None:
    """The server's plans of prepared statements are those of before, for as long as the connection lasts."""
    postgres.execute("CREATE TABLE public.changed (a int)")
    reader = Reader(session)

    def read(one: psycopg.Connection) -> object:
        return one.execute("SELECT count(a), max(a) FROM public.changed", prepare=True).fetchone()

    assert await reader.run(read) == (0, None)
    postgres.execute("ALTER TABLE public.changed ALTER COLUMN a TYPE bigint")
    assert await reader.run(read) == (0, None)
    postgres.execute("DROP TABLE public.changed")


def test_other_errors_keep_the_connection(session: DatabaseSession) -> None:
    with pytest.raises(psycopg.errors.DivisionByZero):
        session.call(lambda connection: connection.execute("SELECT 1 / 0"))
    assert session.is_connected


async def test_tables_that_vanish_are_no_bug_of_hookgw(database: Server, postgres: PostgresServer) -> None:
    with closing(DatabaseSession(database)) as session:
        count = Reader(session)
        postgres.execute(f"ALTER TABLE {database.schema}.bodies RENAME TO elsewhere")
        with pytest.raises(
            StorageUnavailable, match=r"tables of hookgw are missing \(bodies\).*restore a backup"
        ):
            await count.run(lambda connection: connection.execute("SELECT count(*) FROM bodies"))
        postgres.execute(f"ALTER TABLE {database.schema}.elsewhere RENAME TO bodies")
        await count.run(lambda connection: connection.execute("SELECT count(*) FROM bodies"))


async def test_tables_that_the_user_may_not_see_are_not_taken_for_missing(
    database: Server, postgres: PostgresServer
) -> None:
    """As after a restore by another user. To restore a backup once more, or to begin anew, would be wrong."""
    postgres.execute("CREATE ROLE stranger LOGIN")
    why = rf"may not use the schema {database.schema}: GRANT USAGE"
    try:
        stranger = Server(postgres.url().replace("user=hookgw", "user=stranger"), database.schema)
        with closing(DatabaseSession(stranger)) as session, pytest.raises(StorageUnavailable, match=why):
            await Reader(session).run(lambda connection: connection.execute("SELECT * FROM bodies"))
        with pytest.raises(StartError, match=why):
            async with open_store(stranger, clock=Clock()):
                pass
    finally:
        postgres.execute("DROP ROLE stranger")


async def test_rows_that_a_policy_hides_are_not_taken_for_gone(
    database: Server, postgres: PostgresServer
) -> None:
    """Lanes would skip them, and send them again later."""
    postgres.execute("CREATE ROLE watched LOGIN")
    postgres.execute(f"GRANT USAGE ON SCHEMA {database.schema} TO watched")
    postgres.execute(f"GRANT ALL ON {database.schema}.deliveries TO watched")
    postgres.execute(f"ALTER TABLE {database.schema}.deliveries ENABLE ROW LEVEL SECURITY")
    try:
        watched = Server(postgres.url().replace("user=hookgw", "user=watched"), database.schema)
        with closing(DatabaseSession(watched)) as session:
            reader = Reader(session)
            with pytest.raises(StorageUnavailable, match="row-level security policy"):
                await reader.run(lambda connection: connection.execute("SELECT FROM deliveries"))
            with pytest.raises(StorageUnavailable, match="row-level security policy"):
                await reader.run(lambda connection: connection.execute("DELETE FROM deliveries"))
    finally:
        postgres.execute(f"ALTER TABLE {database.schema}.deliveries DISABLE ROW LEVEL SECURITY")
        postgres.execute("DROP OWNED BY watched; DROP ROLE watched")


async def test_a_call_that_waits_for_a_lock_says_so(database: Server, connection: psycopg.Connection) -> None:
    """As during a VACUUM FULL: to call the statement slow would point at the machine."""
    with (
        connection.transaction(),
        closing(DatabaseSession(database, 2.0)) as session,
    ):
        connection.execute("LOCK TABLE bodies")
        with pytest.raises(StorageUnavailable, match="lock timeout"):
            await Reader(session).run(lambda connection: connection.execute("SELECT * FROM bodies"))


@needs_pgbouncer
@pytest.mark.process
async def test_a_read_goes_on_after_the_server_behind_a_pooler_was_restarted(
    postgres: PostgresServer,
) -> None:
    """The pooler adds an error to the server's last one: two results of one ``BEGIN``."""

    def read(connection: psycopg.Connection) -> object:
        with connection.transaction():
            return connection.execute("SELECT 1").fetchone()

    with run_pgbouncer(postgres, "session") as port:
        session = DatabaseSession(Server(pooled_url(port)))
        with closing(session):
            pid = session.call(lambda one: one.execute("SELECT pg_backend_pid()").fetchone())
            assert pid is not None
            postgres.execute(f"SELECT pg_terminate_backend({pid[0]}, 5000)")
            assert await Reader(session).run(read) == (1,)


@needs_pgbouncer
@pytest.mark.process
async def test_a_pooler_without_a_free_connection_is_not_waited_for(postgres: PostgresServer) -> None:
    """It accepts clients, and lets their first statement wait."""
    with (
        run_pgbouncer(postgres, "session", size=1) as port,
        closing(psycopg.connect(pooled_url(port))) as one,
    ):
        one.execute("SELECT 1")
        session = DatabaseSession(Server(pooled_url(port)), patience=0.5)
        with closing(session):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(watch, [session], 0.1)
                with pytest.raises(psycopg.OperationalError, match="no answer within"):
                    await trio.to_thread.run_sync(session.call, lambda _: None)
                nursery.cancel_scope.cancel()


@pytest.mark.usefixtures("postgres")  # skips the test where there is none
async def test_a_long_call_does_not_wait_long_for_a_server_that_a_proxy_has_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Lanes count by such calls. The proxy acknowledges what it gets, so TCP notices nothing."""
    monkeypatch.setattr("hookgw.store.postgresql.database.ACKNOWLEDGE_TIMEOUT", 1)
    with run_postgres(listen=free_port()) as server:
        async with open_link(lambda: server.port) as link, trio.open_nursery() as nursery:
            session = DatabaseSession(Server(url_at(link.port)), patience=600)
            reader = LongReader(session)
            nursery.start_soon(watch, [session], 0.1)
            with trio.fail_after(60):
                await reader.run(lambda connection: connection.execute("SELECT"))
                link.cut()
                with pytest.raises(StorageUnavailable, match="no answer within 1 s"):
                    await reader.run(lambda connection: connection.execute("SELECT count(*) FROM pg_class"))
                link.mend()
                await reader.run(lambda connection: connection.execute("SELECT"))
            session.close()
            nursery.cancel_scope.cancel()


async def test_all_connections_are_opened(postgres: PostgresServer) -> None:
    sessions = [DatabaseSession(Server(postgres.url())) for _ in range(3)]
    try:
        await Reader(*sessions).connect()
        assert [session.is_connected for session in sessions] == [True] * 3
    finally:
        for session in sessions:
            session.close()


async def test_a_node_has_all_its_connections_when_no_more_are_free(
    postgres: PostgresServer, database: Server
) -> None:
    """A takeover needs them then."""
    async with open_store(database, clock=Clock()) as store:
        store.share(lambda _: True)
        await store.members.join("a", "")
        store.members.known_version = (await store.members.changes()).version
        await until(lambda: len(_connections_of(postgres, database)) >= CONNECTIONS)
        with _all_others(postgres, database):
            await store.members.claim()
            await store.append(to("e1"))
            assert await ids_of(store) == ["e1"]
            assert await listed(store) == ["e1"]
            await store.backlogs.count()
            await store.backlogs.exchange(None, {})


async def test_a_node_without_all_its_connections_does_not_start_and_takes_no_shards(
    postgres: PostgresServer, database: Server
) -> None:
    async with open_store(database, clock=Clock()) as store:
        node = FleetNode(FleetSettings(node="a"), store)
        with _all_others(postgres, database) as others:
            for other in others[:2]:
                other.close()
            with pytest.raises(StartError, match="too many clients"):
                async with node.starting():
                    pass
            assert others[-1].execute(f"TABLE {database.schema}.members".encode()).fetchall() == []


@contextmanager
def _all_others(postgres: PostgresServer, used: Server) -> Iterator[list[psycopg.Connection]]:
    """Hold all connections that are free. Those of ``used`` stay."""
    with psycopg.connect(postgres.url(), autocommit=True) as looking, ExitStack() as opened:
        others: list[psycopg.Connection] = []

        def are_there(pids: set[int]) -> bool:
            return bool(pids & {pid for pid, _ in _sessions(looking)})

        def are_ending() -> bool:
            """Return whether there are sessions of connections that tests before have closed."""
            known = {one.info.backend_pid for one in (looking, *others)} | {postgres.cleaner_pid}
            return any(pid not in known and token != used.token for pid, token in _sessions(looking))

        is_last = False
        while not is_last:
            is_last = not are_ending()
            with suppress(psycopg.OperationalError):
                while True:
                    others.append(opened.enter_context(closing(psycopg.connect(postgres.url()))))
        yield others
        held = {one.info.backend_pid for one in others if not one.closed}
        opened.close()
        while are_there(held):  # the next test needs some
            time.sleep(0.01)


def _sessions(looking: psycopg.Connection) -> list[tuple[int, str]]:
    return looking.execute(
        "SELECT pid, right(application_name, 16) FROM pg_stat_activity WHERE backend_type = 'client backend'"
    ).fetchall()


def _connections_of(postgres: PostgresServer, server: Server) -> list[tuple[object, ...]]:
    return postgres.execute(
        f"SELECT pid FROM pg_stat_activity WHERE right(application_name, 16) = '{server.token}'"
    )
