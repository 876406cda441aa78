from collections.abc import Iterator

import psycopg
import pytest

from tests.public.postgresql import Server
from tests.support.postgres import PostgresServer


@pytest.fixture(autouse=True)
def _nobody_dies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nodes live for ten minutes without a heartbeat: these tests send hardly any."""
    monkeypatch.setattr(
        "hookgw.store.postgresql.nodes.DEAD", "heartbeat_at < clock_timestamp() - interval '10 min'"
    )


@pytest.fixture
def connection(database: Server) -> Iterator[psycopg.Connection]:
    """A connection to the same tables."""
    connection = database.connect()
    yield connection
    connection.close()


@pytest.fixture
def acting(database: Server, postgres: PostgresServer) -> Iterator[tuple[Server, Server]]:
    """The database as two processes see it whose user acts as another role, which owns what users make."""
    schema = database.schema
    postgres.execute("CREATE ROLE acted_as")
    postgres.execute("CREATE ROLE acting LOGIN NOINHERIT IN ROLE acted_as")
    postgres.execute("ALTER ROLE acting SET role = acted_as")
    for what in (f"SCHEMA {schema}", f"ALL TABLES IN SCHEMA {schema}", f"ALL SEQUENCES IN SCHEMA {schema}"):
        postgres.execute(f"GRANT ALL ON {what} TO acted_as")
    url = postgres.url().replace("user=hookgw", "user=acting")
    yield Server(url, schema), Server(url, schema)
    postgres.execute("DROP OWNED BY acted_as")
    postgres.execute("DROP ROLE acting, acted_as")
