"""Poolers that stop a start."""

from contextlib import closing

import psycopg
import pytest

from hookgw.store.postgresql import copy_rows
from tests.public.concurrency import Clock
from tests.public.kernel import StartError
from tests.public.postgresql import (
    Server,
    open_store,
    start_errors,
)
from tests.store.support import to
from tests.support.poolers import needs_pgbouncer, pooled_url, run_pgbouncer, without_flush
from tests.support.postgres import PostgresServer


@needs_pgbouncer
@pytest.mark.process
@pytest.mark.parametrize("mode", ["transaction", "statement"])
async def test_a_pooler_of_transactions_is_refused(
    postgres: PostgresServer, database: Server, mode: str
) -> None:
    with run_pgbouncer(postgres, mode) as port:
        server = Server(pooled_url(port), database.schema)
        with pytest.raises(StartError, match="pool_mode = session"):
            async with open_store(server, clock=Clock()):
                pass
        with (
            pytest.raises(StartError, match="pool_mode = session"),
            copy_rows.open_target(server, "the file"),
        ):
            pass


def test_a_pooler_that_loses_what_it_prepares_is_refused(database: Server) -> None:
    """As Odyssey does, if it pools transactions: it takes what hookgw has removed for prepared."""
    with (
        pytest.raises(StartError, match=r"behind a pooler of transactions.*pool_mode = session"),
        start_errors(database),
        closing(database.connect()) as connection,
    ):
        connection.execute("EXECUTE odyssey_pstmt_0")


@needs_pgbouncer
@pytest.mark.process
async def test_a_pooler_that_keeps_statements_back_is_refused(
    postgres: PostgresServer, database: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start would succeed, and no event would be stored."""
    monkeypatch.setattr("hookgw.store.postgresql.start_checks.START_PATIENCE", 1)
    with run_pgbouncer(postgres, "session") as pooler, without_flush(pooler) as port:
        server = Server(f"{pooled_url(port)}?sslmode=disable", database.schema)
        with pytest.raises(StartError, match=r"keeps statements back.*PgCat"):
            async with open_store(server, clock=Clock()):
                pass


@needs_pgbouncer
@pytest.mark.process
async def test_a_pooler_of_sessions_is_not(postgres: PostgresServer, database: Server) -> None:
    with run_pgbouncer(postgres, "session") as port:
        async with open_store(Server(pooled_url(port), database.schema), clock=Clock()) as store:
            assert await store.append(to("e1")) == [True]


@needs_pgbouncer
@pytest.mark.process
async def test_a_start_behind_a_pooler_without_a_free_connection_says_so(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hookgw.store.postgresql.server.READ_PATIENCE", 0.1)
    with (
        run_pgbouncer(postgres, "session", size=1) as port,
        closing(psycopg.connect(pooled_url(port))) as one,
    ):
        one.execute("SELECT 1")
        with pytest.raises(StartError, match=r"no answer within 0.1 s: a pooler in between may have no free"):
            async with open_store(Server(pooled_url(port)), clock=Clock()):
                pass
