"""``hookgw …`` that kills itself with SIGKILL at a moment that cannot be hit from outside.

Run as ``python -m tests.crash.doomed MOMENT ARGUMENTS``; a moment can have a detail, ``MOMENT:DETAIL``.
Everything is the real code; only the named moment is deadly.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from hookgw.cli.group import main
from hookgw.dispatch.dispatcher import Dispatcher
from hookgw.gateway import history_pruning as background
from hookgw.models.deliveries import Delivery, DeliveryState, Settlement
from hookgw.store import Store
from hookgw.store.sqlite import database, migrations
from hookgw.store.sqlite import store_pending as moving_access
from hookgw.store.sqlite.transaction import Transaction


def die(*_: object) -> None:
    """End at once, as a power cut would."""
    os.kill(os.getpid(), signal.SIGKILL)


def dispatch() -> None:
    """Events are on disk, and no lane nor producer has heard of it."""

    def doomed(self: Dispatcher, deliveries: Iterable[Delivery]) -> None:
        die()

    Dispatcher.dispatch = doomed  # type: ignore[method-assign]


def settle() -> None:
    """A receiver's 2xx was read, and nothing of it written down."""
    usual = Store.settle_nowait

    def doomed(self: Store, settlement: Settlement) -> None:
        if settlement.state is DeliveryState.DELIVERED:
            die()
        usual(self, settlement)

    Store.settle_nowait = doomed  # type: ignore[method-assign]


def replay() -> None:
    """One step of a replay is on disk, the second in the middle of its transaction."""
    Transaction.requeue = _deadly_after(1, Transaction.requeue)  # type: ignore[method-assign]


def prune() -> None:
    """Two steps of pruning are on disk, the third in the middle of its transaction."""
    background._PRUNE_EVERY = 0.1
    Transaction.prune = _deadly_after(2, Transaction.prune)  # type: ignore[method-assign]


def move() -> None:
    """Two steps of a move to another URL are on disk, the third in the middle of its transaction."""
    Transaction.relane = _deadly_walk(2, Transaction.relane)  # type: ignore[method-assign]


def parking() -> None:
    """Two steps of parking are on disk, the third in the middle of its transaction."""
    Transaction.park = _deadly_walk(2, Transaction.park)  # type: ignore[method-assign]


def migration() -> None:
    """A migration is done but for its commit."""
    usual = migrations._apply

    def doomed(connection: sqlite3.Connection, migration: migrations.Migration, number: int) -> None:
        connection.create_function("die", 0, die)
        usual(connection, (*migration, "SELECT die()"), number)

    migrations._apply = doomed


UPGRADE = (
    "ALTER TABLE deliveries ADD COLUMN weight INTEGER NOT NULL DEFAULT 0",
    "UPDATE deliveries SET weight = size + row_done()",
    "CREATE INDEX weighed ON deliveries (weight)",
    "CREATE TABLE more AS SELECT seq, weight FROM deliveries",
)
"""A migration that no version of hookgw has: it changes every row of a data file of this version."""


def upgrade(detail: str) -> None:
    """A version that has one more migration: dead after so many of its statements, in its rows, or never."""
    rows = 0

    def row_done() -> int:
        nonlocal rows
        rows += 1
        if detail == "rows" and rows == 500:
            die()
        return 0

    def doomed(connection: sqlite3.Connection, path: Path) -> None:
        connection.create_function("die", 0, die)
        connection.create_function("row_done", 0, row_done)
        statements = list(UPGRADE)
        if detail.isdigit():
            statements.insert(int(detail), "SELECT die()")
        migrations.migrate(connection, path, (*migrations.MIGRATIONS, statements))

    database.migrate = doomed  # type: ignore[attr-defined, assignment]


def _deadly_after(times: int, usual: Callable[..., int]) -> Callable[..., int]:
    """The same, but once it has done something so many times, it dies with its next work undone."""
    done = 0

    def doomed(self: Transaction, *arguments: Any) -> int:
        nonlocal done
        count = usual(self, *arguments)
        if count and done == times:
            die()
        done += count > 0
        return count

    return doomed


def _deadly_walk(times: int, usual: Callable[..., Any]) -> Callable[..., Any]:
    """The same in steps of 100 deliveries, but after so many of them it dies with the next one undone."""
    moving_access.MOVING_STEP = 100
    done = 0

    def doomed(self: Transaction, *arguments: Any, **more: Any) -> Any:
        nonlocal done
        then = usual(self, *arguments, **more)
        if done == times:
            die()
        done += 1
        return then

    return doomed


MOMENTS: dict[str, Callable[..., None]] = {
    moment.__name__: moment for moment in (dispatch, settle, replay, prune, move, parking, migration, upgrade)
}

if __name__ == "__main__":
    moment, *detail = sys.argv.pop(1).split(":")
    MOMENTS[moment](*detail)
    main()
