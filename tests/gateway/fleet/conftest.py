from collections.abc import Iterator

import pytest

from tests.support.postgres import PostgresServer


@pytest.fixture
def schema(postgres: PostgresServer) -> Iterator[str]:
    with postgres.new_schema() as name:
        yield name
