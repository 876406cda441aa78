"""The engines that the suite runs against, and what it needs of each to provoke faults."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from hookgw.store import audit_entries, history, log, new_lanes, searches, steps
from hookgw.store.postgresql import erase as postgresql_erase
from hookgw.store.sqlite import erase
from tests.public.concurrency import Clock
from tests.public.postgresql import Server
from tests.public.postgresql import open_store as open_postgresql_store
from tests.public.store import Store, StoreObserver, open_store
from tests.support.postgres import PostgresServer
from tests.support.stores import connection_of, turn_of, writer_of


class Engine:
    """One storage that can be opened again and again, and the faults that the suite provokes in it.

    Args:
        place: as messages name it.
        open_: opens the store.
        erase: the engine's module of that name.
        execute: runs a statement as the store's writer.
        read_only: the statement that makes the writer refuse writes; followed by ``on`` or ``off``.
    """

    def __init__(
        self,
        place: str,
        open_: Callable[..., AbstractAsyncContextManager[Store]],
        erase: ModuleType,
        execute: Callable[[Store, str], object],
        read_only: str,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        self.place = place
        self._open = open_
        self._erase = erase
        self._execute = execute
        self._read_only = read_only
        self._monkeypatch = monkeypatch

    def open(
        self, observer: StoreObserver | None = None, **options: Any
    ) -> AbstractAsyncContextManager[Store]:
        """Open the store."""
        return self._open(clock=Clock(), observer=observer, **options)

    @asynccontextmanager
    async def refuse(self, store: Store) -> AsyncIterator[None]:
        """Make the storage refuse writes for the length of a block."""
        # Not within a commit, such as a probe of whether the storage works again: it would be rolled back.
        async with self.hold(store):
            self._execute(store, f"{self._read_only} = on")
        try:
            yield
        finally:
            async with self.hold(store):
                self._execute(store, f"{self._read_only} = off")

    @asynccontextmanager
    async def hold(self, store: Store) -> AsyncIterator[None]:
        """Let no write finish for the length of a block."""
        async with turn_of(store):
            yield

    def set_step(self, size: int, *, payload: int | None = None) -> None:
        """Change how many deliveries, and bytes of payload, a step handles."""
        self._monkeypatch.setattr(steps, "STEP", size)
        self._monkeypatch.setattr(steps, "REPLAY_STEP", size)
        self._monkeypatch.setattr(history, "PRUNE_STEP", size)
        self._monkeypatch.setattr(history, "FORGET_STEP", size)
        self._monkeypatch.setattr(audit_entries, "STEP", size)
        self._monkeypatch.setattr(log, "PRUNE_STEP", size)
        self._monkeypatch.setattr(log, "INDEX_ROWS", size)
        if payload is not None:
            self._monkeypatch.setattr(new_lanes, "MOST_READ", payload)

    def shorten_searches(self, rows: int) -> None:
        """End a search, for a list or a step of a replay, when it has looked at so many deliveries."""
        self._monkeypatch.setattr(searches, "FIRST_ROWS", rows)
        self._monkeypatch.setattr(searches, "PAYLOAD_ROWS", rows)
        self._monkeypatch.setattr(steps, "SEARCH_ROWS", rows)
        self._monkeypatch.setattr(self._erase, "ROWS", rows)
        self._monkeypatch.setattr(searches, "LIST_SECONDS", 0)
        self._monkeypatch.setattr(audit_entries, "ROWS", rows)


ENGINES = ("sqlite", pytest.param("postgresql", marks=pytest.mark.process))


@contextmanager
def make_engine(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[Engine]:
    """Give an engine with nothing in it: a data file, or a schema in a database that all tests share."""
    if name == "sqlite":
        path = folder / "data" / "hookgw.db"

        def execute(store: Store, statement: str) -> object:
            return connection_of(store).execute(statement)

        yield Engine(str(path), partial(open_store, path), erase, execute, "PRAGMA query_only", monkeypatch)
        return
    postgres: PostgresServer = request.getfixturevalue("postgres")

    def call(store: Store, statement: str) -> object:
        return writer_of(store)._session.call(lambda connection: connection.execute(statement))

    with postgres.used_schema() as schema:
        server = Server(postgres.url(), schema)
        open_ = partial(open_postgresql_store, server)
        read_only = "SET default_transaction_read_only"
        yield Engine(server.place, open_, postgresql_erase, call, read_only, monkeypatch)
