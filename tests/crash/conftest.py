from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.engines import ENGINES, SQLITE, Storage, in_database, in_file


@pytest.fixture(params=ENGINES)
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Storage]:
    """Where the killed gateway keeps its data: a new place for each test, on each engine that runs."""
    if request.param == SQLITE:
        yield in_file(tmp_path)
        return
    with in_database(request.getfixturevalue("postgres")) as found:
        yield found
