"""The engine that the configuration names."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.public.concurrency import Clock
from tests.public.config import StorageSettings
from tests.public.kernel import StartError
from tests.public.postgresql import PostgresqlStore
from tests.public.sqlite import SqliteStore
from tests.public.store import open_storage
from tests.support.postgres import PostgresServer


async def test_a_file_is_the_default(tmp_path: Path) -> None:
    settings = StorageSettings(path=str(tmp_path / "a.db"))
    async with open_storage(settings, clock=Clock()) as store:
        assert isinstance(store, SqliteStore)


async def test_a_database(postgres: PostgresServer) -> None:
    with postgres.new_schema() as schema:
        settings = StorageSettings(engine="postgresql", url=postgres.url(), schema=schema)
        async with open_storage(settings, clock=Clock()) as store:
            assert isinstance(store, PostgresqlStore)


async def test_without_the_driver_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    # Restored at the end: the import that fails leaves another module there, without those of its folder.
    monkeypatch.setattr("hookgw.store.postgresql", sys.modules["hookgw.store.postgresql"])
    for name in [name for name in sys.modules if name.startswith("hookgw.store.postgresql")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    settings = StorageSettings(engine="postgresql", url="postgresql://127.0.0.1/hookgw")
    with pytest.raises(StartError, match="psycopg") as caught:
        open_storage(settings, clock=Clock())
    assert 'pip install "hookgw[postgresql]"' in str(caught.value)


def test_sqlite_needs_no_driver() -> None:
    code = "import sys, hookgw.app.open; sys.exit('psycopg' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
