from collections.abc import Iterator

import pytest

from tests.support.ports import free_port
from tests.support.postgres import PostgresServer, run_postgres


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    with run_postgres(fsync=True, listen=free_port()) as server:
        yield server


@pytest.fixture
def schema(postgres: PostgresServer) -> Iterator[str]:
    with postgres.new_schema() as name:
        yield name
