from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.public.store import Store
from tests.store.conformance.engines import ENGINES, Engine, make_engine


@pytest.fixture(params=ENGINES)
def engine(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Engine]:
    with make_engine(request.param, tmp_path, monkeypatch, request) as made:
        yield made


@pytest.fixture
async def store(engine: Engine) -> AsyncIterator[Store]:
    async with engine.open() as store:
        yield store
