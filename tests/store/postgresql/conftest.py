from collections.abc import Iterator

import psycopg
import pytest

from hookgw.store.postgresql import Server


@pytest.fixture
def connection(database: Server) -> Iterator[psycopg.Connection]:
    """A connection to the same tables."""
    connection = database.connect()
    yield connection
    connection.close()
