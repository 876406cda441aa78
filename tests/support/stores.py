"""The parts inside of a store that a test holds, refuses or reads: the one place that knows their names."""

import sqlite3
from typing import Any

import trio

from tests.public.store import GroupCommit, Store


def commits_of(store: Store) -> GroupCommit[Any]:
    """Return the group commit of a store, of either engine."""
    commits: GroupCommit[Any] = store._commits  # type: ignore[attr-defined]
    return commits


def turn_of(store: Store) -> trio.CapacityLimiter:
    """Return what a commit holds while it runs: no write finishes for who holds it."""
    turn: trio.CapacityLimiter = commits_of(store)._in_use
    return turn


def writer_of(store: Store) -> Any:
    """Return the writer of a store: its ``_connection``, or its ``_session``, is the engine's."""
    return commits_of(store)._writer


def connection_of(store: Store) -> sqlite3.Connection:
    """Return the connection that writes to the data file."""
    connection = writer_of(store)._connection
    assert isinstance(connection, sqlite3.Connection)
    return connection


async def index_log(store: Store) -> int:
    """Write the index of the log for all events so far, which is otherwise done behind the commits."""
    count: int = await store.wait_log_growth.__self__.index()  # type: ignore[attr-defined]
    return count


def background_of(store: Store) -> Any:
    """Return what reads the data file for hookgw itself, rather than for a list."""
    return store._background  # type: ignore[attr-defined]
