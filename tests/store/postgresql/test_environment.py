"""What a role or a database presets, each of it tried, and all of it at once."""

import time
from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest
from psycopg import sql

from hookgw.store.postgresql import environment
from tests.public.concurrency import Clock
from tests.public.kernel import StartError
from tests.public.postgresql import Server, check_server, open_store
from tests.public.records import FIRST
from tests.store.support import delivered, to
from tests.support.poolers import silent_after
from tests.support.postgres import PostgresServer

HOSTILE = {
    "default_transaction_isolation": "repeatable read",
    "default_transaction_deferrable": "on",
    "synchronous_commit": "off",
    "search_path": "public",
    "statement_timeout": "500",
    "lock_timeout": "1",
    "idle_in_transaction_session_timeout": "500",
    "plan_cache_mode": "force_generic_plan",
    "TimeZone": "America/Sao_Paulo",
    "DateStyle": "German, DMY",
    "IntervalStyle": "iso_8601",
    "row_security": "on",
    "bytea_output": "escape",
    "extra_float_digits": "-15",
    "standard_conforming_strings": "off",
    "array_nulls": "off",
    "transform_null_equals": "on",
    "quote_all_identifiers": "on",
    "exit_on_error": "on",
    "client_min_messages": "debug5",
    "client_encoding": "LATIN1",
    "enable_seqscan": "on",
    "enable_indexscan": "off",
    "enable_indexonlyscan": "off",
    "enable_bitmapscan": "off",
    "jit": "on",
    "default_tablespace": "pg_global",
    "idle_session_timeout": "1000",
}
SET_ELSEWHERE = {"default_table_access_method"}  # there is no other one to preset


@pytest.fixture
def role(postgres: PostgresServer) -> Iterator[str]:
    """A role without presets, who may do everything."""
    postgres.execute("CREATE ROLE preset SUPERUSER LOGIN")
    yield "preset"
    postgres.execute("REASSIGN OWNED BY preset TO hookgw")
    postgres.execute("DROP ROLE preset")


def url_of(postgres: PostgresServer, role: str, database: str = "postgres") -> str:
    return postgres.url(database).replace("user=hookgw", f"user={role}")


def preset(postgres: PostgresServer, role: str, **settings: str) -> None:
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        for name, value in settings.items():
            connection.execute(
                sql.SQL("ALTER ROLE {} SET {} = {}").format(
                    sql.Identifier(role), sql.Identifier(name), sql.Literal(value)
                )
            )


def test_a_connection_has_nothing_of_a_poolers_former_client(
    postgres: PostgresServer, database: Server
) -> None:
    """As pgbouncer leaves it with an empty server_reset_query: names of statements were taken already."""
    with closing(psycopg.connect(postgres.url(), autocommit=True)) as connection:
        connection.execute("PREPARE _pg3_0 AS SELECT 1")
        connection.execute("LISTEN for_another")
        connection.execute("SELECT pg_advisory_lock(1)")
        environment.prepare(
            connection, database.schema, within=60, statement=60, transaction=60, plans="auto"
        )
        found = connection.execute(
            """SELECT (SELECT count(*) FROM pg_prepared_statements WHERE from_sql),
                (SELECT count(*) FROM pg_listening_channels()),
                (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid())"""
        ).fetchone()
    assert found == (0, 0, 0)


@pytest.mark.parametrize(
    "answer",
    [
        # By default, pgbouncer 1.25 sends one to a client that waits for a connection to the server for 5 s.
        (b"N", b"SNOTICE\0C00000\0MNo server connection available\0\0"),
        # The answer to one of several statements, and then the way to the server is cut.
        (b"C", b"DEALLOCATE ALL\0"),
    ],
)
def test_a_server_that_does_not_answer_further_is_not_waited_for(answer: tuple[bytes, bytes]) -> None:
    """By the driver, no other thread would run meanwhile: nothing of the process."""
    with (
        silent_after(answer) as port,
        closing(psycopg.connect(f"postgresql://127.0.0.1:{port}/x?sslmode=disable")) as connection,
        pytest.raises(psycopg.OperationalError, match=r"no answer within 0\.2 s"),
    ):
        environment.prepare(connection, "x", within=0.2, statement=60, transaction=60, plans="auto")


def test_every_setting_of_a_connection_is_tried() -> None:
    chosen = {"synchronous_commit", "search_path", "statement_timeout", "lock_timeout", "client_encoding"}
    chosen |= {"idle_in_transaction_session_timeout", "plan_cache_mode", "idle_session_timeout"}
    assert chosen | environment.ALWAYS.keys() == HOSTILE.keys() | SET_ELSEWHERE


@pytest.mark.parametrize("name", HOSTILE)
def test_a_preset_does_not_reach_a_connection(name: str, postgres: PostgresServer, role: str) -> None:
    with closing(Server(url_of(postgres, role)).connect()) as usual:
        expected = usual.execute("SELECT current_setting(%s)", (name,)).fetchone()
    preset(postgres, role, **{name: HOSTILE[name]})
    with closing(Server(url_of(postgres, role)).connect()) as connection:
        assert connection.execute("SELECT current_setting(%s)", (name,)).fetchone() == expected


@pytest.mark.parametrize("name", HOSTILE)
def test_a_change_of_the_configuration_does_not_reach_an_open_connection(
    name: str, postgres: PostgresServer
) -> None:
    with closing(Server(postgres.url()).connect()) as connection:
        expected = connection.execute("SELECT current_setting(%s)", (name,)).fetchone()
        try:
            postgres.execute(f"ALTER SYSTEM SET {name} = '{HOSTILE[name]}'")
            # The second setting tells when the connection has heard of both.
            postgres.execute("ALTER SYSTEM SET work_mem = '123kB'")
            postgres.execute("SELECT pg_reload_conf()")
            for _ in range(600):
                if connection.execute("SHOW work_mem").fetchone() == ("123kB",):
                    break
                time.sleep(0.05)
            assert connection.execute("SHOW work_mem").fetchone() == ("123kB",)
            assert connection.execute("SELECT current_setting(%s)", (name,)).fetchone() == expected
        finally:
            postgres.execute(f"ALTER SYSTEM RESET {name}")
            postgres.execute("ALTER SYSTEM RESET work_mem")
            postgres.execute("SELECT pg_reload_conf()")


async def test_events_and_outcomes_are_kept_whole_under_all_presets_at_once(
    postgres: PostgresServer, role: str
) -> None:
    preset(postgres, role, **HOSTILE)
    data = '{"text": "\\\\ \' \\" 😀 NULL {NULL} \\u0001"}'
    with postgres.new_schema() as schema:
        server = Server(url_of(postgres, role), schema)
        async with open_store(server, clock=Clock()) as store:
            await store.append(to("a", data=data, instance="NULL"))
            [pending], *_ = await store.read_lane("reg_1:0", after=FIRST, limit=10)
            assert pending.event.data_json == data.encode()
            number = store.settle_nowait(delivered(pending.seq))
            await store.wait_settled(number)
        async with open_store(server, clock=Clock()) as store:
            assert await store.pending_lanes() == []


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
async def test_a_database_that_cannot_keep_every_character_stops_the_start(
    postgres: PostgresServer, encoding: str
) -> None:
    name = f"in_{encoding.lower()}"
    postgres.execute(
        f"CREATE DATABASE {name} ENCODING '{encoding}' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'"
    )
    try:
        with pytest.raises(StartError, match=f"stores texts as {encoding}.*ENCODING 'UTF8'"):
            async with open_store(Server(postgres.url(name)), clock=Clock()):
                pass
        assert postgres.execute("SELECT nspname FROM pg_namespace WHERE nspname = 'hookgw'", name) == []
    finally:
        postgres.execute(f"DROP DATABASE {name}")


async def test_a_preset_read_only_stops_the_start_with_its_name(postgres: PostgresServer, role: str) -> None:
    preset(postgres, role, default_transaction_read_only="on")
    with pytest.raises(StartError, match=r"accepts no writes.*default_transaction_read_only"):
        async with open_store(Server(url_of(postgres, role)), clock=Clock()):
            pass


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("session_replication_role", "replica"),
        ("zero_damaged_pages", "on"),
        ("ignore_checksum_failure", "on"),
    ],
)
def test_what_would_lose_something_silently_stops_the_start(
    name: str, value: str, postgres: PostgresServer, role: str
) -> None:
    preset(postgres, role, **{name: value})
    with (
        closing(Server(url_of(postgres, role)).connect()) as connection,
        pytest.raises(StartError, match=f"{name} = {value}"),
    ):
        check_server(connection, "db.test:5432/hooks")


def test_a_server_that_is_too_old(postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "OLDEST_SERVER", 990000)
    with (
        closing(Server(postgres.url()).connect()) as connection,
        pytest.raises(StartError, match="needs 99 or newer"),
    ):
        check_server(connection, "db.test:5432/hooks")
