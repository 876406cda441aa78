from collections.abc import Iterator

import psycopg
import pytest

from tests.public.postgresql import Server


@pytest.fixture
def connection(database: Server) -> Iterator[psycopg.Connection]:
    """A connection to the same tables."""
    connection = database.connect()
    yield connection
    connection.close()
