from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from hookgw.store.postgresql.database import Server
from hookgw.store.postgresql.schema import migrate
from tests.support.postgres import PostgresServer


@pytest.fixture
def database(postgres: PostgresServer) -> Iterator[Server]:
    """A database with hookgw's tables."""
    with postgres.new_schema() as schema:
        server = Server(postgres.url(), schema)
        with server.connect() as connection:
            migrate(connection, schema, server.place)
        connection.close()
        yield server


@pytest.fixture
def connection(database: Server) -> Iterator[psycopg.Connection]:
    """A connection to the same tables."""
    connection = database.connect()
    yield connection
    connection.close()
