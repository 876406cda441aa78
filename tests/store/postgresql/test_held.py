"""What an older transaction holds back is counted, and that transaction is named, wherever it is open."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any, cast

import psycopg
import pytest
import trio
from structlog.testing import capture_logs

from hookgw.store.postgresql import held as module
from tests.public.concurrency import Clock
from tests.public.postgresql import HeldWatch, PostgresqlStore, Reader, Server, open_store
from tests.public.store import Held, micros
from tests.store.support import LANE, Listener, to
from tests.support.postgres import PostgresServer, run_postgres
from tests.support.waits import until

WAITS = "deliveries wait for an older transaction in the database"
ENDED = "deliveries wait no more for an older transaction"


@pytest.fixture
def elsewhere(postgres: PostgresServer) -> Iterator[psycopg.Connection]:
    """A connection to another database of the server, with an open transaction that has a number."""
    postgres.execute("CREATE DATABASE elsewhere")
    try:
        with psycopg.connect(postgres.url("elsewhere"), application_name="report") as connection:
            connection.execute("SELECT pg_current_xact_id()")
            yield connection
    finally:
        postgres.execute("DROP DATABASE elsewhere")


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EVERY", 0.02)
    monkeypatch.setattr(module, "LEAST_AGE", 0.0)


@asynccontextmanager
async def opened(
    server: Server, is_reported: Callable[[str], bool] = lambda _: True
) -> AsyncIterator[PostgresqlStore]:
    async with open_store(server, clock=Clock()) as store:
        store.subscribe(Listener())
        store.share(lambda _: True, is_reported)
        store.writer.guard = None  # these tests are not about membership
        yield store


async def found(store: PostgresqlStore, is_it: Callable[[Held], bool]) -> Held:
    await until(lambda: is_it(store.held()))
    return store.held()


def has_some(held: Held) -> bool:
    return bool(held.count)


def has_none(held: Held) -> bool:
    return not held.count


async def test_what_waits_for_a_transaction_in_another_database_is_counted_until_it_ends(
    database: Server, connection: psycopg.Connection, elsewhere: psycopg.Connection
) -> None:
    async with opened(database) as store:
        await store.append([*to("e1", "e2"), *to("e3", registration="reg_2")])
        held = await found(store, has_some)
        assert held.count == 3
        assert {one.lane: one.count for part in held.lanes.values() for one in part} == {
            LANE: 2,
            "reg_2:0": 1,
        }
        [row] = connection.execute("SELECT min(queued_at) FROM deliveries").fetchall()
        assert held.oldest_queued_at == row[0] / 1_000_000
        pid = elsewhere.info.backend_pid
        assert (
            f"process {pid} (report) of the user hookgw in the database elsewhere, since 20" in held.culprit
        )
        assert f"SELECT pg_terminate_backend({pid})" in held.culprit
        elsewhere.rollback()
        assert await found(store, has_none) == Held()


async def test_a_prepared_transaction_is_named_although_it_has_no_session() -> None:
    with run_postgres() as postgres:
        postgres.stop(2)
        postgres.start(max_prepared_transactions="2")
        async with opened(Server(postgres.url(), "hookgw")) as store:
            with psycopg.connect(postgres.url(), autocommit=True) as connection:
                connection.execute("BEGIN")
                connection.execute("CREATE TABLE orders (number int)")
                connection.execute("PREPARE TRANSACTION 'the shop''s order'")
            await store.append(to("e1"))
            held = await found(store, has_some)
            assert held.count == 1
            assert "prepared transaction 'the shop''s order' of the user hookgw in the database postgres" in (
                held.culprit
            )
            assert "ROLLBACK PREPARED 'the shop''s order'" in held.culprit
            postgres.execute("ROLLBACK PREPARED 'the shop''s order'")
            assert await found(store, has_none) == Held()


async def test_the_log_names_the_transaction_once_and_says_when_it_has_ended(
    database: Server, elsewhere: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WARNING_AFTER", 0.0)
    with capture_logs() as logs:
        async with opened(database) as store:
            await store.append(to("e1"))
            await found(store, has_some)
            await store.append(to("e2"))
            await found(store, lambda held: held.count == 2)
            elsewhere.rollback()
            await found(store, has_none)
    told = [line for line in logs if line["event"] in (WAITS, ENDED)]
    assert [line["event"] for line in told] == [WAITS, ENDED]
    assert told[0]["deliveries"] == 1
    assert f"process {elsewhere.info.backend_pid} " in told[0]["transaction"]


def looks(connection: psycopg.Connection, is_reported: Callable[[str], bool] = lambda _: True) -> Held:
    clock = Clock()
    before = micros(clock.steady() - module.LEAST_AGE)
    watch = HeldWatch(cast("Reader", None), clock)
    watch.is_reported = is_reported
    return watch.find(connection, before)[0]


async def test_what_waits_for_a_moment_is_not_reported(
    database: Server,
    connection: psycopg.Connection,
    elsewhere: psycopg.Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with opened(database) as store:
        await store.append(to("e1"))
        assert looks(connection).count == 1
        monkeypatch.setattr(module, "LEAST_AGE", 3600.0)
        assert looks(connection) == Held()
    assert not elsewhere.closed


async def test_a_node_of_a_fleet_reports_its_own_lanes_alone(
    database: Server, connection: psycopg.Connection, elsewhere: psycopg.Connection
) -> None:
    async with opened(database, lambda lane: lane == LANE) as store:
        await store.append([*to("e1"), *to("e2", registration="reg_2")])
        held = await found(store, has_some)
        assert [*held.lanes] == ["reg_1"]
        assert held.count == 1
        assert looks(connection, lambda _: False) == Held()
    assert not elsewhere.closed


async def test_a_look_is_bounded(
    database: Server,
    connection: psycopg.Connection,
    elsewhere: psycopg.Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with opened(database) as store:
        for number in range(5):
            await store.append(to(f"e{number}"))
        whole = looks(connection)
        monkeypatch.setattr(module, "MOST", 3)
        part = looks(connection)
        assert (whole.count, part.count) == (5, 3)
        assert part.oldest_queued_at == whole.oldest_queued_at
    assert not elsewhere.closed


async def test_a_user_without_rights_learns_which_session_it_is(
    database: Server, connection: psycopg.Connection, postgres: PostgresServer, elsewhere: psycopg.Connection
) -> None:
    postgres.execute("CREATE ROLE plain")
    try:
        connection.execute(f"GRANT USAGE ON SCHEMA {database.schema} TO plain".encode())
        connection.execute("GRANT SELECT ON deliveries TO plain")
        async with opened(database) as store:
            await store.append(to("e1"))
            connection.execute("SET ROLE plain")
            held = looks(connection)
            assert f"process {elsewhere.info.backend_pid}" in held.culprit
            assert "in the database elsewhere. End it" in held.culprit
            connection.execute("RESET ROLE")
    finally:
        postgres.execute("DROP OWNED BY plain; DROP ROLE plain")


async def test_a_look_that_fails_ends_nothing() -> None:
    looked = trio.Event()

    class Failing:
        calls = 0

        async def run(self, _: Any) -> Any:
            self.calls += 1
            if self.calls == 2:
                raise psycopg.errors.UndefinedTable("There is no such table.")
            if self.calls == 3:
                looked.set()
            return Held(count=1, oldest_queued_at=Clock().steady()), None

    watch = HeldWatch(cast("Reader", Failing()), Clock())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch.run)
        with trio.fail_after(30):
            await looked.wait()
        nursery.cancel_scope.cancel()
