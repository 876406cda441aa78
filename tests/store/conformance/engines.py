"""The engines that the suite runs against, and what it needs of each to provoke faults."""

from collections.abc import AsyncIterator, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    asynccontextmanager,
    contextmanager,
)
from pathlib import Path
from types import ModuleType
from typing import Protocol

import pytest

from hookgw.concurrency import Clock
from hookgw.config import MasterKeys
from hookgw.store import (
    Store,
    StoreObserver,
    audit_entries,
    history,
    log,
    new_lanes,
    open_store,
    searches,
    steps,
)
from hookgw.store.postgresql import Server
from hookgw.store.postgresql import erase as postgresql_erase
from hookgw.store.postgresql import open_store as open_postgresql_store
from hookgw.store.sqlite import erase
from tests.support.postgres import PostgresServer
from tests.support.stores import connection_of, turn_of, writer_of


class Engine(Protocol):
    """One storage that can be opened again and again."""

    place: str

    def open(
        self,
        observer: StoreObserver | None = None,
        *,
        keep_history: bool = True,
        keep_unwanted: bool = True,
        keys: MasterKeys = ...,
    ) -> AbstractAsyncContextManager[Store]:
        """Open the store."""

    def refuse(self, store: Store) -> AbstractAsyncContextManager[None]:
        """Make the storage refuse writes for the length of a block."""

    def hold(self, store: Store) -> AbstractAsyncContextManager[None]:
        """Let no write finish for the length of a block."""

    def set_step(self, size: int, *, payload: int | None = None) -> None:
        """Change how many deliveries, and bytes of payload, a step handles."""

    def shorten_searches(self, rows: int) -> None:
        """End a search, for a list or a step of a replay, when it has looked at so many deliveries."""

    def set_tally_part(self, rows: int, *, most: int = 20_000) -> None:
        """Count so many deliveries at a time, and so many at most in all."""


class _Sizes:
    """The sizes of steps and searches, which have the same names in all engines."""

    _erase: ModuleType
    _monkeypatch: pytest.MonkeyPatch

    def set_step(self, size: int, *, payload: int | None = None) -> None:
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
        self._monkeypatch.setattr(searches, "FIRST_ROWS", rows)
        self._monkeypatch.setattr(searches, "PAYLOAD_ROWS", rows)
        self._monkeypatch.setattr(steps, "SEARCH_ROWS", rows)
        self._monkeypatch.setattr(self._erase, "ROWS", rows)
        self._monkeypatch.setattr(searches, "LIST_SECONDS", 0)
        self._monkeypatch.setattr(audit_entries, "ROWS", rows)
        self._monkeypatch.setattr(audit_entries, "LIST_SECONDS", 0)

    def set_tally_part(self, rows: int, *, most: int = 20_000) -> None:
        self._monkeypatch.setattr(searches, "TALLY_ROWS", rows)
        self._monkeypatch.setattr(searches, "TALLY_MOST", most)


class SqliteEngine(_Sizes):
    """A data file in a folder of the test."""

    _erase = erase

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._path = folder / "data" / "hookgw.db"
        self._monkeypatch = monkeypatch
        self.place = str(self._path)

    @asynccontextmanager
    async def open(
        self,
        observer: StoreObserver | None = None,
        *,
        keep_history: bool = True,
        keep_unwanted: bool = True,
        keys: MasterKeys = MasterKeys(),  # noqa: B008 - it is immutable
    ) -> AsyncIterator[Store]:
        async with open_store(
            self._path,
            clock=Clock(),
            observer=observer,
            keep_history=keep_history,
            keep_unwanted=keep_unwanted,
            keys=keys,
        ) as store:
            yield store

    @asynccontextmanager
    async def refuse(self, store: Store) -> AsyncIterator[None]:
        connection = connection_of(store)
        async with self.hold(store):
            connection.execute("PRAGMA query_only = ON")
        try:
            yield
        finally:
            async with self.hold(store):
                connection.execute("PRAGMA query_only = OFF")

    @asynccontextmanager
    async def hold(self, store: Store) -> AsyncIterator[None]:
        async with turn_of(store):
            yield


class PostgresqlEngine(_Sizes):
    """A schema of its own in a database that all tests share."""

    _erase = postgresql_erase

    def __init__(self, url: str, schema: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self._server = Server(url, schema)
        self._monkeypatch = monkeypatch
        self.place = self._server.place

    @asynccontextmanager
    async def open(
        self,
        observer: StoreObserver | None = None,
        *,
        keep_history: bool = True,
        keep_unwanted: bool = True,
        keys: MasterKeys = MasterKeys(),  # noqa: B008 - it is immutable
    ) -> AsyncIterator[Store]:
        async with open_postgresql_store(
            self._server,
            clock=Clock(),
            observer=observer,
            keep_history=keep_history,
            keep_unwanted=keep_unwanted,
            keys=keys,
        ) as store:
            yield store

    @asynccontextmanager
    async def refuse(self, store: Store) -> AsyncIterator[None]:
        session = writer_of(store)._session
        # Not within a commit, such as a probe of whether the storage works again: it would be rolled back.
        async with self.hold(store):
            session.call(lambda connection: connection.execute("SET default_transaction_read_only = on"))
        try:
            yield
        finally:
            async with self.hold(store):
                session.call(lambda connection: connection.execute("SET default_transaction_read_only = off"))

    @asynccontextmanager
    async def hold(self, store: Store) -> AsyncIterator[None]:
        async with turn_of(store):
            yield


ENGINES = ("sqlite", pytest.param("postgresql", marks=pytest.mark.process))


@contextmanager
def make_engine(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[Engine]:
    """Give an engine with nothing in it."""
    if name == "sqlite":
        yield SqliteEngine(folder, monkeypatch)
        return
    postgres: PostgresServer = request.getfixturevalue("postgres")
    with postgres.used_schema() as schema:
        yield PostgresqlEngine(postgres.url(), schema, monkeypatch)
