"""The engines that the suite kills, and what stands in their tables.

``HOOKGW_CRASH_ENGINE`` chooses one of them. Without it, everything runs on SQLite, and on PostgreSQL only
what concerns its commits, and some random kills: each start there waits until the killed process counts as
dead, which takes 3 s.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.store.sqlite.support import peek
from tests.support.postgres import PostgresServer

SQLITE, POSTGRESQL = "sqlite", "postgresql"
CHOSEN = os.environ.get("HOOKGW_CRASH_ENGINE")
ENGINES = [CHOSEN] if CHOSEN else [SQLITE]
sqlite_only = pytest.mark.skipif(CHOSEN not in (None, SQLITE), reason="another engine is chosen")


@dataclass(frozen=True)
class Storage:
    """Where one gateway keeps its data.

    Attributes:
        settings: the block ``storage`` of its configuration.
        file: the data file; ``None`` for a database.
    """

    settings: Mapping[str, Any]
    file: Path | None

    def peek(self, statement: str) -> list[tuple[Any, ...]]:
        """Return what another connection sees."""
        if self.file is not None:
            return peek(self.file, statement)
        options = f"-c search_path={self.settings['schema']}"
        with psycopg.connect(self.settings["url"], options=options, autocommit=True) as connection:
            return connection.execute(statement.encode()).fetchall()


def in_file(folder: Path) -> Storage:
    return Storage({"path": str(folder / "hookgw.db")}, folder / "hookgw.db")


@contextmanager
def in_database(server: PostgresServer) -> Iterator[Storage]:
    """Give a storage in a schema that nobody has used."""
    with server.new_schema() as schema:
        yield Storage({"engine": POSTGRESQL, "url": server.url(), "schema": schema}, None)
