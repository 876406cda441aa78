"""Where the database is: what it is called in messages, and which of several servers is used."""

import os
import socket
from contextlib import ExitStack, closing
from pathlib import Path

import psycopg
import pytest

from tests.fleet.links import open_link
from tests.fleet.nodes import url_at
from tests.public.concurrency import Clock
from tests.public.kernel import StartError, StorageUnavailable
from tests.public.postgresql import (
    DatabaseSession,
    Reader,
    Server,
    open_store,
)
from tests.support.poolers import needs_pgbouncer, pooled_url, run_pgbouncer
from tests.support.ports import free_port
from tests.support.postgres import PostgresServer, run_postgres


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("postgresql://me:hush@db.test/hooks", "db.test:5432/hooks"),
        ("postgresql://me:hush@db.test:6543/hooks?sslmode=require", "db.test:6543/hooks"),
        ("postgresql://me:hush@[::1]:6543/hooks", "[::1]:6543/hooks"),
        ("postgresql://me:hush@one.test:1,two.test:2/hooks", "one.test:1,two.test:2/hooks"),
        ("postgresql://me:hush@one.test,two.test/hooks", "one.test:5432,two.test:5432/hooks"),
        ("postgresql:///hooks?host=/run/postgresql", "/run/postgresql/hooks"),
        ("postgresql://me:hush@db.test", "db.test:5432/me"),
        ("postgresql://me:hush@db.test/hooks\n", "db.test:5432/hooks"),
    ],
)
def test_a_place_has_no_password(url: str, place: str) -> None:
    assert Server(url).place == place


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("service=hooks", "one.test:1,two.test:2/hooks"),
        ("postgresql://db.test/?service=hooks&port=6543", "db.test:6543/hooks"),
        ("postgresql://", "third.test:5432/me"),
        ("service=unknown", "third.test:5432/me"),
    ],
)
def test_a_place_may_be_in_a_service_file_or_in_the_environment(
    url: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "services"
    file.write_text("[hooks]\nhost=one.test,two.test\nport=1,2\ndbname=hooks\npassword=hush\n")
    monkeypatch.setenv("PGSERVICEFILE", str(file))
    monkeypatch.setenv("PGHOST", "third.test")
    monkeypatch.setenv("PGUSER", "me")
    assert Server(url).place == place
    assert "PGSERVICE" not in os.environ


def test_the_servers_of_a_service_file_are_tried_in_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, postgres: PostgresServer
) -> None:
    """By hookgw, which passes over a former primary, and says of each why it is not used."""
    file = tmp_path / "services"
    file.write_text(f"[hooks]\nhost={tmp_path},{postgres.folder}\nport={postgres.port}\nuser=hookgw\n")
    monkeypatch.setenv("PGSERVICEFILE", str(file))
    with closing(Server("service=hooks dbname=postgres").connect()) as connection:
        assert connection.info.host == str(postgres.folder)
    file.write_text(f"[hooks]\nhost={tmp_path / 'one'},{tmp_path / 'two'}\n")
    with pytest.raises(psycopg.OperationalError, match=r"/one/.*; .*/two/"):
        Server("service=hooks dbname=postgres").connect()


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("sslmod=verify-full", "sslmod"),
        # As in the URL of an Evolution API.
        ("schema=evolution_api&ssl=true", "schema"),
        ("connection_limit=5&pgbouncer=true", "connection_limit, pgbouncer"),
    ],
)
def test_a_parameter_that_libpq_does_not_know_is_named(query: str, names: str) -> None:
    with pytest.raises(StartError, match=f"does not know: {names}\\. Remove them: .* sslmode=verify-full"):
        Server(f"postgresql://me:hush@db.test/hooks?{query}")


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:hush@[db/hooks",
        "postgresql://me:hush/5@db.test/hooks",
        "postgresql://me:5?hush=5@db.test/hooks?schema=public",
        "postgresql://me:5/hush@db.test",
        "postgresql://me:5@hush@db.test/hooks",
        "host=me:hush@db.test dbname=hooks",
        "host=db.test port=hush",
    ],
)
def test_a_bad_url_is_not_shown(url: str) -> None:
    with pytest.raises(StartError) as caught:
        Server(url)
    assert "hush" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.usefixtures("postgres")  # skips the test where there is none
async def test_a_start_goes_on_after_a_moment_in_which_the_server_does_not_answer() -> None:
    """A busy machine may need more than the 2 s after which a node takes its server for gone."""
    with (
        run_postgres(listen=free_port()) as server,
        socket.create_server(("127.0.0.1", 0)) as silent,
    ):
        targets = iter([silent.getsockname()[1], server.port, silent.getsockname()[1]])
        async with (
            open_link(lambda: next(targets, server.port)) as link,
            open_store(Server(url_at(link.port)), clock=Clock()) as store,
        ):
            await store.connect()


async def test_each_of_several_servers_says_why_it_is_not_used(
    database: Server, postgres: PostgresServer
) -> None:
    """The last one alone is a standby, as usual, and says nothing of what is wrong with the first."""
    postgres.execute("CREATE ROLE reading LOGIN")
    postgres.execute("ALTER ROLE reading SET default_transaction_read_only = on")
    at = f"host=127.0.0.1,{postgres.folder}&port={free_port()},{postgres.port}"
    why = r"Connection refused; .*session is read-only"
    try:
        server = Server(f"postgresql:///postgres?{at}&user=reading", database.schema)
        with pytest.raises(StartError, match=f"cannot be used: .*{why}"):
            async with open_store(server, clock=Clock()):
                pass
        with closing(DatabaseSession(server)) as session, pytest.raises(StorageUnavailable, match=why):
            await Reader(session).run(lambda connection: connection.execute("SELECT 1"))
    finally:
        postgres.execute("DROP ROLE reading")


async def test_a_name_that_is_not_known_is_told_beside_what_another_server_says(
    database: Server, postgres: PostgresServer
) -> None:
    """As that of a pod that is gone."""
    at = f"host=nobody.invalid,127.0.0.1&port={free_port()}"
    with closing(DatabaseSession(Server(f"postgresql:///postgres?{at}", database.schema))) as session:
        why = r"host nobody\.invalid could not be resolved: .*; .*Connection refused"
        with pytest.raises(StorageUnavailable, match=why):
            await Reader(session).run(lambda connection: connection.execute("SELECT 1"))


@needs_pgbouncer
@pytest.mark.process
def test_a_server_that_was_promoted_behind_a_pooler_is_used(postgres: PostgresServer) -> None:
    """The pooler tells each client what the server reported of itself when the two met."""
    preset = "default_transaction_read_only"
    with ExitStack() as stack:
        postgres.execute(f"ALTER ROLE hookgw SET {preset} = on")
        try:
            port = stack.enter_context(run_pgbouncer(postgres, "session"))
            session = stack.enter_context(closing(DatabaseSession(Server(pooled_url(port)))))
            with pytest.raises(psycopg.OperationalError, match="session is read-only"):
                session.call(lambda _: None)
            with closing(psycopg.connect(pooled_url(port))) as one:
                pid = one.execute("SELECT pg_backend_pid()").fetchone()
        finally:
            postgres.execute(f"SET TRANSACTION READ WRITE; ALTER ROLE hookgw RESET {preset}")
        assert pid is not None
        postgres.execute(f"SELECT pg_terminate_backend({pid[0]}, 5000)")
        session.call(lambda connection: connection.execute("CREATE TEMPORARY TABLE is_written ()"))
