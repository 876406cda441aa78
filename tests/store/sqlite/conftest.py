from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.public.store import Store
from tests.store.sqlite.support import opened


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "hookgw.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[Store]:
    async with opened(path) as store:
        yield store
