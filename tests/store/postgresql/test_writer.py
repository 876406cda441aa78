"""Commits that meet other transactions, restarts of the server, and answers that are lost."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest

from hookgw.models.clock import Clock
from hookgw.models.errors import Conflict, StorageUnavailable
from hookgw.store.postgresql.database import Server
from hookgw.store.postgresql.feed import Feed
from hookgw.store.postgresql.store import PostgresqlStore, open_store
from hookgw.store.postgresql.transaction import Transaction
from tests.store.support import Listener, ids_of, to
from tests.support.postgres import PostgresServer


@pytest.fixture
async def store(database: Server) -> AsyncIterator[PostgresqlStore]:
    async with open_store(database, clock=Clock()) as store:
        yield store


def commits(store: PostgresqlStore) -> Any:
    return store._commits


async def test_a_commit_that_lost_against_another_is_repeated(store: PostgresqlStore) -> None:
    tries = 0

    def change(transaction: Transaction) -> int:
        nonlocal tries
        tries += 1
        transaction.connection.execute("INSERT INTO probe VALUES (%s, 0)", (tries,))
        if tries < 3:
            raise psycopg.errors.DeadlockDetected("deadlock detected")
        return tries

    assert await commits(store).call(change) == 3


async def test_it_is_not_repeated_for_ever(store: PostgresqlStore) -> None:
    def lose(_: Transaction) -> None:
        raise psycopg.errors.SerializationFailure("could not serialize")

    with pytest.raises(StorageUnavailable, match="could not serialize"):
        await commits(store).call(lose)


async def test_a_commit_after_a_restart_of_the_server(
    store: PostgresqlStore, postgres: PostgresServer
) -> None:
    await store.append(to("e1"))
    postgres.execute(f"SELECT pg_terminate_backend({store.writer.backend}, 5000)")
    assert await store.append(to("e2")) == [True]
    assert await ids_of(store) == ["e1", "e2"]


@pytest.mark.parametrize("is_done", [True, False])
async def test_the_answer_to_a_commit_is_lost(
    store: PostgresqlStore, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch, is_done: bool
) -> None:
    listener = Listener()
    store.subscribe(listener)
    usual = psycopg.Connection.execute
    lost: list[int] = []

    def execute(self: psycopg.Connection, query: Any, *arguments: Any, **options: Any) -> Any:
        if query == "COMMIT" and not lost:
            lost.append(self.info.backend_pid)
            if is_done:
                usual(self, query)
                with self.pipeline():  # whatever waits is sent, and answered
                    pass
                assert postgres.execute(f"SELECT count(*) FROM {store.server.schema}.events") == [(1,)]
            postgres.execute(f"SELECT pg_terminate_backend({self.info.backend_pid}, 5000)")
            return usual(self, "SELECT 1")
        return usual(self, query, *arguments, **options)

    monkeypatch.setattr(psycopg.Connection, "execute", execute)
    assert await store.append(to("e1")) == [True]
    assert lost
    assert await ids_of(store) == ["e1"]
    assert listener.take() == [("appended", ["e1"])]


async def test_the_feed_fails_after_a_commit(store: PostgresqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    listener = Listener()
    store.subscribe(listener)
    usual = Feed.read
    fails = True

    def read(self: Feed, connection: psycopg.Connection) -> Any:
        if fails:
            raise psycopg.OperationalError("the connection is lost")
        return usual(self, connection)

    monkeypatch.setattr(Feed, "read", read)
    assert await store.append(to("e1")) == [True]
    assert listener.take() == []
    fails = False
    assert await store.append(to("e2")) == [True]
    assert listener.take() == [("appended", ["e1", "e2"])]


async def test_a_database_is_not_backed_up_by_hookgw(store: PostgresqlStore, tmp_path: Any) -> None:
    with pytest.raises(Conflict, match="pg_dump"):
        await store.back_up(tmp_path / "copy", lambda *_: None)
