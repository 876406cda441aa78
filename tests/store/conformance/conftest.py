from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hookgw.store import Store
from tests.store.conformance.engines import ENGINES, Engine


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Engine:
    made: Engine = ENGINES[request.param](tmp_path, monkeypatch)
    return made


@pytest.fixture
async def store(engine: Engine) -> AsyncIterator[Store]:
    async with engine.open() as store:
        yield store
