import errno
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.public.store import Store
from tests.store.sqlite.support import opened


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "hookgw.db"


@pytest.fixture(params=["hard links", *(errno.errorcode[code] for code in (errno.EPERM, errno.EXDEV))])
def links(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hard links as usual; then as on exFAT and FAT, and as on mergerfs, which have none."""
    if (code := getattr(errno, request.param, 0)) == 0:
        return

    def refuse(name: Path, target: Path) -> None:
        target.stat()
        raise OSError(code, os.strerror(code), str(target), None, str(name))

    monkeypatch.setattr(Path, "hardlink_to", refuse)


@pytest.fixture
async def store(path: Path) -> AsyncIterator[Store]:
    async with opened(path) as store:
        yield store
